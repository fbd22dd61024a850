//! Latency histograms that the kernel fills: log-linear buckets, numbered by `bucket_of` in
//! `bpf/always_on_connections.h`.

use std::sync::atomic::AtomicU64;

use super::memory::load;

/// `SUB_BUCKET_BITS`, `MAX_LATENCY_BITS` and `BUCKETS` of `bpf/always_on.h`; the session compares them with the object.
const SUB_BUCKET_BITS: u32 = 6;

const MAX_LATENCY_BITS: u32 = 40;
pub(super) const BUCKETS: usize = ((MAX_LATENCY_BITS - SUB_BUCKET_BITS + 1) as usize) << SUB_BUCKET_BITS;

/// Words before the buckets of `struct histogram`.
const HEAD_WORDS: usize = 8;
/// Words of one part, a `struct histogram`.
pub(super) const WORDS: usize = HEAD_WORDS + BUCKETS;

/// All requests of one API on one listener since the session began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// The API's key.
    pub api_key: i16,
    /// The listener's port.
    pub local_port: u16,
    /// Requests read. One that is not answered, unanswered or given up is still open, or its connection is gone.
    pub requests: u64,
    /// Bytes of these requests, including their size fields.
    pub request_bytes: u64,
    /// Requests that expect no answer, such as a producer's with `acks=0`.
    pub unanswered: u64,
    /// Requests whose answers could not be followed.
    pub given_up: u64,
    /// Bytes of the answers, including their size fields.
    pub answer_bytes: u64,
    /// Sum of the latencies of answered requests, in nanoseconds.
    pub total_ns: u64,
    buckets: Vec<u64>,
}

impl Histogram {
    /// Reads a histogram's parts from the kernel's memory; `None` if it is not in use.
    pub(super) fn read(words: &[AtomicU64]) -> Option<Self> {
        let key = load(words, 0).checked_sub(1)?;
        let sum = |at| words.chunks_exact(WORDS).map(|part| load(part, at)).sum();
        Some(Self {
            api_key: (key >> 16) as i16,
            local_port: key as u16,
            requests: sum(1),
            request_bytes: sum(2),
            unanswered: sum(3),
            given_up: sum(4),
            answer_bytes: sum(5),
            total_ns: sum(6),
            buckets: (HEAD_WORDS..WORDS).map(sum).collect(),
        })
    }

    /// Number of answered requests.
    pub fn answered(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Latency quantile of the answered requests in nanoseconds, within 1 %; `share` is from 0 to 1.
    ///
    /// `None` without answered requests.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let answered = self.answered();
        let rank = (share.clamp(0.0, 1.0) * answered as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        let bucket = self.buckets.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        Some(middle_of(bucket))
    }

    /// Latencies and how many requests had each, in ascending order.
    pub fn latencies(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let used = self.buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        used.map(|(bucket, count)| (middle_of(bucket), *count))
    }

    /// Returns what was added since an earlier reading of the same histogram; everything if that is the default, an
    /// empty one.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let earlier_buckets = earlier.buckets.iter().copied().chain(std::iter::repeat(0));
        let buckets = self.buckets.iter().zip(earlier_buckets);
        Self {
            requests: self.requests.saturating_sub(earlier.requests),
            request_bytes: self.request_bytes.saturating_sub(earlier.request_bytes),
            unanswered: self.unanswered.saturating_sub(earlier.unanswered),
            given_up: self.given_up.saturating_sub(earlier.given_up),
            answer_bytes: self.answer_bytes.saturating_sub(earlier.answer_bytes),
            total_ns: self.total_ns.saturating_sub(earlier.total_ns),
            buckets: buckets.map(|(now, then)| now.saturating_sub(then)).collect(),
            ..*self
        }
    }
}

/// Midpoint of a bucket's latencies, in nanoseconds.
fn middle_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let shift = (bucket >> SUB_BUCKET_BITS).saturating_sub(1);
    let first = (bucket - (shift << SUB_BUCKET_BITS)) << shift;
    first + ((1 << shift) >> 1)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::{BUCKETS, Histogram, MAX_LATENCY_BITS, SUB_BUCKET_BITS, WORDS, middle_of};

    const SUB_BUCKETS: u64 = 1 << SUB_BUCKET_BITS;

    /// Like `bucket_of` of the BPF programs.
    fn bucket_of(latency_ns: u64) -> usize {
        if latency_ns < SUB_BUCKETS {
            return latency_ns as usize;
        }
        if latency_ns >> MAX_LATENCY_BITS > 0 {
            return BUCKETS - 1;
        }
        let shift = u64::from(latency_ns.ilog2() - SUB_BUCKET_BITS);
        ((shift << SUB_BUCKET_BITS) + (latency_ns >> shift)) as usize
    }

    /// Two parts, which count in turn.
    fn of(latencies: &[u64]) -> Histogram {
        let mut words = vec![0_u64; 2 * WORDS];
        words[0] = (3 << 16) + 9092 + 1;
        for (at, latency) in latencies.iter().enumerate() {
            words[at % 2 * WORDS + 8 + bucket_of(*latency)] += 1;
        }
        Histogram::read(&words.into_iter().map(AtomicU64::new).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn bucket_middles_are_within_one_percent_of_the_latency() {
        let mut latency = 1_u64;
        while latency < 1 << (MAX_LATENCY_BITS - 1) {
            for near in [latency - 1, latency, latency + 1, latency + latency / 3] {
                let bucket = bucket_of(near);
                assert!(bucket < BUCKETS);
                let error = middle_of(bucket).abs_diff(near);
                assert!(error * 100 <= near.max(1), "{near} is in {bucket}: {}", middle_of(bucket));
            }
            latency += latency / 7 + 1;
        }
    }

    #[test]
    fn bucket_middles_map_back_and_the_last_bucket_takes_the_rest() {
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(middle_of(bucket)), bucket);
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert_eq!(bucket_of((1 << MAX_LATENCY_BITS) - 1), BUCKETS - 1);
    }

    #[test]
    fn quantiles_match_the_latencies() {
        let latencies: Vec<u64> = (1..=1000).map(|n| n * 10_007).collect();
        let histogram = of(&latencies);
        for (share, truth) in [(0.0, 10_007), (0.5, 5_003_500), (0.99, 9_906_930), (1.0, 10_007_000)] {
            let found = histogram.quantile(share).unwrap();
            assert!(found.abs_diff(truth) * 100 <= truth, "{share}: {found} is not {truth}");
        }
        assert_eq!(of(&[]).quantile(0.5), None);
    }

    #[test]
    fn since_returns_the_added_latencies() {
        let (earlier, now) = (of(&[5, 900]), of(&[5, 900, 900, 70_000]));
        let added = now.since(&earlier);
        assert_eq!((added.answered(), added.api_key, added.local_port), (2, 3, 9092));
        assert_eq!(added.latencies().map(|(_, count)| count).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(now.since(&Histogram::default()), now);
    }

    #[test]
    fn unused_memory_is_not_a_histogram() {
        let words: Vec<AtomicU64> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        assert_eq!(Histogram::read(&words), None);
    }
}
