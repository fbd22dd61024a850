//! What the clients of one run saw: a second witness beside the recording. Percentiles are nearest ranks.

use serde::{Deserialize, Serialize};

use crate::client::Answer;
use crate::load;

/// One run's figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Records a second.
    pub(crate) records_per_s: f64,
    /// Bytes of record values a second.
    pub(crate) bytes_per_s: f64,
    /// Of single requests, where the load knows them.
    pub(crate) latency: Option<Latency>,
}

/// From sending a request to its answer, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) requests: u64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    pub(crate) max_ms: f64,
    /// Requests that took longer than what was asked.
    pub(crate) misses: u64,
}

impl Measured {
    /// Of paced producers' answers to what they sent within a span of UTC nanoseconds.
    pub(crate) fn of_answers(
        answers: &[Answer],
        (start_ns, end_ns): (i64, i64),
        record_bytes: u32,
        slo_ms: u64,
    ) -> Self {
        let within = answers.iter().filter(|answer| (start_ns..end_ns).contains(&answer.sent_ns));
        let mut latencies: Vec<i64> = within.map(|answer| answer.latency_ns).collect();
        latencies.sort_unstable();
        let seconds = (end_ns - start_ns).max(1) as f64 / 1e9;
        let records_per_s = latencies.len() as f64 / seconds;
        let latency = Some(Latency::of(&latencies, slo_ms));
        Self { records_per_s, bytes_per_s: records_per_s * f64::from(record_bytes), latency }
    }

    /// Of `ProducerPerformance`'s own words.
    pub(crate) fn of_load(measured: load::Measured, record_bytes: u32) -> Self {
        let records_per_s = measured.records_per_s;
        Self { records_per_s, bytes_per_s: records_per_s * f64::from(record_bytes), latency: None }
    }
}

impl Latency {
    fn of(sorted: &[i64], slo_ms: u64) -> Self {
        let rank = |share: f64| {
            let at = (share * sorted.len() as f64).ceil() as usize;
            sorted.get(at.saturating_sub(1)).map_or(0.0, |&latency| latency as f64 / 1e6)
        };
        let limit = i64::try_from(slo_ms.saturating_mul(1_000_000)).unwrap_or(i64::MAX);
        Self {
            requests: sorted.len() as u64,
            p50_ms: rank(0.5),
            p99_ms: rank(0.99),
            p999_ms: rank(0.999),
            max_ms: rank(1.0),
            misses: (sorted.len() - sorted.partition_point(|&latency| latency <= limit)) as u64,
        }
    }

    /// Misses of all requests, per cent.
    pub(crate) fn miss_percent(&self) -> f64 {
        100.0 * self.misses as f64 / self.requests.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sent_while_it_was_measured_counts() {
        let answer =
            |second: i64, ms: i64| Answer { sent_ns: second * 1_000_000_000, latency_ns: ms * 1_000_000 };
        let mut answers: Vec<Answer> = (0..1000).map(|_| answer(11, 2)).collect();
        answers.extend([answer(9, 900), answer(20, 900), answer(12, 65), answer(12, 66)]);
        let measured = Measured::of_answers(&answers, (10_000_000_000, 20_000_000_000), 1000, 65);
        let latency = measured.latency.unwrap();
        assert_eq!((latency.requests, latency.misses), (1002, 1));
        assert_eq!((latency.p50_ms, latency.p999_ms, latency.max_ms), (2.0, 65.0, 66.0));
        assert!((measured.bytes_per_s - 100_200.0).abs() < 1e-6, "{}", measured.bytes_per_s);
    }

    #[test]
    fn nothing_is_nothing() {
        assert_eq!(Latency::of(&[], 65), Latency::default());
        assert!(Latency::default().miss_percent().abs() < f64::EPSILON);
    }
}
