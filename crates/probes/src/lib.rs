//! Observes one broker in the kernel: its file operations and what delayed them, journal commits, block requests,
//! dirty-page throttling. The only crate that knows libbpf.
//!
//! [`Facts::survey`] says what this host offers, [`Plan::choose`] decides purely from that which hooks to use,
//! [`Probes::attach`] loads and attaches them, [`Probes::poll`] delivers [`Event`]s. Missing hooks are data
//! ([`State::Missing`]), and so are losses ([`Losses`]).
//!
//! Five modules are separate, each with its BPF object: [`profile`], where threads spend their time; [`jvm`], a JVM's
//! own probes; [`always_on`], a watch that can run for months; [`arrivals`], how long bytes lay in a socket; and
//! [`thread_times`], CPU times of a process's threads.
//!
//! It does not know Kafka: it reports files and bytes, not topics and batches.
//!
//! Not fuzzed: most bytes come from the kernel and from programs of this crate in it.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod always_on;
pub mod arrivals;
mod bpf;
mod decode;
pub mod error;
pub mod event;
pub mod facts;
#[doc(hidden)]
pub mod fuzzing;
mod intern;
pub mod jvm;
mod kallsyms;
pub mod losses;
pub mod overhead;
mod perf_event;
pub mod plan;
mod process_ids;
pub mod profile;
mod registry;
mod sched_batch;
mod session;
mod slice;
mod stacks;
pub mod thread_times;
mod user;

pub use error::Error;
pub use event::{BlockFile, BlockIo, Event, FileOp};
pub use facts::Facts;
pub use losses::Losses;
pub use overhead::ProgramCost;
pub use plan::{Hook, Mechanism, Plan, Purpose, State};
pub use registry::{Function, Tracepoint, TracepointField};
pub use sched_batch::set_sched_batch;
pub use session::{LoadedProbes, Options, Probes, Target};
pub use slice::{Slice, Timer};
pub use thread_times::ThreadTimes;
