//! Watches a broker for months: latency histograms of its requests, and the last records of its requests, file writes
//! and thread waits, in memory that the BPF programs overwrite and this process maps. A separate BPF object that hooks
//! no system calls and captures no packets; no record is read while no request is slow.
//!
//! [`Plan::choose`] decides purely from [`crate::Facts`], [`Session::attach`] attaches, [`Session::wait`] sleeps until
//! a request was slow, [`Session::interval`] reads what was recorded around it. It knows only this much of Kafka's
//! protocol: frames, the fixed fields of a request's header, and a Fetch's `max_wait_ms`.

mod generation;
mod histogram;
mod memory;
mod plan;
mod record;
mod ring;
mod session;

pub use generation::generation;
pub use histogram::Histogram;
pub use plan::{Hook, Mechanism, Plan, Purpose};
pub(crate) use plan::{function_names, neither, tracepoint_names};
pub use record::{Append, Connection, FileCall, Outcome, Record, Request, SlowRequest, Wait, WaitKind};
pub use ring::{Interval, MAX_CHANGE_NS};
pub use session::{Losses, Options, Session};
