//! Kafka's own request log: the times of each request by the broker's own clock.
//! Reads the JSON lines that `kafka.request.logger` writes at DEBUG since Kafka 2.7 (KIP-673), plain or compressed with
//! gzip, but not the older text.
//!
//! A line is `[date] DEBUG Completed request:{…} (kafka.request.logger)`. Kafka writes it after it has handed the last
//! byte of the response to the socket or, if there is no response (acks=0), when the request was done
//! (`RequestChannel.scala`, `updateRequestMetrics`). Its date has no zone and is not used: a request is found by both
//! ends of its connection and its correlation id. Only `rows`, for recordings without any other requests, has to use
//! the date.
//! Fuzzed by: log.

pub(crate) mod rows;

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::LazyLock;

use memchr::memmem;
use model::{KafkaTimes, Nanos, Request};
use serde::Deserialize;

use crate::Error;

/// The maximum length of a line; longer lines are left out.
/// A line holds the request and the response without records, but with every partition.
const LONGEST_LINE: u64 = 16 << 20;
/// Requests in memory, at some 120 bytes each.
const MAX_REQUESTS: usize = 10_000_000;
/// The first bytes of a gzip file: RFC 1952.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Precedes the JSON in a line.
const BEGIN: &[u8] = b"Completed request:";

/// Identifies a request: client, broker, correlation id.
type Key = (SocketAddr, SocketAddr, i32);

/// The requests of a request log.
#[derive(Debug, Default)]
pub struct RequestLog {
    /// `None` where two requests have the same key: a port was reused, and they cannot be told apart.
    requests: HashMap<Key, Option<(i16, KafkaTimes)>>,
    /// Lines about a request that could not be read or did not fit.
    left_out: u64,
}

impl RequestLog {
    /// Reads a whole log, or adds another part of it to what was read before.
    ///
    /// # Errors
    /// If the file cannot be read. Lines that are not as Kafka writes them are left out and counted.
    #[allow(clippy::disallowed_methods, reason = "the user names it, and a pipe will do")]
    pub fn read(&mut self, path: &Path) -> Result<(), Error> {
        let file = File::open(path).map_err(Error::file(path))?;
        self.read_from(file).map_err(Error::file(path))
    }

    fn read_from(&mut self, input: impl Read) -> io::Result<()> {
        let mut input = BufReader::new(input);
        if input.fill_buf()?.starts_with(&GZIP) {
            self.lines(BufReader::new(flate2::bufread::MultiGzDecoder::new(input)))
        } else {
            self.lines(input)
        }
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Number of lines about a request that could not be read or did not fit.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Kafka's times of a request, if they certainly belong to this one.
    pub fn times(&self, request: &Request) -> Option<KafkaTimes> {
        let (api_key, times) =
            (*self.requests.get(&(request.client, request.broker, request.correlation_id))?)?;
        (api_key == request.api_key).then_some(times)
    }

    fn lines(&mut self, mut input: impl BufRead) -> io::Result<()> {
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut input).take(LONGEST_LINE).read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(());
            }
            let whole = line.last() == Some(&b'\n');
            if !whole && read as u64 == LONGEST_LINE {
                self.left_out += 1;
                input.skip_until(b'\n')?;
            } else if let Some(json) = json_of(&line) {
                match request_of(json) {
                    Some(request) => self.add(request),
                    // The last line may still be being written.
                    None => self.left_out += u64::from(whole),
                }
            }
        }
    }

    fn add(&mut self, (key, api_key, times): (Key, i16, KafkaTimes)) {
        let full = self.requests.len() >= MAX_REQUESTS;
        match self.requests.entry(key) {
            Entry::Occupied(mut known) => {
                known.insert(None);
            }
            Entry::Vacant(_) if full => self.left_out += 1,
            Entry::Vacant(free) => {
                free.insert(Some((api_key, times)));
            }
        }
    }
}

/// The JSON of a line about a request.
fn json_of(line: &[u8]) -> Option<&[u8]> {
    let begin = line.windows(BEGIN.len()).take(512).position(|window| window == BEGIN)?;
    let rest = line.get(begin + BEGIN.len()..)?;
    let end = rest.iter().rposition(|byte| *byte == b'}').map_or(rest.len(), |end| end + 1);
    rest.get(..end)
}

/// The parts of a line that are used.
/// They have Kafka's names (`RequestConvertToJson.scala`).
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Line<'a> {
    #[serde(borrow)]
    connection: Cow<'a, str>,
    #[serde(borrow)]
    request_header: Header<'a>,
    total_time_ms: f64,
    request_queue_time_ms: f64,
    local_time_ms: f64,
    remote_time_ms: f64,
    throttle_time_ms: f64,
    response_queue_time_ms: f64,
    send_time_ms: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header<'a> {
    request_api_key: i16,
    correlation_id: i32,
    request_api_key_name: Option<&'a str>,
}

impl<'a> Line<'a> {
    /// Parses a line's JSON.
    pub(crate) fn read(json: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }

    /// The API's name, such as `PRODUCE`.
    pub(crate) fn api_name(&self) -> Option<&'a str> {
        self.request_header.request_api_key_name
    }

    /// Where the time went; `None` if any of the times is missing or implausible.
    pub(crate) fn times(&self) -> Option<KafkaTimes> {
        Some(KafkaTimes {
            queue: nanos(self.request_queue_time_ms)?,
            local: nanos(self.local_time_ms)?,
            remote: nanos(self.remote_time_ms)?,
            throttle: nanos(self.throttle_time_ms)?,
            response_queue: nanos(self.response_queue_time_ms)?,
            send: nanos(self.send_time_ms)?,
            total: nanos(self.total_time_ms)?,
        })
    }
}

/// Finds the API and the times of a line without parsing it.
/// Relies on the order in which Kafka writes the keys; `None` for any other order. What lies between them, the
/// partitions of request and response, is most of the line. As in any JSON, a quote inside a name is escaped, so no
/// name can look like one of these keys.
pub(crate) fn outline(json: &str) -> Option<(&str, KafkaTimes)> {
    let keys = &*KEYS;
    let name = keys.api.find(json.as_bytes())? + API.len();
    let rest = keys.connection.rfind(json.as_bytes())?;
    // If two lines were written into each other, the start is from one and the end from the other.
    if keys.begin.find(json.get(name..rest)?.as_bytes()).is_some() {
        return None;
    }
    Some((json.get(name..rest)?.split_once('"')?.0, times_in_order(json.get(rest..)?)?))
}

const API: &str = "\"requestApiKeyName\":\"";
const CONNECTION: &str = ",\"connection\":\"";

/// Searchers for a line's keys, built once.
struct Keys {
    api: memmem::Finder<'static>,
    begin: memmem::Finder<'static>,
    connection: memmem::FinderRev<'static>,
}

static KEYS: LazyLock<Keys> = LazyLock::new(|| Keys {
    api: memmem::Finder::new(API),
    begin: memmem::Finder::new(BEGIN),
    connection: memmem::FinderRev::new(CONNECTION),
});

/// The times after a connection, in the order in which Kafka writes them.
fn times_in_order(rest: &str) -> Option<KafkaTimes> {
    let mut rest = rest.get(CONNECTION.len()..)?.split_once('"')?.1;
    let mut next = |key: &str| {
        let (number, behind) = rest.strip_prefix(key)?.split_once(',')?;
        // The comma belongs to the next key.
        rest = rest.get(rest.len() - behind.len() - 1..)?;
        nanos(number.parse().ok()?)
    };
    let total = next(",\"totalTimeMs\":")?;
    Some(KafkaTimes {
        queue: next(",\"requestQueueTimeMs\":")?,
        local: next(",\"localTimeMs\":")?,
        remote: next(",\"remoteTimeMs\":")?,
        throttle: next(",\"throttleTimeMs\":")?,
        response_queue: next(",\"responseQueueTimeMs\":")?,
        send: next(",\"sendTimeMs\":")?,
        total,
    })
}

fn request_of(json: &[u8]) -> Option<(Key, i16, KafkaTimes)> {
    let line = Line::read(json)?;
    let (broker, client) = ends(&line.connection)?;
    let Header { request_api_key, correlation_id, .. } = line.request_header;
    Some(((client, broker, correlation_id), request_api_key, line.times()?))
}

/// Parses `127.0.0.1:9092-127.0.0.1:60670-0-1`: the broker's end, the client's, and numbers
/// (`ServerConnectionId.java`).
fn ends(connection: &str) -> Option<(SocketAddr, SocketAddr)> {
    let mut parts = connection.split('-');
    Some((end(parts.next()?)?, end(parts.next()?)?))
}

/// Parses an address as Java prints it: IPv6 without brackets, perhaps with a zone.
fn end(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host.split('%').next()?;
    let address: IpAddr = host.parse().ok()?;
    Some(SocketAddr::new(address.to_canonical(), port.parse().ok()?))
}

/// Converts milliseconds; `None` for a time that no request takes.
pub(crate) fn nanos(ms: f64) -> Option<Nanos> {
    // No request takes a day.
    (0.0..86_400_000.0).contains(&ms).then(|| Nanos((ms * 1e6).round() as i64))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use model::{KafkaTimes, Nanos};

    use super::{RequestLog, end};

    const LINE: &str = r#"[2026-11-21 12:00:00,123] DEBUG Completed request:{"isForwarded":false,"requestHeader":{"requestApiKey":0,"requestApiVersion":12,"correlationId":7,"clientId":"a \"b\"","requestApiKeyName":"PRODUCE"},"request":{"x":["}"]},"response":{},"connection":"127.0.0.1:9092-10.0.0.7:60670-0-1","totalTimeMs":6.25,"requestQueueTimeMs":0.5,"localTimeMs":4.0,"remoteTimeMs":0.125,"throttleTimeMs":0,"responseQueueTimeMs":0.625,"sendTimeMs":1.0,"securityProtocol":"PLAINTEXT"} (kafka.request.logger)"#;

    fn read(bytes: &[u8]) -> RequestLog {
        let mut log = RequestLog::default();
        log.read_from(bytes).unwrap();
        log
    }

    fn only(log: &RequestLog) -> Option<(i16, KafkaTimes)> {
        assert_eq!(log.len(), 1);
        *log.requests.get(&("10.0.0.7:60670".parse().unwrap(), "127.0.0.1:9092".parse().unwrap(), 7)).unwrap()
    }

    #[test]
    fn plain_and_gzipped_lines_yield_their_times() {
        let text = format!("[x] INFO something else\n{LINE}\n");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        for bytes in [text.as_bytes(), &gzip.finish().unwrap()] {
            let log = read(bytes);
            let (api_key, times) = only(&log).unwrap();
            assert_eq!((api_key, log.left_out()), (0, 0));
            let expected = [500_000, 4_000_000, 125_000, 0, 625_000, 1_000_000, 6_250_000].map(Nanos);
            let KafkaTimes { queue, local, remote, throttle, response_queue, send, total } = times;
            assert_eq!([queue, local, remote, throttle, response_queue, send, total], expected);
        }
    }

    #[test]
    fn ambiguous_requests_are_not_matched() {
        assert_eq!(only(&read(format!("{LINE}\n{LINE}\n").as_bytes())), None);
    }

    #[test]
    fn malformed_lines_are_left_out_and_counted() {
        for (from, to) in [
            ("9092-10", "9092+10"),
            ("\"localTimeMs\":4.0", "\"localTimeMs\":-4.0"),
            ("\"localTimeMs\":4.0", "\"localTimeMs\":1e300"),
            ("\"localTimeMs\":4.0,", ""),
            ("\"correlationId\":7", "\"correlationId\":7777777777"),
            ("10.0.0.7:60670", "10.0.0.7:606700"),
        ] {
            let log = read(format!("{}\n", LINE.replace(from, to)).as_bytes());
            assert_eq!((log.len(), log.left_out()), (0, 1), "{to}");
        }
    }

    #[test]
    fn incomplete_last_line_is_not_counted() {
        for length in 0..LINE.len() {
            let log = read(&LINE.as_bytes()[..length]);
            assert_eq!(log.left_out(), 0, "the last line may still be being written");
        }
    }

    #[test]
    fn overlong_line_is_left_out_and_counted() {
        let mut endless = LINE.as_bytes()[..200].to_vec();
        endless.resize(40 << 20, b'x');
        endless.push(b'\n');
        endless.extend_from_slice(LINE.as_bytes());
        let log = read(&endless);
        assert_eq!((log.len(), log.left_out()), (1, 1));
    }

    #[test]
    fn parses_addresses_as_java_prints_them() {
        for (text, address) in [
            ("127.0.0.1:9092", "127.0.0.1:9092"),
            ("0:0:0:0:0:0:0:1:9092", "[::1]:9092"),
            ("fe80:0:0:0:1:2:3:4%eth0:9092", "[fe80::1:2:3:4]:9092"),
            ("0:0:0:0:0:ffff:7f00:1:9092", "127.0.0.1:9092"),
        ] {
            assert_eq!(end(text), Some(address.parse().unwrap()), "{text}");
        }
        assert_eq!(end("localhost:9092"), None);
    }
}
