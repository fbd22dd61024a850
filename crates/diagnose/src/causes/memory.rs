//! Pages and memory: `memory-reclaim`, `dirty-throttling`, `page-lock`, `stable-page`, `index-page-fault`.
//!
//! No hook reports which page a thread waited for, so `page-lock` (`__folio_lock`, mm/filemap.c) and `stable-page`
//! (`folio_wait_stable`, mm/page-writeback.c) are never exact. Write-back is recognized by the stack of the thread
//! that released the page; if that thread had a write at the device for most of the wait, the device is the root. The
//! device is also the root of a fault on a mapped index (KAFKA-4614, KAFKA-6432) whose page it was slow to read.

use std::sync::Arc;

use model::{
    Cause, Confidence, Direction, DirtyThrottle, Evidence, EvidenceKind, FileKind, FileOp, FileOpKind, Nanos,
    Reclaim, Tid, Waker,
};

use crate::causes::candidate::{CauseCandidate, evidence, op_evidence};
use crate::causes::cpu::Others;
use crate::causes::device::{covering_io, io_evidence};
use crate::causes::spec::{Current, DEVICE_HAS_TIME, causes, change, change_from};
use crate::causes::{cpu, device, throttles};
use crate::kernel_stack;
use crate::time::{Span, TimeBudget, TimeSpan, is_most};
use crate::waits::{OperationWaits, Part};
use crate::window::Window;
use crate::window::trouble::Trouble;

causes! {
    DirtyThrottling: Root in Writes, changed in Os {
        event: "stretch{es} of dirty-page throttling on {place}",
        needs: "balance_dirty_pages of the same thread, as a tracepoint or an off-CPU stack; both together are exact",
        root_evidence: &[EvidenceKind::Kernel, EvidenceKind::FileOp],
        advice: &[
            "writers are paused when dirty pages pass vm.dirty_ratio (vm.dirty_bytes): start write-back earlier with a lower vm.dirty_background_ratio, and raise vm.dirty_ratio if the device keeps up on average",
        ],
        source: "Documentation/admin-guide/sysctl/vm.rst; Kafka's documentation, operations: understanding Linux flush behaviour",
        condition: DEVICE_HAS_TIME,
        look_at: ", and dirty_bytes against dirty_limit_bytes in host_samples/",
        effect: "; the device keeps up on average, so only room for bursts is missing",
        risk: "more dirty data is lost if the host crashes, and only replicas have it; a cgroup with a memory limit has its \
               own share of these limits",
    }

    StablePage: Root in Writes, changed in FileSystem {
        event: "page{s} under writeback on {place}",
        needs: "an off-CPU stack in folio_wait_stable, or in folio_wait_writeback where a write begins; never exact",
        root_evidence: &[EvidenceKind::FileOp],
        advice: &[
            "a page could not be changed while it was being written to the device: use a device that needs no stable pages (/sys/block/DEVICE/queue/stable_writes is 0: no checksums or parity of pages), or XFS",
        ],
        source: "Documentation/ABI/stable/sysfs-block: queue/stable_writes is 1 where checksums or parity are computed of the pages",
        changes: &[change(
            "device of the log dirs (/sys/block/DEVICE/queue/stable_writes)",
            "1",
            "0: a device without checksums or parity in software",
        )],
        risk: "the device's checksums or parity are gone; Kafka keeps a CRC of each batch",
    }

    PageLock: Root in Writes, changed in FileSystem {
        event: "locked page{s} on {place}",
        needs: "an off-CPU stack in __folio_lock; a block read of the same file, or the thread that wrote the page back; never exact",
        root_evidence: &[EvidenceKind::FileOp, EvidenceKind::LockWait],
        advice: &[
            "a page is locked while it is read from the device, and other threads that want it wait: fewer consumers that read the same old segment at once, or more memory for the page cache",
            "if write-back held the page lock (the evidence names a kworker): write-back filled the device's queue; see how busy the device is, and write back less at a time (lower vm.dirty_background_bytes)",
        ],
        source: "mm/filemap.c, folio_lock: a page is locked while it is read or written; public talks on Kafka at LINE",
        changes: &[
            change_from(
                "vm.dirty_background_ratio",
                Current::Kernel("vm.dirty_background_ratio"),
                "half of that",
            ),
            change("consumer_byte_rate (quota of consumers that read old segments)", "not known", "a bound"),
        ],
        effect: "; the first change if write-back held the page lock, the second if readers did",
        risk: "consumers that catch up take longer",
    }

    MemoryReclaim: Root in Writes, changed in Os {
        event: "stretch{es} of memory reclaim",
        needs: "mm_vmscan_direct_reclaim_* or mm_vmscan_memcg_reclaim_* of the thread, or an off-CPU stack in the reclaim",
        root_evidence: &[EvidenceKind::Kernel, EvidenceKind::OffCpu, EvidenceKind::FileOp],
        advice: &[
            "the broker's threads had to reclaim memory themselves (direct reclaim): raise vm.min_free_kbytes, so that kswapd begins earlier (Documentation/admin-guide/sysctl/vm.rst)",
            "if a cgroup's memory limit caused it, raise the limit or make the heap smaller: the page cache of what the broker writes is charged to it (Documentation/admin-guide/cgroup-v2.rst)",
        ],
        source: "Documentation/admin-guide/sysctl/vm.rst, min_free_kbytes; Documentation/admin-guide/cgroup-v2.rst: the page cache \
                 of what the broker writes is charged to its cgroup",
        look_at: ", and direct_reclaim_pages_per_second in host_samples/",
        changes: &[
            change_from("vm.min_free_kbytes", Current::Kernel("vm.min_free_kbytes"), "twice that"),
            change_from(
                "memory.max of the broker's cgroup, where it has one",
                Current::MemoryLimit,
                "more, or none",
            ),
        ],
        effect: "; the first change if the host ran short of memory, the second if the cgroup did",
        risk: "memory kept free is not page cache; set far too high, min_free_kbytes makes the host run out of memory at once",
    }

    IndexPageFault: Link in Locks, changed in Broker {
        event: "page fault{s} on an index",
        needs: "a major fault of the thread on a mapped .index, .timeindex or .txnindex",
        root_evidence: &[EvidenceKind::FileOp],
        advice: &[
            "an index page was not in memory: leave more memory to the page cache (a smaller heap, fewer partitions on this broker), and upgrade (lookups touch fewer pages since Kafka 2.1, KAFKA-6432)",
        ],
        source: "KAFKA-6432, KAFKA-4614, KAFKA-19390: what later releases do about it",
        changes: &[
            change("Kafka's version", "not known", "one in which KAFKA-19390 is resolved"),
            change(
                "memory left to the page cache",
                "not known",
                "more: a smaller heap, or fewer consumers that read old segments",
            ),
        ],
        risk: "an upgrade may change other behaviour",
    }
}

/// Shorter reclaims delay nobody for long.
const MIN_RECLAIM: Nanos = Nanos::from_millis(5);

pub(crate) fn memory_reclaim(window: &Window, waits: &OperationWaits<'_>) -> CauseCandidate {
    let Some(reclaim) = waits.reclaim() else {
        let key = format!("unseen:{}", waits.op.start.0);
        return CauseCandidate::of_waits(Cause::MemoryReclaim, key, waits.strong(), waits);
    };
    let key = shortage(window, reclaim);
    CauseCandidate::of_waits(Cause::MemoryReclaim, key, waits.best_confidence(), waits)
        .with([reclaim_evidence(reclaim)])
}

/// Direct reclaim of a thread that was needed in a stretch.
/// Also counts reclaim outside its file operations. Which request it would have worked on is inferred from what it
/// worked on then.
pub(crate) fn reclaim_of_thread(
    window: &Window,
    tid: Tid,
    span: TimeSpan,
    free: &mut TimeBudget,
) -> Option<CauseCandidate> {
    let reclaims = window.troubles.reclaims.of(&tid).overlapping(span);
    let (reclaim, time) = free.take_parts(reclaims.map(|reclaim| (reclaim, reclaim.span().within(span))))?;
    let key = shortage(window, reclaim);
    let seen = reclaim_evidence(reclaim);
    Some(CauseCandidate::new(Cause::MemoryReclaim, key, Confidence::Strong, time).with([seen]))
}

/// Direct reclaim of other threads, for the remaining time of a stretch.
/// Returned if threads of the broker that serve requests freed memory for most of that time: a lock that one of them
/// held, or a safepoint that one of them delayed, would not have been seen. By time only.
pub(crate) fn reclaim_of_others(
    window: &Window,
    span: TimeSpan,
    free: &mut TimeBudget,
) -> Option<CauseCandidate> {
    let reclaims = window.troubles.reclaims.all().flat_map(|reclaims| reclaims.overlapping(span));
    let long =
        reclaims.filter(|reclaim| reclaim.span().length() >= MIN_RECLAIM && cpu::serves(&reclaim.thread));
    let parts = long.map(|reclaim| (reclaim, reclaim.span(), reclaim.tid));
    let Others { longest, covered, left } = cpu::others(parts, span, free)?;
    let seen = reclaim_evidence(longest);
    let text = format!(
        "for {covered} of {left} that nothing else explains, threads that serve requests were in direct reclaim: {}",
        seen.text
    );
    let (key, time) = (shortage(window, longest), free.take(span));
    let own = CauseCandidate::new(Cause::MemoryReclaim, key, Confidence::Weak, time);
    Some(own.with([Evidence { text, ..seen }]))
}

/// Whose memory was short, and since when.
fn shortage(window: &Window, reclaim: &Reclaim) -> String {
    let memcg = reclaim.memcg;
    let began = window.troubles.began(Trouble::Reclaim { memcg }, reclaim.span()).unwrap_or(reclaim.start);
    format!("{}:{}", if memcg { "cgroup" } else { "host" }, began.0)
}

fn reclaim_evidence(reclaim: &Reclaim) -> Evidence {
    let why =
        if reclaim.memcg { "its memory cgroup was at its limit" } else { "the host was short of memory" };
    let length = reclaim.span().length();
    let text =
        format!("the thread was in direct reclaim for {length} and freed {} pages: {why}", reclaim.pages);
    evidence(EvidenceKind::Kernel, reclaim, text).of_thread(reclaim.tid, &reclaim.thread)
}

pub(crate) fn dirty_throttling(window: &Window, waits: &OperationWaits<'_>) -> CauseCandidate {
    let op = waits.op;
    let pauses = window.throttles.of(&op.tid).overlapping(waits.span());
    let pause = pauses.max_by_key(|pause| (pause.length(), pause.start));
    let both = pause.is_some() && !waits.was_announced_only();
    let confidence = if both { waits.best_confidence() } else { waits.strong() };
    let span = pause.map_or(op.span(), Span::span);
    let began = window.troubles.began(Trouble::DirtyThrottling, span).unwrap_or(op.start);
    let key = format!("{}:{}", op.device, began.0);
    CauseCandidate::of_waits(Cause::DirtyThrottling, key, confidence, waits).with(pause.map(|pause| {
        evidence(EvidenceKind::Kernel, pause, pause_text(pause)).of_thread(pause.tid, &op.thread)
    }))
}

/// Describes a pause by dirty-page throttling.
/// Below the host's set point, the pause is due to the share of the device or of the cgroup (mm/page-writeback.c,
/// `wb_position_ratio`).
fn pause_text(pause: &DirtyThrottle) -> String {
    let (length, dirty, limit) = (pause.length(), pause.dirty_pages, pause.limit_pages);
    let limit = if dirty < limit {
        "the share of the device or of the cgroup was used up".to_owned()
    } else {
        format!("the host's set point is {limit}")
    };
    format!("balance_dirty_pages paused the thread for {length}: {dirty} pages dirty, {limit}")
}

/// Submits dirty pages to a device: mm/page-writeback.c.
const WRITE_BACK: &str = "do_writepages";

pub(crate) fn page_lock(window: &Window, waits: &OperationWaits<'_>) -> CauseCandidate {
    let writes_back = |waker: &&Waker| kernel_stack::frames(&waker.stack).any(|frame| frame == WRITE_BACK);
    match waits.released_by().filter(writes_back) {
        Some(writer) => behind_write_back(window, waits, writer),
        None => of_page(window, Cause::PageLock, Direction::Read, waits),
    }
}

fn behind_write_back(window: &Window, waits: &OperationWaits<'_>, writer: &Waker) -> CauseCandidate {
    let text = format!("{} held the page lock, to write the page back", writer.thread);
    let had_by = evidence(EvidenceKind::OffCpu, waits, text).of_thread(writer.tid, &writer.thread);
    let own = of_page_since(waits.op.start, Cause::PageLock, waits).with([had_by]);
    own.behind_any(device::behind_writer(window, waits, writer.tid))
}

pub(crate) fn stable_page(window: &Window, waits: &OperationWaits<'_>) -> CauseCandidate {
    of_page(window, Cause::StablePage, Direction::Write, waits)
}

/// A wait for a page that the device may have read or written for most of it.
fn of_page(
    window: &Window,
    cause: Cause,
    direction: Direction,
    waits: &OperationWaits<'_>,
) -> CauseCandidate {
    let io = covering_io(window, waits.op, waits.span());
    let io = io.filter(|io| io.direction == direction && io.inode == Some(waits.op.inode));
    let own = of_page_since(io.map_or(waits.op.start, |io| io.start), cause, waits).with(io.map(io_evidence));
    own.behind_any(throttles::held_back(window, waits))
}

fn of_page_since(start: Nanos, cause: Cause, waits: &OperationWaits<'_>) -> CauseCandidate {
    let key = format!("{}:{}:{}", waits.op.device, waits.op.inode, start.0);
    CauseCandidate::of_waits(cause, key, waits.strong(), waits)
}

/// Whether an operation is a fault on an index.
pub(crate) fn is_index_fault(op: &FileOp) -> bool {
    op.op == FileOpKind::MmapFault
        && matches!(op.kind, FileKind::Index | FileKind::TimeIndex | FileKind::TxnIndex)
}

/// The index fault in which a wait after a write lies.
pub(crate) fn index_fault_after_write<'w>(
    window: &'w Window,
    waits: &OperationWaits<'_>,
) -> Option<&'w Arc<FileOp>> {
    if waits.part != Part::After {
        return None;
    }
    let span = waits.span();
    let faults = window.file_ops.of(&waits.op.tid).overlapping(span).filter(|op| is_index_fault(op));
    faults.max_by_key(|fault| (fault.overlap(span), fault.start))
}

/// The cause of an index fault.
pub(crate) fn index_page_fault(window: &Window, op: &FileOp) -> CauseCandidate {
    let key = format!("{}:{}", op.file, op.start.0);
    let own = CauseCandidate::new(Cause::IndexPageFault, key, Confidence::Exact, op.latency());
    own.with([op_evidence(op)])
        .of_partition_of(op)
        .behind_any(freeing_memory(window, op).or_else(|| device::behind_fault(window, op)))
}

/// The thread's direct reclaim for the page, if it took most of the fault.
fn freeing_memory(window: &Window, op: &FileOp) -> Option<CauseCandidate> {
    let mut free = TimeBudget::new(op.span());
    let freeing = reclaim_of_thread(window, op.tid, op.span(), &mut free)?;
    is_most(freeing.time, op.latency()).then_some(freeing)
}
