//! Joins recorded events and explains why each slow request was slow: pure functions over [`model`].
//!
//! It reads no clock and does no I/O: live and replay feed the same [`Engine`] the same events and get the same
//! verdicts, however the events are batched. It names a cause only where evidence joins; what it cannot prove is
//! `unobserved`.
//!
//! From the bottom up:
//! - `window` keeps the recent past, bounded in time and number; `kernel_stack` reads stacks.
//! - `waits` finds what a thread waited for in an operation, `joins` the append of a produce request's partition,
//!   `locks` the holder of a lock.
//! - `logged` corrects the times of requests of Kafka's request log, `stages` divides a request's latency into
//!   stages.
//! - [`causes`] holds the table of causes, and one file per concept with their finders.
//! - `analysis` combines a request's stages and causes; [`Engine`] decides each request once everything that may
//!   explain it has had time to arrive, and [`Summary`] adds up.
//!
//! In addition to verdicts: [`Reasons`] splits a file operation's time, [`Calls`] puts kernel functions on one time
//! axis, [`Locks`] lists lock waits with their holders, [`PauseMerger`] merges reports of JVM pauses, [`doubts`]
//! names the sources that would have shown more, [`request_log_check`] compares with Kafka's request log,
//! [`ReadPlan`] selects the rows of a recording that verdicts can depend on.

mod analysis;
pub mod causes;
mod config;
mod coordinators;
mod engine;
mod file_op_reasons;
mod handler_calls;
mod joins;
mod kernel_calls;
mod kernel_stack;
mod lock_tracker;
mod locks;
mod logged;
mod pauses;
mod read_plan;
pub mod request_log_check;
mod stages;
mod summary;
#[cfg(test)]
mod tests;
mod time;
mod waits;
mod why_not;
mod window;

pub use config::Config;
pub use engine::Engine;
pub use file_op_reasons::{Reason, Reasons};
pub use joins::{AppendJoin, JoinKey, JoinStats, counter::JoinCounter};
pub use kernel_calls::{Call, Calls, Detail};
pub use lock_tracker::{HolderActivity, LockRow, Locks};
pub use locks::names::LockName;
pub use pauses::PauseMerger;
pub use read_plan::ReadPlan;
pub use summary::{CauseTotal, LossDetail, MORE_ROOTS, RequestStages, RootTotal, Summary, root_text};
pub use why_not::{Coverage, doubts, purposes};
