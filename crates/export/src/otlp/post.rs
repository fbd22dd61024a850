//! Sends one request to a collector over one connection, and parses the answer. Bounded in time and bytes. Does not
//! retry.
//! Fuzzed by: http.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use serde_json::Value as Json;

use super::Endpoint;

/// Size limit of an answer, which is normally short.
const MAX_ANSWER_BYTES: u64 = 64 << 10;
const MAX_HEADERS: usize = 64;

/// A collector's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Accepted, except for this number of spans.
    Taken { rejected_spans: u64 },
    /// To be retried, after this time if given. See OTLP specification, "Retryable Response Codes".
    Later { after: Option<Duration> },
    /// Refused, and not to be retried.
    Never,
}

/// Sends a batch.
///
/// # Errors
/// The collector cannot be reached, does not answer within `at_most`, or does not speak HTTP.
pub(super) fn post(endpoint: &Endpoint, body: &[u8], at_most: Duration) -> io::Result<Answer> {
    let end = Instant::now() + at_most;
    let mut connection = connect(endpoint, end)?;
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: brokerscope\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        endpoint.path,
        endpoint.authority(),
        body.len()
    );
    connection.set_write_timeout(Some(left(end)?))?;
    connection.write_all(head.as_bytes())?;
    connection.write_all(body)?;
    read(&connection, end).and_then(|answer| understand(&answer))
}

fn connect(endpoint: &Endpoint, end: Instant) -> io::Result<TcpStream> {
    let mut refused = io::Error::new(io::ErrorKind::NotFound, "its host name has no address");
    for address in (&*endpoint.host, endpoint.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, left(end)?) {
            Ok(connection) => return Ok(connection),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// The time until `end`; an error if it has passed.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Reads until the answer is complete or the other end closes; fails on a timeout.
fn read(connection: &TcpStream, end: Instant) -> io::Result<Vec<u8>> {
    let mut answer = Vec::new();
    let mut some = [0; 4_096];
    let mut reader = connection.take(MAX_ANSWER_BYTES);
    while !is_whole(&answer) {
        connection.set_read_timeout(Some(left(end)?))?;
        match reader.read(&mut some) {
            Ok(0) => break,
            Ok(n) => answer.extend_from_slice(some.get(..n).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(answer)
}

/// Whether an answer is complete.
pub(crate) fn is_whole(answer: &[u8]) -> bool {
    parse(answer).is_some_and(|parsed| parsed.length.is_some_and(|length| parsed.body.len() >= length))
}

struct Response<'a> {
    status: u16,
    length: Option<usize>,
    retry_after: Option<Duration>,
    body: &'a [u8],
}

/// Parses an answer, once its head is complete.
fn parse(answer: &[u8]) -> Option<Response<'_>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(head) = response.parse(answer).ok()? else { return None };
    let number = |name: &str| -> Option<u64> {
        let header = response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(header.value).ok()?.trim().parse().ok()
    };
    Some(Response {
        status: response.code?,
        length: number("content-length").and_then(|length| usize::try_from(length).ok()),
        // It may also be a date; then our own pause is used.
        retry_after: number("retry-after").map(Duration::from_secs),
        body: answer.get(head..)?,
    })
}

pub(crate) fn understand(answer: &[u8]) -> io::Result<Answer> {
    let parsed =
        parse(answer).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "its answer is not HTTP"))?;
    Ok(match parsed.status {
        200..=299 => Answer::Taken { rejected_spans: rejected(parsed.body) },
        429 | 502..=504 => Answer::Later { after: parsed.retry_after },
        _ => Answer::Never,
    })
}

/// `ExportTraceServiceResponse.partial_success.rejected_spans`: a number, or text, the JSON form of 64-bit numbers.
fn rejected(body: &[u8]) -> u64 {
    let Ok(body) = serde_json::from_slice::<Json>(body) else { return 0 };
    let rejected = body.pointer("/partialSuccess/rejectedSpans");
    rejected.and_then(|number| number.as_u64().or_else(|| number.as_str()?.parse().ok())).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Answer, understand};

    #[test]
    fn classifies_collector_responses() {
        let later = |after| Answer::Later { after };
        let taken = |rejected_spans| Answer::Taken { rejected_spans };
        for (answer, meant) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", taken(0)),
            ("HTTP/1.1 200 OK\r\n\r\n{\"partialSuccess\":{\"rejectedSpans\":\"3\"}}", taken(3)),
            ("HTTP/1.1 200 OK\r\n\r\n{\"partialSuccess\":{\"rejectedSpans\":3}}", taken(3)),
            ("HTTP/1.1 200 OK\r\n\r\n\x01\x02", taken(0)),
            ("HTTP/1.1 202 Accepted\r\n\r\n", taken(0)),
            ("HTTP/1.1 429 Too Many\r\nretry-after: 7\r\n\r\n", later(Some(Duration::from_secs(7)))),
            ("HTTP/1.1 503 Away\r\nRetry-After: Sun, 22 Nov 2026 08:00:00 GMT\r\n\r\n", later(None)),
            ("HTTP/1.1 504 Away\r\n\r\n", later(None)),
            ("HTTP/1.1 400 Bad\r\n\r\n", Answer::Never),
            ("HTTP/1.1 301 Moved\r\nLocation: elsewhere\r\n\r\n", Answer::Never),
        ] {
            assert_eq!(understand(answer.as_bytes()).unwrap(), meant, "{answer:?}");
        }
    }

    #[test]
    fn truncated_or_foreign_responses_are_errors() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
        for length in 0..answer.len() {
            assert!(understand(&answer[..length]).is_err(), "{length}");
        }
        assert!(understand(b"SSH-2.0-OpenSSH_9.2\r\n").is_err());
    }
}
