//! `journal-commit`: an append waited for a commit of the file system's journal (jbd2).
//!
//! Needs: an off-CPU stack inside the journal, and a commit of the same device that overlaps the wait. The
//! exact key is the transaction: a handle that had to wait, for the whole journal or for one buffer, waited
//! for the transaction before the one it then joined (`start_this_handle`, `do_get_write_access` in
//! fs/jbd2/transaction.c: only the running and the committing transaction exist, and their numbers are
//! consecutive). An fsync waits for the transaction that its file was last changed in (`jbd2_log_wait_commit`), which
//! no hook tells: there, the device and the time remain.

use std::sync::Arc;

use model::CommitPhases;
use model::{BlockIo, Cause, Confidence, Evidence, EvidenceKind, JournalCommit, Nanos};

use super::slow_device::io_evidence;
use super::{Finding, Waits, evidence_of};
use crate::window::{DevicePast, Span, Window};

pub(crate) const ADVICE: &[&str] = &[
    "put the log dirs on XFS: its log does not stop every writer at a commit",
    "on ext4, turn on fast commits (tune2fs -O fast_commit, file system unmounted): smaller commits, shorter stalls",
    "on ext4, mount with data=writeback: a commit no longer waits for file data (after a crash, a file's newest blocks may hold old data; Kafka checks batch CRCs on recovery)",
];

/// What waits for a given transaction (fs/jbd2/journal.c), not for the one before its own.
const WAIT_OF_FSYNC: &str = "jbd2_log_wait_commit";

pub(super) fn find(window: &Window, waits: &Waits<'_>) -> Finding {
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
    Finding {
        cause: Cause::JournalCommit,
        chain: vec![Cause::JournalCommit],
        root: Arc::from(root),
        confidence,
        evidence,
        time: waits.time,
        partition: op.topic_partition.clone(),
    }
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
    Evidence {
        kind: EvidenceKind::Kernel,
        start: commit.start,
        end: commit.end,
        tid: None,
        thread: None,
        waiter: None,
        text: format!(
            "jbd2 commit {} on {} took {}{phases}",
            commit.transaction,
            commit.device,
            commit.latency()
        ),
    }
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
