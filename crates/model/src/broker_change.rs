//! The coming and going of the process that is watched. Does not look for it.

use crate::{Nanos, Pid};

/// A broker's process ended or another one took its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerChange {
    /// When it was noticed.
    pub at: Nanos,
    /// The process.
    pub pid: Pid,
    /// What became of it.
    pub state: BrokerState,
}

/// What became of a broker's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BrokerState {
    /// It is watched from here on.
    Watched,
    /// It ended.
    Gone,
}

impl BrokerState {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Watched, Self::Gone];

    /// The name in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Watched => "watched",
            Self::Gone => "gone",
        }
    }

    /// The state of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}
