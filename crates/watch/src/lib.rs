//! A live watch on one broker: runs the sources, and puts their events onto one clock and into one bounded queue. Does not join,
//! diagnose or store events.
//!
//! Each source (`source`) runs in one thread and delivers in order; across sources, events are out of order by the delay of
//! their batches (a few tenths of a second), which `diagnose` allows for. Nothing here waits for a slow consumer: events that
//! do not fit into the queue are dropped and counted. A consumer that does little work per event can take events in the
//! source's thread, instead of the queue ([`EventSink`]).
//!
//! If the broker is restarted, `supervisor` notices, reports it by events, and attaches the probes to the new process.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod admin;
mod always_on;
mod clock;
mod cost;
mod cpu_samples;
mod devices;
mod escalation;
mod files;
mod flight;
mod health;
pub mod host;
mod idle;
pub mod io_uring;
mod jvm;
mod jvm_probes;
mod kernel;
mod memory;
mod mounts;
pub mod network;
mod outages;
mod packets;
mod parser;
mod partitions;
mod pause_merger;
mod plan;
mod privileges;
mod process;
mod queue;
mod request_log;
mod running;
mod source;
mod supervisor;
mod thread_names;
mod tls;
mod watch;

pub use clock::now;
pub use cost::{Cost, Costs};
pub use flight::{Flight, FlightRecorder, Margins};
pub use health::{Health, Sources};
pub use host::read_host_facts;
pub use idle::{NotIdle, set_cgroup_idle};
pub use jvm::Jfr;
pub use memory::{DEFAULT_MEMORY_BYTES, MIN_MEMORY_BYTES, Memory};
pub use mounts::device_of;
pub use outages::Outage;
#[doc(hidden)]
pub use parser::fuzzing;
pub use parser::jvm::parse_jvm;
pub use parser::packets::parse_packets;
pub use parser::request_log::parse_request_log;
pub use parser::{PARSE_JVM, PARSE_PACKETS, PARSE_REQUEST_LOG};
pub use plan::{Outcome, Purpose};
pub use privileges::{drop_all_capabilities, drop_unneeded_capabilities};
pub use probes::{Slice, set_sched_batch};
pub use process::Process;
pub use queue::EventSink;
pub use running::{RunningWatch, running_watches};
pub use source::WatchSummary;
pub use watch::{AlwaysOn, Options, Packets, TLS_ARRIVALS, Watch};
