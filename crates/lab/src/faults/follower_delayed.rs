//! Three brokers in network namespaces; one of the two that follow is halted (SIGSTOP) for some hundred milliseconds, or
//! what the leader sends it has to pass a link that is far too thin. It stays in sync: `replica.lag.time.max.ms` is long.
//!
//! Truth: `replication-wait` for slow produce requests with acks=all: the leader had written them and waited until all
//! had fetched them.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;

use super::mix;
use super::plan::{Fault, Truth, Window};
use super::scene::Scene;
use super::told::Told;
use crate::broker::{Broker, BrokerOptions};
use crate::client::{Topic, Traffic, now_ns};
use crate::cluster;
use crate::crowd::send;
use crate::error::Error;
use crate::jvm::{stops, stops_argument};
use crate::net::{Limit, Network, Way};
use crate::random::Random;

/// By number, the leader first.
const BROKERS: [u32; 3] = [1, 2, 3];

#[derive(Default)]
pub(super) struct FollowerDelayed {
    followers: Vec<Broker>,
    network: Option<Network>,
    /// Where the followers' JVMs log their stops.
    logs: Vec<PathBuf>,
}

impl Fault for FollowerDelayed {
    fn name(&self) -> &'static str {
        "follower-delayed"
    }

    fn story(&self) -> &'static str {
        "one of two followers is halted, or its link is thin"
    }

    fn configure(&mut self, options: &mut BrokerOptions, _: &mut Random) -> Result<(), Error> {
        let network = Network::make(&options.site.clone().unwrap_or_default(), cluster::SIZE)?;
        cluster::make_leader(options, &network)?;
        self.network = Some(network);
        Ok(())
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        let Some(network) = &self.network else { return Err(Error::Unusable("no network".to_owned())) };
        scene.clients = network.clients();
        for number in [2, 3] {
            let mut options = cluster::follower(&scene.site, network, number, &scene.interrupt)?;
            let log = options.directory.join("stops.log");
            options.jvm_arguments.push(stops_argument(&log));
            self.logs.push(log);
            self.followers.push(Broker::start(&scene.kafka, options)?);
        }
        let name = mix::TOPIC.to_owned();
        let partitions = mix::MOST_PARTITIONS;
        scene.create_topic(&Topic { name, partitions, brokers: BROKERS.to_vec(), ..Topic::default() })?;
        scene.warm_up(&Traffic { acks: -1, ..mix::standard(random) }, random)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let Some(network) = &self.network else { return Err(Error::Unusable("no network".to_owned())) };
        let traffic = Traffic { acks: -1, ..mix::standard(random) };
        let (number, times) = (random.between(2, 3) as u8, random.between(2, 3));
        let held = Duration::from_millis(random.between(200, 600));
        let is_halted = random.between(0, 1) == 0;
        let follower = self.followers.get(usize::from(number) - 2).map_or(0, |broker| broker.pid);
        let load = scene.produce(&traffic, random)?;
        scene.quiet()?;
        let start_ns = now_ns();
        for _ in 0..times {
            if is_halted {
                let _halted = Halted::new(follower)?;
                scene.sleep(held)?;
            } else {
                network.limit(number, Way::ToHost, THIN)?;
                scene.sleep(held)?;
                network.free(number, Way::ToHost)?;
            }
            scene.sleep(Duration::from_millis(random.between(200, 500)))?;
        }
        let end_ns = now_ns();
        scene.quiet()?;
        let answers = load.stop()?;
        let threshold_ms = random.between(40, 100);
        let slow = mix::slower_than(&answers, threshold_ms);
        let how = if is_halted { "halted" } else { "behind a link of 64 kbit/s" };
        Ok(Window {
            start_ns,
            end_ns,
            threshold_ms,
            parameters: format!(
                "broker {number} {how} {times} times for {held:?}; acks=all, {}",
                mix::described(&traffic)
            ),
            truths: vec![
                Truth::of(&["replication-wait"]).through(&["replication-wait"]).client(&traffic.client),
            ],
            ..Window::default()
        }
        .shown_by(slow, "requests that their producers saw slow"))
    }

    fn told(&mut self) -> Result<Vec<Told>, Error> {
        self.logs
            .iter()
            .try_fold(Vec::new(), |told, log| Ok([told, Told::by_follower(&stops(log)?)].concat()))
    }

    fn restore(&mut self, _: &mut Scene) {
        self.followers.clear();
        self.network = None;
    }
}

/// Next to nothing passes; what waits is not lost, so that TCP goes on as soon as the limit is gone.
const THIN: Limit = Limit { rate_kbit: 64, burst_bytes: 2_000, queue_bytes: 4 << 20 };

/// A halted process; goes on when dropped.
struct Halted(u32);

impl Halted {
    fn new(pid: u32) -> Result<Self, Error> {
        send(pid, Signal::STOP).map(|()| Self(pid))
    }
}

impl Drop for Halted {
    fn drop(&mut self) {
        let _ = send(self.0, Signal::CONT);
    }
}
