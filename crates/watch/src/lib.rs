//! A live watch on one broker: runs the sources, brings what they see onto one clock and into one bounded
//! queue. Does not join, judge or store anything.
//!
//! Each source has a thread of its own and delivers in its own order; across sources, events are out of
//! order by as much as their batching (a few tenths of a second), which `diagnose` allows for. Nothing here
//! waits for a slow consumer: what the queue has no room for is dropped and counted. Who makes little of an event takes
//! it where it was seen, in place of the queue ([`EventSink`]).
//!
//! The broker may be restarted meanwhile: `keeper` notices, says so by events, and attaches the probes to the
//! process that takes its place.

pub mod admin;
mod clock;
mod devices;
mod files;
mod flight;
pub mod host;
mod identity;
pub mod io_uring;
mod jvm;
mod jvm_probes;
mod keeper;
mod kernel;
mod mapped;
mod memory;
mod mounts;
pub mod network;
mod packets;
mod plan;
mod privileges;
mod process;
mod queue;
mod roster;
mod samples;
mod stops;
mod thread_names;
mod topic_names;
mod watch;

pub use clock::now;
pub use flight::{Flight, FlightRecorder, Margins};
pub use host::read_host_facts;
pub use jvm::Jfr;
pub use memory::{DEFAULT_MEMORY_BYTES, MIN_MEMORY_BYTES, Memory};
pub use mounts::device_of;
pub use plan::{Outcome, Purpose};
pub use privileges::{drop_all_capabilities, drop_unneeded_capabilities};
pub use probes::set_sched_batch;
pub use process::Process;
pub use queue::EventSink;
pub use watch::{Options, Packets, Watch, WatchSummary};
