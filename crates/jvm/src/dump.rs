//! Thread dumps: who was blocked on which lock at one moment, held by whom, in which method.
//!
//! HotSpot's (`jstack`, `jcmd Thread.print`, what SIGQUIT writes into a log) and OpenJ9's javacores are read alike,
//! several after one another in one text. It does not say how long anyone waited: a dump is one moment, and only
//! how many dumps of a series show a wait says something about its length.

mod blocked;
mod error;
mod header;
mod holders;
mod hotspot;
mod kept;
mod open;
mod openj9;
mod reader;
mod stamp;
#[cfg(test)]
mod tests;
mod thread;

pub use blocked::{BlockedLock, LockContention, ThreadCount, blocked};
pub use error::{Defect, DefectKind, Error};
pub use header::{ThreadHeader, thread_headers};
pub use reader::Dumps;
pub use stamp::Zone;
pub use thread::{Thread, ThreadState, Wait, WaitKind};

use std::sync::Arc;

use model::{LockWait, Nanos, Pid};

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
