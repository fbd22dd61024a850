//! Joins what was seen and says why each slow request was slow: pure functions over [`model`].
//!
//! It reads no clock and does no I/O: live and replay feed the same [`Engine`] the same events and get the
//! same verdicts, however the events are batched. It names a cause only where evidence joins; what it
//! cannot prove is `unobserved`.
//!
//! From the bottom up:
//! - `window` keeps the recent past, bounded in time and number; `kernel_stack` reads stacks.
//! - `waits` says what a thread waited for in an operation, `joins` finds the append of a produce request's partition,
//!   `locks` says who held a lock.
//! - `logged` says when requests of Kafka's request log really were, `stages` divides a request's latency into stages.
//! - [`causes`] holds the table of causes, and one file a concept with their finders.
//! - `analysis` puts a request's stages and causes together; [`Engine`] decides each request once everything that could
//!   explain it has had time to arrive, and [`Summary`] adds up.
//!
//! Beside verdicts: [`Reasons`] splits a file operation's time, [`Calls`] puts kernel functions side by side, [`Locks`]
//! lists lock waits with their holders, [`PauseMerger`] JVM pauses, [`doubts`] says what would have told,
//! [`request_log_check`] compares with Kafka's request log, [`ReadPlan`] says which rows of a recording verdicts can
//! depend on.

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
pub use summary::{CauseTotal, MORE_ROOTS, RequestStages, RootTotal, Summary, root_text};
pub use why_not::{Coverage, doubts, purposes};
