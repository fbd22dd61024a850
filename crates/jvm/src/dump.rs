//! Thread dumps: which thread was blocked on which lock at one moment, which thread held it, and in which method.
//!
//! Reads HotSpot's (`jstack`, `jcmd Thread.print`, the output of SIGQUIT in a log) and OpenJ9's javacores alike, several
//! after one another in one text. Does not say how long a thread waited: a dump is one moment, and only
//! how many dumps of a series show a wait says something about its length. Fuzzed by: dump.

mod contention;
mod hotspot;
mod openj9;
mod reader;
#[cfg(test)]
mod tests;
mod thread;

pub use contention::{BlockedLock, LockContention, ThreadCount, lock_contention};
pub use hotspot::{ThreadHeader, thread_headers};
pub use reader::Dumps;
pub use thread::{Defect, DefectKind, Dump, DumpFormat, Error, Thread, ThreadState, Wait, WaitKind, Zone};
