//! Parses a line of Kafka's request log into its API and times.
//! Does not join it with anything; [`crate::RequestLog`] does.
//!
//! JSON since Kafka 2.7 (KIP-673). Before that, text: `RequestHeader(apiKey=PRODUCE, …) -- {…},response:{…} from
//! connection …;totalTime:6.25,requestQueueTime:0.5,…` (`RequestChannel.scala` 2.0 to 2.6), also in milliseconds.

use model::{KafkaTimes, Nanos};

use crate::request_log;
use crate::request_log::rows::{self, LogRow};

/// A request in the broker's log.
#[derive(Clone, Copy, Debug)]
pub struct LoggedRequest<'a> {
    /// When the line was written, which is when the request was answered.
    pub at: Option<Nanos>,
    /// Its API, in Kafka's spelling: `PRODUCE`.
    pub api: &'a str,
    /// Where its time went.
    pub times: KafkaTimes,
    /// The line from its request on.
    pub(super) line: &'a str,
}

impl LoggedRequest<'_> {
    /// The full row of a JSON line, for a request that ended at `end`, on any clock.
    pub fn row(&self, end: Nanos) -> Option<LogRow> {
        let last = self.line.rfind('}')?;
        rows::read(self.line.get(..=last)?.as_bytes(), end, self.times)
    }

    /// Whether it names a topic.
    pub fn names(&self, topic: &str) -> bool {
        let is_part =
            |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"._".contains(byte));
        self.line.match_indices(topic).any(|(at, _)| {
            let bytes = self.line.as_bytes();
            let before = at.checked_sub(1).and_then(|before| bytes.get(before));
            let after = bytes.get(at + topic.len());
            // In text, a partition's number may follow the name; in JSON, names are in quotes.
            !is_part(before)
                && before != Some(&b'-')
                && !is_part(after)
                && (after != Some(&b'-') || numbered(bytes, at + topic.len()))
        })
    }
}

/// Whether a name is followed by `-7` and ends there.
fn numbered(bytes: &[u8], from: usize) -> bool {
    let rest = bytes.get(from + 1..).unwrap_or_default();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0 && !rest.get(digits).is_some_and(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte))
}

/// Parses the part of a line after `Completed request:`.
pub(super) fn read(text: &str) -> Option<LoggedRequest<'_>> {
    let (api, times) = if text.starts_with('{') { json(text)? } else { plain(text)? };
    is_name(api).then_some(())?;
    Some(LoggedRequest { at: None, api, times, line: text })
}

fn json(text: &str) -> Option<(&str, KafkaTimes)> {
    let end = text.rfind('}')?;
    let json = text.get(..=end)?;
    request_log::outline(json).or_else(|| {
        let line = request_log::Line::read(json.as_bytes())?;
        Some((line.api_name()?, line.times()?))
    })
}

fn plain(text: &str) -> Option<(&str, KafkaTimes)> {
    let api = text.split_once("apiKey=")?.1.split([',', ')']).next()?;
    let (_, times) = text.rsplit_once(";totalTime:")?;
    let total = ms(times)?;
    let of = |name: &str| ms(times.split_once(name)?.1);
    let times = KafkaTimes {
        queue: of(",requestQueueTime:")?,
        local: of(",localTime:")?,
        remote: of(",remoteTime:")?,
        throttle: of(",throttleTime:")?,
        response_queue: of(",responseQueueTime:")?,
        send: of(",sendTime:")?,
        total,
    };
    Some((api, times))
}

/// API names are in capitals.
fn is_name(api: &str) -> bool {
    (1..=64).contains(&api.len()) && api.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

/// Parses milliseconds with a fraction, up to the next separator.
fn ms(text: &str) -> Option<Nanos> {
    request_log::nanos(text.split([',', ' ', ';']).next()?.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use model::{KafkaTimes, Nanos};

    use super::read;

    const JSON: &str = r#"{"isForwarded":false,"requestHeader":{"requestApiKey":0,"requestApiVersion":12,"correlationId":7,"clientId":"a","requestApiKeyName":"PRODUCE"},"request":{"topicData":[{"name":"orders-eu","partitionData":[]}]},"response":{},"connection":"127.0.0.1:9092-10.0.0.7:60670-0-1","totalTimeMs":6.25,"requestQueueTimeMs":0.5,"localTimeMs":4.0,"remoteTimeMs":0.125,"throttleTimeMs":0,"responseQueueTimeMs":0.625,"sendTimeMs":1.0,"securityProtocol":"PLAINTEXT"}"#;
    const PLAIN: &str = "RequestHeader(apiKey=PRODUCE, apiVersion=5, clientId=a, correlationId=7) -- {acks=1,timeout=30000,partitionSizes=[orders-eu-0=498]},response:{responses=[]} from connection 127.0.0.1:9092-10.0.0.7:60670-0;totalTime:6.25,requestQueueTime:0.5,localTime:4.0,remoteTime:0.125,throttleTime:0.0,responseQueueTime:0.625,sendTime:1.0,securityProtocol:PLAINTEXT,principal:User:ANONYMOUS,listener:PLAINTEXT (kafka.request.logger)";

    #[test]
    fn reads_times_of_json_and_plain_lines() {
        for line in [JSON, PLAIN] {
            let request = read(line).unwrap();
            assert_eq!(request.api, "PRODUCE");
            let KafkaTimes { queue, local, remote, throttle, response_queue, send, total } = request.times;
            let expected = [500_000, 4_000_000, 125_000, 0, 625_000, 1_000_000, 6_250_000].map(Nanos);
            assert_eq!([queue, local, remote, throttle, response_queue, send, total], expected);
        }
    }

    #[test]
    fn order_of_json_keys_does_not_matter() {
        let (head, rest) = JSON.split_once("\"requestHeader\"").unwrap();
        let (header, rest) = rest.split_once(",\"request\":").unwrap();
        let turned = format!("{head}\"request\":{rest}");
        let turned = format!("{},\"requestHeader\"{header}}}", turned.strip_suffix('}').unwrap());
        let [request, original] = [read(&turned).unwrap(), read(JSON).unwrap()];
        assert_eq!((request.api, request.times.total), (original.api, original.times.total));
    }

    #[test]
    fn names_that_look_like_json_keys_are_names() {
        let deceiving = r#"a\",\"requestApiKeyName\":\"FETCH\",\"connection\":\"x\",\"totalTimeMs\":1,"#;
        let request = JSON.replace("\"clientId\":\"a\"", &format!("\"clientId\":\"{deceiving}\""));
        assert_ne!(request, JSON);
        let request = read(&request).unwrap();
        assert_eq!((request.api, request.times.total), ("PRODUCE", Nanos(6_250_000)));
        let principal =
            JSON.replace("\"PLAINTEXT\"}", &format!("\"PLAINTEXT\",\"principal\":\"{deceiving}\"}}"));
        assert_ne!(principal, JSON);
        assert_eq!(read(&principal).unwrap().times.total, Nanos(6_250_000));
    }

    #[test]
    fn interleaved_lines_are_refused() {
        let (first, _) = JSON.split_once("\"response\"").unwrap();
        assert!(read(&format!("{first}[2024-05-19 15:04:47,458] DEBUG Completed request:{JSON}")).is_none());
    }

    #[test]
    fn matches_whole_topic_names_only() {
        for line in [JSON, PLAIN] {
            let request = read(line).unwrap();
            assert!(request.names("orders-eu"));
            for other in ["orders", "orders-e", "eu", "rders-eu", "orders-eu-0x"] {
                assert!(!request.names(other), "{other} in {line}");
            }
        }
    }

    #[test]
    fn refuses_a_line_without_a_time_or_an_api() {
        for line in [JSON, PLAIN] {
            for (from, to) in [("local", "lokal"), ("4.0", "x"), ("PRODUCE", "{}"), ("totalTime", "total")] {
                assert!(read(&line.replace(from, to)).is_none(), "{to}");
            }
            for length in 0..line.rfind("sendTime").unwrap() {
                assert!(read(&line[..length]).is_none(), "{length}");
            }
        }
    }
}
