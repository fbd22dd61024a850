//! Slow operations in a broker's log: takes lines, in pieces of any size, and returns entries.
//!
//! A log is searched for a few texts that such lines contain (`messages`); only a line with one of them is parsed, so
//! that all others cost no more than the search. Only [`read`] and [`LogFollower`] read files, and nothing here adds up
//! the entries. Fuzzed by: log.

mod input;
mod line;
mod messages;
mod patterns;
mod request;
mod stamp;
mod time;

use model::{LogEntry, LogKind, beginning};

pub use input::{LogFollower, Piece, ReadError, read};
pub use patterns::{PatternError, Patterns};
pub use request::LoggedRequest;
pub use time::{Zone, parse_instant};

use input::Lines;
use line::LogLine;
use messages::Finder;
use time::Clock;

/// Bytes kept of a message.
const TEXT_BYTES: usize = 1_000;

/// The content of one line.
#[derive(Debug)]
pub enum LogItem<'a> {
    /// Something that took time, or a change.
    Entry(LogEntry),
    /// A line of Kafka's request log.
    Request(LoggedRequest<'a>),
}

/// Counts of what was read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes, after unpacking.
    pub bytes: u64,
    /// Lines, including a last one without a line end.
    pub lines: u64,
    /// Matching lines that were longer than the part kept of a line.
    pub cut: u64,
    /// Lines about a request that could not be read.
    pub unreadable_requests: u64,
}

/// Scans one log. The entries do not depend on how the log is cut into pieces.
#[derive(Clone, Debug)]
pub struct LogScanner {
    lines: Lines,
    reader: LineReader,
}

impl LogScanner {
    /// A scanner of one log.
    /// Times without a zone are in `zone`; times without a date are on and after `day` (year, month, day), and unknown
    /// without it.
    pub fn new(zone: Zone, day: Option<(i16, i8, i8)>, patterns: Patterns) -> Self {
        let finder = Finder::new(messages::NEEDLES.iter().map(|needle| needle.text));
        let reader = LineReader { finder, patterns, clock: Clock::new(zone, day), stopping: None, unread: 0 };
        Self { lines: Lines::default(), reader }
    }

    /// Scans the next piece of the log.
    ///
    /// # Errors
    /// The first error of `emit`.
    pub fn feed<E>(
        &mut self,
        piece: &[u8],
        emit: &mut impl FnMut(LogItem<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { lines, reader } = self;
        lines.feed(piece, &mut |block, counts| reader.block(block, counts, emit))
    }

    /// Ends the log, because it is over or starts over: an unfinished last line is read as it is.
    ///
    /// # Errors
    /// The first error of `emit`.
    pub fn finish<E>(&mut self, emit: &mut impl FnMut(LogItem<'_>) -> Result<(), E>) -> Result<(), E> {
        let Self { lines, reader } = self;
        lines.finish(&mut |block, counts| reader.block(block, counts, emit))
    }

    /// Counts of what was read so far.
    pub fn counts(&self) -> Counts {
        Counts { unreadable_requests: self.reader.unread, ..self.lines.counts() }
    }
}

/// Finds and parses lines that contain something.
#[derive(Clone, Debug)]
struct LineReader {
    finder: Finder,
    patterns: Patterns,
    clock: Clock,
    /// When the broker began to shut down.
    stopping: Option<model::Nanos>,
    unread: u64,
}

impl LineReader {
    /// Scans whole lines: every line if the user has given patterns, otherwise only those with a needle.
    fn block<E>(
        &mut self,
        block: &[u8],
        counts: &mut Counts,
        emit: &mut impl FnMut(LogItem<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut at = 0;
        while let Some(rest) = block.get(at..).filter(|rest| !rest.is_empty()) {
            let Some(line) = self.next_line(rest) else { return Ok(()) };
            let retained = line.retained(rest);
            counts.cut += u64::from(retained.len() < line.end - line.start);
            self.line(retained, emit)?;
            at += line.end + 1;
        }
        Ok(())
    }

    /// The next line to parse. A needle beyond the part kept of a line does not count.
    fn next_line(&self, block: &[u8]) -> Option<input::Span> {
        if !self.patterns.is_empty() {
            return Some(input::Span::around(block, 0, 0));
        }
        let mut from = 0;
        loop {
            let found = self.finder.find(block, from)?;
            let line = input::Span::around(block, from, found.start);
            if found.end - line.start <= input::LONGEST_LINE {
                return Some(line);
            }
            from = line.end.min(block.len());
        }
    }

    fn line<E>(&mut self, line: &[u8], emit: &mut impl FnMut(LogItem<'_>) -> Result<(), E>) -> Result<(), E> {
        let decoded = LogLine::of(line);
        let text = &*decoded.text;
        if let Some(found) = self.patterns.find(text) {
            emit(LogItem::Entry(self.entry(&decoded, found)))?;
        }
        if line::is_continuation(text) {
            return Ok(());
        }
        match messages::read(text, &self.finder) {
            Some(messages::Read::Request(rest)) => match request::read(rest) {
                Some(read) => {
                    let at = self.clock.at(&line::Header::of(text), decoded.outer);
                    emit(LogItem::Request(LoggedRequest { at, line: rest, ..read }))?;
                }
                None => self.unread += 1,
            },
            Some(messages::Read::Message(message)) => {
                let entry = self.entry(&decoded, message);
                let entry = self.with_stop(entry);
                emit(LogItem::Entry(entry))?;
            }
            None => {}
        }
        Ok(())
    }

    /// Adds the line's time, level and text to an entry.
    fn entry(&mut self, decoded: &LogLine<'_>, entry: LogEntry) -> LogEntry {
        let header = line::Header::of(&decoded.text);
        LogEntry {
            at: self.clock.at(&header, decoded.outer),
            level: decoded.level.or(header.level),
            text: beginning(header.message(), TEXT_BYTES).into(),
            ..entry
        }
    }

    /// Adds the duration of a shutdown: no line has it, but two lines together do.
    fn with_stop(&mut self, mut entry: LogEntry) -> LogEntry {
        if entry.kind == LogKind::Shutdown {
            if entry.text.contains(messages::STOPPED) {
                let began = self.stopping.take();
                entry.length = began.zip(entry.at).map(|(began, end)| (end - began).at_least_zero());
            } else {
                self.stopping = entry.at;
            }
        }
        entry
    }
}

#[cfg(test)]
mod tests;
