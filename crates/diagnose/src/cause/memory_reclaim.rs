//! `memory-reclaim`: the thread had to free memory before it could have some, because the host ran short or because
//! its memory cgroup had reached its limit.
//!
//! Needs: `mm_vmscan_direct_reclaim_*` or `mm_vmscan_memcg_reclaim_*` of the same thread, which is exact within an
//! operation on a file; or an off-CPU stack in the reclaim. A shortage is one root, however many threads freed memory in it.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, Nanos, Reclaim, Tid};

use super::{Finding, Waits, run_queue};
use crate::free::Free;
use crate::window::Window;

/// Who freed memory for less held up nobody for long.
const LONG: Nanos = Nanos::from_millis(5);

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

/// What is left of a stretch, where other threads of the broker that serve requests freed memory for most of it: a lock that one
/// of them held, or a safepoint that one of them was late for, was seen by nobody. By the time only.
pub(crate) fn of_others(window: &Window, start: Nanos, end: Nanos, free: &mut Free) -> Option<Finding> {
    let mut rest = free.within(start, end);
    let left = rest.left();
    if left == Nanos::ZERO {
        return None;
    }
    let long = |reclaim: &&Reclaim| reclaim.end - reclaim.start >= LONG && run_queue::serves(&reclaim.thread);
    let mut longest: Option<&Reclaim> = None;
    for reclaim in window.trouble.all_reclaims(start, end).filter(long) {
        rest.take(reclaim.start, reclaim.end);
        let key = |reclaim: &Reclaim| (reclaim.end - reclaim.start, reclaim.start, reclaim.tid);
        if longest.is_none_or(|longest| key(reclaim) > key(longest)) {
            longest = Some(reclaim);
        }
    }
    let covered = left - rest.left();
    let longest = longest.filter(|_| covered.0.saturating_mul(2) > left.0)?;
    let text = format!(
        "for {covered} of {left} that nothing else explains, threads that serve requests freed memory themselves: {}",
        seen(longest).text
    );
    Some(Finding {
        cause: Cause::MemoryReclaim,
        chain: vec![Cause::MemoryReclaim],
        root: Arc::from(root(window, longest)),
        confidence: Confidence::Weak,
        evidence: vec![Evidence { text, ..seen(longest) }],
        time: free.take(start, end),
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
