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
    let (since, until) = (runnable_from(interval), interval.end);
    let own = Finding {
        cause: Cause::RunQueue,
        chain: vec![Cause::RunQueue],
        root: Arc::from(root(window, since, until)),
        confidence: Confidence::Strong,
        evidence: vec![Evidence {
            kind: EvidenceKind::OffCpu,
            start: since,
            end: until,
            tid: Some(tid),
            thread: Some(window.name(tid, &interval.thread)),
            text: format!(
                "the thread could run and had no CPU for {time}, {} of it at a time",
                until - since
            ),
        }],
        time,
        partition: None,
    };
    Some(by_quota(window, own, since, until))
}

fn root(window: &Window, start: Nanos, end: Nanos) -> String {
    format!("run-queue:{}", window.trouble.no_cpu(start, end).unwrap_or(start).0)
}

/// The same, where the quota was why: by the time.
fn by_quota(window: &Window, own: Finding, start: Nanos, end: Nanos) -> Finding {
    let Some(throttled) = cpu_throttled::around(window, start, end, own.time) else { return own };
    Finding {
        cause: throttled.cause,
        chain: throttled.chain,
        root: throttled.root,
        confidence: own.confidence.min(Confidence::Strong),
        evidence: [own.evidence, throttled.evidence].concat(),
        ..own
    }
}
