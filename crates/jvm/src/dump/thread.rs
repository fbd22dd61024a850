//! The content of a dump: its threads, their waits, its date, its defects, and its texts.
//! Does not know the formats of dumps.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use model::{Lock, LockHolder, LockKind, LockWait, Nanos, Pid, Tid, beginning};

use crate::TextError;

// A thread of a dump and its wait. Does not know the formats of dumps.

/// One thread at the dump's moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// Its full name.
    pub name: Arc<str>,
    /// `java.lang.Thread.getId`; `None` for the JVM's own threads and where the dump does not say.
    pub java_id: Option<u64>,
    /// The operating system's id, as the process sees it; `None` where the dump does not say.
    pub native_id: Option<Tid>,
    /// Its state.
    pub state: ThreadState,
    /// Its methods, innermost first: `kafka.log.UnifiedLog.append`, without file and line.
    pub frames: Vec<Arc<str>>,
    /// Its wait, if it waits.
    pub wait: Option<Wait>,
    /// The locks it holds, innermost first; those of `java.util.concurrent` only if the dump lists them (`jstack -l`).
    pub holds: Vec<Lock>,
}

impl Thread {
    pub(super) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            java_id: None,
            native_id: None,
            state: ThreadState::Unknown,
            frames: Vec::new(),
            wait: None,
            holds: Vec::new(),
        }
    }

    /// The method that waits for the lock: the innermost one that is not part of the JDK's waiting.
    /// `None` without a stack.
    pub fn method(&self) -> Option<&Arc<str>> {
        self.frames.iter().find(|frame| !is_waiting_itself(frame)).or(self.frames.first())
    }

    /// The stack in the form of [`model::LockWait::stack`]: outermost method first, joined by `;`.
    pub fn stack(&self) -> Arc<str> {
        let frames: Vec<&str> = self.frames.iter().rev().map(AsRef::as_ref).collect();
        frames.join(";").into()
    }

    /// The thread as the holder of a lock.
    pub(super) fn as_holder(&self) -> LockHolder {
        LockHolder { tid: self.native_id, thread: Arc::clone(&self.name) }
    }
}

/// Whether a method is the JDK's own, between the caller of a lock and the wait.
fn is_waiting_itself(method: &str) -> bool {
    ["java.util.concurrent.locks.", "jdk.internal.misc.Unsafe.", "sun.misc.Unsafe.", "java.lang.Object.wait"]
        .iter()
        .any(|own| method.starts_with(own))
}

/// The state of a thread, as in `java.lang.Thread.State`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadState {
    /// Not started.
    New,
    /// Runs, can run, or is in a system call.
    Runnable,
    /// Waits for a monitor.
    Blocked,
    /// Waits for another thread.
    Waiting,
    /// Waits for another thread, for a limited time.
    TimedWaiting,
    /// Has ended.
    Terminated,
    /// The dump does not say.
    Unknown,
}

/// The wait of a thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    /// The kind of wait.
    pub how: WaitKind,
    /// The lock or object, its class with dots (`java.lang.Object`).
    pub lock: Lock,
    /// The thread that has it, where the dump says.
    pub owner: Option<LockHolder>,
}

impl Wait {
    pub(super) fn new(how: WaitKind, class: Arc<str>, address: u64) -> Self {
        let kind = if how == WaitKind::Park { LockKind::Park } else { LockKind::Monitor };
        Self { how, lock: Lock { kind, class, address }, owner: None }
    }

    /// Whether it waits for another thread's lock. A wait for work, a notification or a time does not count.
    pub fn is_blocked(&self) -> bool {
        match self.how {
            WaitKind::Enter | WaitKind::Reenter => true,
            WaitKind::Park => self.owner.is_some() || is_lock(&self.lock.class),
            WaitKind::Notify => false,
        }
    }
}

/// Whether a synchronizer is a lock: threads park on latches, conditions and queues too.
fn is_lock(class: &str) -> bool {
    class.strip_prefix("java.util.concurrent.locks.").is_some_and(|name| {
        ["ReentrantLock", "ReentrantReadWriteLock", "StampedLock"]
            .iter()
            .any(|lock| name.strip_prefix(lock).is_some_and(|rest| rest.is_empty() || rest.starts_with('$')))
    })
}

/// The kinds of waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitKind {
    /// To enter a monitor (`synchronized`).
    Enter,
    /// To re-enter a monitor that it left by `Object.wait()`.
    Reenter,
    /// Parked on a synchronizer of `java.util.concurrent`, a lock or not.
    Park,
    /// In `Object.wait()`: to be notified.
    Notify,
}

// Defects of a thread dump, with their line. Does not know the file's name: the caller that opened it does.

/// The reason why a text cannot be read as thread dumps at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading failed, or it is not text.
    #[error(transparent)]
    Text(#[from] TextError),
    /// Text without a thread dump in it.
    #[error(
        "line {lines}: no thread dump up to the end: give the output of jstack, jcmd Thread.print or kill -QUIT, or an OpenJ9 javacore"
    )]
    NoDump {
        /// The number of lines.
        lines: u64,
    },
}

/// A part of a dump that could not be read; the rest was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct Defect {
    /// The line, from 1.
    pub line: u64,
    /// The defect.
    pub kind: DefectKind,
}

/// The kinds of defects in a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DefectKind {
    /// The text ends, or another dump begins, before the dump's own end.
    #[error("the dump is truncated: threads may be missing")]
    Truncated,
    /// The text's last line has no end: it may be cut off, so it is not used.
    #[error("the last line is cut off and skipped")]
    CutLine,
    /// A line that should begin a thread but has no ids.
    #[error("a thread without ids (tid=, nid=) is skipped")]
    BrokenThread,
    /// The dump exceeds the memory limit; the rest of it is left out.
    #[error("the dump is too large: the rest is skipped")]
    TooLarge,
}

// The date and time in a dump: the JVM's wall clock without its zone. Does not read a clock.

/// The time zone of the JVM's wall clock.
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

impl Zone {
    /// This system's zone (`TZ`, `/etc/localtime`): the JVM's, if it ran here.
    pub fn system() -> Self {
        Self(TimeZone::system())
    }

    /// UTC.
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }
}

/// Parses a line that is only a date, which precedes each HotSpot dump: `2026-11-21 18:07:17`.
pub(super) fn parse_date_line(line: &str) -> Option<DateTime> {
    let line = line.trim_end();
    DateTime::strptime("%Y-%m-%d %H:%M:%S", line).ok().filter(|_| line.len() == 19)
}

/// Parses a date and a time of day, with any separators. The numbers are year, month, day, hour, minute, second and, if
/// they follow, milliseconds.
pub(super) fn parse(text: &str) -> Option<DateTime> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let mut next = || numbers.next()?.parse::<i16>().ok();
    let (year, month, day) = (next()?, next()?, next()?);
    let (hour, minute, second) = (next()?, next()?, next()?);
    let millis = i32::from(next().unwrap_or(0));
    let small = |number: i16| i8::try_from(number).ok();
    DateTime::new(
        year,
        small(month)?,
        small(day)?,
        small(hour)?,
        small(minute)?,
        small(second)?,
        millis.checked_mul(1_000_000)?,
    )
    .ok()
}

/// Converts a time in a zone. In an hour that the clock shows twice, takes the first.
pub(super) fn in_zone(time: DateTime, zone: &Zone) -> Option<Nanos> {
    let nanos = time.to_zoned(zone.0.clone()).ok()?.timestamp().as_nanosecond();
    i64::try_from(nanos).ok().map(Nanos)
}

/// The format of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DumpFormat {
    /// `jstack`, `jcmd Thread.print`, SIGQUIT.
    HotSpot,
    /// An OpenJ9 javacore.
    OpenJ9,
}

/// One dump: every thread of a JVM at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Dump {
    /// Its format.
    pub format: DumpFormat,
    /// Its first line, from 1.
    pub line: u64,
    /// When it was taken, to the second (a javacore: to the millisecond); `None` if it does not say.
    pub taken: Option<Nanos>,
    /// The process; 0 where it does not say.
    pub pid: Pid,
    /// Its threads, in the dump's order.
    pub threads: Vec<Thread>,
    /// Number of deadlocks that the JVM found.
    pub deadlocks: u32,
    /// The first few defects.
    pub defects: Vec<Defect>,
}

impl Dump {
    /// The threads that wait for a lock that another thread has, each with its wait.
    pub fn blocked(&self) -> impl Iterator<Item = (&Thread, &Wait)> {
        self.threads
            .iter()
            .filter_map(|thread| Some((thread, thread.wait.as_ref()?)))
            .filter(|(_, wait)| wait.is_blocked())
    }

    /// The waits as events, whose start and end are both the dump's time; empty if the dump does not say when it was
    /// taken.
    pub fn lock_waits(&self) -> Vec<LockWait> {
        let Some(taken) = self.taken else { return Vec::new() };
        let wait = |(thread, wait): (&Thread, &Wait)| LockWait {
            start: taken,
            end: taken,
            pid: self.pid,
            tid: thread.native_id.unwrap_or(0),
            thread: Arc::clone(&thread.name),
            lock: wait.lock.clone(),
            holder: wait.owner.clone(),
            stack: thread.stack(),
            source: model::LockSource::ThreadDump,
        };
        self.blocked().map(wait).collect()
    }
}

// The texts of dumps: stores each name and method once, within a limit. Does not know their meaning.

/// Limit of names, frames and locks in one dump: 10,000 threads of 100 frames each.
const MAX_ENTRIES: usize = 1_000_000;
/// Limit of distinct text in one dump. Half a million loaded methods have less.
const MAX_TEXT_BYTES: usize = 64 << 20;
/// Limit of one name or method; the rest of it is left out.
const MAX_NAME_BYTES: usize = 4 << 10;

/// Shares texts and counts what one dump takes.
#[derive(Debug, Default)]
pub(super) struct TextPool {
    texts: HashSet<Arc<str>>,
    text_bytes: usize,
    entries: usize,
}

impl TextPool {
    /// Begins another dump.
    /// Drops the texts of earlier dumps if they take more than half of the limit.
    pub(super) fn begin(&mut self) {
        self.entries = 0;
        if self.text_bytes > MAX_TEXT_BYTES / 2 {
            self.texts.clear();
            self.text_bytes = 0;
        }
    }

    /// The text, shared; `None` if the dump has reached its limit.
    pub(super) fn text(&mut self, text: &str) -> Option<Arc<str>> {
        let text = beginning(text, MAX_NAME_BYTES);
        if self.entries >= MAX_ENTRIES {
            return None;
        }
        if let Some(known) = self.texts.get(text) {
            self.entries += 1;
            return Some(Arc::clone(known));
        }
        if self.text_bytes + text.len() > MAX_TEXT_BYTES {
            return None;
        }
        let shared: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&shared));
        self.text_bytes += text.len();
        self.entries += 1;
        Some(shared)
    }
}

#[cfg(test)]
mod stamp_tests {
    use jiff::tz::TimeZone;
    use model::Nanos;

    use super::{Zone, in_zone, parse, parse_date_line};

    #[test]
    fn parses_a_date_in_its_time_zone() {
        let time = parse_date_line("2026-11-21 18:07:17").unwrap();
        assert_eq!(in_zone(time, &Zone::utc()), Some(Nanos(1_795_284_437_000_000_000)));
        let east = Zone(TimeZone::fixed(jiff::tz::offset(1)));
        assert_eq!(in_zone(time, &east), Some(Nanos(1_795_280_837_000_000_000)));
        let javacore = parse("Date: 2021/04/23 at 18:02:44:017 (UTC)").unwrap();
        assert_eq!(in_zone(javacore, &Zone::utc()), Some(Nanos(1_619_200_964_017_000_000)));
    }

    #[test]
    fn other_lines_are_not_dates() {
        for line in
            ["", "2026-11-21 18:07", "2026-11-21T18:07:17", "2026-13-21 18:07:17", "[2026-11-21 18:07:1]"]
        {
            assert_eq!(parse_date_line(line), None, "{line}");
        }
        assert_eq!(parse("99999/1/1 at 0:0:0"), None);
    }
}

#[cfg(test)]
mod text_tests {
    use super::{MAX_ENTRIES, MAX_NAME_BYTES, MAX_TEXT_BYTES, TextPool};

    #[test]
    fn equal_text_is_shared_and_long_text_is_bounded() {
        let mut pool = TextPool::default();
        let (one, other) = (pool.text("kafka").unwrap(), pool.text("kafka").unwrap());
        assert!(std::sync::Arc::ptr_eq(&one, &other));
        assert_eq!(pool.text(&"ä".repeat(MAX_NAME_BYTES)).unwrap().len(), MAX_NAME_BYTES);
    }

    #[test]
    fn text_limits_apply_to_each_dump() {
        let mut pool = TextPool::default();
        for n in 0..MAX_TEXT_BYTES / MAX_NAME_BYTES {
            let text = format!("{n:0MAX_NAME_BYTES$}");
            assert!(pool.text(&text).is_some(), "{n}");
        }
        assert!(pool.text("one more").is_none());
        pool.begin();
        for _ in 0..MAX_ENTRIES {
            pool.text("same").unwrap();
        }
        assert!(pool.text("same").is_none());
    }
}
