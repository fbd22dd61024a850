//! Finds the dumps of both formats in a text and returns one at a time. The text may have anything between them. Does
//! not know what their lines mean.

use std::collections::HashMap;
use std::io::BufRead;

use jiff::civil::DateTime;
use model::{Lock, Pid};

use super::hotspot::{self, HotSpot, ThreadHeader};
use super::openj9::OpenJ9;
use super::thread::{
    self, Defect, DefectKind, Dump, DumpFormat, Error, TextPool, Thread, ThreadState, WaitKind, Zone,
};
use crate::lines::{Line, Lines};

/// Tags that begin a line only in a javacore. The text may be a piece of one.
const TAGS: [&str; 6] =
    ["0SECTION ", "1TISIGINFO ", "1LKPOOLINFO ", "2LKMONINUSE ", "3LKMONOBJECT ", "3XMTHREADINFO "];

/// Iterates over the dumps in a text. Ends after an error.
#[derive(Debug)]
pub struct Dumps<R> {
    lines: Lines<R>,
    zone: Zone,
    texts: TextPool,
    open: Option<Open>,
    before: Before,
    any: bool,
    is_over: bool,
}

/// Lines that a log may insert just before the first line of a HotSpot dump. The lines that precede the dump come
/// before these.
const BEFORE_LINES: u64 = 4;

/// Facts from the lines before a HotSpot dump: `18579:`, the process, from `jcmd`; and the date.
#[derive(Debug, Default)]
struct Before {
    /// With the number of its line.
    pid: Option<(u64, Pid)>,
    date: Option<(u64, DateTime)>,
}

impl Before {
    fn line(&mut self, number: u64, line: &str) {
        if let Some(date) = thread::parse_date_line(line) {
            self.date = Some((number, date));
        } else if let Some(pid) = line.trim_end().strip_suffix(':').and_then(|digits| digits.parse().ok()) {
            self.pid = Some((number, pid));
        }
    }

    /// Takes the facts about a dump that begins at this line.
    fn take(&mut self, line: u64) -> (Pid, Option<DateTime>) {
        let earliest = line.saturating_sub(BEFORE_LINES);
        let date = self.date.take().filter(|&(at, _)| at >= earliest);
        let pid = self.pid.take().filter(|&(at, _)| at >= earliest);
        (pid.map_or(0, |(_, pid)| pid), date.map(|(_, date)| date))
    }
}

impl<R: BufRead> Dumps<R> {
    /// The dumps of this text. `zone` is the JVM's time zone: dumps have only its wall clock.
    pub fn new(reader: R, zone: Zone) -> Self {
        Self {
            lines: Lines::new(reader),
            zone,
            texts: TextPool::default(),
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
                    self.texts.begin();
                    self.open.replace(Open::new(format, line.number, self.before.take(line.number)))
                }
                None => None,
            };
            self.before.line(line.number, &text);
            if let Some(open) = &mut self.open {
                open.line(&line, &text, &mut self.texts);
            }
            if let Some(open) = ended {
                return Ok(Some(self.finish(open)));
            }
        }
    }

    fn finish(&mut self, open: Open) -> Dump {
        self.any = true;
        open.finish(&self.zone)
    }

    fn end(&mut self) -> Result<Option<Dump>, Error> {
        self.is_over = true;
        match self.open.take() {
            Some(open) => Ok(Some(self.finish(open))),
            None if self.any => Ok(None),
            None => Err(Error::NoDump { lines: self.lines.number }),
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

/// The format of a dump that begins at this line, if one does: at its first line, or where a piece of one begins.
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

// A dump of either format while it is read, with its defects. Does not find where dumps begin.

/// Limit of reported defects of one dump.
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
    /// A dump that begins at this line. The process and the date are from the lines before it.
    pub(super) fn new(format: DumpFormat, line: u64, (pid, date): (Pid, Option<DateTime>)) -> Self {
        let body = match format {
            DumpFormat::HotSpot => Body::HotSpot(HotSpot::default()),
            DumpFormat::OpenJ9 => Body::OpenJ9(Box::default()),
        };
        Self { first_line: line, last_line: line, pid, date, body, defects: Vec::new(), is_full: false }
    }

    /// Its format.
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
            Body::OpenJ9(body) => body.is_done,
        }
    }

    /// Adds a line.
    pub(super) fn line(&mut self, line: &Line<'_>, text: &str, texts: &mut TextPool) {
        if self.is_full {
            return;
        }
        self.last_line = line.number;
        let was_done = self.is_done();
        let taken = if line.is_whole || is_end(text) {
            match &mut self.body {
                Body::HotSpot(body) => body.line(text, texts),
                Body::OpenJ9(body) => body.line(text, texts),
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

    /// The dump as far as it was read. `zone` is its wall clock's.
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
        settle(&mut threads);
        let utc = Zone::utc();
        let in_zone = |(date, is_utc)| thread::in_zone(date, if is_utc { &utc } else { zone });
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

/// Whether a last line means that its dump is complete, even without a line end.
fn is_end(text: &str) -> bool {
    text.starts_with("JNI global ref") || text.starts_with("NULL ") && text.contains("END OF DUMP")
}

// Finds the owner of each lock that a thread of the same dump waits for. Does not read text.

/// Settles which locks each thread holds and who holds the lock it waits for. Needs all threads of the dump.
///
/// A dump shows a thread in `Object.wait()` as if it held the monitor that it left, in the frame that entered it.
pub(super) fn settle(threads: &mut [Thread]) {
    threads.iter_mut().for_each(settle_one);
    let owners = owners(threads);
    let found: Vec<_> = threads.iter().map(|thread| owner_of(thread, &owners)).collect();
    let named: Vec<_> = found.iter().map(|&at| threads.get(at?).map(Thread::as_holder)).collect();
    for (thread, owner) in threads.iter_mut().zip(named) {
        if let Some(wait) = thread.wait.as_mut().filter(|wait| wait.owner.is_none()) {
            wait.owner = owner;
        }
    }
}

fn settle_one(thread: &mut Thread) {
    let Some(wait) = &mut thread.wait else { return };
    // JDK 8 and OpenJ9 do not show that a notified thread now waits to re-enter.
    if wait.how == WaitKind::Notify && thread.state == ThreadState::Blocked {
        wait.how = WaitKind::Reenter;
    }
    if wait.how != WaitKind::Park {
        let address = wait.lock.address;
        thread.holds.retain(|held| held.address != address);
    }
}

/// The thread that holds the lock at an address.
/// `None` if two seem to: then the dump cannot be trusted.
fn owners(threads: &[Thread]) -> HashMap<u64, Option<usize>> {
    let mut owners = HashMap::new();
    for (at, thread) in threads.iter().enumerate() {
        for Lock { address, .. } in thread.holds.iter().filter(|held| held.address != 0) {
            let owner = owners.entry(*address).or_insert(Some(at));
            if *owner != Some(at) {
                *owner = None;
            }
        }
    }
    owners
}

fn owner_of(thread: &Thread, owners: &HashMap<u64, Option<usize>>) -> Option<usize> {
    let wait = thread.wait.as_ref().filter(|wait| wait.how != WaitKind::Notify)?;
    owners.get(&wait.lock.address).copied().flatten()
}
