//! What a broker's log says about slow things: lines go in, in any pieces, and what they tell comes out.
//!
//! A log is searched for a few texts that such lines have (`messages`); only a line that has one is
//! taken apart, so that all others cost no more than being looked through. Nothing here reads files but [`read`] and
//! [`LogFollower`], and nothing adds up the entries. Fuzzed by: log.

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

/// What is kept of a message.
const TEXT_BYTES: usize = 1_000;

/// What one line tells.
#[derive(Debug)]
pub enum LogItem<'a> {
    /// Something that took time, or a change.
    Entry(LogEntry),
    /// A line of Kafka's request log.
    Request(LoggedRequest<'a>),
}

/// What was read so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes, after unpacking.
    pub bytes: u64,
    /// Lines, the last one too if it has no end.
    pub lines: u64,
    /// Lines that had something and were longer than what is kept of a line.
    pub cut: u64,
    /// Lines about a request that could not be read.
    pub unreadable_requests: u64,
}

/// One log on its way through. The entries do not depend on the pieces in which it comes.
#[derive(Clone, Debug)]
pub struct LogScanner {
    lines: Lines,
    reader: LineReader,
}

impl LogScanner {
    /// A scan of one log. Times without a zone are in `zone`, times without a date on and after `day` (year, month,
    /// day); without it they are not known.
    pub fn new(zone: Zone, day: Option<(i16, i8, i8)>, patterns: Patterns) -> Self {
        let finder = Finder::new(messages::NEEDLES.iter().map(|needle| needle.text));
        let reader = LineReader { finder, patterns, clock: Clock::new(zone, day), stopping: None, unread: 0 };
        Self { lines: Lines::default(), reader }
    }

    /// Takes the next piece of the log.
    ///
    /// # Errors
    /// The first of `told`'s.
    pub fn feed<E>(
        &mut self,
        piece: &[u8],
        told: &mut impl FnMut(LogItem<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { lines, reader } = self;
        lines.feed(piece, &mut |block, counts| reader.block(block, counts, told))
    }

    /// The log is over, or starts over: what was left of the last line is all of it.
    ///
    /// # Errors
    /// The first of `told`'s.
    pub fn finish<E>(&mut self, told: &mut impl FnMut(LogItem<'_>) -> Result<(), E>) -> Result<(), E> {
        let Self { lines, reader } = self;
        lines.finish(&mut |block, counts| reader.block(block, counts, told))
    }

    /// What was read so far.
    pub fn counts(&self) -> Counts {
        Counts { unreadable_requests: self.reader.unread, ..self.lines.counts() }
    }
}

/// Looks for lines that tell something, and takes them apart.
#[derive(Clone, Debug)]
struct LineReader {
    finder: Finder,
    patterns: Patterns,
    clock: Clock,
    /// When the broker began to stop.
    stopping: Option<model::Nanos>,
    unread: u64,
}

impl LineReader {
    /// Whole lines. With patterns of the user's each line is looked at; without, those that have a needle.
    fn block<E>(
        &mut self,
        block: &[u8],
        counts: &mut Counts,
        told: &mut impl FnMut(LogItem<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut at = 0;
        while let Some(rest) = block.get(at..).filter(|rest| !rest.is_empty()) {
            let Some(line) = self.next_line(rest) else { return Ok(()) };
            let kept = line.kept(rest);
            counts.cut += u64::from(kept.len() < line.end - line.start);
            self.line(kept, told)?;
            at += line.end + 1;
        }
        Ok(())
    }

    /// The next line worth a look. One whose needle lies beyond what is kept of a line has none.
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

    fn line<E>(&mut self, line: &[u8], told: &mut impl FnMut(LogItem<'_>) -> Result<(), E>) -> Result<(), E> {
        let decoded = LogLine::of(line);
        let text = &*decoded.text;
        if let Some(found) = self.patterns.find(text) {
            told(LogItem::Entry(self.entry(&decoded, found)))?;
        }
        if line::is_continuation(text) {
            return Ok(());
        }
        match messages::read(text, &self.finder) {
            Some(messages::Read::Request(rest)) => match request::read(rest) {
                Some(read) => {
                    let at = self.clock.at(&line::Header::of(text), decoded.outer);
                    told(LogItem::Request(LoggedRequest { at, line: rest, ..read }))?;
                }
                None => self.unread += 1,
            },
            Some(messages::Read::Message(message)) => {
                let entry = self.entry(&decoded, message);
                let entry = self.with_stop(entry);
                told(LogItem::Entry(entry))?;
            }
            None => {}
        }
        Ok(())
    }

    /// With what the line says besides its message.
    fn entry(&mut self, decoded: &LogLine<'_>, entry: LogEntry) -> LogEntry {
        let header = line::Header::of(&decoded.text);
        LogEntry {
            at: self.clock.at(&header, decoded.outer),
            level: decoded.level.or(header.level),
            text: beginning(header.message(), TEXT_BYTES).into(),
            ..entry
        }
    }

    /// How long the broker took to stop: no line says so, but two lines together do.
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
