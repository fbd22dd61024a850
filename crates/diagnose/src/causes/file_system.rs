//! Journals and logs of file systems: `journal-commit`, `fast-commit`, `xfs-log-space`; and their freezes: `fs-frozen`.
//!
//! A wait is joined with a jbd2 commit by the transaction: a handle that had to wait, for the whole journal or for
//! one buffer, waited for the transaction before the one it then joined (`start_this_handle`, `do_get_write_access`
//! in fs/jbd2/transaction.c: only the running and the committing transaction exist, and their numbers are
//! consecutive). An fsync waits for the transaction that last changed its file (`jbd2_log_wait_commit`). No hook
//! reports that transaction, so there only device and time remain.
//!
//! A fast commit is `ext4_fc_commit`: the thread's own in an fsync, another's in `jbd2_fc_begin_commit`
//! (fs/jbd2/journal.c). It raises the journal's barrier (`jbd2_journal_lock_updates`), as do a few rare others such
//! as freezing the file system (`ext4_freeze`). So for a wait at the barrier, a freeze or a call of `ext4_fc_commit`
//! must cover most of the wait.
//!
//! A freeze stops writers from the first steps of `freeze_super` on, while dirty pages are still written back, and
//! releases them at the end of `thaw_super` (fs/super.c). A freeze that was not seen, such as that of a device
//! mapper's snapshot where functions cannot be hooked, is recognized by the writers' stacks; all its waiters are
//! released together.

use model::{
    Cause, CommitPhases, Confidence, Evidence, EvidenceKind, FileOp, JournalCommit, KernelSpan, Nanos,
    SpanSource, Waker,
};

use crate::causes::candidate::{CauseCandidate, evidence};
use crate::causes::device::io_evidence;
use crate::causes::spec::{Scope, causes, change};
use crate::kernel_stack::{self, Wait, is_named};
use crate::locks::holders::is_sync;
use crate::time::{Span, TimeSpan};
use crate::waits::{self, OperationWaits};
use crate::window::Window;
use crate::window::trouble::{LOG_GRANT, Trouble};

causes! {
    JournalCommit: Root in Writes, changed in FileSystem {
        event: "ext4 journal commit{s} on {place}",
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
        look_at: ", and p99.9 of produce",
        // In the order of `advice`. `advise` names the device and the log dir, and leaves out what is in force.
        changes: &[
            change("file system of LOG_DIR", "ext4", "xfs").on(Scope::FileSystem, "type", "xfs"),
            change("tune2fs -O fast_commit DEVICE (unmounted)", "not known; off by default", "on")
                .on(Scope::FileSystem, "features", "fast_commit")
                .alternative(),
            change("mount option of LOG_DIR", "not known; data=ordered by default", "data=writeback").on(
                Scope::FileSystem,
                "mount",
                "data=writeback",
            ),
        ],
        effect: "; the public case had 82 % fewer requests over 65 ms on XFS, and its p99.9 fell from 3 s to 500 ms with fast commits",
        risk: "fast commits are off by default and younger than the rest of ext4; XFS needs the log dirs moved; data=writeback may \
               leave old blocks in a file's newest part after a crash, which Kafka's recovery finds by its batches' CRCs",
    }

    FastCommit: Root in Writes, changed in FileSystem {
        event: "ext4 fast commit{s} on {place}",
        needs: "an off-CPU stack in jbd2_fc_* or ext4_fc_*, or at the journal's barrier during a call of ext4_fc_commit",
        root_evidence: &[EvidenceKind::Kernel, EvidenceKind::FileOp],
        proof: "the fast commit itself (fast-commits)",
        advice: &[
            "put the log dirs on XFS: fast commits are shorter than whole ones, but writers still wait while one is under way (fs/jbd2/journal.c, jbd2_fc_begin_commit)",
        ],
        source: "fs/jbd2/journal.c, jbd2_fc_begin_commit: writers wait while a fast commit is under way. A public case (Allegro, \
                 2024): p99.9 of 500 ms with fast commits, a few hiccups a day on XFS",
        look_at: ", and p99.9 of produce",
        changes: &[change("file system of the log dirs", "ext4 with fast_commit", "xfs").on(
            Scope::FileSystem,
            "type",
            "xfs",
        )],
        effect: "; on XFS the public case had 82 % fewer requests over 65 ms than on ext4",
        risk: "the log dirs have to be moved, one broker at a time",
    }

    XfsLogSpace: Root in Writes, changed in FileSystem {
        event: "wait{s} for room in XFS's log on {place}",
        needs: "an off-CPU stack in xlog_grant_head_*; exact with the thread's own xfs_log_grant_sleep and xfs_log_grant_wake",
        root_evidence: &[EvidenceKind::Kernel, EvidenceKind::FileOp],
        advice: &[
            "XFS's log was full, and changes waited until older ones were written back: make a larger log (mkfs.xfs -l size=…), or put it on a separate device (-l logdev=…, mount -o logdev=…)",
        ],
        source: "Documentation/filesystems/xfs/xfs-delayed-logging-design.rst: a change waits until older ones were written \
                 back. mkfs.xfs(8): -l size and logdev",
        changes: &[
            change("size of XFS's log (mkfs.xfs -l size=)", "not known (xfs_info shows it)", "up to 2g"),
            change("location of XFS's log (-l logdev=, mount -o logdev=)", "internal", "a separate device"),
        ],
        risk: "both need a new file system; recovery after a crash reads a larger log",
    }

    FsFrozen: Root in Writes, changed in FileSystem {
        event: "freeze{s} of the file system on {place}",
        needs: "an off-CPU stack in sb_start_write or one of its siblings; exact with a freeze of the same device that took most of the wait",
        root_evidence: &[EvidenceKind::Kernel, EvidenceKind::FileOp],
        proof: "the freeze itself (fs-freezes)",
        advice: &[
            "something froze the log dirs' file system, as a snapshot does (fsfreeze, LVM, a hypervisor's guest agent, Velero's hooks): keep it frozen only around the call that takes the snapshot, at a quiet hour, on one broker at a time",
            "snapshot the disk of a broker that leads no partitions, or take none: replication keeps what was acknowledged",
        ],
        source: "fs/super.c, freeze_super: writers wait from its first steps until thaw_super. fsfreeze(8); lvcreate(8) and \
                 qemu-guest-agent freeze a file system before they snapshot its device",
        look_at: ", and freeze_super in `brokerscope kernel`",
        changes: &[change(
            "what freezes the log dirs' file system (fsfreeze, LVM snapshots, guest agents, backup hooks)",
            "named by the evidence",
            "only around the call that takes the snapshot; one broker at a time, at a quiet hour",
        )],
        effect: "; a shorter freeze costs as much less",
        risk: "a snapshot without a freeze holds what a crash would leave: the journal is replayed, and Kafka recovers its newest segments",
    }

    NfsWait: Root in Writes, changed in FileSystem {
        event: "stretch{es} of waiting for the NFS server of {place}",
        needs: "an off-CPU stack in a function of NFS (nfs_*, nfs4_*, rpc_wait_bit_killable), or a wait for a page of a file on NFS; exact inside an operation of the request",
        root_evidence: &[EvidenceKind::OffCpu, EvidenceKind::FileOp],
        advice: &[
            "a log dir is on NFS, and its threads waited for the server: put log dirs on a local file system (XFS, ext4) or on block storage",
            "until then look at the server and the way to it: nfsiostat shows the time of each operation, and nfsstat -c retransmissions",
        ],
        source: "fs/nfs/file.c, fs/nfs/write.c: a write may have to flush what others wrote first, and an fsync waits until the server has committed. nfs(5)",
        look_at: ", and nfsiostat",
        changes: &[change("file system of the log dirs", "nfs", "xfs").on(Scope::FileSystem, "type", "xfs")],
        risk: "the log dirs have to be moved, one broker at a time",
    }
}

/// Whether a file is on NFS.
pub(crate) fn is_on_nfs(op: &FileOp) -> bool {
    matches!(&*op.fs, "nfs" | "nfs4")
}

/// The server serves all its waiters at once; nothing here shows which of them delayed which.
pub(crate) fn nfs_wait(window: &Window, waits: &OperationWaits<'_>) -> CauseCandidate {
    let since = waits::since(window, Wait::Nfs, waits.span());
    let key = format!("{}:{}", waits.op.device, since.0);
    CauseCandidate::of_waits(Cause::NfsWait, key, waits.best_confidence(), waits)
}

/// Waits for a given transaction, not for the one before the handle's own. See fs/jbd2/journal.c.
const WAIT_OF_FSYNC: &str = "jbd2_log_wait_commit";

pub(crate) fn journal_commit(window: &Window, waits: &OperationWaits<'_>) -> CauseCandidate {
    let op = waits.op;
    let Some((commit, confidence)) = commit_waited_for(window, waits) else {
        // The stack alone proves a journal wait, but not for which commit: its event was lost or is not hooked.
        let key = format!("{}:unseen:{}", op.device, op.start.0);
        return CauseCandidate::of_waits(Cause::JournalCommit, key, Confidence::Weak, waits);
    };
    // Block requests of the same commit before or after the wait delayed nobody here.
    let span = waits.span();
    let ios = window.ios.of(&op.device.number()).overlapping(span);
    let longest_io = ios.max_by_key(|io| (io.overlap(span), io.start, io.sector));
    let key = format!("{}:{}", commit.device, commit.transaction);
    CauseCandidate::of_waits(Cause::JournalCommit, key, confidence, waits)
        .with([commit_evidence(commit)])
        .with(fsync_of_another(window, commit))
        .with(longest_io.map(io_evidence))
}

/// The commit that a wait was for: by transaction if the handle's is known, else the commit that overlaps the wait
/// longest.
fn commit_waited_for<'w>(
    window: &'w Window,
    waits: &OperationWaits<'_>,
) -> Option<(&'w JournalCommit, Confidence)> {
    let span = waits.span();
    let overlapping = || window.commits.of(&waits.op.device.number()).overlapping(span);
    let joined = waits.journal_transaction().filter(|_| waits.function() != WAIT_OF_FSYNC);
    let by_transaction =
        joined.and_then(|joined| overlapping().find(|commit| commit.transaction == joined.wrapping_sub(1)));
    by_transaction.map(|commit| (commit, waits.best_confidence())).or_else(|| {
        let longest = overlapping().max_by_key(|commit| (commit.overlap(span), commit.transaction))?;
        Some((longest, Confidence::Strong))
    })
}

fn commit_evidence(commit: &JournalCommit) -> Evidence {
    let phases = commit.phases.and_then(|phases| longest_phase(phases, commit.latency())).unwrap_or_default();
    let (number, device, time) = (commit.transaction, &commit.device, commit.latency());
    evidence(EvidenceKind::Kernel, commit, format!("jbd2 commit {number} on {device} took {time}{phases}"))
}

/// Commits the journal for one caller (fs/ext4/fsync.c).
const FSYNC: &str = "ext4_sync_file";

/// Another process's fsync that began before a commit and waited for its end; the first of several.
/// `None` if the broker itself asked for the commit earlier, because then it is unknown who caused it.
fn fsync_of_another(window: &Window, commit: &JournalCommit) -> Option<Evidence> {
    let whole = commit.span();
    let waited = |span: TimeSpan| span.start <= whole.start && span.end >= whole.end;
    let calls = window.troubles.kernel_spans.of(&commit.device.number()).overlapping(whole);
    let fsyncs = calls.filter(|call| {
        &*call.function == FSYNC && call.seen_by == SpanSource::Tracepoints && waited(call.span())
    });
    let first = fsyncs.min_by_key(|call| (call.start, call.tid))?;
    let own = window.file_ops.all().flat_map(|ops| ops.overlapping(whole));
    let mut own = own.filter(|op| is_sync(op) && op.device.is(&commit.device) && waited(op.span()));
    if own.any(|op| op.start <= first.start) {
        return None;
    }
    let (thread, tid, time) = (&first.thread, first.tid, first.latency());
    let text = format!(
        "another process waited for it: an fsync by {thread} ({tid}) began before the commit and took {time}"
    );
    Some(evidence(EvidenceKind::Kernel, first, text).of_thread(tid, thread))
}

/// Describes the longest phase of a commit.
/// Phases are counted in jiffies, so a phase may come out longer than the whole commit.
fn longest_phase(phases: CommitPhases, whole: Nanos) -> Option<String> {
    let (length, name) =
        [(phases.locked, "locked"), (phases.flushing, "flushing"), (phases.logging, "logging")]
            .into_iter()
            .max_by_key(|&(length, _)| length)?;
    (length > Nanos::ZERO).then(|| format!(", {} of it {name}", length.min(whole)))
}

const FAST_COMMIT: &str = "ext4_fc_commit";

pub(crate) fn fast_commit(window: &Window, waits: &OperationWaits<'_>) -> CauseCandidate {
    let (op, span) = (waits.op, waits.span());
    let calls = || calls_of(window, waits, FAST_COMMIT);
    let longest = || calls().max_by_key(|call| (call.overlap(span), call.start));
    let Some(call) = calls().find(|call| call.tid == op.tid).or_else(longest) else {
        let key = format!("{}:unseen:{}", op.device, op.start.0);
        return CauseCandidate::of_waits(Cause::FastCommit, key, Confidence::Weak, waits);
    };
    let joined = if call.tid == op.tid { waits.best_confidence() } else { Confidence::Strong };
    behind_fast_commit(waits, call, joined)
}

/// A freeze lasts from the entry of this function to the return of the thaw.
const FREEZE: &str = "freeze_super";
/// Releases the writers.
const THAW: &str = "thaw_super*";

pub(crate) fn fs_frozen(window: &Window, waits: &OperationWaits<'_>) -> CauseCandidate {
    if let Some(freeze) = freeze_during(window, waits) {
        return behind_freeze(waits, freeze, waits.best_confidence());
    }
    let key = format!("{}:unseen:{}", waits.op.device, waits::since(window, Wait::Frozen, waits.span()).0);
    let thaws = |waker: &&Waker| kernel_stack::frames(&waker.stack).any(|frame| is_named(frame, THAW));
    let thawed = waits.released_by().filter(thaws).map(|waker| {
        let text = format!("thawed by {} ({})", waker.thread, waker.tid);
        evidence(EvidenceKind::Kernel, waits, text).of_thread(waker.tid, &waker.thread)
    });
    CauseCandidate::of_waits(Cause::FsFrozen, key, waits.strong(), waits).with(thawed)
}

/// The freeze that a wait was in.
fn freeze_during<'w>(window: &'w Window, waits: &OperationWaits<'_>) -> Option<&'w KernelSpan> {
    let span = waits.span();
    let freezes = calls_of(window, waits, FREEZE).filter(|freeze| span.is_most(freeze.overlap(span)));
    freezes.min_by_key(|freeze| freeze.start)
}

fn behind_freeze(waits: &OperationWaits<'_>, freeze: &KernelSpan, joined: Confidence) -> CauseCandidate {
    let device = &waits.op.device;
    let (thread, tid, time) = (&freeze.thread, freeze.tid, freeze.latency());
    let text = format!("the file system on {device} was frozen by {thread} ({tid}) for {time}");
    let seen = evidence(EvidenceKind::Kernel, freeze, text).of_thread(tid, thread);
    let key = format!("{device}:{}", freeze.start.0);
    CauseCandidate::of_waits(Cause::FsFrozen, key, joined, waits).with([seen])
}

/// The freeze or fast commit that held the journal's barrier; `None` if something else held it.
pub(crate) fn journal_barrier(window: &Window, waits: &OperationWaits<'_>) -> Option<CauseCandidate> {
    if let Some(freeze) = freeze_during(window, waits) {
        return Some(behind_freeze(waits, freeze, waits.strong()));
    }
    let span = waits.span();
    let calls = calls_of(window, waits, FAST_COMMIT).filter(|call| span.is_most(call.overlap(span)));
    // Others that were about to commit waited for it in the same function.
    let call = calls.min_by_key(|call| call.start)?;
    Some(behind_fast_commit(waits, call, Confidence::Strong))
}

/// Calls of a function for the same file system during a wait.
fn calls_of<'w>(
    window: &'w Window,
    waits: &OperationWaits<'_>,
    function: &'static str,
) -> impl Iterator<Item = &'w KernelSpan> + use<'w> {
    let calls = window.troubles.kernel_spans.of(&waits.op.device.number()).overlapping(waits.span());
    calls.filter(move |call| &*call.function == function)
}

fn behind_fast_commit(waits: &OperationWaits<'_>, call: &KernelSpan, joined: Confidence) -> CauseCandidate {
    let device = call.device.as_ref().map(|device| format!(" on {device}")).unwrap_or_default();
    let text = format!("fast commit{device} took {}", call.latency());
    let seen = evidence(EvidenceKind::Kernel, call, text).of_thread(call.tid, &call.thread);
    let key = format!("{}:{}", waits.op.device, call.start.0);
    CauseCandidate::of_waits(Cause::FastCommit, key, joined, waits).with([seen])
}

pub(crate) fn xfs_log_space(window: &Window, waits: &OperationWaits<'_>) -> CauseCandidate {
    let op = waits.op;
    let own = calls_of(window, waits, LOG_GRANT).find(|call| call.tid == op.tid);
    let full = Trouble::LogFull(op.device.number());
    let began = window.troubles.began(full, waits.span()).unwrap_or(op.start);
    let confidence = own.map_or(Confidence::Strong, |_| waits.best_confidence());
    let seen = own.map(|call| {
        let (device, time) = (&op.device, call.latency());
        let text = format!("XFS's log on {device} was full for {time}");
        evidence(EvidenceKind::Kernel, call, text)
    });
    let key = format!("{}:{}", op.device, began.0);
    CauseCandidate::of_waits(Cause::XfsLogSpace, key, confidence, waits).with(seen)
}
