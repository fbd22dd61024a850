//! Journals and logs of file systems: `journal-commit`, `fast-commit`, `xfs-log-space`.
//!
//! A wait is joined with a jbd2 commit by the transaction: a handle that had to wait, for the whole journal or for one
//! buffer, waited for the transaction before the one it then joined (`start_this_handle`, `do_get_write_access` in
//! fs/jbd2/transaction.c: only the running and the committing transaction exist, and their numbers are consecutive). An
//! fsync waits for the transaction in which its file was last changed (`jbd2_log_wait_commit`), which no hook tells:
//! there, the device and the time remain.
//!
//! A fast commit is `ext4_fc_commit`: the thread's own in an fsync, another's in `jbd2_fc_begin_commit`
//! (fs/jbd2/journal.c). It raises the journal's barrier (`jbd2_journal_lock_updates`), but so do few and rare others, such
//! as a file system that is frozen: there, a call of `ext4_fc_commit` must have gone on for most of the wait.

use model::CommitPhases;
use model::{BlockIo, Cause, Confidence, Evidence, EvidenceKind, JournalCommit, KernelSpan, Nanos};

use crate::causes::candidate::{CauseCandidate, evidence_of};
use crate::causes::device::io_evidence;
use crate::causes::spec::{Area, CauseSpec, Layer, SPEC, Scope, change};
use crate::waits::OperationWaits;
use crate::window::trouble::LOG_GRANT;
use crate::window::{DevicePast, Span as _, Window};

/// Causes of this file.
pub(crate) const CAUSES: &[CauseSpec] = &[
    CauseSpec {
        cause: Cause::JournalCommit,
        event: "ext4 journal commit{s} on {place}",
        area: Area::Writes,
        needs: "an off-CPU stack inside jbd2, and a commit of the same device that overlaps the wait; exact by the transaction",
        root_evidence: &[EvidenceKind::Kernel, EvidenceKind::FileOp],
        proof: "the commit itself (journal-commits), and the transaction of the write (journal-handles)",
        advice: &[
            "put the log dirs on XFS: its log does not stop every writer at a commit",
            "on ext4, turn on fast commits (tune2fs -O fast_commit, file system unmounted): smaller commits, shorter stalls",
            "on ext4, mount with data=writeback: a commit no longer waits for file data (after a crash, a file's newest blocks may hold old data; Kafka checks batch CRCs on recovery)",
        ],
        source: "a public case (Allegro, 2024): p99.9 of produce requests from 3 s to 500 ms with fast commits and to 800 ms with \
                 data=writeback, 82 % fewer requests over 65 ms on XFS; commit=1 and commit=3 changed nothing. \
                 Documentation/filesystems/ext4/journal.rst",
        layer: Some(Layer::FileSystem),
        look_at: ", and p99.9 of produce",
        effect: "; the public case took p99.9 from 3 s to 500 ms by the first of these",
        risk: "fast commits are off by default and younger than the rest of ext4; XFS needs the log dirs moved; data=writeback may \
               leave old blocks in a file's newest part after a crash, which Kafka's recovery finds by its batches' CRCs",
        ..SPEC
    },
    CauseSpec {
        cause: Cause::FastCommit,
        event: "ext4 fast commit{s} on {place}",
        area: Area::Writes,
        needs: "an off-CPU stack in jbd2_fc_* or ext4_fc_*, or at the journal's barrier during a call of ext4_fc_commit",
        root_evidence: &[EvidenceKind::Kernel, EvidenceKind::FileOp],
        proof: "the fast commit itself (fast-commits)",
        advice: &[
            "put the log dirs on XFS: fast commits are shorter than whole ones, but writers still wait while one is under way (fs/jbd2/journal.c, jbd2_fc_begin_commit)",
        ],
        source: "fs/jbd2/journal.c, jbd2_fc_begin_commit: writers wait while a fast commit is under way. A public case (Allegro, \
                 2024): p99.9 of 500 ms with fast commits, a few hiccups a day on XFS",
        layer: Some(Layer::FileSystem),
        look_at: ", and p99.9 of produce",
        changes: &[change("file system of the log dirs", "ext4 with fast_commit", "xfs").on(
            Scope::FileSystem,
            "type",
            "xfs",
        )],
        effect: "; on XFS the public case had 82 % fewer requests over 65 ms than on ext4",
        risk: "the log dirs have to be moved, one broker at a time",
        ..SPEC
    },
    CauseSpec {
        cause: Cause::XfsLogSpace,
        event: "wait{s} for room in XFS's log on {place}",
        area: Area::Writes,
        needs: "an off-CPU stack in xlog_grant_head_*; exact with the thread's own xfs_log_grant_sleep and xfs_log_grant_wake",
        root_evidence: &[EvidenceKind::Kernel, EvidenceKind::FileOp],
        advice: &[
            "XFS's log was full, and changes waited until older ones were written back: make a larger log (mkfs.xfs -l size=…), or put it on a separate device (-l logdev=…, mount -o logdev=…)",
        ],
        source: "Documentation/filesystems/xfs/xfs-delayed-logging-design.rst: a change waits until older ones were written \
                 back. mkfs.xfs(8): -l size and logdev",
        layer: Some(Layer::FileSystem),
        changes: &[
            change("size of XFS's log (mkfs.xfs -l size=)", "not known (xfs_info says it)", "up to 2g"),
            change("place of XFS's log (-l logdev=, mount -o logdev=)", "internal", "a separate device"),
        ],
        risk: "both need a new file system; recovery after a crash reads a larger log",
        ..SPEC
    },
];

/// What waits for a given transaction (fs/jbd2/journal.c), not for the one before its own.
const WAIT_OF_FSYNC: &str = "jbd2_log_wait_commit";

pub(crate) fn journal_commit(window: &Window, waits: &OperationWaits<'_>) -> CauseCandidate {
    let op = waits.op;
    let past = window.device(&op.device);
    let (start, end) = waits.span();
    let joined = waits.journal_transaction().filter(|_| waits.function() != WAIT_OF_FSYNC);
    let best = waits.best_confidence();
    let commit = past.and_then(|past| commit_waited_for(past, joined, best, start, end));
    let mut evidence = evidence_of(waits);
    let (root, confidence) = match commit {
        Some((commit, confidence)) => {
            evidence.push(commit_evidence(commit));
            evidence.extend(past.and_then(|past| longest_io(past, start, end)).map(io_evidence));
            (format!("journal-commit:{}:{}", commit.device, commit.transaction), confidence)
        }
        // The stack alone proves a journal wait, but not which commit: the event was lost or is not hooked.
        None => (format!("journal-commit:{}:unseen:{}", op.device, op.start.0), Confidence::Weak),
    };
    CauseCandidate::new(Cause::JournalCommit, root, confidence, evidence, waits.time)
        .of_partition(op.topic_partition.clone())
}

/// The commit that a wait was for: by transaction where the handle's is known, else the one that overlaps
/// the wait longest.
fn commit_waited_for(
    past: &DevicePast,
    joined: Option<u32>,
    best: Confidence,
    start: Nanos,
    end: Nanos,
) -> Option<(&JournalCommit, Confidence)> {
    let overlapping = || past.commits.overlapping(start, end);
    let by_transaction =
        joined.and_then(|joined| overlapping().find(|commit| commit.transaction == joined.wrapping_sub(1)));
    by_transaction.map(|commit| (commit, best)).or_else(|| {
        let longest = overlapping().max_by_key(|commit| (commit.overlap(start, end), commit.transaction))?;
        Some((longest, Confidence::Strong))
    })
}

fn commit_evidence(commit: &JournalCommit) -> Evidence {
    let phases = commit.phases.and_then(|phases| longest_phase(phases, commit.latency())).unwrap_or_default();
    Evidence::new(
        EvidenceKind::Kernel,
        commit.start,
        commit.end,
        format!("jbd2 commit {} on {} took {}{phases}", commit.transaction, commit.device, commit.latency()),
    )
}

/// Phases are counted in jiffies, so a phase may come out longer than the whole.
fn longest_phase(phases: CommitPhases, whole: Nanos) -> Option<String> {
    let (length, name) =
        [(phases.locked, "locked"), (phases.flushing, "flushing"), (phases.logging, "logging")]
            .into_iter()
            .max_by_key(|&(length, _)| length)?;
    (length > Nanos::ZERO).then(|| format!(", {} of it {name}", length.min(whole)))
}

/// The block request of the same device that took the largest part of the wait: requests of the same commit
/// that came before or after it held up nobody here.
fn longest_io(past: &DevicePast, start: Nanos, end: Nanos) -> Option<&BlockIo> {
    past.ios.overlapping(start, end).max_by_key(|io| (io.overlap(start, end), io.start, io.sector))
}

const FAST_COMMIT: &str = "ext4_fc_commit";

pub(crate) fn fast_commit(window: &Window, waits: &OperationWaits<'_>) -> CauseCandidate {
    let op = waits.op;
    let (start, end) = waits.span();
    let calls = || window.trouble.spans(&op.device, FAST_COMMIT, start, end);
    let longest = || calls().max_by_key(|call| (call.overlap(start, end), call.start));
    let Some(call) = calls().find(|call| call.tid == op.tid).or_else(longest) else {
        let root = format!("fast-commit:{}:unseen:{}", op.device, op.start.0);
        return CauseCandidate::of_waits(Cause::FastCommit, root, Confidence::Weak, waits);
    };
    let joined = if call.tid == op.tid { waits.best_confidence() } else { Confidence::Strong };
    behind_fast_commit(waits, call, joined)
}

/// The fast commit that had the journal's barrier; none where it was somebody else's.
pub(crate) fn journal_barrier(window: &Window, waits: &OperationWaits<'_>) -> Option<CauseCandidate> {
    let (start, end) = waits.span();
    let most = |call: &&KernelSpan| call.overlap(start, end).0.saturating_mul(2) > (end - start).0;
    let calls = window.trouble.spans(&waits.op.device, FAST_COMMIT, start, end).filter(most);
    // Others that wanted to commit meanwhile waited for it in the same function.
    let call = calls.min_by_key(|call| call.start)?;
    Some(behind_fast_commit(waits, call, Confidence::Strong))
}

fn behind_fast_commit(waits: &OperationWaits<'_>, call: &KernelSpan, joined: Confidence) -> CauseCandidate {
    let root = format!("fast-commit:{}:{}", waits.op.device, call.start.0);
    CauseCandidate::of_waits(Cause::FastCommit, root, joined, waits).with([fast_commit_evidence(call)])
}

fn fast_commit_evidence(call: &KernelSpan) -> Evidence {
    let device = call.device.as_ref().map(|device| format!(" on {device}")).unwrap_or_default();
    Evidence::new(
        EvidenceKind::Kernel,
        call.start,
        call.end,
        format!("fast commit{device} took {}", call.latency()),
    )
    .of_thread(call.tid, &call.thread)
}

pub(crate) fn xfs_log_space(window: &Window, waits: &OperationWaits<'_>) -> CauseCandidate {
    let op = waits.op;
    let (start, end) = waits.span();
    let own = window.trouble.spans(&op.device, LOG_GRANT, start, end).find(|span| span.tid == op.tid);
    let began = window.trouble.log_full(&op.device, start, end).unwrap_or(op.start);
    let confidence = own.map_or(Confidence::Strong, |_| waits.best_confidence());
    let root = format!("xfs-log-space:{}:{}", op.device, began.0);
    let seen = own.map(|span| {
        Evidence::new(
            EvidenceKind::Kernel,
            span.start,
            span.end,
            format!("the log of the file system on {} had no room for {}", op.device, span.latency()),
        )
    });
    CauseCandidate::of_waits(Cause::XfsLogSpace, root, confidence, waits).with(seen)
}
