//! `fast-commit`: an operation waited for one of ext4's fast commits.
//!
//! Needs: an off-CPU stack in `jbd2_fc_*` or `ext4_fc_*`. A call of `ext4_fc_commit` on the same device is behind it:
//! the thread's own, in an fsync, by its thread; another's, which `jbd2_fc_begin_commit` waits for
//! (fs/jbd2/journal.c), by the device and the time only.
//!
//! Or a wait in `start_this_handle` for the journal's barrier. A fast commit raises it (`jbd2_journal_lock_updates`, called by
//! `jbd2_fc_begin_commit` and since Linux 6.16 by `ext4_fc_perform_commit`), but so do few and rare others, a file system
//! that is frozen for one: a call of `ext4_fc_commit` on the same device must have gone on for most of the wait.

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
    behind(waits, call, joined)
}

/// The fast commit that had the journal's barrier; none where it was somebody else's.
pub(super) fn find_barrier(window: &Window, waits: &Waits<'_>) -> Option<Finding> {
    let (start, end) = waits.span();
    let most = |call: &&KernelSpan| call.overlap(start, end).0.saturating_mul(2) > (end - start).0;
    let calls = window.trouble.spans(&waits.op.device, COMMIT, start, end).filter(most);
    // Others that wanted to commit meanwhile waited for it in the same function.
    let call = calls.min_by_key(|call| call.start)?;
    Some(behind(waits, call, Confidence::Strong))
}

fn behind(waits: &Waits<'_>, call: &KernelSpan, joined: Confidence) -> Finding {
    let root = format!("fast-commit:{}:{}", waits.op.device, call.start.0);
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
        waiter: None,
        text: format!("fast commit{device} took {}", call.latency()),
    }
}
