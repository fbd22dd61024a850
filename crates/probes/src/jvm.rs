//! What `HotSpot`'s own probes (USDT) report of one JVM: waits for monitors, safepoints, collections. A separate BPF object
//! on one process's `libjvm.so`; it neither needs nor slows [`crate::Probes`].
//!
//! [`JvmFacts::survey`] says what the process offers, [`JvmPlan::choose`] decides purely from that, [`JvmProbes::attach`]
//! attaches, [`JvmProbes::poll`] delivers [`JvmEvent`]s. It does not know who a thread is, nor Java's stacks.

mod decode;
mod event;
mod facts;
mod hotspot;
mod library;
mod notes;
mod plan;
mod session;

pub use event::{Holder, JvmEvent, MonitorWait, Pause, PauseKind};
pub use facts::JvmFacts;
pub use plan::{JvmHook, JvmMechanism, JvmPlan, JvmPurpose, Probe};
pub use session::{DEFAULT_MIN_WAIT, JvmLosses, JvmOptions, JvmProbes, ShortWaits};
