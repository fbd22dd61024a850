//! `memory-reclaim`: the thread had to free memory before it could have some, because the host ran short or because
//! its memory cgroup had reached its limit.
//!
//! Needs: `mm_vmscan_direct_reclaim_*` or `mm_vmscan_memcg_reclaim_*` of the same thread, which is exact within an
//! operation on a file; or an off-CPU stack in the reclaim. A shortage is one root, however many threads freed memory in it.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, Nanos, Reclaim, Tid};

use super::{Finding, Waits};
use crate::free::Free;
use crate::window::Window;

pub(super) fn find(window: &Window, waits: &Waits<'_>) -> Finding {
    let Some(reclaim) = waits.reclaim() else {
        let root = format!("memory-reclaim:unseen:{}", waits.op.start.0);
        let confidence = Confidence::Strong.min(waits.best_confidence());
        return Finding::of_waits(Cause::MemoryReclaim, root, confidence, waits);
    };
    let root = root(window, reclaim);
    Finding::of_waits(Cause::MemoryReclaim, root, waits.best_confidence(), waits).with([seen(reclaim)])
}

/// What a thread did to free memory in a stretch in which it was needed, outside its operations on files too: whatever
/// it touched. Which request it would have worked on is concluded from which it worked on then.
pub(crate) fn of_thread(
    window: &Window,
    tid: Tid,
    (start, end): (Nanos, Nanos),
    free: &mut Free,
) -> Option<Finding> {
    let mut time = Nanos::ZERO;
    let mut longest: Option<(&Reclaim, Nanos)> = None;
    for reclaim in window.trouble.reclaims(tid, start, end) {
        let taken = free.take(reclaim.start.max(start), reclaim.end.min(end));
        time += taken;
        if taken > longest.map_or(Nanos::ZERO, |(_, length)| length) {
            longest = Some((reclaim, taken));
        }
    }
    let (reclaim, _) = longest?;
    Some(Finding {
        cause: Cause::MemoryReclaim,
        chain: vec![Cause::MemoryReclaim],
        root: Arc::from(root(window, reclaim)),
        confidence: Confidence::Strong,
        evidence: vec![seen(reclaim)],
        time,
        partition: None,
    })
}

fn root(window: &Window, reclaim: &Reclaim) -> String {
    let began = window.trouble.shortage(reclaim.memcg, reclaim.start, reclaim.end).unwrap_or(reclaim.start);
    format!("memory-reclaim:{}:{}", if reclaim.memcg { "cgroup" } else { "host" }, began.0)
}

fn seen(reclaim: &Reclaim) -> Evidence {
    let why =
        if reclaim.memcg { "its memory cgroup was at its limit" } else { "the host was short of memory" };
    Evidence {
        kind: EvidenceKind::Kernel,
        start: reclaim.start,
        end: reclaim.end,
        tid: Some(reclaim.tid),
        thread: Some(Arc::clone(&reclaim.thread)),
        waiter: None,
        text: format!(
            "the thread freed {} pages itself for {}: {why}",
            reclaim.pages,
            reclaim.end - reclaim.start
        ),
    }
}
