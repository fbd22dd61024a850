//! The collector's log: when the JVM stopped its threads, for what, and how long it waited until they stood still.
//!
//! Unified logging (`-Xlog:gc*` as Kafka's start script has it, `-Xlog:safepoint`, JDK 9 and later, every collector),
//! and of JDK 8's logs the line of `-XX:+PrintGCApplicationStoppedTime`. A collection is a pause of its own, within the
//! safepoint that its log may tell as well. It does not say what a collection did.

mod pause;
mod stamp;

use std::io::BufRead;

use model::{JvmPause, Nanos};

use self::pause::Told;
use self::stamp::{Stamp, decorated};
use crate::TextError;
use crate::lines::Lines;

/// Why a text cannot be read as a collector's log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading failed, or it is no text.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A pause whose line has no date, in a log that has none before it either.
    #[error(
        "line {line}: a pause without a date: log with the decoration time (-Xlog:gc*,safepoint:file=FILE:time,tags)"
    )]
    Undated {
        /// Its line, from 1.
        line: u64,
    },
    /// No line of such a log.
    #[error(
        "line {lines}: the end, and no line of a collector's log before it: give what -Xlog:gc* or -Xlog:safepoint wrote"
    )]
    NoGcLog {
        /// How many lines it has.
        lines: u64,
    },
}

/// The pauses in a log, in the order of their ends, to the millisecond as the log has it. After an error there
/// are no more.
#[derive(Debug)]
pub struct GcLog<R> {
    lines: Lines<R>,
    /// When the JVM started, from a line that has both kinds of time, or as told.
    start: Option<Nanos>,
    /// The operation of the safepoint that threads now are in (JDK 9 to 12 name it on a line of its own).
    operation: String,
    any: bool,
    is_over: bool,
}

impl<R: BufRead> GcLog<R> {
    /// The pauses of this log. `start` is when the JVM started, for a log that has uptimes only.
    pub fn new(reader: R, start: Option<Nanos>) -> Self {
        Self { lines: Lines::new(reader), start, operation: String::new(), any: false, is_over: false }
    }

    fn read(&mut self) -> Result<Option<JvmPause>, Error> {
        while let Some(line) = self.lines.next()? {
            let text = line.text();
            let Some((stamp, message)) = decorated(&text).filter(|_| line.is_whole) else { continue };
            self.any = true;
            self.start = stamp.start().or(self.start);
            match pause::told(message) {
                Some(Told::Operation(operation)) => operation.clone_into(&mut self.operation),
                Some(Told::Pause(mut pause)) => {
                    let end = at(&stamp, self.start).ok_or(Error::Undated { line: line.number })?;
                    if pause.is_unnamed_safepoint() {
                        pause.operation = std::mem::take(&mut self.operation);
                    }
                    return Ok(Some(pause.ending_at(end)));
                }
                None => {}
            }
        }
        if self.any { Ok(None) } else { Err(Error::NoGcLog { lines: self.lines.number() }) }
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

#[cfg(test)]
mod tests;
