//! Clients far away: what they send passes a thin link with a short queue that drops what does not fit, so that TCP
//! retransmits, at times only after its timeout.
//!
//! Truth: `slow-client` for slow requests of those clients, which is what causes.md calls bytes that arrive slowly, for
//! whatever reason, before they reach the broker. A request behind such a one on the same connection arrives late too.

use std::time::Duration;

use super::mix;
use super::plan::{Fault, Truth, Window};
use super::scene::Scene;
use crate::broker::BrokerOptions;
use crate::client::{Traffic, now_ns};
use crate::error::Error;
use crate::net::{Limit, Network, Way};
use crate::random::Random;

/// The broker's host on the network.
const BROKER: u8 = 1;
const FAR: &str = "far";
const PORT: u16 = 9092;

#[derive(Default)]
pub(super) struct LossyLink {
    network: Option<Network>,
}

impl Fault for LossyLink {
    fn name(&self) -> &'static str {
        "lossy-link"
    }

    fn story(&self) -> &'static str {
        "the clients' packets are dropped on the way to the broker"
    }

    fn configure(&mut self, options: &mut BrokerOptions, _: &mut Random) -> Result<(), Error> {
        let network = Network::make(&options.site.clone().unwrap_or_default(), BROKER)?;
        options.place = network.host(BROKER).unwrap_or_default();
        options.address = Network::address(BROKER);
        options.port = Some(PORT);
        self.network = Some(network);
        Ok(())
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        let Some(network) = &self.network else { return Err(Error::Unusable("no network".to_owned())) };
        scene.clients = network.clients();
        scene.create_plain_topic(mix::TOPIC, mix::MOST_PARTITIONS)?;
        scene.warm_up(&mix::standard(random), random)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let Some(network) = &self.network else { return Err(Error::Unusable("no network".to_owned())) };
        let far = Traffic {
            client: FAR.to_owned(),
            topic: mix::TOPIC.to_owned(),
            partitions: mix::MOST_PARTITIONS,
            producers: random.between(3, 6) as u32,
            per_second: random.between(4, 8) as u32,
            record_bytes: random.between(20_000, 60_000) as u32,
            in_flight: 1,
            acks: 1,
        };
        let limit = Limit {
            rate_kbit: random.between(4_000, 10_000) as u32,
            burst_bytes: 5_000,
            queue_bytes: random.between(10_000, 20_000) as u32,
        };
        let length_ms = random.between(2_500, 3_500);
        let load = scene.produce(&far, random)?;
        scene.quiet()?;
        let start_ns = now_ns();
        network.limit(BROKER, Way::ToHost, limit)?;
        scene.sleep(Duration::from_millis(length_ms))?;
        let dropped = network.dropped(BROKER, Way::ToHost)?;
        network.free(BROKER, Way::ToHost)?;
        load.stop()?;
        let end_ns = now_ns();
        scene.quiet()?;
        Ok(Window {
            start_ns,
            end_ns,
            threshold_ms: random.between(60, 120),
            parameters: format!(
                "{} kbit/s with a queue of {} B for {length_ms} ms; {}",
                limit.rate_kbit,
                limit.queue_bytes,
                mix::described(&far)
            ),
            truths: vec![Truth::of(&["slow-client"]).through(&["slow-client"]).client(FAR).api("PRODUCE")],
            ..Window::default()
        }
        .shown_by(dropped as usize, "packets dropped on their way to the broker"))
    }

    fn restore(&mut self, _: &mut Scene) {
        self.network = None;
    }
}
