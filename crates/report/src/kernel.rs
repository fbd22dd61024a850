//! Calls of kernel functions over time. Does not sort them: `diagnose::Calls` does.

use diagnose::{Call, Detail};
use model::{CommitPhases, JournalCommit, Nanos};

use crate::quantity::format_count_of;
use crate::rows::{Cell, Column, Report};

/// Calls of kernel functions, one row each.
/// The fields of a journal commit are null for other calls.
#[derive(Clone, Copy, Debug)]
pub struct KernelCalls;

type Col = Column<KernelCalls>;

impl Report for KernelCalls {
    type Row<'a> = Call;
    const TYPE: &'static str = "kernel";

    fn columns(&self) -> Vec<Col> {
        vec![
            Col::text("START TIME", 12, "start_ns", |call| Cell::Time(call.start)),
            Col::text("END TIME", 12, "end_ns", |call| Cell::Time(call.end)),
            Col::text("LATENCY", 7, "latency_ns", |call| Cell::WholeMillis(call.latency())),
            Col::text("FUNCTION", 31, "function", |call| (&*call.function).into()),
            Col::text("DEVICE", 0, "device", |call| call.device.as_ref().map(Cell::display).into()).wide(),
            Col::text("THREAD", 15, "thread", |call| call.thread.as_ref().map(|(_, name)| &**name).into())
                .wide(),
            Col::text("TID", 6, "tid", |call| call.thread.as_ref().map(|(tid, _)| *tid).into()).wide(),
            Col::text("FILE", 32, "file", |call| call.file.as_deref().into()).wide(),
            Col::text("SEEN_BY", 11, "seen_by", |call| call.seen_by.as_str().into()).wide(),
            Col::text("DETAIL", 0, "detail", |call| describe(&call.detail).into()).wide(),
            Col::data("transaction", |call| commit(call).map(|commit| commit.transaction).into()),
            Col::row(|call| commit(call)?.phases.as_ref()),
        ]
    }
}

fn commit(call: &Call) -> Option<&JournalCommit> {
    match &call.detail {
        Detail::Commit(commit) => Some(commit),
        _ => None,
    }
}

/// Describes the details of a call.
fn describe(detail: &Detail) -> Option<String> {
    Some(match detail {
        Detail::Nothing => return None,
        Detail::Commit(commit) => describe_commit(commit),
        Detail::Wait(name, function) if function.is_empty() => (*name).to_owned(),
        Detail::Wait(name, function) => format!("{name} in {function}"),
        Detail::Reclaim { pages, memcg } => {
            let whose = if *memcg { "the memory cgroup's limit" } else { "the host's shortage" };
            format!("freed {} for {whose}", format_count_of(*pages, "page"))
        }
    })
}

fn describe_commit(commit: &JournalCommit) -> String {
    let mut words = vec![format!("transaction {}", commit.transaction)];
    if let Some(CommitPhases { locked, flushing, logging, blocks_logged, handles, .. }) = commit.phases {
        let phases = [("locked", locked), ("flushing", flushing), ("logging", logging)];
        let phases = phases.into_iter().filter(|&(_, length)| length > Nanos::ZERO);
        words.extend(phases.map(|(name, length)| format!("{name} {length}")));
        words.push(format!("{} logged", format_count_of(blocks_logged.into(), "block")));
        words.push(format_count_of(handles.into(), "handle"));
    }
    words.join(", ")
}
