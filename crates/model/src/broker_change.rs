//! The coming and going of the process that is watched. Does not look for it.

use crate::{Nanos, Pid};

row! {
    broker_change_row =>
    /// A broker's process ended or another one took its place.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct BrokerChange {
        /// When it was noticed.
        at: Nanos as "at_ns",
        /// The process.
        pid: Pid,
        /// What became of it.
        state: BrokerState,
    }
}

named! {
    /// What became of a broker's process.
    pub enum BrokerState {
        /// It is watched from here on.
        Watched = "watched",
        /// It ended.
        Gone = "gone",
    }
}
