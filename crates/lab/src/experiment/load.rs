//! The load of a run, and what its clients measured.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use super::run_log::RunSpec;
use super::setup::{Load, Setup};
use crate::broker::Broker;
use crate::client::{Answer, Running, Traffic};
use crate::error::Error;
use crate::kafka::Kafka;
use crate::load;
use crate::load::{Producer, UNLIMITED};
use crate::net::Place;
use crate::site::Site;

/// Who drives whom from where.
pub(super) struct Clients<'a> {
    pub(super) place: &'a Place,
    pub(super) broker: &'a Broker,
    pub(super) kafka: &'a Kafka,
    pub(super) site: &'a Site,
}

/// Load at work, and the size of its records; ended when dropped.
pub(super) enum Driving {
    Paced(Running, u32),
    Flat(load::Load, u32),
}

impl Driving {
    pub(super) fn start(asked: &RunSpec, from: &Clients) -> Result<Self, Error> {
        let setup = &asked.setup;
        match &setup.load {
            Load::Paced { producers, per_second, record_bytes, in_flight } => {
                let (topic, partitions) = setup.topics.first().cloned().unwrap_or_default();
                let traffic = Traffic {
                    client: "producer".to_owned(),
                    topic,
                    partitions,
                    producers: *producers,
                    per_second: *per_second,
                    record_bytes: *record_bytes,
                    in_flight: *in_flight,
                    acks: 1,
                };
                let (address, mut rng) = (from.broker.listener(), Rng::with_seed(asked.seed));
                let running = from.place.within(|| traffic.start(address, &mut rng))??;
                Ok(Self::Paced(running, *record_bytes))
            }
            Load::Flat { producers, record_bytes, properties } => {
                let all = flat(setup, *producers, *record_bytes, properties);
                let (directory, site) = (from.site.directory("load")?, Some(from.site.path()));
                let load = load::Load::start_in(from.place, from.kafka, from.broker, &all, &directory, site)?;
                Ok(Self::Flat(load, *record_bytes))
            }
        }
    }

    /// Measures from here on.
    pub(super) fn measure(&mut self) {
        if let Self::Flat(load, _) = self {
            load.measure();
        }
    }

    /// Whether it goes on; paced producers say so at their end.
    pub(super) fn check(&mut self) -> Result<(), Error> {
        match self {
            Self::Paced(..) => Ok(()),
            Self::Flat(load, _) => load.check(),
        }
    }

    /// Ends it; what was measured is of what was sent within `span`, UTC nanoseconds.
    pub(super) fn stop(self, span: (i64, i64), slo_ms: u64) -> Result<ClientMetrics, Error> {
        Ok(match self {
            Self::Paced(running, bytes) => ClientMetrics::of_answers(&running.stop()?, span, bytes, slo_ms),
            Self::Flat(load, bytes) => ClientMetrics::of_load(load.stop(), bytes),
        })
    }
}

/// Producers of all topics in turn.
fn flat(setup: &Setup, producers: u32, record_bytes: u32, properties: &[String]) -> Vec<Producer> {
    let topics = setup.topics.iter().map(|(topic, _)| topic).cycle();
    let numbered = topics.zip(1..=producers);
    let of = |(topic, number): (&String, u32)| Producer {
        topic: topic.clone(),
        client_id: format!("producer-{number}"),
        rate: UNLIMITED,
        record_bytes,
        properties: properties.to_vec(),
    };
    numbered.map(of).collect()
}

/// One run's figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ClientMetrics {
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

impl ClientMetrics {
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
    pub(crate) fn of_load(measured: load::ProducerMetrics, record_bytes: u32) -> Self {
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
mod measured_tests {
    use super::*;

    #[test]
    fn only_what_was_sent_while_it_was_measured_counts() {
        let answer =
            |second: i64, ms: i64| Answer { sent_ns: second * 1_000_000_000, latency_ns: ms * 1_000_000 };
        let mut answers: Vec<Answer> = (0..1000).map(|_| answer(11, 2)).collect();
        answers.extend([answer(9, 900), answer(20, 900), answer(12, 65), answer(12, 66)]);
        let measured = ClientMetrics::of_answers(&answers, (10_000_000_000, 20_000_000_000), 1000, 65);
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
