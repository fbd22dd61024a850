//! Reads recordings of JDK Flight Recorder without a JVM: waits for locks, pauses of the JVM, and long calls of request
//! handlers. Does not start a recording.
//!
//! The format is that of JDK 11 and later (version 2, HotSpot's `src/hotspot/share/jfr/recorder`), which async-profiler
//! writes too. A file is a sequence of chunks. Each has everything that is needed to read it: its size and clock
//! (`header.rs`), the layout of its events (`metadata.rs`), and the values of the keys in its events (`constants.rs`).
//!
//! [`Recording`] reads a complete file, [`Tail`] one that is still being recorded. Both read through a window, so that
//! a file of any size takes bounded memory, and do not trust any length in it. An event that cannot be read is counted
//! and skipped; if the sequence of events itself is broken, the events before that have been reported.
//!
//! Fuzzed by: jfr, tail.
//!
//! `jdk.FileForce` is not read: the kernel's side sees every fsync of the broker, including shorter ones and those of
//! native code, and what it waited for.

mod bytes;
mod chunk;
mod constants;
mod error;
mod folder;
mod handler_calls;
mod header;
mod metadata;
mod pauses;
mod recording;

pub use bytes::Source;
pub use chunk::{JfrEvent, Summary};
pub use constants::Thread;
pub use error::{Error, ErrorKind};
pub use folder::ChunkFolder;
pub(crate) use handler_calls::METHODS;
pub use header::{Clock, Header};
pub use recording::{Recording, Tail};
