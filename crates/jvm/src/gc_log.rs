//! Reads the collector's log: the pauses of the JVM, their causes, and how long it took until all threads had stopped.
//!
//! Reads unified logging (`-Xlog:gc*` as in Kafka's start script, `-Xlog:safepoint`, JDK 9 and later, every collector),
//! and from JDK 8's logs the line of `-XX:+PrintGCApplicationStoppedTime`. A collection is a separate pause, within the
//! safepoint that its log may report as well. Does not say what a collection did. Fuzzed by: dump.

use std::io::BufRead;
use std::sync::Arc;

use jiff::Timestamp;
use model::{JvmPause, JvmPauseKind, Nanos};

use crate::TextError;
use crate::lines::Lines;

/// The reason why a text cannot be read as a collector's log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading failed, or it is not text.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A pause whose line has no date, in a log without an earlier date.
    #[error(
        "line {line}: a pause has no date: log with the decoration time (-Xlog:gc*,safepoint:file=FILE:time,tags)"
    )]
    Undated {
        /// Its line, from 1.
        line: u64,
    },
    /// No line of a GC log.
    #[error("line {lines}: no GC log line up to the end: give the output of -Xlog:gc* or -Xlog:safepoint")]
    NoGcLog {
        /// The number of lines.
        lines: u64,
    },
}

/// Iterates over the pauses in a log, in the order of their ends. Ends after an error.
/// Times have the log's precision, a millisecond.
#[derive(Debug)]
pub struct GcLog<R> {
    lines: Lines<R>,
    /// When the JVM started, from a line with both kinds of time or from the caller.
    start: Option<Nanos>,
    /// The operation of the current safepoint (JDK 9 to 12 name it on a separate line).
    operation: String,
    any: bool,
    is_over: bool,
}

impl<R: BufRead> GcLog<R> {
    /// The pauses of this log. `start` is when the JVM started, for a log that has only uptimes.
    pub fn new(reader: R, start: Option<Nanos>) -> Self {
        Self { lines: Lines::new(reader), start, operation: String::new(), any: false, is_over: false }
    }

    fn read(&mut self) -> Result<Option<JvmPause>, Error> {
        while let Some(line) = self.lines.next()? {
            let text = line.text();
            let Some((stamp, message)) = split_decorations(&text).filter(|_| line.is_whole) else { continue };
            self.any = true;
            self.start = stamp.start().or(self.start);
            match parse_message(message) {
                Some(Message::Operation(operation)) => operation.clone_into(&mut self.operation),
                Some(Message::Pause(mut pause)) => {
                    let end = at(&stamp, self.start).ok_or(Error::Undated { line: line.number })?;
                    if pause.kind == JvmPauseKind::Safepoint && pause.operation.is_empty() {
                        pause.operation = name(&std::mem::take(&mut self.operation));
                    }
                    (pause.start, pause.end) = (end + pause.start, end);
                    return Ok(Some(pause));
                }
                None => {}
            }
        }
        if self.any { Ok(None) } else { Err(Error::NoGcLog { lines: self.lines.number }) }
    }
}

/// When a line was written.
fn at(stamp: &Stamp, start: Option<Nanos>) -> Option<Nanos> {
    stamp.wall.or_else(|| Some(start? + stamp.uptime?))
}

impl<R: BufRead> Iterator for GcLog<R> {
    type Item = Result<JvmPause, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.read();
        self.is_over = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}

// Messages that report a pause. Does not know when they were written.
//
// ```text
// GC(12) Pause Young (Normal) (G1 Evacuation Pause) 123M->45M(512M) 12.345ms      gc/shared/gcTraceTime.cpp
// GC(3) Y: Pause Mark Start (Major) 0.025ms                                         gc/z/zStat.cpp, zDriver.cpp
// Safepoint "G1PauseRemark", Time since last: 31045877 ns, Reaching safepoint: 4277374 ns, [Cleanup: 38 ns,]
//   At safepoint: 23165200 ns, [Leaving safepoint: 5217582 ns,] Total: 32660156 ns  runtime/safepoint.cpp, JDK 13 on
// Entering safepoint region: G1CollectForAllocation                                JDK 9 to 12, of which the next is
// Total time for which application threads were stopped: 0.0123 seconds, Stopping threads took: 0.0001 seconds
// ```

/// Limit of a name; the rest of it is left out.
const MAX_NAME_CHARS: usize = 200;

/// A longer pause is not believed: no JVM pauses for a day.
const LONGEST: Nanos = Nanos(86_400_000_000_000);

/// The content of a message.
#[derive(Debug)]
enum Message<'a> {
    /// A pause that is over.
    Pause(JvmPause),
    /// The operation of a safepoint that begins.
    Operation(&'a str),
}

/// A pause that is over when its line is written; its end is zero until the caller sets it.
fn over(kind: JvmPauseKind, length: Nanos, operation: &str) -> JvmPause {
    JvmPause {
        start: Nanos::ZERO - length,
        end: Nanos::ZERO,
        pid: 0,
        kind,
        operation: name(operation),
        cause: Arc::default(),
        gc_id: None,
        time_to_safepoint: None,
    }
}

fn name(text: &str) -> Arc<str> {
    text.chars().take(MAX_NAME_CHARS).collect::<String>().into()
}

/// Parses a message; `None` if it reports neither a pause nor an operation.
fn parse_message(message: &str) -> Option<Message<'_>> {
    if let Some(operation) = message.strip_prefix("Entering safepoint region: ") {
        return Some(Message::Operation(operation));
    }
    let over = collection(message).or_else(|| safepoint(message)).or_else(|| stopped(message))?;
    (over.end - over.start <= LONGEST).then_some(Message::Pause(over))
}

/// Parses a collection's pause into operation and cause.
/// A generation's name before the operation (ZGC) belongs to it; text in brackets is a cause if the heap's sizes
/// follow, except that the first brackets of a young collection of G1 are its kind.
fn collection(message: &str) -> Option<JvmPause> {
    let (id, rest) = message.strip_prefix("GC(")?.split_once(") ")?;
    let (text, length) = rest.strip_suffix("ms")?.rsplit_once(' ')?;
    let length = Nanos(decimal(length, 6)?);
    let text = text.trim();
    let unprefixed = text.split_once(": ").filter(|(of, _)| of.len() == 1).map_or(text, |(_, rest)| rest);
    if !unprefixed.starts_with("Pause ") {
        return None;
    }
    let (operation, cause) = match text.rsplit_once(' ').filter(|(_, sizes)| sizes.contains("->")) {
        Some((named, _)) => split_cause(named.trim()),
        None => (text, ""),
    };
    let cause = name(unbracketed(cause));
    Some(JvmPause { cause, gc_id: id.parse().ok(), ..over(JvmPauseKind::Gc, length, operation) })
}

/// Splits the text of a pause before its cause.
/// Examples: `Pause Young (Normal) (G1 Evacuation Pause)`, `Pause Full (System.gc())`.
fn split_cause(named: &str) -> (&str, &str) {
    let is_typed = named.starts_with("Pause Young (") && named.contains(") (");
    let at = if is_typed { named.find(") (").map(|at| at + 1) } else { named.find(" (") };
    at.and_then(|at| named.split_at_checked(at))
        .map_or((named, ""), |(operation, cause)| (operation, cause.trim()))
}

/// Removes the brackets, if they are one pair around everything.
fn unbracketed(cause: &str) -> &str {
    let inner = cause.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    inner.filter(|inner| !inner.contains(") (")).unwrap_or(cause)
}

fn safepoint(message: &str) -> Option<JvmPause> {
    let (operation, rest) = message.strip_prefix("Safepoint \"")?.split_once("\", ")?;
    let part = |mark: &str| {
        let found = rest.split(", ").find_map(|part| part.strip_prefix(mark))?;
        decimal(found.strip_suffix(" ns")?, 0).map(Nanos)
    };
    Some(safepoint_of(part("Total: ")?, part("Reaching safepoint: "), operation))
}

fn safepoint_of(length: Nanos, reach: Option<Nanos>, operation: &str) -> JvmPause {
    let time_to_safepoint = reach.map(|reach| reach.min(length));
    JvmPause { time_to_safepoint, ..over(JvmPauseKind::Safepoint, length, operation) }
}

fn stopped(message: &str) -> Option<JvmPause> {
    let rest = message.strip_prefix("Total time for which application threads were stopped: ")?;
    let (length, rest) = rest.split_once(" seconds")?;
    let reach = rest.strip_prefix(", Stopping threads took: ").and_then(|rest| rest.strip_suffix(" seconds"));
    let reach = reach.and_then(|reach| decimal(reach, 9)).map(Nanos);
    Some(safepoint_of(Nanos(decimal(length, 9)?), reach, ""))
}

// The decorations before a log line's message: its time and tags. Does not read messages.
//
// Decorations of unified logging (HotSpot's logging/logDecorations.cpp), in this order where configured:
// `[2024-05-19T15:04:47.458+0000]` time, the same for utctime, `[12.345s]` uptime, `[1716131087458ms]` timemillis,
// `[12345ms]` uptimemillis, `[…ns]` timenanos or uptimenanos, which look the same, then host name, process, thread,
// level and tags. JDK 8: `2024-05-19T15:04:47.458+0000: 12.345: `.

/// Milliseconds that cannot be an uptime: three years.
const WALL_FROM_MILLIS: i64 = 100_000_000_000;

/// A line's time, as far as it is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stamp {
    /// By the wall clock.
    wall: Option<Nanos>,
    /// Since the JVM started.
    uptime: Option<Nanos>,
}

impl Stamp {
    /// When the JVM started, if both are there.
    fn start(&self) -> Option<Nanos> {
        Some(self.wall? - self.uptime?)
    }
}

/// Splits a line into its stamp and its message; `None` for a line without decorations.
fn split_decorations(line: &str) -> Option<(Stamp, &str)> {
    let mut stamp = Stamp::default();
    let mut rest = line;
    while let Some((decoration, after)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        stamp.decoration(decoration);
        rest = after;
    }
    if rest.len() < line.len() { Some((stamp, rest.trim())) } else { plain(line) }
}

impl Stamp {
    fn decoration(&mut self, text: &str) {
        if let Some(wall) = date(text) {
            self.wall = Some(wall);
        } else if let Some(millis) = text.strip_suffix("ms").and_then(|digits| decimal(digits, 0)) {
            let nanos = millis.checked_mul(1_000_000).map(Nanos);
            let time = if millis >= WALL_FROM_MILLIS { &mut self.wall } else { &mut self.uptime };
            *time = time.or(nanos);
        } else if let Some(uptime) = text.strip_suffix('s').and_then(|seconds| decimal(seconds, 9)) {
            self.uptime = Some(Nanos(uptime));
        }
    }
}

/// Parses JDK 8's decorations.
fn plain(line: &str) -> Option<(Stamp, &str)> {
    let mut stamp = Stamp::default();
    let mut rest = line;
    if let Some((wall, after)) = rest.split_once(": ").and_then(|(text, after)| Some((date(text)?, after))) {
        stamp.wall = Some(wall);
        rest = after;
    }
    let uptime = rest.split_once(": ").and_then(|(text, after)| Some((decimal(text, 9)?, after)));
    if let Some((uptime, after)) = uptime {
        stamp.uptime = Some(Nanos(uptime));
        rest = after;
    }
    (stamp != Stamp::default()).then_some((stamp, rest.trim()))
}

/// `2024-05-19T15:04:47.458+0000`.
fn date(text: &str) -> Option<Nanos> {
    if text.len() != 28 || text.as_bytes().get(10) != Some(&b'T') {
        return None;
    }
    let time = Timestamp::strptime("%Y-%m-%dT%H:%M:%S.%f%z", text).ok()?;
    i64::try_from(time.as_nanosecond()).ok().map(Nanos)
}

/// Parses a decimal number in units of the `digits`th digit after the point. That digit may be missing; further digits
/// are dropped.
fn decimal(text: &str, digits: usize) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let fraction = fraction.get(..digits.min(fraction.len()))?;
    let padding = 10_i64.checked_pow(u32::try_from(digits - fraction.len()).ok()?)?;
    let unit = 10_i64.checked_pow(u32::try_from(digits).ok()?)?;
    let fraction =
        if fraction.is_empty() { 0 } else { fraction.parse::<i64>().ok()?.checked_mul(padding)? };
    whole.parse::<i64>().ok()?.checked_mul(unit)?.checked_add(fraction)
}

#[cfg(test)]
mod tests;
