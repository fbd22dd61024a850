//! Requests of scrapers and others, and answers of collectors. Does not read them.

const REQUESTS: [&[u8]; 5] = [
    b"GET /metrics?a=b HTTP/1.1\r\nHost: x\r\nACCEPT: text/plain;q=0.5\r\naccept: */*;q=0.1\r\n\r\nrest",
    b"GET /metrics HTTP/1.1\r\nAccept: application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;\
      encoding=delimited,application/openmetrics-text;version=1.0.0;q=0.8\r\n\r\n",
    b"HEAD / HTTP/1.0\n\n",
    b"POST /x#y HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
    b"\x16\x03\x01\x02\x00\x01\x00",
];

const ANSWERS: [&[u8]; 4] = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{\"partialSuccess\":{\"rejectedSpans\":\"3\"}}x",
    b"HTTP/1.1 429 Too Many\r\nretry-after: 7\r\n\r\n",
    b"HTTP/1.1 503 Away\r\nRetry-After: Sun, 22 Nov 2026 08:00:00 GMT\r\nContent-Length: 99\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.2\r\n",
];

/// Inputs of the target `http`.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let requests = REQUESTS.iter().map(|request| [&[0, 5], *request].concat());
    requests.chain(ANSWERS.iter().map(|answer| [&[1, 5], *answer].concat())).collect()
}
