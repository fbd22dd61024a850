//! Three brokers in network namespaces; one of the two that follow is halted (SIGSTOP) for some hundred milliseconds, or
//! what the leader sends it has to pass a link that is far too thin. It stays in sync: `replica.lag.time.max.ms` is long.
//!
//! Truth: `replication-wait` for slow produce requests with acks=all: the leader had written them and waited until all
//! had fetched them.

use std::time::Duration;

use rustix::process::Signal;

use super::ground_truth::Observation;
use super::plan::{Fault, Injection, OpenWindow, Proof, TOPIC, Truth, prepared, standard_load};
use crate::broker::Broker;
use crate::client::Traffic;
use crate::cluster;
use crate::cpu_hogs::send;
use crate::error::Error;
use crate::jvm::{pauses, pauses_argument};
use crate::net::{Limit, Network, Way};

pub(super) const FOLLOWER_DELAY: Fault = Fault {
    name: "follower-delayed",
    story: "one of two followers is halted, or its link is thin",
    topic_brokers: &[1, 2, 3],
    load: |rng| Traffic { acks: -1, ..standard_load(rng) },
    threshold_ms: (40, 100),
    truths: || vec![Truth::of(&["replication-wait"]).through(&["replication-wait"]).client(TOPIC)],
    configure: |options, tools, _| {
        let network = Network::make(&options.site.clone().unwrap_or_default(), cluster::SIZE)?;
        cluster::make_leader(options, &network)?;
        tools.network = Some(network);
        Ok(())
    },
    connect: |bed, tools| {
        let network = prepared(tools.network.as_ref())?;
        bed.clients = network.clients();
        for number in [2, 3] {
            let mut options = cluster::follower(&bed.site, network, number, &bed.interrupt)?;
            let log = options.directory.join("stops.log");
            options.jvm_arguments.push(pauses_argument(&log));
            tools.follower_logs.push(log);
            tools.followers.push(Broker::start(&bed.kafka, options)?);
        }
        Ok(())
    },
    inject: |window| {
        let OpenWindow { bed, tools, rng, .. } = window;
        let network = prepared(tools.network.as_ref())?;
        let (number, times) = (rng.u8(2..=3), rng.u32(2..=3));
        let held = Duration::from_millis(rng.u64(200..=600));
        let is_halted = rng.bool();
        let follower = prepared(tools.followers.get(usize::from(number) - 2))?.pid;
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
    },
    observations: |tools| {
        let logs = tools.follower_logs.iter().map(|log| Ok(Observation::by_follower(&pauses(log)?)));
        Ok(logs.collect::<Result<Vec<_>, Error>>()?.concat())
    },
    ..Fault::DEFAULT
};

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
