//! Three brokers in network namespaces; one of the two that follow is halted (SIGSTOP) for some hundred milliseconds, or
//! what the leader sends it has to pass a link that is far too thin. It stays in sync: `replica.lag.time.max.ms` is long.
//!
//! Truth: `replication-wait` for slow produce requests with acks=all: the leader had written them and waited until all
//! had fetched them.

use std::path::PathBuf;
use std::time::Duration;

use fastrand::Rng;
use rustix::process::Signal;

use super::ground_truth::Observation;
use super::plan::{
    Declaration, Fault, Injection, MAX_PARTITIONS, OpenWindow, Proof, TOPIC, Truth, standard_load,
};
use super::prepared;
use super::test_bed::TestBed;
use crate::broker::{Broker, BrokerOptions};
use crate::client::{Topic, Traffic};
use crate::cluster;
use crate::cpu_hogs::send;
use crate::error::Error;
use crate::jvm::{pauses, pauses_argument};
use crate::net::{Limit, Network, Way};

#[derive(Default)]
pub(super) struct FollowerDelay {
    followers: Vec<Broker>,
    /// Where the followers' JVMs log their pauses.
    logs: Vec<PathBuf>,
    network: Option<Network>,
}

impl Fault for FollowerDelay {
    fn declaration(&self) -> &'static Declaration {
        &Declaration {
            name: "follower-delayed",
            story: "one of two followers is halted, or its link is thin",
            load: |rng| Traffic { acks: -1, ..standard_load(rng) },
            threshold_ms: (40, 100),
            truths: || vec![Truth::of(&["replication-wait"]).through(&["replication-wait"]).client(TOPIC)],
            ..Declaration::DEFAULT
        }
    }

    fn configure(&mut self, options: &mut BrokerOptions, _: &mut Rng) -> Result<(), Error> {
        let network = Network::make(&options.site.clone().unwrap_or_default(), cluster::SIZE)?;
        cluster::make_leader(options, &network)?;
        self.network = Some(network);
        Ok(())
    }

    fn connect(&mut self, bed: &mut TestBed) -> Result<(), Error> {
        let network = prepared(self.network.as_ref())?;
        bed.clients = network.clients();
        for number in [2, 3] {
            let mut options = cluster::follower(&bed.site, network, number, &bed.interrupt)?;
            let log = options.directory.join("stops.log");
            options.jvm_arguments.push(pauses_argument(&log));
            self.logs.push(log);
            self.followers.push(Broker::start(&bed.kafka, options)?);
        }
        Ok(())
    }

    fn create_topic(&mut self, bed: &mut TestBed) -> Result<(), Error> {
        // By number, the leader first.
        let (name, brokers) = (TOPIC.to_owned(), vec![1, 2, 3]);
        bed.create_topic(&Topic { name, partitions: MAX_PARTITIONS, brokers, ..Topic::default() })
    }

    fn inject(&mut self, window: &mut OpenWindow<'_>) -> Result<Injection, Error> {
        let network = prepared(self.network.as_ref())?;
        let OpenWindow { bed, rng, .. } = window;
        let (number, times) = (rng.u8(2..=3), rng.u32(2..=3));
        let held = Duration::from_millis(rng.u64(200..=600));
        let is_halted = rng.bool();
        let follower = prepared(self.followers.get(usize::from(number) - 2))?.pid;
        for _ in 0..times {
            if is_halted {
                let _halted = StoppedProcess::new(follower)?;
                bed.sleep(held)?;
            } else {
                network.limit(number, Way::ToHost, THIN)?;
                bed.sleep(held)?;
                network.free(number, Way::ToHost)?;
            }
            bed.sleep(Duration::from_millis(rng.u64(200..=500)))?;
        }
        let how = if is_halted { "halted" } else { "behind a link of 64 kbit/s" };
        Ok(Injection {
            parameters: format!("broker {number} {how} {times} times for {held:?}; acks=all"),
            proof: Proof::SlowRequests,
        })
    }

    fn observations(&mut self) -> Result<Vec<Observation>, Error> {
        let logs = self.logs.iter();
        let observed: Result<Vec<_>, Error> =
            logs.map(|log| Ok(Observation::by_follower(&pauses(log)?))).collect();
        Ok(observed?.concat())
    }
}

/// Next to nothing passes; what waits is not lost, so that TCP goes on as soon as the limit is gone.
const THIN: Limit = Limit { rate_kbit: 64, burst_bytes: 2_000, queue_bytes: 4 << 20 };

/// A halted process; goes on when dropped.
struct StoppedProcess(u32);

impl StoppedProcess {
    fn new(pid: u32) -> Result<Self, Error> {
        send(pid, Signal::STOP).map(|()| Self(pid))
    }
}

impl Drop for StoppedProcess {
    fn drop(&mut self) {
        let _ = send(self.0, Signal::CONT);
    }
}
