//! A line as text: without colours, and extracted from the JSON that a layout, a container runtime or the journal wraps
//! it in. Does not look for times in the text.
//!
//! Formats are recognized by their field names: log4j2's `JsonLayout` (`instant` or `timeMillis`, `message`, `level`)
//! and `JsonTemplateLayout` (ECS: `@timestamp`, `message`, `log.level`), logstash's encoders (the same and `level`),
//! GELF (`short_message`, `timestamp` in seconds), Docker's json-file (`log`, `time`), `journalctl -o json` (`MESSAGE`,
//! `__REALTIME_TIMESTAMP` in microseconds).

use std::borrow::Cow;

use memchr::{memchr, memmem};
use model::Nanos;
use serde_json::Value;

use super::stamp::{OuterTime, Stamp, TimeOfDay, stamps, time_of_day};

/// The maximum length of a prefix before JSON in a line.
/// A container runtime writes such a prefix, for example.
const PREFIX_BYTES: usize = 96;
const ESCAPE: u8 = 0x1b;
const MESSAGES: [&str; 5] = ["message", "msg", "log", "short_message", "MESSAGE"];
const TIMES: [&str; 6] = ["@timestamp", "timestamp", "time", "ts", "timeMillis", "__REALTIME_TIMESTAMP"];
const LEVEL_FIELDS: [&str; 4] = ["level", "log.level", "severity", "levelname"];

/// A line's text, with its time and level from the JSON around it.
#[derive(Debug)]
pub(super) struct LogLine<'a> {
    pub(super) text: Cow<'a, str>,
    pub(super) outer: Option<OuterTime>,
    pub(super) level: Option<&'static str>,
}

impl<'a> LogLine<'a> {
    pub(super) fn of(line: &'a [u8]) -> Self {
        if let Some(unwrapped) = json_in(line).and_then(unwrapped) {
            return unwrapped;
        }
        // Validation goes word by word; only invalid UTF-8 is processed byte by byte.
        let text = std::str::from_utf8(line).map_or_else(|_| String::from_utf8_lossy(line), Cow::Borrowed);
        let text = if memchr(ESCAPE, line).is_some() { Cow::Owned(strip_colours(&text)) } else { text };
        Self { text, outer: None, level: None }
    }
}

/// The JSON object that makes up a line, or its end after a prefix.
fn json_in(line: &[u8]) -> Option<&[u8]> {
    let line = line.trim_ascii();
    line.ends_with(b"}").then_some(())?;
    let head = line.get(..PREFIX_BYTES.min(line.len()))?;
    let at = memmem::find(head, b"{\"").or_else(|| head.starts_with(b"{").then_some(0))?;
    let follows_blank = at == 0 || line.get(at - 1).is_some_and(u8::is_ascii_whitespace);
    line.get(at..).filter(|_| follows_blank)
}

fn unwrapped(json: &[u8]) -> Option<LogLine<'static>> {
    let value: Value = serde_json::from_slice(json).ok()?;
    let text = MESSAGES.iter().find_map(|name| value.get(name)?.as_str())?;
    let nested = || value.pointer("/log/level");
    let level = LEVEL_FIELDS.iter().find_map(|name| value.get(name)).or_else(nested).and_then(Value::as_str);
    Some(LogLine {
        text: Cow::Owned(if text.contains('\x1b') { strip_colours(text) } else { text.to_owned() }),
        outer: instant(&value).or_else(|| TIMES.iter().find_map(|name| time(value.get(name)?))),
        level: level.and_then(|level| level_named(&level.to_ascii_uppercase())),
    })
}

/// Parses `"instant":{"epochSecond":1716131087,"nanoOfSecond":458000000}`.
fn instant(value: &Value) -> Option<OuterTime> {
    let seconds = value.pointer("/instant/epochSecond")?.as_i64()?;
    let nanos = value.pointer("/instant/nanoOfSecond").and_then(Value::as_i64).unwrap_or(0);
    let at = seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?;
    Some(OuterTime::Instant(Nanos(at)))
}

/// Parses a date as text, or a number as a time since 1970.
/// The number's unit is the one that gives a present-day date.
fn time(value: &Value) -> Option<OuterTime> {
    let number = match value {
        Value::String(text) => match Stamp::read(text.as_bytes()) {
            Some(stamp) => return Some(OuterTime::Stamp(stamp)),
            None => text.parse().ok()?,
        },
        _ => value.as_f64()?,
    };
    let ns =
        [1e9, 1e6, 1e3, 1.0].into_iter().map(|unit| number * unit).find(|ns| (1e17..1e19).contains(ns))?;
    // A float represents a present-day time to the microsecond.
    (ns < i64::MAX as f64).then(|| OuterTime::Instant(Nanos((ns / 1e3).round() as i64 * 1_000)))
}

/// Removes escape sequences (ECMA-48: `ESC [`, parameters, one letter) and other cursor controls.
fn strip_colours(text: &str) -> String {
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

// The parts of a line around its message: time, level, logger. Handles Kafka's own layout (`[%d] %p %m (%c)%n`),
// log4j2's (`%d{HH:mm:ss.SSS} [%t] %-5level %logger{36} - %msg%n`), similar ones, and the prefixes of kubectl, the
// journal and container runtimes. Does not convert times to instants.

/// The level is within this many bytes of the line's start, after all prefixes.
const HEAD_BYTES: usize = 256;
/// In a line without a level, the time is within this many bytes.
const TIME_BYTES: usize = 96;

/// The levels of log4j 1 and 2.
const LEVELS: [&str; 7] = ["TRACE", "DEBUG", "INFO", "WARN", "WARNING", "ERROR", "FATAL"];

/// A parsed line.
#[derive(Clone, Debug)]
pub(super) struct Header<'a> {
    /// The first and the last date and time before the level.
    pub(super) stamps: Option<(Stamp, Stamp)>,
    /// A time of day, if there is no date.
    pub(super) time: Option<TimeOfDay>,
    pub(super) level: Option<&'static str>,
    /// The text after the level, or the whole line.
    rest: &'a str,
}

impl<'a> Header<'a> {
    pub(super) fn of(line: &'a str) -> Self {
        let line = line.split_once('\n').map_or(line, |(first, _)| first).trim_end();
        let found = level(line);
        let (head, rest) = match found {
            Some((start, end, _)) => (start, line.get(end..).unwrap_or_default()),
            None => (TIME_BYTES, line),
        };
        let head = line.as_bytes().get(..head.min(line.len())).unwrap_or_default();
        let stamps = stamps(head);
        Self {
            stamps,
            time: if stamps.is_none() { time_of_day(head) } else { None },
            level: found.map(|(_, _, level)| level),
            rest,
        }
    }

    /// The message. Computed on demand, because lines may be long.
    pub(super) fn message(&self) -> &'a str {
        let message = if self.level.is_some() { self.rest } else { strip_decorations(self.rest) };
        strip_logger(message.trim_start_matches([']', ':', '|', ' ', '\t']))
    }
}

/// The first word that is a level, and its position.
fn level(line: &str) -> Option<(usize, usize, &'static str)> {
    let is_letter = |at: usize| line.as_bytes().get(at).is_some_and(u8::is_ascii_alphanumeric);
    let mut start = 0;
    while start < line.len().min(HEAD_BYTES) {
        let end = (start..line.len()).find(|&at| !is_letter(at)).unwrap_or(line.len());
        if let Some(level) = line.get(start..end).and_then(level_named) {
            return Some((start, end, level));
        }
        start = end + 1;
    }
    None
}

/// The level with this name.
pub(super) fn level_named(word: &str) -> Option<&'static str> {
    let level = LEVELS.into_iter().find(|level| *level == word)?;
    Some(if level == "WARNING" { "WARN" } else { level })
}

/// Removes the JVM's decorations from a line without a level.
/// These are the times and tags in brackets that the JVM writes before its messages.
fn strip_decorations(line: &str) -> &str {
    let mut rest = line;
    while let Some((inside, after)) = rest.strip_prefix('[').and_then(|inside| inside.split_once(']')) {
        let is_time = inside.starts_with(|c: char| c.is_ascii_digit());
        if !is_time && inside.trim().contains(' ') {
            break;
        }
        rest = after.trim_start();
    }
    if rest.is_empty() { line } else { rest }
}

/// Removes `kafka.log.Log - ` before the message or ` (kafka.log.Log)` after it.
fn strip_logger(message: &str) -> &str {
    let is_logger = |name: &str| {
        name.contains('.') && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._$-".contains(&byte))
    };
    let before = message.split_once(" - ").filter(|(name, _)| is_logger(name.trim_end()));
    let message = before.map_or(message, |(_, rest)| rest);
    let behind = message.strip_suffix(')').and_then(|rest| rest.rsplit_once(" ("));
    behind.filter(|(_, name)| is_logger(name)).map_or(message, |(rest, _)| rest)
}

/// Whether a line continues a stack trace.
pub(super) fn is_continuation(line: &str) -> bool {
    let trace = line.trim_start();
    let is_indented = trace.len() < line.len();
    trace.starts_with("Caused by: ")
        || is_indented && ["at ", "... ", "Suppressed: "].iter().any(|begin| trace.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use model::Nanos;

    use super::{LogLine, OuterTime};

    const AT: i64 = 1_716_131_087_458_000_000;

    #[test]
    fn every_json_layout_yields_message_time_and_level() {
        for line in [
            r#"{"instant":{"epochSecond":1716131087,"nanoOfSecond":458000000},"thread":"main","level":"INFO","loggerName":"kafka.log.Log","message":"x y","endOfBatch":false}"#,
            r#"{"timeMillis":1716131087458,"level":"INFO","message":"x y"}"#,
            r#"{"@timestamp":"2024-05-19T15:04:47.458Z","ecs.version":"1.2.0","log.level":"INFO","message":"x y","process.thread.name":"main"}"#,
            r#"{"@timestamp":"2024-05-19T15:04:47.458Z","log":{"level":"info","logger":"kafka"},"message":"x y"}"#,
            r#"{"version":"1.1","short_message":"x y","timestamp":1716131087.458,"level":"info"}"#,
            r#"2024-05-19T15:04:47.4Z stdout F {"ts":1716131087458,"severity":"INFO","msg":"x y"}"#,
            r#"{"__REALTIME_TIMESTAMP":"1716131087458000","MESSAGE":"x y","level":"INFO"}"#,
        ] {
            let decoded = LogLine::of(line.as_bytes());
            assert_eq!((&*decoded.text, decoded.level), ("x y", Some("INFO")), "{line}");
            match decoded.outer {
                Some(OuterTime::Instant(at)) => assert_eq!(at, Nanos(AT), "{line}"),
                Some(OuterTime::Stamp(stamp)) => {
                    assert_eq!((stamp.time.nanos, stamp.east_seconds), (458_000_000, Some(0)));
                }
                None => panic!("no time: {line}"),
            }
        }
    }

    #[test]
    fn unwrapped_lines_are_unchanged() {
        for line in [
            r#"[x] DEBUG Completed request:{"a":1}"#,
            r#"{"a":1}"#,
            r#"{"message":7}"#,
            "{\"message\":\"x",
            "{",
            "}",
            "",
        ] {
            assert_eq!(LogLine::of(line.as_bytes()).text, line);
        }
        assert_eq!(LogLine::of(b"a\xff").text, "a\u{fffd}");
    }

    #[test]
    fn strips_ansi_colors() {
        for (line, text) in [
            ("\x1b[32m[x] INFO\x1b[0;39m y\x1b[m", "[x] INFO y"),
            ("a\x1b[31", "a"),
            ("a\x1b", "a"),
            ("{\"message\":\"\\u001b[1mx\\u001b[0m\"}", "x"),
        ] {
            assert_eq!(LogLine::of(line.as_bytes()).text, text);
        }
    }
}

#[cfg(test)]
mod header_tests {
    use super::{Header, is_continuation};

    #[test]
    fn finds_the_message_in_every_layout() {
        let message = "[LocalLog partition=t-0, dir=/d] Rolled";
        for (line, level, is_dated) in [
            (format!("[2024-05-19 15:04:47,458] INFO {message} (kafka.log.LocalLog)"), Some("INFO"), true),
            (format!("[2024-05-19 15:04:47,458] WARN {message} (kafka.log.LocalLog)\r"), Some("WARN"), true),
            (format!("15:04:47.458 [main] INFO  kafka.log.LocalLog - {message}"), Some("INFO"), false),
            (
                format!("2024-05-19 15:04:47,458 DEBUG [data-plane-kafka-request-handler-0] {message}"),
                Some("DEBUG"),
                true,
            ),
            (
                format!("May 19 15:04:47 host kafka[7]: [2024-05-19 15:04:47,458] INFO {message}"),
                Some("INFO"),
                true,
            ),
            (format!("[pod/kafka-0/kafka] [2024-05-19 15:04:47,458] [ERROR] {message}"), Some("ERROR"), true),
            (format!("kafka-1  | [2024-05-19 15:04:47,458] INFO {message}"), Some("INFO"), true),
        ] {
            let header = Header::of(&line);
            assert_eq!((header.level, header.stamps.is_some()), (level, is_dated), "{line}");
            assert_eq!(header.time.is_some(), !is_dated, "{line}");
            assert!(header.message().ends_with(message), "{line}: {}", header.message());
        }
    }

    #[test]
    fn jvm_line_has_no_log_level() {
        let header = Header::of("[2024-05-19T15:04:47.458+0000][info][gc      ] GC(12) Pause Young 12.345ms");
        assert_eq!((header.level, header.message()), (None, "GC(12) Pause Young 12.345ms"));
        assert!(header.stamps.is_some());
    }

    #[test]
    fn recognizes_stack_traces() {
        for (line, expected) in [
            ("\tat kafka.log.Log.roll(Log.scala:2)", true),
            ("Caused by: java.io.IOException: fsync took 12 ms", true),
            ("\t... 12 more", true),
            ("at last", false),
            ("[2024-05-19 15:04:47,458] INFO x", false),
        ] {
            assert_eq!(is_continuation(line), expected, "{line}");
        }
    }
}
