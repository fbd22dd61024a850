//! Why an operation on a file was slow, by what its thread waited for. Waits for another thread's operation
//! (`xfs-inode-lock`) and calls that wait for the device (`roll-fsync`) are followed further.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, FileKind, FileOp, FileOpKind, METADATA_TOPIC, Nanos};

use crate::causes::candidate::{CauseCandidate, evidence_of, op_evidence};
use crate::causes::spec::{Scope, broker, causes, change};
use crate::causes::{blocked, cpu, device, file_system, memory, throttles};
use crate::kernel_stack::Wait;
use crate::locks::holders::is_sync;
use crate::time::{Span, TimeSpan};
use crate::waits;
use crate::waits::{LockHold, OperationWaits};
use crate::window::Window;

causes! {
    XfsInodeLock: Link in Locks, changed in FileSystem {
        event: "XFS inode lock{s} on {place}",
        needs: "an off-CPU stack in xfs_ilock; another thread's operation on the inode that took most of the wait is the holder",
        root_evidence: &[EvidenceKind::FileOp, EvidenceKind::LockWait],
        proof: "the other thread's operation on the file (file-reads, file-transfers)",
        advice: &[
            "on XFS a writer of a file blocks its readers, and they block it: with smaller segments (log.segment.bytes) readers of old records use other files than the append",
            "keep what is read in the page cache: a reader holds the inode lock while the device reads",
        ],
        source: "fs/xfs/xfs_file.c: a buffered read takes the inode shared, a buffered write exclusively; public talks on Kafka at \
                 LINE",
        changes: &[broker("log.segment.bytes", "1073741824", "268435456").by_name(Scope::Broker)],
        effect: ": with smaller segments readers of old records use other files than the append",
        risk: "four times as many files and mapped areas: see their limits; segments roll more often",
    }

    RollFsync: Link in Locks, changed in Broker {
        event: "fsync{s} under a log lock",
        needs: "fsync, fdatasync or msync of a partition's file or a checkpoint by the thread that appends, before or after its append",
        root_evidence: &[EvidenceKind::FileOp],
        advice: &[
            "a segment's roll waited for the disk with the log locked: upgrade (since Kafka 3.7 the producers' snapshot is written without it, KAFKA-15046), or roll less often (log.segment.bytes, log.roll.ms)",
            "leave flushing to the kernel: do not set log.flush.interval.messages or log.flush.interval.ms",
        ],
        source: "KAFKA-15046 (resolved in 3.7: the producers' snapshot is written without the lock), KAFKA-9693, KAFKA-16541; \
                 Kafka's documentation: leave flushing to the kernel",
        look_at: ", and fsync in `brokerscope io --op fsync`",
        changes: &[
            change("Kafka's version", "not known", "3.7 or later"),
            broker("log.segment.bytes", "1073741824", "1073741824 or more: fewer rolls"),
            broker("log.flush.interval.messages", "9223372036854775807", "not set"),
        ],
        effect: "; fewer rolls save only the share of the rolls that no longer happen",
        risk: "an upgrade may change other behaviour; larger segments are kept longer before they may be deleted",
    }
}

/// Other waits are listed if they are at least this share of the cause's time: a tenth.
const MIN_SHARE: i64 = 10;

/// Length of a chain of threads that wait for each other's operations on a file.
const MAX_DEPTH: usize = 4;

/// Why an operation was slow.
/// For an append, includes what its thread waited for right after it. Only what the evidence shows, never a guess: a
/// cause must explain more than what remains unexplained.
pub(crate) fn of_op(window: &Window, hold: &LockHold<'_>) -> Option<CauseCandidate> {
    at_depth(window, hold, 0)
}

/// Like `of_op`. Without a cause, the kernel function in which the thread waited.
pub(crate) fn of_op_or_wait(window: &Window, hold: &LockHold<'_>) -> Option<CauseCandidate> {
    of_op(window, hold).or_else(|| {
        cause_of_longest_wait(window, hold, |waits| {
            cause_of_waits(window, waits, 0).or_else(|| blocked::of_waits(window, waits))
        })
    })
}

fn at_depth(window: &Window, hold: &LockHold<'_>, depth: usize) -> Option<CauseCandidate> {
    if is_roll_fsync(hold.op) {
        return Some(roll_fsync(window, hold, depth));
    }
    if memory::is_index_fault(hold.op) {
        return Some(memory::index_page_fault(window, hold.op));
    }
    cause_of_longest_wait(window, hold, |waits| cause_of_waits(window, waits, depth))
}

/// The cause, by `find`, of what an operation's thread waited for longest.
fn cause_of_longest_wait(
    window: &Window,
    hold: &LockHold<'_>,
    find: impl Fn(&OperationWaits<'_>) -> Option<CauseCandidate>,
) -> Option<CauseCandidate> {
    let all = waits::waits_of(window, hold);
    // Waits with the same root are one.
    let mut found: Vec<(CauseCandidate, &OperationWaits<'_>)> = Vec::new();
    for waits in &all {
        let Some(candidate) = find(waits) else { continue };
        match found.iter_mut().find(|(known, _)| known.root == candidate.root) {
            Some((known, _)) => known.merge(candidate),
            None => found.push((candidate, waits)),
        }
    }
    found.sort_by_key(|(candidate, _)| std::cmp::Reverse(candidate.time));
    let known: Nanos = found.iter().map(|(candidate, _)| candidate.time).sum();
    let mut found = found.into_iter();
    let (mut first, _) = found.next().filter(|(first, _)| first.time > hold.span().length() - known)?;
    let worth = first.time.0 / MIN_SHARE;
    first
        .evidence
        .extend(found.filter(|(other, _)| other.time.0 >= worth).map(|(_, waits)| waits.minor_evidence()));
    Some(first)
}

/// Why a thread had to wait, if this kind of wait stands for a cause.
fn cause_of_waits(window: &Window, waits: &OperationWaits<'_>, depth: usize) -> Option<CauseCandidate> {
    if let Some(fault) = memory::index_fault_after_write(window, waits) {
        return Some(memory::index_page_fault(window, fault).after_write(waits));
    }
    match waits.kind {
        Wait::Journal => Some(file_system::journal_commit(window, waits)),
        Wait::FastCommit => Some(file_system::fast_commit(window, waits)),
        Wait::Frozen => Some(file_system::fs_frozen(window, waits)),
        Wait::JournalBarrier => file_system::journal_barrier(window, waits),
        Wait::DirtyPages => Some(memory::dirty_throttling(window, waits)),
        Wait::Reclaim => Some(memory::memory_reclaim(window, waits)),
        Wait::MemoryHigh | Wait::IoThrottle => throttles::of_waits(window, waits),
        Wait::Nfs => Some(file_system::nfs_wait(window, waits)),
        Wait::StablePage => Some(memory::stable_page(window, waits)),
        Wait::XfsLogSpace => Some(file_system::xfs_log_space(window, waits)),
        Wait::XfsInodeLock => Some(xfs_inode_lock(window, waits, depth)),
        Wait::RunQueue => Some(cpu::run_queue(window, waits)),
        // Loads and stores of a mapped file call no function of NFS.
        Wait::Device | Wait::PageLock | Wait::Writeback if file_system::is_on_nfs(waits.op) => {
            Some(file_system::nfs_wait(window, waits))
        }
        Wait::PageLock => Some(memory::page_lock(window, waits)),
        // A flush, a log force and a checkpoint wait for the device's work on their behalf.
        Wait::Device | Wait::Writeback | Wait::XfsLogForce | Wait::Checkpoint => {
            device::slow_device(window, waits).or_else(|| throttles::held_back(window, waits))
        }
        // Waits that stand for no cause and must not count as another: `blocked` reports where they were. A stopped
        // thread is explained by the stop of its process.
        Wait::InodeLock
        | Wait::BtrfsTransaction
        | Wait::DeviceQueue
        | Wait::Stopped
        | Wait::Network
        | Wait::Other => None,
    }
}

/// The evidence of an operation, whether or not its cause is known.
pub(crate) fn evidence_of_op(window: &Window, hold: &LockHold<'_>) -> Vec<Evidence> {
    let waits = waits::waits_of(window, hold);
    waits.first().map_or_else(|| vec![op_evidence(hold.op)], evidence_of)
}

/// Whether an operation is an fsync under a log's lock.
fn is_roll_fsync(op: &FileOp) -> bool {
    is_sync(op) && (op.topic_partition.is_some() || op.kind == FileKind::Checkpoint)
}

/// The cause of such an fsync.
fn roll_fsync(window: &Window, hold: &LockHold<'_>, depth: usize) -> CauseCandidate {
    let op = hold.op;
    let key = format!("{}:{}", op.file, op.start.0);
    // The thread's own system call.
    let is_metadata = op.topic_partition.as_ref().is_some_and(|of| &*of.topic == METADATA_TOPIC);
    let cause = if is_metadata { Cause::MetadataFsync } else { Cause::RollFsync };
    let own = CauseCandidate::new(cause, key, Confidence::Exact, op.latency()).of_partition_of(op);
    match cause_of_longest_wait(window, hold, |waits| cause_of_waits(window, waits, depth)) {
        // Its evidence starts with the call.
        Some(deeper) => own.behind(deeper),
        None => own.with(evidence_of_op(window, hold)),
    }
}

fn xfs_inode_lock(window: &Window, waits: &OperationWaits<'_>, depth: usize) -> CauseCandidate {
    let op = waits.op;
    let other = inode_holder(window, op, waits.span());
    let since = other.map_or(op.start, |other| other.start);
    let key = format!("{}:{}:{}", op.device, op.inode, since.0);
    let confidence = if other.is_some() { Confidence::Strong } else { Confidence::Weak };
    let own = CauseCandidate::of_waits(Cause::XfsInodeLock, key, confidence, waits);
    let Some(other) = other else { return own };
    let hold = LockHold::without_after(window, other);
    if let Some(deeper) = (depth < MAX_DEPTH).then(|| at_depth(window, &hold, depth + 1)).flatten() {
        return own.behind(deeper);
    }
    let seen = op_evidence(other);
    own.with([Evidence { text: format!("meanwhile {}", seen.text), ..seen }])
}

/// The operation on the same inode that took most of the wait; the first to begin if there are several.
fn inode_holder<'w>(window: &'w Window, op: &FileOp, span: TimeSpan) -> Option<&'w Arc<FileOp>> {
    let same = |other: &&Arc<FileOp>| {
        other.tid != op.tid
            && other.inode == op.inode
            && other.device.is(&op.device)
            && takes_inode_lock(other)
            && other.start < span.start
            && span.is_most(other.overlap(span))
    };
    let others = window.file_ops.all().flat_map(|ops| ops.overlapping(span)).filter(same);
    others.min_by_key(|other| (other.start, other.tid))
}

/// `fs/xfs/xfs_file.c`: operations through the page cache take the inode's lock; a fault takes its mapping's.
fn takes_inode_lock(op: &FileOp) -> bool {
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
