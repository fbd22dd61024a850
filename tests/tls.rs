//! Tests `record --see-tls` on a broker whose clients use TLS: Kafka's own request log on one side, the recording on
//! the other.
//!
//! Live tests need root and run where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

#[path = "tls/site.rs"]
mod site;

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use e2e::gate;
use e2e::recorder::Recorder;
use e2e::traffic::directory;
use lab::broker::make_keystore;
use lab::kafka::{DEFAULT_VERSION, Kafka};
use lab::{Broker, BrokerOptions};
use model::Event;
use serde_json::Value;
use site::{Site, rows_agree, survives_kills};

/// Pieces of one byte: a read of one takes 80 bytes of the kernel's ring, which has 1 MiB.
const PIECES: u32 = 20_000;
/// Longer than the broker takes to read a piece.
const PIECE_INTERVAL: Duration = Duration::from_micros(100);

#[test]
fn requests_agree_with_kafkas_log() {
    let Some(_alone) = gate::live("requests on TLS connections against Kafka's own log") else { return };
    rows_agree("tls", DEFAULT_VERSION, Path::new("java"), false);
}

#[test]
fn agent_of_a_killed_recorder_stops_and_the_next_recorder_works() {
    let Some(_alone) = gate::live("an agent without its recorder") else { return };
    survives_kills("tls-killed", &[700]);
}

/// A request in many small pieces, on a listener without TLS: the broker reads more often than the kernel's ring holds,
/// while no request on a TLS connection ends.
#[test]
fn arrivals_are_read_also_while_no_request_ends() {
    let Some(_alone) = gate::live("arrivals while no request ends") else { return };
    let site = Site::start("tls-pieces", DEFAULT_VERSION, Path::new("java"), false);
    let recording = site.directory.join("recording");
    let recorder = Recorder::start_with(&recording, site.broker.pid, &["--see-tls"]);
    let mut client = TcpStream::connect(("127.0.0.1", site.broker.port)).unwrap();
    client.set_nodelay(true).unwrap();
    client.write_all(&(2 * PIECES).to_be_bytes()).unwrap();
    for _ in 0..PIECES {
        client.write_all(&[0]).unwrap();
        sleep(PIECE_INTERVAL);
    }
    drop(client);
    site.create_topic("tls");
    recorder.stop();
    let recording = recording::Recording::open(&recording).unwrap();
    let is_of_arrivals =
        |event: &Event| matches!(event, Event::Loss(loss) if loss.detail.contains("arrivals"));
    let losses: Vec<Event> = recording.events().map(Result::unwrap).filter(is_of_arrivals).collect();
    assert!(losses.is_empty(), "{losses:?}");
    site.broker.stop();
}

/// Checks the one line about a JVM that accepts no agent. The rest is recorded all the same.
#[test]
fn manifest_names_the_flag_when_the_jvm_refuses_the_agent() {
    let Some(_alone) = gate::live("a broker that takes no agent") else { return };
    let directory = directory("tls-refused");
    let kafka = Kafka::prepare(DEFAULT_VERSION).unwrap();
    let mut options = BrokerOptions::new(directory.join("broker"));
    options.keystore = Some(make_keystore(&directory).unwrap());
    options.jvm_arguments.push("-XX:-EnableDynamicAgentLoading".to_owned());
    let broker = Broker::start(&kafka, options).unwrap();
    let recording = directory.join("recording");
    Recorder::start_with(&recording, broker.pid, &["--see-tls"]).stop();
    let manifest: Value =
        serde_json::from_slice(&fs::read(recording.join("manifest.json")).unwrap()).unwrap();
    let plan = manifest["plan"].to_string();
    assert!(plan.contains("tls-requests") && plan.contains("-XX:-EnableDynamicAgentLoading"), "{plan}");
    broker.stop();
}
