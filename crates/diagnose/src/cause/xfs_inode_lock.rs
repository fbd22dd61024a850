//! `xfs-inode-lock`: an operation waited for an XFS inode that another thread was reading or writing.
//!
//! Needs: an off-CPU stack in `xfs_ilock`, and another thread's operation on the same device and inode that was under
//! way when the wait began and took most of it. That this one had the lock is concluded from the order of things; what
//! it waited for itself is the root. Where none was seen the inode was locked all the same, and nobody is named.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, FileOp, FileOpKind, Nanos};

use super::{DEEPEST, Finding, Waits, at_depth, op_evidence};
use crate::hold::Hold;
use crate::window::{Span as _, Window};

pub(super) fn find(window: &Window, waits: &Waits<'_>, depth: usize) -> Finding {
    let op = waits.op;
    let (start, end) = waits.span();
    let Some(other) = holder(window, op, start, end) else {
        let root = format!("xfs-inode-lock:{}:{}:{}", op.device, op.inode, op.start.0);
        return Finding::of_waits(Cause::XfsInodeLock, root, Confidence::Weak, waits);
    };
    let root = format!("xfs-inode-lock:{}:{}:{}", op.device, op.inode, other.start.0);
    let own = Finding::of_waits(Cause::XfsInodeLock, root, Confidence::Strong, waits);
    let hold = Hold::without_after(window, other);
    if let Some(deeper) = (depth < DEEPEST).then(|| at_depth(window, &hold, depth + 1)).flatten() {
        return own.behind(deeper);
    }
    let seen = op_evidence(other);
    own.with([Evidence { text: format!("meanwhile {}", seen.text), ..seen }])
}

/// The operation on the same inode that took most of the wait: the one that began first where several did.
fn holder<'w>(window: &'w Window, op: &FileOp, start: Nanos, end: Nanos) -> Option<&'w Arc<FileOp>> {
    let same = |other: &&Arc<FileOp>| {
        other.tid != op.tid
            && other.inode == op.inode
            && other.device.is(&op.device)
            && takes_lock(other)
            && other.start < start
            && other.overlap(start, end).0.saturating_mul(2) > (end - start).0
    };
    let others = window.threads().flat_map(|past| past.file_ops.overlapping(start, end)).filter(same);
    others.min_by_key(|other| (other.start, other.tid))
}

/// `fs/xfs/xfs_file.c`: what goes through the page cache takes the inode's lock; a fault takes its mapping's.
fn takes_lock(op: &FileOp) -> bool {
    matches!(
        op.op,
        FileOpKind::Write
            | FileOpKind::Read
            | FileOpKind::Sendfile
            | FileOpKind::Splice
            | FileOpKind::Copy
            | FileOpKind::Truncate
            | FileOpKind::Allocate
    )
}
