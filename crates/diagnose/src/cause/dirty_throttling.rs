//! `dirty-throttling`: the kernel paused a writer because too many pages were dirty.
//!
//! Needs: the `writeback:balance_dirty_pages` tracepoint of the same thread inside the operation, or an
//! off-CPU stack in `balance_dirty_pages`; both together are exact. Pauses that follow each other closely are one root,
//! however many threads were paused.

use std::sync::Arc;

use model::{Cause, Confidence, DirtyThrottle, Evidence, EvidenceKind, FileOp, Nanos};

use super::{Finding, Waits, evidence_of};
use crate::window::Window;

pub(crate) const ADVICE: &[&str] = &[
    "writers are paused when dirty pages pass vm.dirty_ratio (vm.dirty_bytes): start write-back earlier with a lower vm.dirty_background_ratio, and raise vm.dirty_ratio if the device keeps up on average",
];

pub(super) fn find(window: &Window, waits: &Waits<'_>) -> Finding {
    let (start, end) = waits.span();
    let pause = longest_pause(window, waits.op, start, end);
    let best = waits.best_confidence();
    let both = pause.is_some() && !waits.was_announced_only();
    let confidence = if both { best } else { best.min(Confidence::Strong) };
    finding(window, waits.op, evidence_of(waits), pause, waits.time, confidence)
}

fn longest_pause<'w>(window: &'w Window, op: &FileOp, start: Nanos, end: Nanos) -> Option<&'w DirtyThrottle> {
    window
        .thread(op.tid)?
        .throttles
        .overlapping(start, end)
        .max_by_key(|pause| (pause.end - pause.start, pause.start))
}

fn finding(
    window: &Window,
    op: &FileOp,
    mut evidence: Vec<Evidence>,
    pause: Option<&DirtyThrottle>,
    time: Nanos,
    confidence: Confidence,
) -> Finding {
    evidence.extend(pause.map(|pause| Evidence {
        kind: EvidenceKind::Kernel,
        start: pause.start,
        end: pause.end,
        tid: Some(pause.tid),
        thread: Some(Arc::clone(&op.thread)),
        waiter: None,
        text: pause_text(pause),
    }));
    let (start, end) = pause.map_or((op.start, op.end), |pause| (pause.start, pause.end));
    let began = window.trouble.throttling(start, end).unwrap_or(op.start);
    Finding {
        cause: Cause::DirtyThrottling,
        chain: vec![Cause::DirtyThrottling],
        root: Arc::from(format!("dirty-throttling:{}:{}", op.device, began.0)),
        confidence,
        evidence,
        time,
        partition: op.topic_partition.clone(),
    }
}

/// Below the host's set point, the pause is for the device's own share or the cgroup's (mm/page-writeback.c,
/// `wb_position_ratio`).
fn pause_text(pause: &DirtyThrottle) -> String {
    let (length, dirty, limit) = (pause.end - pause.start, pause.dirty_pages, pause.limit_pages);
    let limit = if dirty < limit {
        "the device's own share, or the cgroup's, was used up".to_owned()
    } else {
        format!("the host's set point is {limit}")
    };
    format!("balance_dirty_pages paused the thread for {length}: {dirty} pages dirty, {limit}")
}
