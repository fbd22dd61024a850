//! `run-queue`: a thread could run and had no CPU.
//!
//! Needs: the time from the thread's wake-up, or from where it was preempted, until it ran again: within its operations
//! on files, and between its calls from a millisecond on. Where its cgroup had used up its CPU quota then, it is
//! `cpu-throttled`: see there. Threads that had none within the same second or the next are one root.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, Nanos, OffCpu, Tid};

use super::waits::runnable_from;
use super::{Finding, Waits, cpu_throttled};
use crate::free::Free;
use crate::window::Window;

/// A thread that was without a CPU for less held up nobody for long.
const LONG: Nanos = Nanos::from_millis(5);

/// What an operation's thread waited for on its way.
pub(super) fn find(window: &Window, waits: &Waits<'_>) -> Finding {
    let (start, end) = waits.span();
    let root = root(window, start, end);
    let own = Finding::of_waits(Cause::RunQueue, root, waits.best_confidence(), waits);
    by_quota(window, own, start, end)
}

/// What a thread waited for in a stretch in which it was needed, as far as nothing else has taken it. Which request it
/// would have worked on is concluded from which it worked on then.
pub(crate) fn of_thread(
    window: &Window,
    tid: Tid,
    (start, end): (Nanos, Nanos),
    free: &mut Free,
) -> Option<Finding> {
    let mut time = Nanos::ZERO;
    let mut longest: Option<(&OffCpu, Nanos)> = None;
    for interval in window.thread(tid)?.off_cpu.overlapping(start, end) {
        let since = runnable_from(interval);
        let taken = free.take(since.max(start), interval.end.min(end));
        time += taken;
        if taken > longest.map_or(Nanos::ZERO, |(_, length)| length) {
            longest = Some((interval, taken));
        }
    }
    let (interval, _) = longest?;
    Some(told(window, interval, time))
}

/// A thread that had no CPU, longest in this interval, for so much of a request's time.
pub(super) fn told(window: &Window, interval: &OffCpu, time: Nanos) -> Finding {
    let at_a_time = interval.end - runnable_from(interval);
    let text = format!("the thread could run and had no CPU for {time}, {at_a_time} of it at a time");
    of_interval(window, interval, Confidence::Strong, text, time)
}

fn of_interval(
    window: &Window,
    interval: &OffCpu,
    confidence: Confidence,
    text: String,
    time: Nanos,
) -> Finding {
    let (since, until) = (runnable_from(interval), interval.end);
    let own = Finding {
        cause: Cause::RunQueue,
        chain: vec![Cause::RunQueue],
        root: Arc::from(root(window, since, until)),
        confidence,
        evidence: vec![Evidence {
            kind: EvidenceKind::OffCpu,
            start: since,
            end: until,
            tid: Some(interval.tid),
            thread: Some(window.name(interval.tid, &interval.thread)),
            waiter: None,
            text,
        }],
        time,
        partition: None,
    };
    by_quota(window, own, since, until)
}

/// What is left of a stretch, where other threads of the broker that serve requests had no CPU for most of it: a lock
/// that one of them held, or a safepoint that one of them was late for, was seen by nobody. By the time only.
pub(crate) fn of_others(window: &Window, start: Nanos, end: Nanos, free: &mut Free) -> Option<Finding> {
    let mut rest = free.within(start, end);
    let (left, mut longest): (Nanos, Option<&OffCpu>) = (rest.left(), None);
    if left == Nanos::ZERO {
        return None;
    }
    for interval in window.trouble.without_cpu(start, end) {
        let since = runnable_from(interval);
        if interval.end - since < LONG || !serves(&interval.thread) {
            continue;
        }
        rest.take(since, interval.end);
        let key = |interval: &OffCpu| (interval.end - runnable_from(interval), interval.start, interval.tid);
        if longest.is_none_or(|longest| key(interval) > key(longest)) {
            longest = Some(interval);
        }
    }
    let covered = left - rest.left();
    let longest = longest.filter(|_| covered.0.saturating_mul(2) > left.0)?;
    let text = format!(
        "for {covered} of {left} that nothing else explains, threads that serve requests could run and had no CPU: this \
         one for {}",
        longest.end - runnable_from(longest)
    );
    Some(of_interval(window, longest, Confidence::Weak, text, free.take(start, end)))
}

/// Whether requests need a thread: handlers and network threads (`data-plane-kafka-…`), and who stops the JVM.
pub(super) fn serves(thread: &str) -> bool {
    thread.starts_with("data-plane-kafk") || thread == "VM Thread"
}

fn root(window: &Window, start: Nanos, end: Nanos) -> String {
    format!("run-queue:{}", window.trouble.no_cpu(start, end).unwrap_or(start).0)
}

/// The same, where the quota was why: by the time.
fn by_quota(window: &Window, own: Finding, start: Nanos, end: Nanos) -> Finding {
    let Some(throttled) = cpu_throttled::without_cpu(window, start, end, own.time) else { return own };
    Finding {
        cause: throttled.cause,
        chain: throttled.chain,
        root: throttled.root,
        confidence: own.confidence.min(Confidence::Strong),
        evidence: [own.evidence, throttled.evidence].concat(),
        ..own
    }
}
