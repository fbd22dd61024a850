//! `cpu-throttled`: the broker's cgroup had used up its CPU quota and stood still until the next period.
//!
//! Needs: the cgroup's counters (`nr_throttled`, `throttled_usec`, read about once a second) to have risen by enough
//! within the stretch. They say nothing of a single thread: alone they are weak, and strong together with a thread
//! that was runnable and had no CPU.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, HostSample, Nanos};

use super::Finding;
use crate::window::{Span as _, Window};

/// A cgroup that stands still less than this share of the time holds up nobody for long: a tenth.
const WORTH_NAMING: f64 = 0.1;

/// What the quota says of a stretch of which so much time is to be explained.
pub(crate) fn around(window: &Window, start: Nanos, end: Nanos, time: Nanos) -> Option<Finding> {
    let samples = window.trouble.out_of_quota(start, end).filter(|sample| sample.value >= WORTH_NAMING);
    let most = samples.max_by(|a, b| a.overlap(start, end).cmp(&b.overlap(start, end)))?;
    let covered: Nanos = window
        .trouble
        .out_of_quota(start, end)
        .filter(|sample| sample.name == most.name && sample.value >= WORTH_NAMING)
        .map(|sample| sample.overlap(start, end))
        .sum();
    // A stretch that the counters were not read in is not covered.
    (covered.0.saturating_mul(2) > (end - start).0).then(|| finding(window, most, time))
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
