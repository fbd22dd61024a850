//! Limits of the broker's cgroup (version 2) that put a thread to sleep: `memory-throttled`, `io-throttled`.
//!
//! A thread of a cgroup over `memory.high` first frees memory, which is `memory-reclaim`. If that was not enough it
//! sleeps, up to two seconds, in `mem_cgroup_handle_over_high` itself (mm/memcontrol.c), mostly on its way back from
//! a call. A thread over the share of `io.latency` or `io.cost` sleeps before its request is made or on its way back
//! from a call (block/blk-cgroup.c). The stack is the thread's own; it does not show which of its cgroups has the
//! limit.
//!
//! `io.max` and version 1's `blkio.throttle` put no thread to sleep: they hold its block request before it enters the
//! device's queue (block/blk-throttle.c), and the thread waits for it like for any other. The block request shows it:
//! it ended the wait, and for most of the wait it was not in the queue. Nothing else takes that long in between, so
//! if the device has a limit, the limit was the reason.

use model::{Cause, Confidence, EvidenceKind, Nanos, Tid};

use crate::causes::candidate::{CauseCandidate, evidence, merge_into};
use crate::causes::device;
use crate::causes::spec::{Current, causes, change, change_from};
use crate::kernel_stack;
use crate::kernel_stack::Wait;
use crate::time::{Span, TimeBudget, TimeSpan};
use crate::waits::{self, OperationWaits, asleep};
use crate::window::Window;

causes! {
    MemoryThrottled: Root in Writes, changed in Os {
        event: "stretch{es} over memory.high",
        needs: "an off-CPU stack in mem_cgroup_handle_over_high that frees no memory; exact inside an operation of the request",
        root_evidence: &[EvidenceKind::OffCpu, EvidenceKind::FileOp],
        advice: &[
            "the broker's cgroup was over memory.high, and the kernel put its threads to sleep for that: raise memory.high above the heap, the direct buffers and the page cache of what the broker writes, or set it to max and keep only memory.max",
            "a smaller heap leaves more of the limit to the page cache, which the kernel can free without a sleep",
        ],
        source: "Documentation/admin-guide/cgroup-v2.rst, memory.high: processes over it are throttled and put under heavy reclaim \
                 pressure. mm/memcontrol.c, calculate_high_delay: up to two seconds at a time",
        look_at: ", and the line high of memory.events of the broker's cgroup",
        changes: &[
            change("memory.high of the broker's cgroup or of one above it", "not known", "max, or more"),
            change_from("memory.max of the broker's cgroup, where it has one", Current::MemoryLimit, "more, or none")
                .together(),
        ],
        risk: "without memory.high a cgroup that needs too much meets memory.max, and there the OOM killer",
    }

    IoThrottled: Root in Writes, changed in Disk {
        event: "stretch{es} of I/O throttling on {place}",
        needs: "an off-CPU stack where io.latency or io.cost lets a cgroup sleep (blkcg_maybe_throttle_current, blkcg_iolatency_throttle, ioc_rqos_throttle); exact inside an operation of the request. Or a wait for the device that ended with a block request of the same file, which entered the device's queue only after most of it, while a cgroup of the broker had a limit on that device (io.max, blkio.throttle.*); strong",
        root_evidence: &[EvidenceKind::BlockIo, EvidenceKind::OffCpu, EvidenceKind::FileOp],
        advice: &[
            "the broker's cgroup may read or write only so much on the device: raise its limit or take it off, where the evidence names one (io.max, blkio.throttle.*)",
            "the I/O controller of cgroups held the broker's threads back for others: give its cgroup a lower target in io.latency than its neighbours have, or a higher io.weight",
        ],
        source: "Documentation/admin-guide/cgroup-v2.rst, IO: io.latency throttles groups with a higher target, io.cost those that \
                 used up their share, io.max those that read or write more. block/blk-iolatency.c, block/blk-iocost.c, \
                 block/blk-cgroup.c, block/blk-throttle.c",
        look_at: ", and io.stat and io.pressure of the broker's cgroup",
        changes: &[
            change(
                "io.latency, io.weight and io.cost.qos of the broker's cgroup and of its neighbours",
                "not known",
                "a target or weight that favours the broker",
            ),
            change("io.max of the broker's cgroup or of one above it", "not known", "max, or more"),
        ],
        risk: "the other groups on the device wait instead",
    }
}

/// The cause that this kind of wait stands for, if it is a throttle.
fn cause_of(wait: Wait) -> Option<Cause> {
    match wait {
        Wait::MemoryHigh => Some(Cause::MemoryThrottled),
        Wait::IoThrottle => Some(Cause::IoThrottled),
        _ => None,
    }
}

/// An operation's waits in a throttle.
pub(crate) fn of_waits(window: &Window, waits: &OperationWaits<'_>) -> Option<CauseCandidate> {
    let cause = cause_of(waits.kind)?;
    let began = waits::since(window, waits.kind, waits.span());
    Some(CauseCandidate::of_waits(cause, began.0, waits.best_confidence(), waits))
}

/// How long before a wait a limit may have been sampled: limits are read once a second.
const LOOKED_AT: Nanos = Nanos::from_millis(1_500);

/// An operation's wait for a block request that a limit on the device held back.
/// The limit kept the request out of the device's queue.
pub(crate) fn held_back(window: &Window, waits: &OperationWaits<'_>) -> Option<CauseCandidate> {
    let (io, queued) = device::late_io(window, waits)?;
    let span = waits.span();
    let looked_at = TimeSpan::new(span.start - LOOKED_AT, span.end);
    let limit = window.troubles.io_limit(&io.device, io.direction, looked_at)?;
    let text = format!(
        "{}: the {} of {} bytes that ended the wait came into the device's queue only after {} of it; the broker's cgroup has a \
         limit there, {} = {}",
        io.device,
        io.direction.as_str(),
        io.bytes,
        queued - span.start,
        limit.metric,
        limit.value
    );
    let seen = evidence(EvidenceKind::BlockIo, io, text).of_thread(io.tid, &io.thread);
    let key = format!("{}:{}", io.device, waits::since(window, waits.kind, span).0);
    Some(CauseCandidate::of_waits(Cause::IoThrottled, key, waits.strong(), waits).with([seen]))
}

/// A thread's time in throttles while it was needed in a stretch.
/// Also counts time outside its file operations. Which request it would have worked on is inferred from what it worked
/// on then.
pub(crate) fn of_thread(
    window: &Window,
    tid: Tid,
    span: TimeSpan,
    free: &mut TimeBudget,
) -> Vec<CauseCandidate> {
    let mut found = Vec::new();
    for interval in window.off_cpu.of(&tid).overlapping(span) {
        let (wait, function) = kernel_stack::read(&interval.stack);
        let Some(cause) = cause_of(wait).filter(|_| !interval.preempted) else { continue };
        let slept = asleep(interval);
        let Some(time) = free.take_any(slept.within(span)) else { continue };
        let began = waits::since(window, wait, interval.span());
        let thread = window.name(tid, &interval.thread);
        let text = format!("{thread} was off the CPU in {function} for {}", slept.length());
        let seen = evidence(EvidenceKind::OffCpu, &slept, text).of_thread(tid, &thread);
        merge_into(&mut found, CauseCandidate::new(cause, began.0, Confidence::Strong, time).with([seen]));
    }
    found
}
