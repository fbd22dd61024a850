//! `HotSpot`'s own probes (USDT) of one JVM: monitor waits, safepoints, collections.
//!
//! A separate BPF object on one process's `libjvm.so`; it neither needs nor slows [`crate::Probes`].
//!
//! [`JvmFacts::survey`] says what the process offers, [`JvmPlan::choose`] decides purely from that,
//! [`JvmProbes::attach`] attaches, [`JvmProbes::poll`] delivers monitor waits and pauses. Threads have the kernel's
//! names and the ids of the root pid namespace; Java stacks are not known.

mod decode;
mod facts;
mod hotspot;
pub(crate) mod library;
mod plan;
mod session;

pub use facts::JvmFacts;
pub use plan::{JvmHook, JvmMechanism, JvmPlan, JvmPurpose, Probe};
pub use session::{DEFAULT_MIN_WAIT, JvmLosses, JvmOptions, JvmProbes, ShortWaits};
