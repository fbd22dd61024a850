//! What stands around a line's message: its time, its level, its logger. Kafka's own layout (`[%d] %p %m (%c)%n`), log4j2's
//! (`%d{HH:mm:ss.SSS} [%t] %-5level %logger{36} - %msg%n`), others like them, and what kubectl, the journal or a
//! container's runtime puts before a line. Does not say which instant a time is.

use super::stamp::{Stamp, TimeOfDay, stamps, time_of_day};

/// The level stands within so many bytes from the line's start, behind everything that was put before it.
const HEAD_BYTES: usize = 256;
/// Where a line has no level, its time stands within so many.
const TIME_BYTES: usize = 96;

/// The levels of log4j 1 and 2.
const LEVELS: [&str; 7] = ["TRACE", "DEBUG", "INFO", "WARN", "WARNING", "ERROR", "FATAL"];

/// A line, taken apart.
#[derive(Clone, Debug)]
pub(super) struct Header<'a> {
    /// The first and the last date and time before the level.
    pub(super) stamps: Option<(Stamp, Stamp)>,
    /// A time of day, where there is no date.
    pub(super) time: Option<TimeOfDay>,
    pub(super) level: Option<&'static str>,
    /// What follows the level, or the whole line.
    rest: &'a str,
}

impl<'a> Header<'a> {
    pub(super) fn of(line: &'a str) -> Self {
        let line = line.split('\n').next().unwrap_or_default().trim_end();
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

    /// What the line says. Looked for only where it is wanted: lines may be long.
    pub(super) fn message(&self) -> &'a str {
        let message = if self.level.is_some() { self.rest } else { undecorated(self.rest) };
        without_logger(message.trim_start_matches([']', ':', '|', ' ', '\t']))
    }
}

/// The first word that is a level, and where.
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

/// The level of that name.
pub(super) fn level_named(word: &str) -> Option<&'static str> {
    let level = LEVELS.into_iter().find(|level| *level == word)?;
    Some(if level == "WARNING" { "WARN" } else { level })
}

/// A line without a level, without what the JVM puts into brackets before its messages: times and tags.
fn undecorated(line: &str) -> &str {
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

/// Without `kafka.log.Log - ` before it or ` (kafka.log.Log)` behind it.
fn without_logger(message: &str) -> &str {
    let is_logger = |name: &str| {
        name.contains('.') && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._$-".contains(&byte))
    };
    let before = message.split_once(" - ").filter(|(name, _)| is_logger(name.trim_end()));
    let message = before.map_or(message, |(_, rest)| rest);
    let behind = message.strip_suffix(')').and_then(|rest| rest.rsplit_once(" ("));
    behind.filter(|(_, name)| is_logger(name)).map_or(message, |(rest, _)| rest)
}

/// Whether a line goes on with a stack trace.
pub(super) fn is_continuation(line: &str) -> bool {
    let trace = line.trim_start();
    let is_indented = trace.len() < line.len();
    trace.starts_with("Caused by: ")
        || is_indented && ["at ", "... ", "Suppressed: "].iter().any(|begin| trace.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::{Header, is_continuation};

    #[test]
    fn the_message_is_found_in_every_layout() {
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
    fn a_line_of_the_jvm_has_no_level_of_ours() {
        let header = Header::of("[2024-05-19T15:04:47.458+0000][info][gc      ] GC(12) Pause Young 12.345ms");
        assert_eq!((header.level, header.message()), (None, "GC(12) Pause Young 12.345ms"));
        assert!(header.stamps.is_some());
    }

    #[test]
    fn stack_traces_are_known() {
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
