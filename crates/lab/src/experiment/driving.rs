//! The load of a run: the lab's own producers at their pace, or Kafka's as fast as they can.

use super::ledger::Asked;
use super::measured::Measured;
use super::setup::{Load, Setup};
use crate::broker::Broker;
use crate::client::{Running, Traffic};
use crate::error::Error;
use crate::kafka::Kafka;
use crate::load::{self, Producer, UNLIMITED};
use crate::net::Place;
use crate::site::Site;
use fastrand::Rng;

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
    pub(super) fn start(asked: &Asked, from: &Clients) -> Result<Self, Error> {
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
    pub(super) fn stop(self, span: (i64, i64), slo_ms: u64) -> Result<Measured, Error> {
        Ok(match self {
            Self::Paced(running, bytes) => Measured::of_answers(&running.stop()?, span, bytes, slo_ms),
            Self::Flat(load, bytes) => Measured::of_load(load.stop(), bytes),
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
