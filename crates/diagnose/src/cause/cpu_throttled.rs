//! `cpu-throttled`: the broker's cgroup had used up its CPU quota and stood still until the next period.
//!
//! Needs: the cgroup's counters (`nr_throttled`, `throttled_usec`, read about once a second) to have risen by enough
//! within the stretch. They say nothing of a single thread: alone they are weak, and strong together with a thread
//! that was runnable and had no CPU. The kernel counts a standstill when it ends (`unthrottle_cfs_rq`,
//! kernel/sched/fair.c), as a thread's want of a CPU ends with it: what the counters rose by between two readings may have begun
//! before the first.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, HostSample, Nanos};

use super::Finding;
use crate::free::Free;
use crate::window::{Span as _, Window};

/// A cgroup that stands still less than this share of the time holds up nobody for long: a tenth.
const WORTH_NAMING: f64 = 0.1;

/// What the quota says of a stretch of which so much time is to be explained.
pub(crate) fn around(window: &Window, start: Nanos, end: Nanos, time: Nanos) -> Option<Finding> {
    told(window, (start, end), time, |_| Nanos::ZERO)
}

/// The same of a stretch in which a thread had no CPU.
pub(super) fn without_cpu(window: &Window, start: Nanos, end: Nanos, time: Nanos) -> Option<Finding> {
    told(window, (start, end), time, stood_still)
}

/// Where the counters' rises cover most of the stretch, each of them from so long before its readings on.
fn told(
    window: &Window,
    (start, end): (Nanos, Nanos),
    time: Nanos,
    before: impl Fn(&HostSample) -> Nanos,
) -> Option<Finding> {
    let samples = || window.trouble.out_of_quota(start, end).filter(|sample| sample.value >= WORTH_NAMING);
    let most = samples().max_by(|a, b| a.overlap(start, end).cmp(&b.overlap(start, end)))?;
    let mut free = Free::new(start, end);
    for sample in samples().filter(|sample| sample.name == most.name) {
        free.take(sample.start - before(sample), sample.end);
    }
    // A stretch that the counters were not read in is not covered.
    let covered = end - start - free.left();
    (covered.0.saturating_mul(2) > (end - start).0).then(|| finding(window, most, time))
}

/// How long its CPUs stood still, all in all, by a sample.
fn stood_still(sample: &HostSample) -> Nanos {
    Nanos((sample.value * (sample.end - sample.start).0 as f64) as i64)
}

fn finding(window: &Window, sample: &HostSample, time: Nanos) -> Finding {
    let began = window.trouble.quota_episode(sample.start, sample.end).unwrap_or(sample.start);
    Finding {
        cause: Cause::CpuThrottled,
        chain: vec![Cause::CpuThrottled],
        root: Arc::from(format!("cpu-throttled:{}:{}", sample.name, began.0)),
        confidence: Confidence::Weak,
        evidence: vec![Evidence {
            kind: EvidenceKind::Host,
            start: sample.start,
            end: sample.end,
            tid: None,
            thread: None,
            waiter: None,
            text: format!(
                "cgroup {} was out of its CPU quota: its CPUs stood still for {:.0} ms of a second",
                sample.name,
                sample.value * 1_000.0
            ),
        }],
        time,
        partition: None,
    }
}
