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
use std::path::Path;

use e2e::gate;
use e2e::recorder::Recorder;
use e2e::traffic::directory;
use lab::broker::make_keystore;
use lab::kafka::{DEFAULT_VERSION, Kafka};
use lab::{Broker, BrokerOptions};
use serde_json::Value;
use site::{rows_agree, survives_kills};

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
