//! `xfs-log-space`: a change of a file waited for room in XFS's log.
//!
//! Needs: an off-CPU stack in `xlog_grant_head_*`. The tracepoints `xfs_log_grant_sleep` and `xfs_log_grant_wake` of
//! the same thread make it exact.

use model::{Cause, Confidence, Evidence, EvidenceKind};

use super::{Finding, Waits};
use crate::window::Window;
use crate::window::trouble::LOG_GRANT;

pub(super) fn find(window: &Window, waits: &Waits<'_>) -> Finding {
    let op = waits.op;
    let (start, end) = waits.span();
    let own = window.trouble.spans(&op.device, LOG_GRANT, start, end).find(|span| span.tid == op.tid);
    let began = window.trouble.log_full(&op.device, start, end).unwrap_or(op.start);
    let confidence = own.map_or(Confidence::Strong, |_| waits.best_confidence());
    let root = format!("xfs-log-space:{}:{}", op.device, began.0);
    let seen = own.map(|span| Evidence {
        kind: EvidenceKind::Kernel,
        start: span.start,
        end: span.end,
        tid: None,
        thread: None,
        waiter: None,
        text: format!("the log of the file system on {} had no room for {}", op.device, span.latency()),
    });
    Finding::of_waits(Cause::XfsLogSpace, root, confidence, waits).with(seen)
}
