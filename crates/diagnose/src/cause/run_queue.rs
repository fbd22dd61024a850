//! `run-queue`: the thread could run and had no CPU.
//!
//! Needs: the time from the thread's wake-up, or from where it was preempted, until it ran again. Where its cgroup had
//! used up its CPU quota then, it is `cpu-throttled`: see there.

use model::Cause;

use super::{Finding, Waits, cpu_throttled};
use crate::window::Window;

pub(super) fn find(window: &Window, waits: &Waits<'_>) -> Finding {
    let (start, end) = waits.span();
    let began = window.trouble.no_cpu(start, end).unwrap_or(waits.op.start);
    let root = format!("run-queue:{}", began.0);
    let own = Finding::of_waits(Cause::RunQueue, root, waits.best_confidence(), waits);
    match cpu_throttled::around(window, start, end, waits.time) {
        Some(throttled) => Finding {
            cause: throttled.cause,
            chain: throttled.chain,
            root: throttled.root,
            // The thread had no CPU; that the quota was why is by the time.
            confidence: model::Confidence::Strong.min(own.confidence),
            evidence: [own.evidence, throttled.evidence].concat(),
            ..own
        },
        None => own,
    }
}
