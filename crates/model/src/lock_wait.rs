//! A thread of the broker's JVM that waited for a lock. Does not say what the holder was doing meanwhile:
//! `diagnose` looks that up by the holder's thread.

use std::fmt;
use std::sync::Arc;

use crate::{Nanos, Pid, Tid};

/// One contended wait for a Java lock.
#[derive(Clone, Debug, PartialEq)]
pub struct LockWait {
    /// When the thread found the lock taken.
    pub start: Nanos,
    /// When it had the lock, or when its dump was taken.
    pub end: Nanos,
    /// The process; 0 where the source does not say.
    pub pid: Pid,
    /// The thread that waited.
    pub tid: Tid,
    /// Its full name.
    pub thread: Arc<str>,
    /// What it waited for.
    pub lock: Lock,
    /// Who held it, where the source says.
    pub holder: Option<LockHolder>,
    /// Java stack of the wait, outermost method first, joined by `;`; empty where none was taken.
    pub stack: Arc<str>,
    /// How it was seen.
    pub source: LockSource,
}

impl LockWait {
    /// How long it waited.
    pub fn length(&self) -> Nanos {
        self.end - self.start
    }
}

/// A lock, as far as the JVM tells locks apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lock {
    /// How it is waited for.
    pub kind: LockKind,
    /// The class of the monitor's object, or of the synchronizer that the thread was parked on
    /// (`java.util.concurrent.locks.ReentrantLock$NonfairSync`).
    pub class: Arc<str>,
    /// Tells two locks of a class apart; 0 where unknown. An address: the collector may move the object, so that
    /// one lock may have several.
    pub address: u64,
}

/// How a lock is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockKind {
    /// A monitor (`synchronized`).
    Monitor,
    /// A lock of `java.util.concurrent.locks`: the thread was parked.
    Park,
}

impl LockKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Monitor, Self::Park];

    /// The name in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Monitor => "monitor",
            Self::Park => "park",
        }
    }

    /// The one of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The thread that held a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LockHolder {
    /// The thread, where its id is known.
    pub tid: Option<Tid>,
    /// Its full name.
    pub thread: Arc<str>,
}

/// How a wait was seen, which says what its times mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockSource {
    /// Flight Recorder's `jdk.JavaMonitorEnter` or `jdk.ThreadPark`: both ends of the wait. The holder of a monitor is
    /// who had it last before the waiter, not everyone who had it during the wait.
    Jfr,
    /// `HotSpot`'s probes `monitor__contended__*`: both ends by the kernel's clock, no stack. The holder is who handed the
    /// monitor over last during the wait, where that was seen.
    Usdt,
    /// A thread dump: the thread was waiting at that moment, so both ends are the dump's time.
    ThreadDump,
}

impl LockSource {
    /// Every source.
    pub const ALL: [Self; 3] = [Self::Jfr, Self::Usdt, Self::ThreadDump];

    /// The name in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Jfr => "jfr",
            Self::Usdt => "usdt",
            Self::ThreadDump => "thread-dump",
        }
    }

    /// The one of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

impl fmt::Display for LockSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
