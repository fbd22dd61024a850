//! Finds the dumps in a text, whatever wrote them and whatever stands between, and hands over one at a time. Does
//! not know what their lines mean.

use std::io::BufRead;

use jiff::civil::DateTime;
use model::Pid;

use super::error::Error;
use super::header::ThreadHeader;
use super::kept::Kept;
use super::open::Open;
use super::stamp::Zone;
use super::{Dump, DumpFormat, hotspot, stamp};
use crate::lines::{Line, Lines};

/// Tags that only a javacore has at the beginning of a line. It may be a piece of one.
const TAGS: [&str; 6] =
    ["0SECTION ", "1TISIGINFO ", "1LKPOOLINFO ", "2LKMONINUSE ", "3LKMONOBJECT ", "3XMTHREADINFO "];

/// The dumps in a text, read as they are asked for. After an error there are no more.
#[derive(Debug)]
pub struct Dumps<R> {
    lines: Lines<R>,
    zone: Zone,
    kept: Kept,
    open: Option<Open>,
    before: Before,
    any: bool,
    is_over: bool,
}

/// Lines that a log may put between what precedes a HotSpot dump and its first line.
const BEFORE_LINES: u64 = 4;

/// What the lines before a HotSpot dump say of it: `18579:`, the process, of `jcmd`; and the date.
#[derive(Debug, Default)]
struct Before {
    /// With the number of their lines.
    pid: Option<(u64, Pid)>,
    date: Option<(u64, DateTime)>,
}

impl Before {
    fn line(&mut self, number: u64, line: &str) {
        if let Some(date) = stamp::alone(line) {
            self.date = Some((number, date));
        } else if let Some(pid) = line.trim_end().strip_suffix(':').and_then(|digits| digits.parse().ok()) {
            self.pid = Some((number, pid));
        }
    }

    /// What is said of a dump that begins at this line.
    fn take(&mut self, line: u64) -> (Pid, Option<DateTime>) {
        let earliest = line.saturating_sub(BEFORE_LINES);
        let date = self.date.take().filter(|&(at, _)| at >= earliest);
        let pid = self.pid.take().filter(|&(at, _)| at >= earliest);
        (pid.map_or(0, |(_, pid)| pid), date.map(|(_, date)| date))
    }
}

impl<R: BufRead> Dumps<R> {
    /// The dumps of this text. `zone` is the JVM's: dumps say only what its wall clock showed.
    pub fn new(reader: R, zone: Zone) -> Self {
        Self {
            lines: Lines::new(reader),
            zone,
            kept: Kept::default(),
            open: None,
            before: Before::default(),
            any: false,
            is_over: false,
        }
    }

    fn read(&mut self) -> Result<Option<Dump>, Error> {
        loop {
            let Some(line) = self.lines.next()? else { return self.end() };
            let text = line.text();
            let ended = match begins(&line, &text, self.open.as_ref()) {
                Some(format) => {
                    self.kept.begin();
                    self.open.replace(Open::new(format, line.number, self.before.take(line.number)))
                }
                None => None,
            };
            self.before.line(line.number, &text);
            if let Some(open) = &mut self.open {
                open.line(&line, &text, &mut self.kept);
            }
            if let Some(open) = ended {
                return Ok(Some(self.finished(open)));
            }
        }
    }

    fn finished(&mut self, open: Open) -> Dump {
        self.any = true;
        open.finish(&self.zone)
    }

    fn end(&mut self) -> Result<Option<Dump>, Error> {
        self.is_over = true;
        match self.open.take() {
            Some(open) => Ok(Some(self.finished(open))),
            None if self.any => Ok(None),
            None => Err(Error::NoDump { lines: self.lines.number() }),
        }
    }
}

impl<R: BufRead> Iterator for Dumps<R> {
    type Item = Result<Dump, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.read();
        self.is_over |= next.is_err();
        next.transpose()
    }
}

/// Whether a dump begins at this line, and in which format: at its own first line, or where a piece of one begins.
fn begins(line: &Line<'_>, text: &str, open: Option<&Open>) -> Option<DumpFormat> {
    let inside = open.filter(|open| !open.is_done()).map(Open::format);
    let is_thread = || text.starts_with('"') && ThreadHeader::parse(line.bytes).is_some();
    if !line.is_whole {
        None
    } else if text.starts_with(hotspot::START) {
        Some(DumpFormat::HotSpot)
    } else if TAGS.iter().any(|tag| text.starts_with(tag)) {
        let is_title = text.starts_with("0SECTION ") && text.contains(" TITLE subcomponent");
        (is_title || inside != Some(DumpFormat::OpenJ9)).then_some(DumpFormat::OpenJ9)
    } else if inside != Some(DumpFormat::HotSpot) && is_thread() {
        Some(DumpFormat::HotSpot)
    } else {
        None
    }
}
