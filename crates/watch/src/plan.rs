//! Purposes of a watch, with outcomes in words. Starts nothing: see `watch.rs`.

use probes::jvm::JvmHook;
use probes::{Hook, State};

/// A purpose of a watch, and whether it is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purpose {
    /// The purpose's name.
    pub purpose: String,
    /// How it is served, or why not and what to do.
    pub outcome: Outcome,
}

/// The outcome for a purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Served, by these means.
    Active(String),
    /// Not served: why, and what to do about it.
    Missing(String),
}

pub(crate) fn recorder_outcome(records: Result<(), String>) -> Outcome {
    let how = "Flight Recorder in the JVM: waits for locks from 1 ms on, garbage collections, safepoints";
    records.map_or_else(Outcome::Missing, |()| Outcome::Active(how.to_owned()))
}

pub(crate) fn calls_outcome(recorded: Result<(), String>) -> Outcome {
    let how = "Flight Recorder in the JVM: calls of KafkaApis.handle and ControllerApis.handle from 10 ms on";
    recorded.map_or_else(Outcome::Missing, |()| Outcome::Active(how.to_owned()))
}

pub(crate) fn purpose(hook: &Hook) -> Purpose {
    Purpose { purpose: hook.purpose.as_str().to_owned(), outcome: outcome(&hook.state, hook.describe()) }
}

pub(crate) fn jvm_purpose(hook: &JvmHook) -> Purpose {
    let outcome = outcome(&hook.state, hook.describe());
    Purpose { purpose: hook.purpose.as_str().to_owned(), outcome }
}

pub(crate) fn outcome(state: &State, means: String) -> Outcome {
    match state {
        State::Use => Outcome::Active(means),
        State::Missing { why, remedy } => {
            Outcome::Missing(remedy.as_ref().map_or_else(|| why.clone(), |remedy| format!("{why}; {remedy}")))
        }
    }
}
