//! `fast-commit`: an operation waited for one of ext4's fast commits.
//!
//! Needs: an off-CPU stack in `jbd2_fc_*` or `ext4_fc_*`. A call of `ext4_fc_commit` on the same device is behind it:
//! the thread's own, in an fsync, by its thread; another's, which `jbd2_fc_begin_commit` waits for
//! (fs/jbd2/journal.c), by the device and the time only.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, KernelSpan};

use super::{Finding, Waits};
use crate::window::{Span as _, Window};

const COMMIT: &str = "ext4_fc_commit";

pub(super) fn find(window: &Window, waits: &Waits<'_>) -> Finding {
    let op = waits.op;
    let (start, end) = waits.span();
    let calls = || window.trouble.spans(&op.device, COMMIT, start, end);
    let longest = || calls().max_by_key(|call| (call.overlap(start, end), call.start));
    let Some(call) = calls().find(|call| call.tid == op.tid).or_else(longest) else {
        let root = format!("fast-commit:{}:unseen:{}", op.device, op.start.0);
        return Finding::of_waits(Cause::FastCommit, root, Confidence::Weak, waits);
    };
    let joined = if call.tid == op.tid { waits.best_confidence() } else { Confidence::Strong };
    let root = format!("fast-commit:{}:{}", op.device, call.start.0);
    Finding::of_waits(Cause::FastCommit, root, joined, waits).with([seen(call)])
}

fn seen(call: &KernelSpan) -> Evidence {
    let device = call.device.as_ref().map(|device| format!(" on {device}")).unwrap_or_default();
    Evidence {
        kind: EvidenceKind::Kernel,
        start: call.start,
        end: call.end,
        tid: Some(call.tid),
        thread: Some(Arc::clone(&call.thread)),
        text: format!("fast commit{device} took {}", call.latency()),
    }
}
