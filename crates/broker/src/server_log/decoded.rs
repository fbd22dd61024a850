//! A line as text: without colours, and out of the JSON that a layout, a container's runtime or the journal wraps it in.
//! Does not look for times in text.
//!
//! Known by the names of their fields: log4j2's `JsonLayout` (`instant` or `timeMillis`, `message`, `level`) and
//! `JsonTemplateLayout` (ECS: `@timestamp`, `message`, `log.level`), logstash's encoders (the same and `level`), GELF
//! (`short_message`, `timestamp` in seconds), Docker's json-file (`log`, `time`), `journalctl -o json` (`MESSAGE`,
//! `__REALTIME_TIMESTAMP` in microseconds).

use std::borrow::Cow;

use memchr::{memchr, memmem};
use model::Nanos;
use serde_json::Value;

use super::header::level_named;
use super::stamp::Stamp;

/// What stands before JSON in a line, such as a container runtime's prefix.
const PREFIX_BYTES: usize = 96;
const ESCAPE: u8 = 0x1b;
const MESSAGES: [&str; 5] = ["message", "msg", "log", "short_message", "MESSAGE"];
const TIMES: [&str; 6] = ["@timestamp", "timestamp", "time", "ts", "timeMillis", "__REALTIME_TIMESTAMP"];
const LEVELS: [&str; 4] = ["level", "log.level", "severity", "levelname"];

/// When a line was written, by what it is wrapped in or by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outer {
    /// In UTC.
    Instant(Nanos),
    /// As text, perhaps with a zone.
    Stamp(Stamp),
}

/// A line's text, and what is known beside it.
#[derive(Debug)]
pub(super) struct Decoded<'a> {
    text: Cow<'a, str>,
    outer: Option<Outer>,
    level: Option<&'static str>,
}

impl<'a> Decoded<'a> {
    pub(super) fn of(line: &'a [u8]) -> Self {
        if let Some(unwrapped) = json_in(line).and_then(unwrapped) {
            return unwrapped;
        }
        // The check goes by words; only what is not UTF-8 has to be gone through byte by byte.
        let text = std::str::from_utf8(line).map_or_else(|_| String::from_utf8_lossy(line), Cow::Borrowed);
        let text = if memchr(ESCAPE, line).is_some() { Cow::Owned(uncoloured(&text)) } else { text };
        Self { text, outer: None, level: None }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn outer(&self) -> Option<Outer> {
        self.outer
    }

    pub(super) fn level(&self) -> Option<&'static str> {
        self.level
    }
}

/// The JSON object that a line is, or ends with behind a prefix.
fn json_in(line: &[u8]) -> Option<&[u8]> {
    let line = line.trim_ascii();
    line.ends_with(b"}").then_some(())?;
    let head = line.get(..PREFIX_BYTES.min(line.len()))?;
    let at = memmem::find(head, b"{\"").or_else(|| head.starts_with(b"{").then_some(0))?;
    let follows_blank = at == 0 || line.get(at - 1).is_some_and(u8::is_ascii_whitespace);
    line.get(at..).filter(|_| follows_blank)
}

fn unwrapped(json: &[u8]) -> Option<Decoded<'static>> {
    let value: Value = serde_json::from_slice(json).ok()?;
    let text = MESSAGES.iter().find_map(|name| value.get(name)?.as_str())?;
    let nested = || value.pointer("/log/level");
    let level = LEVELS.iter().find_map(|name| value.get(name)).or_else(nested).and_then(Value::as_str);
    Some(Decoded {
        text: Cow::Owned(if text.contains('\x1b') { uncoloured(text) } else { text.to_owned() }),
        outer: instant(&value).or_else(|| TIMES.iter().find_map(|name| time(value.get(name)?))),
        level: level.and_then(|level| level_named(&level.to_ascii_uppercase())),
    })
}

/// `"instant":{"epochSecond":1716131087,"nanoOfSecond":458000000}`.
fn instant(value: &Value) -> Option<Outer> {
    let seconds = value.pointer("/instant/epochSecond")?.as_i64()?;
    let nanos = value.pointer("/instant/nanoOfSecond").and_then(Value::as_i64).unwrap_or(0);
    let at = seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?;
    Some(Outer::Instant(Nanos(at)))
}

/// A date as text, or a time since 1970 in whichever unit gives a date of our time.
fn time(value: &Value) -> Option<Outer> {
    let number = match value {
        Value::String(text) => match Stamp::read(text.as_bytes()) {
            Some(stamp) => return Some(Outer::Stamp(stamp)),
            None => text.parse().ok()?,
        },
        _ => value.as_f64()?,
    };
    let ns =
        [1e9, 1e6, 1e3, 1.0].into_iter().map(|unit| number * unit).find(|ns| (1e17..1e19).contains(ns))?;
    // A float holds microseconds of our time.
    (ns < i64::MAX as f64).then(|| Outer::Instant(Nanos((ns / 1e3).round() as i64 * 1_000)))
}

/// Without escape sequences (ECMA-48: `ESC [`, parameters, one letter) and other controls of the cursor.
fn uncoloured(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\x1b') {
        plain.push_str(before);
        let sequence = after.strip_prefix('[').unwrap_or(after);
        let end = sequence.find(|c: char| c.is_ascii_alphabetic() || c == '~');
        rest = end.and_then(|end| sequence.get(end + 1..)).unwrap_or_default();
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use model::Nanos;

    use super::{Decoded, Outer};

    const AT: i64 = 1_716_131_087_458_000_000;

    #[test]
    fn json_of_every_known_layout_gives_its_message_time_and_level() {
        for line in [
            r#"{"instant":{"epochSecond":1716131087,"nanoOfSecond":458000000},"thread":"main","level":"INFO","loggerName":"kafka.log.Log","message":"x y","endOfBatch":false}"#,
            r#"{"timeMillis":1716131087458,"level":"INFO","message":"x y"}"#,
            r#"{"@timestamp":"2024-05-19T15:04:47.458Z","ecs.version":"1.2.0","log.level":"INFO","message":"x y","process.thread.name":"main"}"#,
            r#"{"@timestamp":"2024-05-19T15:04:47.458Z","log":{"level":"info","logger":"kafka"},"message":"x y"}"#,
            r#"{"version":"1.1","short_message":"x y","timestamp":1716131087.458,"level":"info"}"#,
            r#"2024-05-19T15:04:47.4Z stdout F {"ts":1716131087458,"severity":"INFO","msg":"x y"}"#,
            r#"{"__REALTIME_TIMESTAMP":"1716131087458000","MESSAGE":"x y","level":"INFO"}"#,
        ] {
            let decoded = Decoded::of(line.as_bytes());
            assert_eq!((decoded.text(), decoded.level()), ("x y", Some("INFO")), "{line}");
            match decoded.outer() {
                Some(Outer::Instant(at)) => assert_eq!(at, Nanos(AT), "{line}"),
                Some(Outer::Stamp(stamp)) => {
                    assert_eq!((stamp.time.nanos, stamp.east_seconds), (458_000_000, Some(0)));
                }
                None => panic!("no time: {line}"),
            }
        }
    }

    #[test]
    fn what_is_no_wrapping_stays_as_it_is() {
        for line in [
            r#"[x] DEBUG Completed request:{"a":1}"#,
            r#"{"a":1}"#,
            r#"{"message":7}"#,
            "{\"message\":\"x",
            "{",
            "}",
            "",
        ] {
            assert_eq!(Decoded::of(line.as_bytes()).text(), line);
        }
        assert_eq!(Decoded::of(b"a\xff").text(), "a\u{fffd}");
    }

    #[test]
    fn colours_are_taken_off() {
        for (line, text) in [
            ("\x1b[32m[x] INFO\x1b[0;39m y\x1b[m", "[x] INFO y"),
            ("a\x1b[31", "a"),
            ("a\x1b", "a"),
            ("{\"message\":\"\\u001b[1mx\\u001b[0m\"}", "x"),
        ] {
            assert_eq!(Decoded::of(line.as_bytes()).text(), text);
        }
    }
}
