//! Pages and memory: `memory-reclaim`, `dirty-throttling`, `page-lock`, `stable-page`, `index-page-fault`.
//!
//! Which page a thread waited for no hook tells, so `page-lock` (`__folio_lock`, mm/filemap.c) and `stable-page`
//! (`folio_wait_stable`, mm/page-writeback.c) are never exact. Write-back is known by the stack of the thread that
//! released the page; where that thread had a write at the device for most of the wait, the device is the root. So it is
//! behind a fault on a mapped index (KAFKA-4614, KAFKA-6432) whose page the device was slow to read.

use std::sync::Arc;

use model::{
    BlockIo, Cause, Confidence, Direction, DirtyThrottle, Evidence, EvidenceKind, FileKind, FileOp,
    FileOpKind, Nanos, Reclaim, Tid, Waker,
};

use crate::causes::candidate::{CauseCandidate, evidence_of, op_evidence};
use crate::causes::device::{covering_io, io_evidence};
use crate::causes::spec::{
    Area, CauseSpec, Current, DEVICE_HAS_TIME, Layer, Role, SPEC, change, change_from,
};
use crate::causes::{cpu, device};
use crate::kernel_stack;
use crate::time_budget::TimeBudget;
use crate::waits::{OperationWaits, Part};
use crate::window::{Span as _, Window};

/// Causes of this file.
pub(crate) const CAUSES: &[CauseSpec] = &[
    CauseSpec {
        cause: Cause::DirtyThrottling,
        event: "stretch{es} of dirty-page throttling on {place}",
        area: Area::Writes,
        needs: "balance_dirty_pages of the same thread, as a tracepoint or an off-CPU stack; both together are exact",
        root_evidence: &[EvidenceKind::Kernel, EvidenceKind::FileOp],
        advice: &[
            "writers are paused when dirty pages pass vm.dirty_ratio (vm.dirty_bytes): start write-back earlier with a lower vm.dirty_background_ratio, and raise vm.dirty_ratio if the device keeps up on average",
        ],
        source: "Documentation/admin-guide/sysctl/vm.rst; Kafka's documentation, operations: understanding Linux flush behaviour",
        layer: Some(Layer::Os),
        condition: DEVICE_HAS_TIME,
        look_at: ", and dirty_bytes against dirty_limit_bytes in host_samples/",
        effect: "; the device keeps up on average, so room for what comes at once is what was lacking",
        risk: "more memory may be dirty when the host crashes: replicas hold it; a cgroup with a memory limit has its own share \
               of these",
        ..SPEC
    },
    CauseSpec {
        cause: Cause::StablePage,
        event: "page{s} under writeback on {place}",
        area: Area::Writes,
        needs: "an off-CPU stack in folio_wait_stable, or in folio_wait_writeback where a write begins; never exact",
        root_evidence: &[EvidenceKind::FileOp],
        advice: &[
            "a page could not be changed while it was on its way to the device: a device that needs no stable pages (/sys/block/DEVICE/queue/stable_writes is 0: no checksum or parity is computed of them), or XFS",
        ],
        source: "Documentation/ABI/stable/sysfs-block: queue/stable_writes is 1 where checksums or parity are computed of the pages",
        layer: Some(Layer::FileSystem),
        changes: &[change(
            "device of the log dirs (/sys/block/DEVICE/queue/stable_writes)",
            "1",
            "0: one without checksums or parity in software",
        )],
        risk: "what checked the data is gone: Kafka keeps a CRC of each batch",
        ..SPEC
    },
    CauseSpec {
        cause: Cause::PageLock,
        event: "locked page{s} on {place}",
        area: Area::Writes,
        needs: "an off-CPU stack in __folio_lock; a block read of the same file, or the thread that wrote the page back; never exact",
        root_evidence: &[EvidenceKind::FileOp, EvidenceKind::LockWait],
        advice: &[
            "a page is locked while it is read from the device, and other threads that want it wait: fewer consumers that read the same old segment at once, or more memory for the page cache",
            "where write-back has it (a kworker is named): the device's queue was full of what is written back at once; see how busy the device is, and write back less at a time (vm.dirty_background_bytes lower)",
        ],
        source: "mm/filemap.c, folio_lock: a page is locked while it is read or written; public talks on Kafka at LINE",
        layer: Some(Layer::FileSystem),
        changes: &[
            change_from(
                "vm.dirty_background_ratio",
                Current::Kernel("vm.dirty_background_ratio"),
                "half of that",
            ),
            change("consumer_byte_rate (quota of consumers that read old segments)", "not known", "a bound"),
        ],
        effect: "; the first where write-back had the page, the second where readers had it",
        risk: "consumers that catch up take longer",
        ..SPEC
    },
    CauseSpec {
        cause: Cause::MemoryReclaim,
        event: "stretch{es} of memory reclaim",
        area: Area::Writes,
        needs: "mm_vmscan_direct_reclaim_* or mm_vmscan_memcg_reclaim_* of the thread, or an off-CPU stack in the reclaim",
        root_evidence: &[EvidenceKind::Kernel, EvidenceKind::OffCpu, EvidenceKind::FileOp],
        advice: &[
            "the broker's threads had to free memory themselves: raise vm.min_free_kbytes, so that the kernel begins earlier in the background (Documentation/admin-guide/sysctl/vm.rst)",
            "where a cgroup's limit asked for it, raise the limit or make the heap smaller: the page cache of what the broker writes is charged to it (Documentation/admin-guide/cgroup-v2.rst)",
        ],
        source: "Documentation/admin-guide/sysctl/vm.rst, min_free_kbytes; Documentation/admin-guide/cgroup-v2.rst: the page cache \
                 of what the broker writes is charged to its cgroup",
        layer: Some(Layer::Os),
        look_at: ", and direct_reclaim_pages_per_second in host_samples/",
        changes: &[
            change_from("vm.min_free_kbytes", Current::Kernel("vm.min_free_kbytes"), "twice that"),
            change_from(
                "memory.max of the broker's cgroup, where it has one",
                Current::MemoryLimit,
                "more, or none",
            ),
        ],
        effect: "; the first where the host ran short, the second where the cgroup did",
        risk: "memory kept free is not page cache; set far too high, min_free_kbytes makes the host run out of memory at once",
        ..SPEC
    },
    CauseSpec {
        cause: Cause::IndexPageFault,
        event: "page fault{s} on an index",
        area: Area::Locks,
        role: Role::Link,
        needs: "a major fault of the thread on a mapped .index, .timeindex or .txnindex",
        root_evidence: &[EvidenceKind::FileOp],
        advice: &[
            "an index was not in memory: leave more of it to the page cache (a smaller heap, fewer partitions on this broker), and upgrade (lookups touch fewer pages since Kafka 2.1, KAFKA-6432)",
        ],
        source: "KAFKA-6432, KAFKA-4614, KAFKA-19390: what later releases do about it",
        layer: Some(Layer::Broker),
        changes: &[
            change("Kafka's version", "not known", "one in which KAFKA-19390 is resolved"),
            change(
                "memory left to the page cache",
                "not known",
                "more: a smaller heap, or fewer consumers that read old segments",
            ),
        ],
        risk: "that of an upgrade",
        ..SPEC
    },
];

/// Who freed memory for less held up nobody for long.
const MIN_RECLAIM: Nanos = Nanos::from_millis(5);

pub(crate) fn memory_reclaim(window: &Window, waits: &OperationWaits<'_>) -> CauseCandidate {
    let Some(reclaim) = waits.reclaim() else {
        let root = format!("memory-reclaim:unseen:{}", waits.op.start.0);
        let confidence = Confidence::Strong.min(waits.best_confidence());
        return CauseCandidate::of_waits(Cause::MemoryReclaim, root, confidence, waits);
    };
    let root = reclaim_root(window, reclaim);
    CauseCandidate::of_waits(Cause::MemoryReclaim, root, waits.best_confidence(), waits)
        .with([reclaim_evidence(reclaim)])
}

/// What a thread did to free memory in a stretch in which it was needed, outside its operations on files too. Which request it would have worked on is concluded from which it worked on then.
pub(crate) fn reclaim_of_thread(
    window: &Window,
    tid: Tid,
    (start, end): (Nanos, Nanos),
    free: &mut TimeBudget,
) -> Option<CauseCandidate> {
    let mut time = Nanos::ZERO;
    let mut longest: Option<(&Reclaim, Nanos)> = None;
    for reclaim in window.trouble.reclaims(tid, start, end) {
        let taken = free.take(reclaim.start.max(start), reclaim.end.min(end));
        time += taken;
        if taken > longest.map_or(Nanos::ZERO, |(_, length)| length) {
            longest = Some((reclaim, taken));
        }
    }
    let (reclaim, _) = longest?;
    Some(CauseCandidate::new(
        Cause::MemoryReclaim,
        reclaim_root(window, reclaim),
        Confidence::Strong,
        vec![reclaim_evidence(reclaim)],
        time,
    ))
}

/// What is left of a stretch, where other threads of the broker that serve requests freed memory for most of it: a lock that one
/// of them held, or a safepoint that one of them was late for, was seen by nobody. By the time only.
pub(crate) fn reclaim_of_others(
    window: &Window,
    start: Nanos,
    end: Nanos,
    free: &mut TimeBudget,
) -> Option<CauseCandidate> {
    let mut rest = free.within(start, end);
    let left = rest.left();
    if left == Nanos::ZERO {
        return None;
    }
    let long =
        |reclaim: &&Reclaim| reclaim.end - reclaim.start >= MIN_RECLAIM && cpu::serves(&reclaim.thread);
    let mut longest: Option<&Reclaim> = None;
    for reclaim in window.trouble.all_reclaims(start, end).filter(long) {
        rest.take(reclaim.start, reclaim.end);
        let key = |reclaim: &Reclaim| (reclaim.end - reclaim.start, reclaim.start, reclaim.tid);
        if longest.is_none_or(|longest| key(reclaim) > key(longest)) {
            longest = Some(reclaim);
        }
    }
    let covered = left - rest.left();
    let longest = longest.filter(|_| covered.0.saturating_mul(2) > left.0)?;
    let text = format!(
        "for {covered} of {left} that nothing else explains, threads that serve requests freed memory themselves: {}",
        reclaim_evidence(longest).text
    );
    Some(CauseCandidate::new(
        Cause::MemoryReclaim,
        reclaim_root(window, longest),
        Confidence::Weak,
        vec![Evidence { text, ..reclaim_evidence(longest) }],
        free.take(start, end),
    ))
}

fn reclaim_root(window: &Window, reclaim: &Reclaim) -> String {
    let began = window.trouble.shortage(reclaim.memcg, reclaim.start, reclaim.end).unwrap_or(reclaim.start);
    format!("memory-reclaim:{}:{}", if reclaim.memcg { "cgroup" } else { "host" }, began.0)
}

fn reclaim_evidence(reclaim: &Reclaim) -> Evidence {
    let why =
        if reclaim.memcg { "its memory cgroup was at its limit" } else { "the host was short of memory" };
    Evidence::new(
        EvidenceKind::Kernel,
        reclaim.start,
        reclaim.end,
        format!("the thread freed {} pages itself for {}: {why}", reclaim.pages, reclaim.end - reclaim.start),
    )
    .of_thread(reclaim.tid, &reclaim.thread)
}

pub(crate) fn dirty_throttling(window: &Window, waits: &OperationWaits<'_>) -> CauseCandidate {
    let (start, end) = waits.span();
    let pause = longest_pause(window, waits.op, start, end);
    let best = waits.best_confidence();
    let both = pause.is_some() && !waits.was_announced_only();
    let confidence = if both { best } else { best.min(Confidence::Strong) };
    throttled(window, waits.op, evidence_of(waits), pause, waits.time, confidence)
}

fn longest_pause<'w>(window: &'w Window, op: &FileOp, start: Nanos, end: Nanos) -> Option<&'w DirtyThrottle> {
    window
        .thread(op.tid)?
        .throttles
        .overlapping(start, end)
        .max_by_key(|pause| (pause.end - pause.start, pause.start))
}

fn throttled(
    window: &Window,
    op: &FileOp,
    mut evidence: Vec<Evidence>,
    pause: Option<&DirtyThrottle>,
    time: Nanos,
    confidence: Confidence,
) -> CauseCandidate {
    evidence.extend(pause.map(|pause| {
        Evidence::new(EvidenceKind::Kernel, pause.start, pause.end, pause_text(pause))
            .of_thread(pause.tid, &op.thread)
    }));
    let (start, end) = pause.map_or((op.start, op.end), |pause| (pause.start, pause.end));
    let began = window.trouble.throttling.began(start, end).unwrap_or(op.start);
    CauseCandidate::new(
        Cause::DirtyThrottling,
        format!("dirty-throttling:{}:{}", op.device, began.0),
        confidence,
        evidence,
        time,
    )
    .of_partition(op.topic_partition.clone())
}

/// Below the host's set point, the pause is for the device's own share or the cgroup's (mm/page-writeback.c,
/// `wb_position_ratio`).
fn pause_text(pause: &DirtyThrottle) -> String {
    let (length, dirty, limit) = (pause.end - pause.start, pause.dirty_pages, pause.limit_pages);
    let limit = if dirty < limit {
        "the device's own share, or the cgroup's, was used up".to_owned()
    } else {
        format!("the host's set point is {limit}")
    };
    format!("balance_dirty_pages paused the thread for {length}: {dirty} pages dirty, {limit}")
}

/// What hands dirty pages to a device: mm/page-writeback.c.
const WRITE_BACK: &str = "do_writepages";

pub(crate) fn page_lock(window: &Window, waits: &OperationWaits<'_>) -> CauseCandidate {
    match waits
        .released_by()
        .filter(|waker| kernel_stack::frames(&waker.stack).any(|frame| frame == WRITE_BACK))
    {
        Some(writer) => behind_write_back(window, waits, writer),
        None => behind_reader(window, waits),
    }
}

fn behind_reader(window: &Window, waits: &OperationWaits<'_>) -> CauseCandidate {
    let (start, end) = waits.span();
    let reads = |io: &BlockIo| io.direction == Direction::Read && io.inode == Some(waits.op.inode);
    let io = covering_io(window, waits.op, start, end).filter(|io| reads(io));
    let since = io.map_or(waits.op.start, |io| io.start);
    of_page(waits, since).with(io.map(io_evidence))
}

fn behind_write_back(window: &Window, waits: &OperationWaits<'_>, writer: &Waker) -> CauseCandidate {
    let own = of_page(waits, waits.op.start).with([had_by(waits, writer)]);
    own.behind_any(device::behind_writer(window, waits, writer.tid))
}

fn of_page(waits: &OperationWaits<'_>, since: Nanos) -> CauseCandidate {
    let confidence = Confidence::Strong.min(waits.best_confidence());
    let root = format!("page-lock:{}:{}:{}", waits.op.device, waits.op.inode, since.0);
    CauseCandidate::of_waits(Cause::PageLock, root, confidence, waits)
}

fn had_by(waits: &OperationWaits<'_>, writer: &Waker) -> Evidence {
    let (start, end) = waits.span();
    Evidence::new(
        EvidenceKind::OffCpu,
        start,
        end,
        format!("{} had the page locked, to write it back", writer.thread),
    )
    .of_thread(writer.tid, &writer.thread)
}

pub(crate) fn stable_page(window: &Window, waits: &OperationWaits<'_>) -> CauseCandidate {
    let op = waits.op;
    let (start, end) = waits.span();
    let io = covering_io(window, op, start, end)
        .filter(|io| io.direction == Direction::Write && io.inode == Some(op.inode));
    let since = io.map_or(op.start, |io| io.start);
    let root = format!("stable-page:{}:{}:{}", op.device, op.inode, since.0);
    let confidence = Confidence::Strong.min(waits.best_confidence());
    CauseCandidate::of_waits(Cause::StablePage, root, confidence, waits).with(io.map(io_evidence))
}

/// Whether an operation is one.
pub(crate) fn is_index_fault(op: &FileOp) -> bool {
    op.op == FileOpKind::MmapFault
        && matches!(op.kind, FileKind::Index | FileKind::TimeIndex | FileKind::TxnIndex)
}

/// The fault that a wait after a write was in.
pub(crate) fn index_fault_after_write<'w>(
    window: &'w Window,
    waits: &OperationWaits<'_>,
) -> Option<&'w Arc<FileOp>> {
    if waits.part != Part::After {
        return None;
    }
    let (start, end) = waits.span();
    let faults =
        window.thread(waits.op.tid)?.file_ops.overlapping(start, end).filter(|op| is_index_fault(op));
    faults.max_by_key(|fault| (fault.overlap(start, end), fault.start))
}

/// What is known of one.
pub(crate) fn index_page_fault(window: &Window, op: &FileOp) -> CauseCandidate {
    let own = CauseCandidate::new(
        Cause::IndexPageFault,
        format!("index-page-fault:{}:{}", op.file, op.start.0),
        Confidence::Exact,
        vec![op_evidence(op)],
        op.latency(),
    )
    .of_partition(op.topic_partition.clone());
    own.behind_any(freeing_memory(window, op).or_else(|| device::behind_fault(window, op)))
}

/// What the thread did for most of the fault to have memory for the page.
fn freeing_memory(window: &Window, op: &FileOp) -> Option<CauseCandidate> {
    let mut free = TimeBudget::new(op.start, op.end);
    let freeing = reclaim_of_thread(window, op.tid, (op.start, op.end), &mut free)?;
    (freeing.time.0.saturating_mul(2) > op.latency().0).then_some(freeing)
}
