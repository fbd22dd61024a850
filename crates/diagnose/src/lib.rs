//! JoinStats what was seen and says why each slow request was slow: pure functions over [`model`].
//!
//! It reads no clock and does no I/O: live and replay feed the same [`Engine`] the same events and get the
//! same verdicts, however the events are batched. It names a cause only where evidence joins; what it
//! cannot prove is `unobserved`.
//!
//! - [`Engine`] takes events roughly in order of time and decides each request once everything that could
//!   explain it has had time to arrive.
//! - `window` keeps the recent past, bounded in time and number.
//! - `appends` keeps those by what identifies their batch.
//! - `join` finds the append of a produce request's partition by an exact key.
//! - `sockets` and `followers` find the calls that moved a request's bytes and the fetches of its partitions' followers.
//! - `produced` finds whom an append was for.
//! - `samples` says when a thread was found on a CPU.
//! - `stages` divides a request's latency into stages.
//! - `hold` says how long an append held its partition's log.
//! - `lock` says which lock a thread waited for and who held it; waits for a partition's log it infers where the
//!   JVM told of none.
//! - `chain` follows a wait from holder to holder to its root.
//! - `cause` holds one file a cause: the evidence it needs and its advice.
//! - [`Reasons`] splits a file operation's time into reasons that add up to it.
//! - [`Calls`] puts commits and calls of file-system functions side by side in time.
//! - [`Locks`] tells waits for locks with their holders, [`PauseMerger`] the JVM's stops, each once.
//! - [`request_log_check`] puts Kafka's own request log beside it.
//! - `explained` asks the causes what they know of each stage of a request.
//! - [`doubts`] says what could not be decided and what would have told.
//! - [`ReadPlan`] says what of a recording verdicts can depend on; [`JoinCounter`] counts joins where the rest was not read.
//! - `ahead` divides a wait behind others of a connection among those.
//! - `alone` keeps what was found of requests that others waited behind.
//! - `blame` passes what was found on to those.
//! - `judge` puts a request's stages and causes together.
//! - [`RequestStages`] is a request with its stages, slow or not, where that is asked for.

mod ahead;
mod alone;
mod appends;
mod blame;
mod calls;
mod cause;
mod chain;
mod config;
mod engine;
mod explained;
mod focus;
mod followers;
mod free;
mod hold;
mod join;
mod judge;
mod lock;
mod locks;
mod near;
mod pending;
mod produced;
mod reasons;
pub mod request_log_check;
mod same_wait;
mod samples;
mod sockets;
mod staged;
mod stages;
mod stops;
mod summary;
mod tally;
#[cfg(test)]
mod tests;
mod unread;
mod why_not;
mod window;

pub use calls::{Call, Calls, Detail};
pub use cause::advice;
pub use config::Config;
pub use engine::Engine;
pub use focus::ReadPlan;
pub use join::{AppendJoin, JoinKey};
pub use lock::name::LockName;
pub use locks::{HolderActivity, LockRow, Locks};
pub use reasons::{Reason, Reasons};
pub use staged::RequestStages;
pub use stops::PauseMerger;
pub use summary::{CauseTotal, JoinStats, RootTotal, Summary, root_text};
pub use tally::JoinCounter;
pub use why_not::{Coverage, doubts};
