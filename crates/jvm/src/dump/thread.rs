//! What is in a dump: its threads, what each waits for, its date, what could not be read, and the text kept of it. Does not
//! know how dumps are written.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use model::{Lock, LockHolder, LockKind, LockWait, Nanos, Pid, Tid, beginning};

use crate::TextError;

// A thread of a dump and what it waits for. Does not know how dumps are written.

/// One thread at the dump's moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// Its full name.
    pub name: Arc<str>,
    /// `java.lang.Thread.getId`; `None` for the JVM's own threads and where the dump does not say.
    pub java_id: Option<u64>,
    /// The operating system's id, as the process sees it; `None` where the dump does not say.
    pub native_id: Option<Tid>,
    /// What it does.
    pub state: ThreadState,
    /// Its methods, innermost first: `kafka.log.UnifiedLog.append`, without file and line.
    pub frames: Vec<Arc<str>>,
    /// What it waits for.
    pub wait: Option<Wait>,
    /// The locks it has, innermost first; those of `java.util.concurrent` only where the dump lists them
    /// (`jstack -l`).
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

    /// The method that wants the lock: the innermost that is not the JDK's way to wait for one. `None` without a
    /// stack.
    pub fn method(&self) -> Option<&Arc<str>> {
        self.frames.iter().find(|frame| !is_waiting_itself(frame)).or(self.frames.first())
    }

    /// The stack as [`model::LockWait::stack`] has it: outermost method first, joined by `;`.
    pub fn stack(&self) -> Arc<str> {
        let frames: Vec<&str> = self.frames.iter().rev().map(AsRef::as_ref).collect();
        frames.join(";").into()
    }

    /// It as the holder of a lock.
    pub(super) fn as_holder(&self) -> LockHolder {
        LockHolder { tid: self.native_id, thread: Arc::clone(&self.name) }
    }
}

/// The JDK's own methods between who wants a lock and the wait.
fn is_waiting_itself(method: &str) -> bool {
    ["java.util.concurrent.locks.", "jdk.internal.misc.Unsafe.", "sun.misc.Unsafe.", "java.lang.Object.wait"]
        .iter()
        .any(|own| method.starts_with(own))
}

/// What a thread does, as `java.lang.Thread.State` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadState {
    /// Not started.
    New,
    /// Runs, may run, or is in a system call.
    Runnable,
    /// Waits for a monitor.
    Blocked,
    /// Waits for another thread.
    Waiting,
    /// The same, for a limited time.
    TimedWaiting,
    /// Has ended.
    Terminated,
    /// The dump does not say.
    Unknown,
}

/// What a thread waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    /// In which way.
    pub how: WaitKind,
    /// The lock or object, its class with dots (`java.lang.Object`).
    pub lock: Lock,
    /// Who has it, where the dump says.
    pub owner: Option<LockHolder>,
}

impl Wait {
    pub(super) fn new(how: WaitKind, class: Arc<str>, address: u64) -> Self {
        let kind = if how == WaitKind::Park { LockKind::Park } else { LockKind::Monitor };
        Self { how, lock: Lock { kind, class, address }, owner: None }
    }

    /// Whether another thread's lock is what it waits for, and not work, a notification or the time.
    pub fn is_blocked(&self) -> bool {
        match self.how {
            WaitKind::Enter | WaitKind::Reenter => true,
            WaitKind::Park => self.owner.is_some() || is_lock(&self.lock.class),
            WaitKind::Notify => false,
        }
    }
}

/// A synchronizer that is a lock: threads park on latches, conditions and queues too.
fn is_lock(class: &str) -> bool {
    class.strip_prefix("java.util.concurrent.locks.").is_some_and(|name| {
        ["ReentrantLock", "ReentrantReadWriteLock", "StampedLock"]
            .iter()
            .any(|lock| name.strip_prefix(lock).is_some_and(|rest| rest.is_empty() || rest.starts_with('$')))
    })
}

/// In which way a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitKind {
    /// To enter a monitor (`synchronized`).
    Enter,
    /// To enter a monitor again that it left by `Object.wait()`.
    Reenter,
    /// Parked on a synchronizer of `java.util.concurrent`, a lock or not.
    Park,
    /// In `Object.wait()`: to be notified.
    Notify,
}

// What of a thread dump could not be read, and where. Does not know the file's name: who opened it does.

/// Why a text cannot be read as thread dumps at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading failed, or it is no text.
    #[error(transparent)]
    Text(#[from] TextError),
    /// Text without a thread dump in it.
    #[error(
        "line {lines}: no thread dump up to the end: give the output of jstack, jcmd Thread.print or kill -QUIT, or an OpenJ9 javacore"
    )]
    NoDump {
        /// How many lines it has.
        lines: u64,
    },
}

/// Something of a dump that could not be read; the rest of it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct Defect {
    /// Where, from 1.
    pub line: u64,
    /// What.
    pub kind: DefectKind,
}

/// What is wrong with a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DefectKind {
    /// The text ends, or another dump begins, before the dump's own end.
    #[error("the dump is truncated: threads may be missing")]
    Truncated,
    /// The text's last line has no end: what it says may be cut off, so it is not used.
    #[error("the last line is cut off and skipped")]
    CutLine,
    /// A line that should begin a thread and has no ids.
    #[error("a thread without ids (tid=, nid=) is skipped")]
    BrokenThread,
    /// The dump is larger than what is kept of one; the rest of it is left out.
    #[error("the dump is too large: the rest is skipped")]
    TooLarge,
}

// The date and time in a dump, which is the JVM's wall clock without its zone. Reads no clock.

/// The time zone of the JVM's wall clock.
#[derive(Clone, Debug)]
pub struct Zone(TimeZone);

impl Zone {
    /// This system's (`TZ`, `/etc/localtime`): the JVM's, if it ran here.
    pub fn system() -> Self {
        Self(TimeZone::system())
    }

    /// UTC.
    pub fn utc() -> Self {
        Self(TimeZone::UTC)
    }
}

/// A line that is a date and nothing else, which precedes each HotSpot dump: `2026-11-21 18:07:17`.
pub(super) fn alone(line: &str) -> Option<DateTime> {
    let line = line.trim_end();
    DateTime::strptime("%Y-%m-%d %H:%M:%S", line).ok().filter(|_| line.len() == 19)
}

/// Year, month, day, hour, minute, second and, where they follow, milliseconds, with any separators.
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

/// That time in this zone. Of an hour that a clock shows twice, the first.
pub(super) fn in_zone(time: DateTime, zone: &Zone) -> Option<Nanos> {
    let nanos = time.to_zoned(zone.0.clone()).ok()?.timestamp().as_nanosecond();
    i64::try_from(nanos).ok().map(Nanos)
}

/// What wrote a dump.
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
    /// What wrote it.
    pub format: DumpFormat,
    /// The line it begins at, from 1.
    pub line: u64,
    /// When it was taken, to the second (a javacore: to the millisecond); `None` where it does not say.
    pub taken: Option<Nanos>,
    /// The process; 0 where it does not say.
    pub pid: Pid,
    /// Its threads, in its order.
    pub threads: Vec<Thread>,
    /// Circles of threads that wait for each other for ever, as the JVM found them.
    pub deadlocks: u32,
    /// What of it could not be read; the first few.
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

    /// The same as events, both ends of each being the dump's time: none of a dump that does not say when it was
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

// The text kept of dumps: each name and method once, and no more than there is room for. Does not know what it
// means.

/// Names, frames and locks of one dump: 10,000 threads of 100 frames each.
const MAX_ENTRIES: usize = 1_000_000;
/// Different text in one dump. Half a million loaded methods have less.
const MAX_TEXT_BYTES: usize = 64 << 20;
/// What one name or method may have; the rest of it is left out.
const MAX_NAME_BYTES: usize = 4 << 10;

/// Hands out shared texts and counts what one dump takes.
#[derive(Debug, Default)]
pub(super) struct TextPool {
    texts: HashSet<Arc<str>>,
    text_bytes: usize,
    entries: usize,
}

impl TextPool {
    /// Another dump begins. What earlier ones had is let go where it alone would fill the room.
    pub(super) fn begin(&mut self) {
        self.entries = 0;
        if self.text_bytes > MAX_TEXT_BYTES / 2 {
            self.texts.clear();
            self.text_bytes = 0;
        }
    }

    /// The text, shared; `None` where the dump has taken all its room.
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

    use super::{Zone, alone, in_zone, parse};

    #[test]
    fn a_date_is_read_in_the_zone_it_was_written_in() {
        let time = alone("2026-11-21 18:07:17").unwrap();
        assert_eq!(in_zone(time, &Zone::utc()), Some(Nanos(1_795_284_437_000_000_000)));
        let east = Zone(TimeZone::fixed(jiff::tz::offset(1)));
        assert_eq!(in_zone(time, &east), Some(Nanos(1_795_280_837_000_000_000)));
        let javacore = parse("Date: 2021/04/23 at 18:02:44:017 (UTC)").unwrap();
        assert_eq!(in_zone(javacore, &Zone::utc()), Some(Nanos(1_619_200_964_017_000_000)));
    }

    #[test]
    fn other_lines_are_no_date() {
        for line in
            ["", "2026-11-21 18:07", "2026-11-21T18:07:17", "2026-13-21 18:07:17", "[2026-11-21 18:07:1]"]
        {
            assert_eq!(alone(line), None, "{line}");
        }
        assert_eq!(parse("99999/1/1 at 0:0:0"), None);
    }
}

#[cfg(test)]
mod text_tests {
    use super::{MAX_ENTRIES, MAX_NAME_BYTES, MAX_TEXT_BYTES, TextPool};

    #[test]
    fn text_is_shared_and_bounded() {
        let mut kept = TextPool::default();
        let (one, other) = (kept.text("kafka").unwrap(), kept.text("kafka").unwrap());
        assert!(std::sync::Arc::ptr_eq(&one, &other));
        assert_eq!(kept.text(&"ä".repeat(MAX_NAME_BYTES)).unwrap().len(), MAX_NAME_BYTES);
    }

    #[test]
    fn a_dump_that_never_ends_takes_its_room_and_the_next_has_its_own() {
        let mut kept = TextPool::default();
        for n in 0..MAX_TEXT_BYTES / MAX_NAME_BYTES {
            let text = format!("{n:0MAX_NAME_BYTES$}");
            assert!(kept.text(&text).is_some(), "{n}");
        }
        assert!(kept.text("one more").is_none());
        kept.begin();
        for _ in 0..MAX_ENTRIES {
            kept.text("same").unwrap();
        }
        assert!(kept.text("same").is_none());
    }
}
