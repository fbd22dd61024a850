//! A moment in which the JVM stopped its threads. Does not say which requests it delayed.

use std::fmt;
use std::sync::Arc;

use crate::{Nanos, Pid};

/// One stop of all Java threads of a process.
#[derive(Clone, Debug, PartialEq)]
pub struct JvmPause {
    /// When it began: for a safepoint, when the JVM asked its threads to stop.
    pub start: Nanos,
    /// When threads ran again.
    pub end: Nanos,
    /// The process; 0 where the source does not say.
    pub pid: Pid,
    /// Why threads were stopped.
    pub kind: JvmPauseKind,
    /// What ran meanwhile: the collection's name (`G1New`, `Pause Young (Normal)`), or the VM operation's (`ThreadDump`);
    /// empty where unknown.
    pub operation: Arc<str>,
    /// Why that ran (`G1 Evacuation Pause`); empty where unknown.
    pub cause: Arc<str>,
    /// The collection's number in this process.
    pub gc_id: Option<u32>,
    /// The part of it in which the JVM waited until every thread had stopped (time to safepoint), where known.
    pub reach: Option<Nanos>,
}

impl JvmPause {
    /// How long threads were stopped.
    pub fn length(&self) -> Nanos {
        self.end - self.start
    }
}

/// Why threads were stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JvmPauseKind {
    /// The collector's work needs it.
    Gc,
    /// Something else: the stop is told as a whole, a collection within it too.
    Safepoint,
}

impl JvmPauseKind {
    /// Every kind.
    pub const ALL: [Self; 2] = [Self::Gc, Self::Safepoint];

    /// The name in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gc => "gc",
            Self::Safepoint => "safepoint",
        }
    }

    /// The one of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

impl fmt::Display for JvmPauseKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
