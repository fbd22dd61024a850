//! Recordings of JDK Flight Recorder, read without a JVM: who waited for which lock, when the JVM stopped its
//! threads, and which calls request handlers were in for long. Does not start a recording.
//!
//! The format is that of JDK 11 and later (version 2, HotSpot's `src/hotspot/share/jfr/recorder`), which async-profiler
//! writes too. A file is a row of chunks, each of which says all that is needed to read it: `header.rs` its size and
//! clock, `metadata.rs` what its events look like, `pools.rs` what the keys in its events stand for.
//!
//! [`Recording`] reads a whole file, [`Tail`] one that is being recorded. Both read through a window, so that a file of any size takes bounded
//! memory, and take every length in it for what it is: bytes from outside. An event that cannot be read is counted and
//! passed over; where the row of events itself is broken, what was before it has been told.
//!
//! Fuzzed by: jfr, tail.
//!
//! `jdk.FileForce` is not read: the kernel's side sees every fsync of the broker, shorter ones and those of native code
//! too, with what it waited for.

mod bytes;
mod chunk;
mod constants;
mod error;
mod handler_calls;
mod header;
mod metadata;
mod pauses;
mod recording;

pub use bytes::Source;
pub use chunk::{JfrEvent, Summary};
pub use constants::Thread;
pub use error::{Error, ErrorKind};
pub(crate) use handler_calls::METHODS;
pub use header::{Clock, Header};
pub use recording::{Recording, Tail};
