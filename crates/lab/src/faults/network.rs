//! Faults of clients and of the network between them and the broker.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use rustix::process::Signal;

use super::ground_truth::Observation;
use super::plan::{
    Fault, MAX_PARTITIONS, OpenWindow, Proof, TOPIC, Truth, VolumeKind, prepared, standard_load,
};
use super::test_bed::{BrokerAccess, Slow};
use crate::broker::{Broker, BrokerOptions, CLUSTER_SIZE, join_cluster};
use crate::client::{Connection, Request, Traffic, connect_with_small_window, sip, trickle};
use crate::error::Result;
use crate::host::send;
use crate::jvm::{pauses, pauses_argument};
use crate::net::{Limit, Network, Way};
use crate::process::{Background, in_parallel};
use crate::session::interrupt;

/// Clients whose requests arrive in small pieces with pauses in between. A machine that swaps or a thin link has this
/// effect.
///
/// Truth: `slow-client` for those requests: their first byte came long before their last. The others are not slowed.
pub(super) const TRICKLED_REQUEST: Fault = Fault {
    name: "trickled-request",
    story: "requests of some clients arrive in pieces",
    shares: true,
    threshold_ms: (40, 100),
    truths: || vec![Truth::of(&["slow-client"]).client(TRICKLER)],
    inject: |window| {
        let (clients, requests) = (window.rng.u32(2..=4), window.rng.u32(2..=4));
        with_clients(window, clients, |access, number, rng| trickler(access, number, requests, rng))?;
        Ok(Proof::Counted((clients * requests) as usize, "requests sent in pieces"))
    },
    ..Fault::DEFAULT
};

const TRICKLER: &str = "trickler";

/// Sends this many requests, each in pieces; returns a description.
fn trickler(access: &BrokerAccess, number: u32, requests: u32, rng: &mut Rng) -> Result<String> {
    let mut connection = access.connect(&format!("{TRICKLER}-{number}"))?;
    let mut value = vec![0; rng.usize(500..=20_000)];
    let (pieces, time_ms) = (rng.u32(2..=12), rng.u64(150..=600));
    for _ in 0..requests {
        interrupt().check()?;
        rng.fill(&mut value);
        let frame = connection.frame(&Request::produce(TOPIC, 0, 1, &[&value]));
        trickle(&connection.stream, &frame, pieces, Duration::from_millis(time_ms))?;
        connection.receive()?;
    }
    Ok(format!("{} B in {pieces} pieces over {time_ms} ms", value.len()))
}

/// One connection for everything, as some proxies use it: produce requests behind a fetch that waits for data. The
/// broker serves one request of a connection at a time.
///
/// Truth: `head-of-line` for the produce requests, anywhere in the chain: the fetch ahead has its own reason. That is a
/// `long-poll`, if it is reported at all.
pub(super) const HEAD_OF_LINE: Fault = Fault {
    name: "head-of-line",
    story: "produce requests share a connection with a fetch that waits",
    shares: true,
    threshold_ms: (40, 100),
    truths: || {
        vec![
            Truth::of(&["head-of-line"]).through(&["head-of-line"]).client(SHARER).api("PRODUCE"),
            Truth::of(&["long-poll"]).client(SHARER).api("FETCH"),
        ]
    },
    prepare: |bed, _, rng| bed.create_filled_topic(SILENT, &[], (0, 0), rng),
    inject: |window| {
        let (clients, rounds) = (window.rng.u32(1..=3), window.rng.u32(2..=4));
        with_clients(window, clients, |access, number, rng| sharer(access, number, rounds, rng))?;
        Ok(Proof::Counted((clients * rounds) as usize, "fetches that were waited behind"))
    },
    ..Fault::DEFAULT
};

const SHARER: &str = "sharer";
/// Nothing is written to it.
const SILENT: &str = "silent";

/// Sends a fetch that waits and some batches right behind it, `rounds` times; returns a description.
fn sharer(access: &BrokerAccess, number: u32, rounds: u32, rng: &mut Rng) -> Result<String> {
    let mut connection = access.connect(&format!("{SHARER}-{number}"))?;
    let (wait_ms, behind) = (rng.u32(200..=600), rng.u32(1..=4));
    let mut value = vec![0; rng.usize(100..=2_000)];
    for _ in 0..rounds {
        interrupt().check()?;
        connection.send(&Request::fetch(SILENT, 0, 0, 1 << 10, wait_ms))?;
        for _ in 0..behind {
            rng.fill(&mut value);
            connection.send(&Request::produce(TOPIC, 0, 1, &[&value]))?;
        }
        for _ in 0..=behind {
            connection.receive()?;
        }
        interrupt().sleep(Duration::from_millis(50))?;
    }
    Ok(format!("{behind} produce request(s) behind a fetch that waits {wait_ms} ms"))
}

/// Runs clients in parallel, and joins the descriptions of what they drew. Each client has a number from 1 on and a
/// generator.
fn with_clients(
    window: &mut OpenWindow<'_>,
    count: u32,
    run: impl Fn(&BrokerAccess, u32, &mut Rng) -> Result<String> + Sync,
) -> Result<()> {
    let clients: Vec<(u32, Rng)> = (1..=count).map(|number| (number, window.rng.fork())).collect();
    let access = window.bed.access();
    let descriptions = in_parallel(clients, |(number, mut rng)| run(&access, number, &mut rng));
    window.parameters = descriptions.into_iter().collect::<Result<Vec<String>>>()?.join("; ") + "; beside";
    Ok(())
}

/// A consumer that reads its responses slowly, with a small receive window. The broker writes a response's first bytes
/// at once and the last ones long after.
///
/// Truth: `slow-client` for its fetches. The producers beside it are not slowed.
pub(super) const SLOW_READER: Fault = Fault {
    name: "slow-reader",
    story: "a consumer reads its responses slowly",
    shares: true,
    threshold_ms: (50, 120),
    truths: || vec![Truth::of(&["slow-client"]).client(READER).api("FETCH")],
    prepare: |bed, _, rng| bed.create_filled_topic(BULK, &[], (24, 256 << 10), rng),
    inject: |window| {
        let OpenWindow { bed, rng, .. } = window;
        let requests = rng.u32(2..=4);
        let window_bytes = rng.usize(8..=32) << 10;
        let (bytes, time_ms) = (rng.u32(1_500..=4_000) << 10, rng.u64(300..=900));
        let piece = rng.u32(16..=64) << 10;
        let pause = Duration::from_millis(time_ms) / (bytes / piece).max(1);
        let endpoint = bed.broker.clients_endpoint();
        let socket = connect_with_small_window(endpoint.address, window_bytes)?;
        let mut connection = Connection::over(socket, endpoint, READER)?;
        let mut read = 0;
        for _ in 0..requests {
            interrupt().check()?;
            connection.send(&Request::fetch(BULK, 0, 0, bytes, 100))?;
            read += usize::from(sip(&connection.stream, piece as usize, pause)? > bytes as usize / 2);
        }
        window.parameters = format!(
            "{requests} responses of {bytes} B read {piece} B at a time over about {time_ms} ms, receive buffer \
                 {window_bytes} B; beside"
        );
        Ok(Proof::Counted(read, "responses read slowly"))
    },
    ..Fault::DEFAULT
};

const READER: &str = "slow-reader";
const BULK: &str = "bulk";

/// Two causes at once, on different connections: ext4's journal is slow, as in [`super::disk::JOURNAL_STALL`], and one
/// client sends its requests a few bytes at a time.
///
/// Truth: `slow-client` for that client's requests, whose bytes take several times as long to arrive as any commit
/// takes; `journal-commit` for all others.
pub(super) const TWO_CAUSES: Fault = Fault {
    name: "two-causes",
    story: "ext4's journal is slow, and one client sends its requests slowly",
    volume: VolumeKind::JOURNALED,
    shares: true,
    threshold_ms: (40, 70),
    truths: || {
        vec![Truth::of(&["slow-client"]).client(SLOW_CLIENT), Truth::of(&["journal-commit"]).client(TOPIC)]
    },
    inject: |window| {
        let (held_ms, trickle_ms) = (window.rng.u64(100..=200), window.rng.u64(900..=1_300));
        let (connection, rng) = (window.bed.connect(SLOW_CLIENT)?, window.rng.fork());
        let time = Duration::from_millis(trickle_ms);
        let client =
            Background::start("the slow client", move |over| trickle_until(connection, time, rng, over));
        window.bed.slow_down(Slow::JournalWrites, held_ms, 2_800, held_ms)?;
        let trickled = client.stop()??;
        let held = window.bed.held_back()?;
        window.parameters =
            format!("journal writes +{held_ms} ms, {trickled} requests in {trickle_ms} ms each");
        Ok(Proof::Counted(held.min(trickled), "writes held back and requests trickled"))
    },
    ..Fault::DEFAULT
};

const SLOW_CLIENT: &str = "far-away";
/// Number of pieces of a slow request.
const PIECES: u32 = 12;

/// Sends requests piece by piece until `over`; returns how many.
pub(super) fn trickle_until(
    mut connection: Connection,
    time: Duration,
    mut rng: Rng,
    over: &AtomicBool,
) -> Result<usize> {
    let mut sent = 0;
    let mut value = [0; 1200];
    while !over.load(Ordering::Relaxed) {
        rng.fill(&mut value);
        let frame = connection.frame(&Request::produce(TOPIC, 0, 1, &[&value]));
        trickle(&connection.stream, &frame, PIECES, time)?;
        connection.receive()?;
        sent += 1;
    }
    Ok(sent)
}

/// Distant clients: their packets pass a thin link with a short queue that drops what does not fit, so that TCP
/// retransmits, at times only after its timeout.
///
/// Truth: `slow-client` for slow requests of those clients: their bytes arrive slowly, for any reason, before they
/// reach the broker. A request behind such a one on the same connection arrives late too.
pub(super) const LOSSY_LINK: Fault = Fault {
    name: "lossy-link",
    story: "the clients' packets are dropped on the way to the broker",
    load: far_load,
    threshold_ms: (60, 120),
    truths: || vec![Truth::of(&["slow-client"]).through(&["slow-client"]).client(FAR).api("PRODUCE")],
    configure: |options, tools, _| {
        let network = Network::make(prepared(options.site.as_ref())?, BROKER)?;
        options.join(&network, BROKER)?;
        options.port = Some(9092);
        tools.network = Some(network);
        Ok(())
    },
    inject: |window| {
        let network = prepared(window.tools.network.as_ref())?;
        let (rate_kbit, queue_bytes) = (window.rng.u32(4_000..=10_000), window.rng.u32(10_000..=20_000));
        let length_ms = window.rng.u64(2_500..=3_500);
        network.limit(BROKER, Way::ToHost, Limit { rate_kbit, burst_bytes: 5_000, queue_bytes })?;
        interrupt().sleep(Duration::from_millis(length_ms))?;
        let dropped = network.dropped(BROKER, Way::ToHost)?;
        network.free(BROKER, Way::ToHost)?;
        window.stop_load()?;
        window.parameters = format!("{rate_kbit} kbit/s with a queue of {queue_bytes} B for {length_ms} ms");
        Ok(Proof::Counted(dropped as usize, "packets dropped on their way to the broker"))
    },
    ..Fault::DEFAULT
};

/// The broker's host on the network.
const BROKER: u8 = 1;
const FAR: &str = "far";

fn far_load(rng: &mut Rng) -> Traffic {
    Traffic {
        client: FAR.to_owned(),
        partitions: MAX_PARTITIONS,
        producers: rng.u32(3..=6),
        per_second: rng.u32(4..=8),
        record_bytes: rng.u32(20_000..=60_000),
        in_flight: 1,
        ..standard_load(rng)
    }
}

pub(super) const FOLLOWER_DELAY: Fault = Fault {
    name: "follower-delayed",
    story: "one of two followers is halted, or its link is thin",
    topic_brokers: &[1, 2, 3],
    load: |rng| Traffic { acks: -1, ..standard_load(rng) },
    threshold_ms: (40, 100),
    truths: || vec![Truth::of(&["replication-wait"]).through(&["replication-wait"]).client(TOPIC)],
    configure: |options, tools, _| {
        let network = Network::make(prepared(options.site.as_ref())?, CLUSTER_SIZE)?;
        join_cluster(options, &network, 1)?;
        tools.network = Some(network);
        Ok(())
    },
    connect: |bed, tools| {
        let network = prepared(tools.network.as_ref())?;
        for number in [2, 3] {
            let mut options = BrokerOptions::of_site(&bed.site, &format!("broker-{number}"))?;
            join_cluster(&mut options, network, number)?;
            let log = options.directory.join("stops.log");
            options.jvm_arguments.push(pauses_argument(&log));
            tools.follower_logs.push(log);
            tools.followers.push(Broker::start(&bed.kafka, options)?);
        }
        Ok(())
    },
    inject: |window| {
        let OpenWindow { tools, rng, .. } = window;
        let network = prepared(tools.network.as_ref())?;
        let (number, times) = (rng.u8(2..=3), rng.u32(2..=3));
        let held = Duration::from_millis(rng.u64(200..=600));
        let is_halted = rng.bool();
        let follower = prepared(tools.followers.get(usize::from(number) - 2))?.pid;
        for _ in 0..times {
            if is_halted {
                let _halted = StoppedProcess::new(follower)?;
                interrupt().sleep(held)?;
            } else {
                network.limit(number, Way::ToHost, THIN)?;
                interrupt().sleep(held)?;
                network.free(number, Way::ToHost)?;
            }
            interrupt().sleep(Duration::from_millis(rng.u64(200..=500)))?;
        }
        let how = if is_halted { "halted" } else { "behind a link of 64 kbit/s" };
        window.parameters = format!("broker {number} {how} {times} times for {held:?}; acks=all");
        Ok(Proof::SlowRequests)
    },
    observations: |tools| {
        let logs = tools.follower_logs.iter().map(|log| Ok(Observation::by_follower(&pauses(log)?)));
        Ok(logs.collect::<Result<Vec<_>>>()?.concat())
    },
    ..Fault::DEFAULT
};

/// Next to nothing passes; queued packets are not lost, so that TCP continues as soon as the limit is lifted.
pub(super) const THIN: Limit = Limit { rate_kbit: 64, burst_bytes: 2_000, queue_bytes: 4 << 20 };

/// A halted process; continues when dropped.
pub(super) struct StoppedProcess(u32);

impl StoppedProcess {
    pub(super) fn new(pid: u32) -> Result<Self> {
        send(pid, Signal::STOP).map(|()| Self(pid))
    }
}

impl Drop for StoppedProcess {
    fn drop(&mut self) {
        let _ = send(self.0, Signal::CONT);
    }
}
