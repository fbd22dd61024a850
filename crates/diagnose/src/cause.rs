//! What can make an operation slow: a table of causes, each in its own file with the evidence it needs.
//! Does not look at requests: `judge` does.

mod advice;
pub(crate) mod course;
mod cpu_throttled;
mod device_load;
mod dirty_throttling;
pub(crate) mod disk_read;
mod down_conversion;
mod fast_commit;
pub(crate) mod handlers_busy;
mod index_page_fault;
mod journal_commit;
mod log_cleaner;
pub(crate) mod memory_reclaim;
pub(crate) mod network_threads_busy;
mod page_lock;
pub(crate) mod quota;
mod recompression;
pub(crate) mod replication_wait;
mod roll_fsync;
pub(crate) mod run_queue;
pub(crate) mod slow_client;
mod slow_device;
mod stable_page;
pub(crate) mod stack;
pub(crate) mod stop;
mod tier_state_io;
mod txn_verification;
pub(crate) mod waits;
mod xfs_inode_lock;
mod xfs_log_space;

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, FileOp, FileOpKind, Nanos, TopicPartition};

use crate::hold::Hold;
use crate::window::Window;
pub use advice::advice;
pub(crate) use advice::advice_on;
use stack::Wait;
use waits::Waits;

/// Why something took long, and what proves it.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// The deepest cause that is proven.
    pub(crate) cause: Cause,
    /// The way to it, nearest first; ends with `cause`.
    pub(crate) chain: Vec<Cause>,
    /// Shared by everything that the same root event slowed.
    pub(crate) root: Arc<str>,
    pub(crate) confidence: Confidence,
    /// Nearest first.
    pub(crate) evidence: Vec<Evidence>,
    /// How much time it explains.
    pub(crate) time: Nanos,
    /// The partition of the request that lost it, where it was one.
    pub(crate) partition: Option<TopicPartition>,
}

/// What else held an operation up is told where it took at least this share of what the cause took: a tenth.
const WORTH_TELLING: i64 = 10;

/// Of a thread that waits for another's operation on a file, that other is followed this far.
const DEEPEST: usize = 4;

/// Why an operation was slow, with what its thread waited for right after it where it is an append; as far as the
/// evidence says: never a guess. A cause is named that explains more than what nothing explains.
pub(crate) fn of_op(window: &Window, hold: &Hold<'_>) -> Option<Finding> {
    at_depth(window, hold, 0)
}

fn at_depth(window: &Window, hold: &Hold<'_>, depth: usize) -> Option<Finding> {
    if roll_fsync::is_one(hold.op) {
        return Some(roll_fsync::find(window, hold, depth));
    }
    if index_page_fault::is_one(hold.op) {
        return Some(index_page_fault::find(window, hold.op));
    }
    waited(window, hold, depth)
}

/// What an operation's thread waited for the longest, where that is a cause.
fn waited(window: &Window, hold: &Hold<'_>, depth: usize) -> Option<Finding> {
    let all = waits::of(window, hold);
    let mut found: Vec<(Finding, &Waits<'_>)> =
        all.iter().filter_map(|waits| Some((explained(window, waits, depth)?, waits))).collect();
    join_roots(&mut found);
    let known: Nanos = found.iter().map(|(finding, _)| finding.time).sum();
    let mut found = found.into_iter();
    let (mut first, _) = found.next().filter(|(first, _)| first.time > hold.length() - known)?;
    let worth = first.time.0 / WORTH_TELLING;
    first.evidence.extend(found.filter(|(other, _)| other.time.0 >= worth).map(|(_, waits)| waits.beside()));
    Some(first)
}

/// Waits with the same root as one, the longest first.
fn join_roots(found: &mut Vec<(Finding, &Waits<'_>)>) {
    let mut joined: Vec<(Finding, &Waits<'_>)> = Vec::new();
    for (finding, waits) in found.drain(..) {
        match joined.iter_mut().find(|(kept, _)| kept.root == finding.root) {
            Some((kept, _)) => kept.merge(finding),
            None => joined.push((finding, waits)),
        }
    }
    joined.sort_by_key(|(finding, _)| std::cmp::Reverse(finding.time));
    *found = joined;
}

/// Why a thread had to wait, where waits of that kind stand for a cause.
fn explained(window: &Window, waits: &Waits<'_>, depth: usize) -> Option<Finding> {
    if let Some(fault) = index_page_fault::behind(window, waits) {
        return Some(index_page_fault::find(window, fault).after_write(waits));
    }
    match waits.kind {
        Wait::Journal => Some(journal_commit::find(window, waits)),
        Wait::FastCommit => Some(fast_commit::find(window, waits)),
        Wait::JournalBarrier => fast_commit::find_barrier(window, waits),
        Wait::DirtyPages => Some(dirty_throttling::find(window, waits)),
        Wait::Reclaim => Some(memory_reclaim::find(window, waits)),
        Wait::StablePage => Some(stable_page::find(window, waits)),
        Wait::PageLock => Some(page_lock::find(window, waits)),
        Wait::XfsLogSpace => Some(xfs_log_space::find(window, waits)),
        Wait::XfsInodeLock => Some(xfs_inode_lock::find(window, waits, depth)),
        Wait::RunQueue => Some(run_queue::find(window, waits)),
        // A flush, a force of the log and a checkpoint wait for what the device is doing for them.
        Wait::Device | Wait::Writeback | Wait::XfsLogForce | Wait::Checkpoint => {
            slow_device::find(window, waits)
        }
        // Waits that stand for no cause: they pass for no other.
        Wait::InodeLock | Wait::BtrfsTransaction | Wait::DeviceQueue | Wait::Network | Wait::Other => None,
    }
}

/// The evidence that an operation gives of itself, whether or not its cause is known.
pub(crate) fn evidence_of_op(window: &Window, hold: &Hold<'_>) -> Vec<Evidence> {
    let waits = waits::of(window, hold);
    waits.first().map_or_else(|| vec![op_evidence(hold.op)], evidence_of)
}

/// The write, and what it or its thread waited for.
fn evidence_of(waits: &Waits<'_>) -> Vec<Evidence> {
    vec![op_evidence(waits.op), waits.evidence()]
}

fn op_evidence(op: &FileOp) -> Evidence {
    let bytes = op.bytes.map_or_else(|| "failed".to_owned(), |bytes| format!("of {bytes} bytes"));
    let text = match op.op {
        FileOpKind::Write => {
            format!("write {bytes} at offset {} of {} took {}", op.offset, op.file, op.latency())
        }
        FileOpKind::MmapFault => {
            format!("a page of {} had to be read from the device, which took {}", op.file, op.latency())
        }
        kind => format!("{} of {} took {}", kind.as_str(), op.file, op.latency()),
    };
    Evidence {
        kind: EvidenceKind::FileOp,
        start: op.start,
        end: op.end,
        tid: Some(op.tid),
        thread: Some(Arc::clone(&op.thread)),
        waiter: None,
        text,
    }
}

impl Finding {
    /// A finding about waits of an operation: the operation, the waits and what was behind them.
    fn of_waits(cause: Cause, root: String, confidence: Confidence, waits: &Waits<'_>) -> Self {
        Self {
            cause,
            chain: vec![cause],
            root: Arc::from(root),
            confidence,
            evidence: evidence_of(waits),
            time: waits.time,
            partition: waits.op.topic_partition.clone(),
        }
    }

    /// The same with what else was seen, nearest first.
    fn with(mut self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        self.evidence.extend(evidence);
        self
    }

    /// The same as one that something deeper is behind, which is the root then.
    fn behind(self, deeper: Self) -> Self {
        Self {
            cause: deeper.cause,
            chain: [self.chain, deeper.chain].concat(),
            root: deeper.root,
            confidence: self.confidence.min(deeper.confidence),
            evidence: [self.evidence, deeper.evidence].concat(),
            time: self.time,
            partition: self.partition,
        }
    }

    /// The same of what a thread waited for right after a write: joined by the order of things.
    fn after_write(mut self, waits: &Waits<'_>) -> Self {
        self.evidence.insert(0, op_evidence(waits.op));
        self.time = waits.time;
        self.confidence = self.confidence.min(waits.best_confidence());
        self.partition.clone_from(&waits.op.topic_partition);
        self
    }
}
