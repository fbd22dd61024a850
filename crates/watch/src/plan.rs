//! What a watch is for and whether that works, in words. Starts nothing: see `watch.rs`.

use probes::jvm::JvmHook;
use probes::{Hook, State};

/// Something a watch is for, and whether it works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purpose {
    /// What is to be seen.
    pub purpose: String,
    /// By which means it is seen, or why it cannot be and what to do.
    pub outcome: Outcome,
}

/// How one purpose is met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Seen, by these means.
    Active(String),
    /// Not seen: why, and what to do about it.
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

fn outcome(state: &State, means: String) -> Outcome {
    match state {
        State::Use => Outcome::Active(means),
        State::Missing { why, remedy } => {
            Outcome::Missing(remedy.as_ref().map_or_else(|| why.clone(), |remedy| format!("{why}; {remedy}")))
        }
    }
}
