//! When one thread was found on a CPU by the sampling clock. Each sample stands for one period of the clock around it,
//! so few of them, or a stretch that is not much longer than a period, prove nothing. Does not know what the thread did.

use std::collections::VecDeque;

use model::{CpuSample, Nanos};

/// One sample may have hit a thread by chance.
const FEWEST: usize = 2;
/// A thread that was found on a CPU for this share of a stretch was at work for all of it: what the samples do not show
/// is what others had of the CPUs. A quarter.
const SHARE: i64 = 4;

/// One thread's, in the order of time.
#[derive(Debug, Default)]
pub(crate) struct Samples(VecDeque<(Nanos, Nanos)>);

impl Samples {
    pub(crate) fn push(&mut self, sample: &CpuSample) {
        self.0.push_back((sample.at, sample.period));
    }

    /// The stretches that those near a stretch stand for.
    pub(crate) fn on_cpu(&self, start: Nanos, end: Nanos) -> impl Iterator<Item = (Nanos, Nanos)> {
        let half = |period: Nanos| Nanos(period.0 / 2);
        let first = self.0.partition_point(|&(at, period)| at + half(period) <= start);
        self.0
            .range(first..)
            .map(move |&(at, period)| (at - half(period), at + half(period)))
            .take_while(move |&(from, _)| from < end)
    }

    /// Whether the thread was at work all along a stretch of which so much is not known otherwise.
    pub(crate) fn show_work(&self, start: Nanos, end: Nanos, unknown: Nanos) -> bool {
        let parts = self.on_cpu(start, end).map(|(from, until)| until.min(end) - from.max(start));
        let (count, time) = parts.fold((0, Nanos::ZERO), |(count, time), part| (count + 1, time + part));
        count >= FEWEST && time.0.saturating_mul(SHARE) >= unknown.0
    }

    pub(crate) fn forget(&mut self, horizon: Nanos) {
        while self.0.front().is_some_and(|(at, _)| *at < horizon) {
            self.0.pop_front();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
