//! A call as programs read it.

use diagnose::{Call, Detail};
use model::{JournalCommit, Nanos, SpanSource};

use super::told;
use crate::fields::Fields;

/// Its fields; times are UTC nanoseconds. Those of a commit are null where it is none.
pub(super) fn fields(call: &Call) -> Fields {
    let commit = match &call.detail {
        Detail::Commit(commit) => Some(commit),
        _ => None,
    };
    let phases = commit.and_then(|commit: &JournalCommit| commit.phases);
    Fields(vec![
        ("type", "kernel".into()),
        ("start_ns", call.start.0.into()),
        ("end_ns", call.end.0.into()),
        ("latency_ns", call.latency().0.into()),
        ("function", (*call.function).into()),
        ("device", call.device.as_ref().map(ToString::to_string).into()),
        ("thread", call.thread.as_ref().map(|(_, name)| name.to_string()).into()),
        ("tid", call.thread.as_ref().map(|(tid, _)| *tid).into()),
        ("file", call.file.as_deref().into()),
        ("seen_by", call.seen_by.as_str().into()),
        ("detail", told(&call.detail).into()),
        ("transaction", commit.map(|commit| commit.transaction).into()),
        ("wait_ns", phases.map(|phases| phases.wait.0).into()),
        ("running_ns", phases.map(|phases| phases.running.0).into()),
        ("locked_ns", phases.map(|phases| phases.locked.0).into()),
        ("flushing_ns", phases.map(|phases| phases.flushing.0).into()),
        ("logging_ns", phases.map(|phases| phases.logging.0).into()),
        ("handles", phases.map(|phases| phases.handles).into()),
        ("blocks", phases.map(|phases| phases.blocks).into()),
        ("blocks_logged", phases.map(|phases| phases.blocks_logged).into()),
    ])
}

/// The fields of no call in particular, for their names.
pub(super) fn names() -> Fields {
    fields(&Call {
        start: Nanos::ZERO,
        end: Nanos::ZERO,
        function: "".into(),
        seen_by: SpanSource::Function,
        device: None,
        thread: None,
        file: None,
        detail: Detail::Nothing,
    })
}
