//! A dump while it is read, in whichever format, and what went wrong meanwhile. Does not find where dumps begin.

use jiff::civil::DateTime;
use model::Pid;

use super::error::{Defect, DefectKind};
use super::hotspot::HotSpot;
use super::kept::Kept;
use super::openj9::OpenJ9;
use super::stamp::Zone;
use super::{Dump, DumpFormat, holders, stamp};
use crate::lines::Line;

/// Defects told of one dump.
const MAX_DEFECTS: usize = 8;

/// A dump being read.
#[derive(Debug)]
pub(super) struct Open {
    first_line: u64,
    last_line: u64,
    pid: Pid,
    date: Option<DateTime>,
    body: Body,
    defects: Vec<Defect>,
    is_full: bool,
}

#[derive(Debug)]
enum Body {
    HotSpot(HotSpot),
    OpenJ9(Box<OpenJ9>),
}

impl Open {
    /// One that begins at this line; `said` is what lines before it said of process and time.
    pub(super) fn new(format: DumpFormat, line: u64, (pid, date): (Pid, Option<DateTime>)) -> Self {
        let body = match format {
            DumpFormat::HotSpot => Body::HotSpot(HotSpot::new()),
            DumpFormat::OpenJ9 => Body::OpenJ9(Box::new(OpenJ9::new())),
        };
        Self { first_line: line, last_line: line, pid, date, body, defects: Vec::new(), is_full: false }
    }

    /// What it is written in.
    pub(super) fn format(&self) -> DumpFormat {
        match self.body {
            Body::HotSpot(_) => DumpFormat::HotSpot,
            Body::OpenJ9(_) => DumpFormat::OpenJ9,
        }
    }

    /// Whether its end was seen.
    pub(super) fn is_done(&self) -> bool {
        match &self.body {
            Body::HotSpot(body) => body.is_done(),
            Body::OpenJ9(body) => body.is_done(),
        }
    }

    /// Takes a line.
    pub(super) fn line(&mut self, line: &Line<'_>, text: &str, kept: &mut Kept) {
        if self.is_full {
            return;
        }
        self.last_line = line.number;
        let was_done = self.is_done();
        let taken = if line.is_whole || is_end(text) {
            match &mut self.body {
                Body::HotSpot(body) => body.line(text, kept),
                Body::OpenJ9(body) => body.line(text, kept),
            }
        } else if was_done {
            Ok(())
        } else {
            Err(DefectKind::CutLine)
        };
        if let Err(kind) = taken {
            self.is_full = kind == DefectKind::TooLarge;
            self.defect(line.number, kind);
        }
    }

    fn defect(&mut self, line: u64, kind: DefectKind) {
        if self.defects.len() < MAX_DEFECTS {
            self.defects.push(Defect { line, kind });
        }
    }

    /// The dump as far as it was read. `zone` is that of its wall clock.
    pub(super) fn finish(mut self, zone: &Zone) -> Dump {
        if !self.is_done() && !self.is_full {
            self.defect(self.last_line, DefectKind::Truncated);
        }
        let format = self.format();
        let (mut threads, deadlocks, pid, taken) = match self.body {
            Body::HotSpot(body) => {
                (body.threads, body.deadlocks, self.pid, self.date.map(|date| (date, false)))
            }
            Body::OpenJ9(mut body) => {
                body.finish();
                (body.threads, body.deadlocks, body.pid, body.taken)
            }
        };
        holders::settle(&mut threads);
        let utc = Zone::utc();
        let in_zone = |(date, is_utc)| stamp::in_zone(date, if is_utc { &utc } else { zone });
        Dump {
            format,
            line: self.first_line,
            taken: taken.and_then(in_zone),
            pid,
            threads,
            deadlocks,
            defects: self.defects,
        }
    }
}

/// A last line that means its dump is whole, even without a line end of its own.
fn is_end(text: &str) -> bool {
    text.starts_with("JNI global ref") || text.starts_with("NULL ") && text.contains("END OF DUMP")
}
