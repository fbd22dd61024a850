//! Thread dumps: who was blocked on which lock at one moment, held by whom, in which method.
//!
//! HotSpot's (`jstack`, `jcmd Thread.print`, what SIGQUIT writes into a log) and OpenJ9's javacores are read alike,
//! several after one another in one text. It does not say how long anyone waited: a dump is one moment, and only
//! how many dumps of a series show a wait says something about its length. Fuzzed by: dump.

mod contention;
mod hotspot;
mod openj9;
mod reader;
#[cfg(test)]
mod tests;
mod thread;

pub use contention::{BlockedLock, LockContention, ThreadCount, blocked};
pub use hotspot::{ThreadHeader, thread_headers};
pub use reader::Dumps;
pub use thread::{Defect, DefectKind, Dump, DumpFormat, Error, Thread, ThreadState, Wait, WaitKind, Zone};
