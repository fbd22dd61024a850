//! `memory-reclaim`: the thread had to free memory before it could have some, because the host ran short or because
//! its memory cgroup had reached its limit.
//!
//! Needs: `mm_vmscan_direct_reclaim_*` or `mm_vmscan_memcg_reclaim_*` of the same thread, which is exact; or an off-CPU
//! stack in the reclaim. A shortage is one root, however many threads freed memory in it.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, Reclaim};

use super::{Finding, Waits};
use crate::window::Window;

pub(super) fn find(window: &Window, waits: &Waits<'_>) -> Finding {
    let (start, end) = waits.span();
    let Some(reclaim) = waits.reclaim() else {
        let root = format!("memory-reclaim:unseen:{}", waits.op.start.0);
        let confidence = Confidence::Strong.min(waits.best_confidence());
        return Finding::of_waits(Cause::MemoryReclaim, root, confidence, waits);
    };
    let began = window.trouble.shortage(reclaim.memcg, start, end).unwrap_or(reclaim.start);
    let whose = if reclaim.memcg { "cgroup" } else { "host" };
    let root = format!("memory-reclaim:{whose}:{}", began.0);
    Finding::of_waits(Cause::MemoryReclaim, root, waits.best_confidence(), waits).with([seen(reclaim)])
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
        text: format!(
            "the thread freed {} pages itself for {}: {why}",
            reclaim.pages,
            reclaim.end - reclaim.start
        ),
    }
}
