//! Compares `record --watch always-on` with a full recording of the same run. It counts as many requests of each API of
//! one broker, namely those that the clients sent, with the same percentiles as from packets.
//!
//! Percentiles may differ by 1 %, the resolution of a histogram's buckets, and by the kernel's work between a packet
//! and the hooks: before the request is in the receive buffer, and after the answer has left through a loopback device.
//!
//! Live tests need root and run where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use e2e::gate;
use e2e::recorder::Recorder;
use e2e::traffic::directory;
use lab::client::{Connection, Request as ClientRequest};
use lab::kafka::{DEFAULT_VERSION, Kafka};
use lab::{Broker, BrokerOptions};
use model::{Event, Table};
use recording::Recording;

const TOPIC: &str = "counted";
const PRODUCERS: u32 = 4;
const RUN: Duration = Duration::from_secs(20);
const SHARES: [f64; 3] = [0.5, 0.99, 0.999];
/// Minimum number of requests of an API for a comparison of percentiles.
const ENOUGH: usize = 1_000;
const MAX_DIFFERENCE: f64 = 0.01;
/// Time between packets and hooks, at both ends of a request.
const HOOKS_NS: f64 = 30_000.0;

/// Latencies of each API, ascending, in nanoseconds; excludes requests without an answer.
type Latencies = BTreeMap<i16, Vec<i64>>;

#[test]
fn always_on_percentiles_agree_with_packets() {
    let Some(_alone) = gate::live("always_on_percentiles_agree_with_packets") else { return };
    let kafka = Kafka::prepare(DEFAULT_VERSION).unwrap_or_else(|error| panic!("{error}"));
    let directory = directory("always-on-latencies");
    let broker = Broker::start(&kafka, BrokerOptions::new(directory.join("broker")));
    let broker = broker.unwrap_or_else(|error| panic!("{error}"));
    broker.create_topic(&kafka, TOPIC, PRODUCERS).unwrap_or_else(|error| panic!("{error}"));
    let [full, always_on] = ["full", "always-on"].map(|name| directory.join(name));
    let mode = ["--watch", "always-on", "--slower-than", "500ms"];
    let recorders = [Recorder::start(&full, broker.pid), Recorder::start_with(&always_on, broker.pid, &mode)];
    // The broker's own requests may come while only one of the recorders is running.
    let sent = send(broker.listener());
    recorders.into_iter().for_each(Recorder::stop);
    let counted = read_counts(&always_on);
    let captured = captured(&full);
    for (&api, &sent) in &sent {
        let found = [&counted, &captured].map(|latencies| latencies[&api].len());
        assert_eq!(found, [sent; 2], "API {api}: counted, captured");
    }
    println!("requests sent, by API: {sent:?}");
    println!("API  share  counted ms  by packets");
    for (api, _) in sent.iter().filter(|(_, sent)| **sent >= ENOUGH) {
        for share in SHARES {
            let [here, there] = [&counted, &captured].map(|latencies| quantile(&latencies[api], share));
            let percent = (here / there - 1.0) * 100.0;
            println!("{api:3}  {share:.3}  {:10.4}  {:10.4} {percent:+5.2} %", here / 1e6, there / 1e6);
            let allowed = there * MAX_DIFFERENCE + HOOKS_NS;
            assert!((here - there).abs() <= allowed, "API {api}, {share}: {here} ns, not {there}");
        }
    }
}

/// Sends requests of three APIs from several connections; returns how many of each.
fn send(broker: SocketAddr) -> BTreeMap<i16, usize> {
    let end = Instant::now() + RUN;
    let senders: Vec<_> = (0..PRODUCERS)
        .map(|partition| {
            spawn(move || {
                let mut connection = Connection::open(broker, format!("sender-{partition}")).unwrap();
                let produce = ClientRequest::produce(TOPIC, partition, 1, &[b"value"]);
                // Refused at once, because there is no such offset.
                let fetch = ClientRequest::fetch(TOPIC, partition, i64::from(u32::MAX), 1, 5);
                let find = ClientRequest::find_coordinator("nobody");
                let mut rounds = 0;
                while Instant::now() < end {
                    connection.order(&produce).unwrap();
                    connection.call(&find).unwrap();
                    if rounds % 4 == 0 {
                        connection.call(&fetch).unwrap();
                    }
                    rounds += 1;
                    sleep(Duration::from_millis(1));
                }
                rounds
            })
        })
        .collect();
    let rounds: Vec<usize> = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
    let fetches = rounds.iter().map(|rounds| rounds.div_ceil(4)).sum();
    let rounds = rounds.iter().sum();
    BTreeMap::from([(0, rounds), (1, fetches), (10, rounds)])
}

/// The counts of the always-on programs.
fn read_counts(recording: &Path) -> Latencies {
    let mut latencies = Latencies::default();
    for event in Recording::open(recording).unwrap().events_of(&[Table::RequestLatencies]) {
        let Event::RequestLatencies(row) = event.unwrap() else { continue };
        assert_eq!((row.unanswered, row.given_up), (0, 0), "{row:?}");
        let of_api = latencies.entry(row.api_key).or_default();
        for count in &row.latencies {
            of_api.extend(std::iter::repeat_n(count.latency.0, count.requests as usize));
        }
    }
    sorted(latencies)
}

/// The requests of a full recording, from their packets.
fn captured(recording: &Path) -> Latencies {
    let mut latencies = Latencies::default();
    for event in Recording::open(recording).unwrap().events_of(&[Table::Requests]) {
        let Event::Request(request) = event.unwrap() else { continue };
        let Some(end) = request.end else { continue };
        latencies.entry(request.api_key).or_default().push((end - request.arrival).0);
    }
    sorted(latencies)
}

fn sorted(mut latencies: Latencies) -> Latencies {
    for of_api in latencies.values_mut() {
        of_api.sort_unstable();
    }
    latencies
}

fn quantile(sorted: &[i64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1] as f64
}
