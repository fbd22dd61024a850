//! Faults of encrypted replication: brokers that speak TLS among themselves.

use std::time::Duration;

use super::network::{StoppedProcess, THIN, trickle_until};
use super::plan::{Fault, OpenWindow, Proof, TOPIC, Truth, prepared, standard_load};
use crate::broker::{Broker, BrokerOptions, join_cluster, make_keystore, replicate_over_tls};
use crate::client::Traffic;
use crate::error::Result;
use crate::net::{Network, Way};
use crate::process::Background;
use crate::session::interrupt;

/// Brokers speak TLS among themselves, and clients plaintext. Strimzi configures them like this by default. The
/// follower is halted, or its link is thin, and requests with acks=all wait for it. Beside them a client sends its
/// requests, acks=1, in pieces.
///
/// Truth: `unobserved` for the first, because followers' fetches are not seen: no cause may be made up for an unseen
/// wait. `slow-client` for the other: what is seen has its cause.
pub(super) const TLS_REPLICATION: Fault = Fault {
    name: "tls-replication",
    story: "a follower that replicates over TLS is halted, or its link is thin",
    no_truth_over_tls: Some("--see-tls reads the followers' fetches, and this fault needs them unseen"),
    topic_brokers: &[LEADER as u32, FOLLOWER as u32],
    load: |rng| Traffic { acks: -1, ..standard_load(rng) },
    threshold_ms: (40, 100),
    truths: || {
        vec![
            Truth::of(&["slow-client"]).client(SLOW_CLIENT),
            Truth::of(&["unobserved"]).because("followers").client(TOPIC),
        ]
    },
    configure: |options, tools, _| {
        let network = Network::make(prepared(options.site.as_ref())?, FOLLOWER)?;
        let keystore = make_keystore(&options.directory)?;
        join_cluster(options, &network, LEADER)?;
        replicate_over_tls(options, LEADER, &keystore);
        tools.network = Some(network);
        Ok(())
    },
    connect: |bed, tools| {
        let network = prepared(tools.network.as_ref())?;
        let mut options = BrokerOptions::of_site(&bed.site, "follower")?;
        join_cluster(&mut options, network, FOLLOWER)?;
        let keystore = make_keystore(&bed.broker.options.directory)?;
        replicate_over_tls(&mut options, FOLLOWER, &keystore);
        tools.followers.push(Broker::start(&bed.kafka, options)?);
        Ok(())
    },
    inject,
    ..Fault::DEFAULT
};

const LEADER: u8 = 1;
const FOLLOWER: u8 = 2;
const SLOW_CLIENT: &str = "far-away";

fn inject(window: &mut OpenWindow<'_>) -> Result<Proof> {
    let (held_ms, trickle_ms) = (window.rng.u64(200..=600), window.rng.u64(300..=600));
    let (times, is_halted) = (window.rng.u32(2..=3), window.rng.bool());
    let (connection, rng) = (window.bed.connect(SLOW_CLIENT)?, window.rng.fork());
    let time = Duration::from_millis(trickle_ms);
    let client = Background::start("the slow client", move |over| trickle_until(connection, time, rng, over));
    for _ in 0..times {
        delay_follower(window, is_halted, Duration::from_millis(held_ms))?;
        interrupt().sleep(Duration::from_millis(window.rng.u64(200..=500)))?;
    }
    let trickled = client.stop()??;
    let how = if is_halted { "halted" } else { "behind a link of 64 kbit/s" };
    window.parameters = format!(
        "the follower {how} {times} times for {held_ms} ms, {trickled} requests in {trickle_ms} ms each; acks=all"
    );
    Ok(Proof::SlowRequests)
}

fn delay_follower(window: &OpenWindow<'_>, is_halted: bool, held: Duration) -> Result<()> {
    let follower = prepared(window.tools.followers.first())?.pid;
    let network = prepared(window.tools.network.as_ref())?;
    if is_halted {
        let _halted = StoppedProcess::new(follower)?;
        return interrupt().sleep(held);
    }
    network.limit(FOLLOWER, Way::ToHost, THIN)?;
    interrupt().sleep(held)?;
    network.free(FOLLOWER, Way::ToHost)
}
