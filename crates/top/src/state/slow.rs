//! Retained slow requests: the latest and the slowest, in bounded memory. Does not choose an order.

use std::collections::VecDeque;
use std::mem::size_of;

use model::{Batch, Evidence, Nanos, Partition, Verdict};

/// Number of retained verdicts: the most recent, and the slowest requests'.
const MAX_RECENT: usize = 900;
const MAX_SLOWEST: usize = 100;
/// Memory limit of each of the two: a request may name thousands of partitions.
const MAX_BYTES: usize = 16 << 20;

/// A retained slow request.
#[derive(Clone, Debug)]
pub(crate) struct SlowRequest {
    /// Its number in the order in which verdicts were reached.
    pub(crate) number: u64,
    pub(crate) verdict: Verdict,
    bytes: usize,
}

impl SlowRequest {
    pub(crate) fn latency(&self) -> Nanos {
        self.verdict.latency()
    }
}

/// All retained slow requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slow {
    /// In the order of their numbers.
    recent: VecDeque<SlowRequest>,
    recent_bytes: usize,
    /// The slowest of those that are no longer recent, slowest first.
    slowest: Vec<SlowRequest>,
    slowest_bytes: usize,
    /// Number of all slow requests.
    pub(crate) count: u64,
}

impl Slow {
    pub(crate) fn add(&mut self, verdict: Verdict) {
        self.count += 1;
        let bytes = bytes_of(&verdict);
        self.recent_bytes += bytes;
        self.recent.push_back(SlowRequest { number: self.count, verdict, bytes });
        while self.recent.len() > MAX_RECENT || self.recent_bytes > MAX_BYTES {
            let Some(oldest) = self.recent.pop_front() else { return };
            self.recent_bytes -= oldest.bytes;
            self.keep_if_slowest(oldest);
        }
    }

    fn keep_if_slowest(&mut self, request: SlowRequest) {
        let place = self.slowest.partition_point(|other| other.latency() >= request.latency());
        self.slowest_bytes += request.bytes;
        self.slowest.insert(place, request);
        while self.slowest.len() > MAX_SLOWEST || self.slowest_bytes > MAX_BYTES {
            let Some(quickest) = self.slowest.pop() else { return };
            self.slowest_bytes -= quickest.bytes;
        }
    }

    /// All retained requests.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &SlowRequest> {
        self.slowest.iter().chain(&self.recent)
    }

    pub(crate) fn find(&self, number: u64) -> Option<&SlowRequest> {
        self.iter().find(|request| request.number == number)
    }
}

/// Approximate memory of a verdict.
fn bytes_of(verdict: &Verdict) -> usize {
    let of_partition = |partition: &Partition| {
        let ids = partition.message_ids.iter().map(|id| id.len() + size_of::<usize>() * 4).sum::<usize>();
        size_of::<Partition>() + partition.batches.len() * size_of::<Batch>() + ids
    };
    let partitions = verdict.request.partitions.iter().map(of_partition).sum::<usize>();
    let evidence = verdict.evidence.iter().map(|one| size_of::<Evidence>() + one.text.len()).sum::<usize>();
    size_of::<SlowRequest>() + partitions + evidence + size_of_val(&*verdict.stage_spans)
}

#[cfg(test)]
mod tests {
    use model::Nanos;

    use super::{MAX_BYTES, MAX_RECENT, MAX_SLOWEST, Slow};
    use crate::state::sample;

    #[test]
    fn retains_the_latest_and_the_slowest_once_each() {
        let mut slow = Slow::default();
        for number in 0..3_000 {
            // The slowest come first.
            slow.add(sample::verdict(Nanos::from_millis(5_000 - number)));
        }
        let mut numbers = slow.iter().map(|request| request.number).collect::<Vec<_>>();
        numbers.sort_unstable();
        let most = (MAX_RECENT as u64, MAX_SLOWEST as u64);
        let expected = (1..=most.1).chain(3_001 - most.0..=3_000).collect::<Vec<_>>();
        assert_eq!((numbers, slow.count), (expected, 3_000));
        assert!(slow.find(1).is_some() && slow.find(most.1 + 1).is_none());
    }

    #[test]
    fn retains_fewer_large_requests() {
        let mut slow = Slow::default();
        let mut large = sample::verdict(Nanos::from_millis(100));
        large.request.partitions = vec![model::Partition::default(); 10_000];
        for _ in 0..200 {
            slow.add(large.clone());
        }
        let count = slow.iter().count();
        assert!(count > 0 && count * 10_000 * 100 < 2 * MAX_BYTES, "{count}");
    }
}
