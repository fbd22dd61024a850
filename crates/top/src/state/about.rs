//! What is known of what is watched beside its events. Looks nothing up.

use model::Nanos;
use report::Zone;
use report::explanation::Unobservable;

/// What does not change while it is shown.
#[derive(Clone, Debug)]
pub struct BrokerInfo {
    /// The broker, in a few words (`broker 1 on vm`).
    pub broker: String,
    /// From which latency on a request counts as slow.
    pub slower_than: Nanos,
    /// The zone in which times are shown.
    pub zone: Zone,
    /// Whether threads off the CPU are seen.
    pub off_cpu: bool,
    /// What cannot be seen, and why.
    pub unobservable: Vec<Unobservable>,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// A broker is watched, for so long.
    Live {
        /// How long.
        since: Nanos,
    },
    /// A recording is replayed.
    Replay {
        /// How much of it has been shown.
        at: Nanos,
        /// How long it is.
        of: Nanos,
        /// How many times as fast as it was.
        speed: f64,
        /// Whether its end was reached.
        ended: bool,
    },
}
