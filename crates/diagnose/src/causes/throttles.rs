//! Limits of the broker's cgroup (version 2) that put a thread to sleep: `memory-throttled`, `io-throttled`.
//!
//! A thread of a cgroup over `memory.high` first frees memory, which is `memory-reclaim`; where that was not enough it sleeps, up
//! to two seconds, in `mem_cgroup_handle_over_high` itself (mm/memcontrol.c), mostly on its way back from a call. Who is over
//! `io.latency`'s or `io.cost`'s share sleeps before its request is made or on its way back from a call (block/blk-cgroup.c). The
//! stack is the thread's own; which of its cgroups has the limit it does not say.

use model::{Cause, Confidence, EvidenceKind, Tid};

use crate::causes::candidate::{CauseCandidate, evidence, merge_into};
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
        needs: "an off-CPU stack where io.latency or io.cost lets a cgroup sleep (blkcg_maybe_throttle_current, blkcg_iolatency_throttle, ioc_rqos_throttle); exact inside an operation of the request",
        root_evidence: &[EvidenceKind::OffCpu, EvidenceKind::FileOp],
        advice: &[
            "the I/O controller of cgroups held the broker's threads back for others: give its cgroup a lower target in io.latency than its neighbours have, or a higher io.weight, or take the limits off its devices",
        ],
        source: "Documentation/admin-guide/cgroup-v2.rst, IO: io.latency throttles groups with a higher target, io.cost those that \
                 used up their share. block/blk-iolatency.c, block/blk-iocost.c, block/blk-cgroup.c",
        look_at: ", and io.stat and io.pressure of the broker's cgroup",
        changes: &[change(
            "io.latency, io.weight and io.cost.qos of the broker's cgroup and of its neighbours",
            "not known",
            "a target or weight that favours the broker",
        )],
        risk: "the other groups on the device wait instead",
    }
}

/// The cause that a wait of this kind is, if it is a throttle.
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

/// A thread's time in throttles in a stretch in which it was needed, outside its operations on files too. Which request it would
/// have worked on is concluded from which it worked on then.
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
