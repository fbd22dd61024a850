//! Tests `explain live --watch always-on` on a real broker with a slow journal. The requests that the journal held up have
//! verdicts, which name its commit by an exact key: by base offset at first, by CRC once the watch escalates.
//!
//! Ground truth is the device's own list of delayed writes: a request was held up if they took most of its time. Others
//! are slow for other reasons, such as a machine whose hypervisor gave the CPUs to its neighbours.
//!
//! Live tests need root and run where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

use std::fmt::Write as _;
use std::ops::Range;
use std::thread::{sleep, spawn};
use std::time::Duration;

use e2e::brokerscope;
use e2e::gate;
use e2e::ground::Ground;
use e2e::losses;
use lab::kafka::{DEFAULT_VERSION, Kafka};
use lab::load::{Load, Producer};
use lab::{Broker, BrokerOptions};
use serde_json::Value;

/// Duration of the watch; the journal is slow in the middle.
const SECONDS: u64 = 30;
/// Delay of each request to the journal, and so the minimum duration of a commit.
const COMMIT_MS: u64 = 150;
const SLOWER_THAN: &str = "65ms";
/// Number of slow requests that is enough.
const ENOUGH: usize = 5;

/// Whether delayed writes took at least half of a request's time.
fn was_held_up(verdict: &Value, delayed: &[Range<i64>]) -> bool {
    let time = |field: &str| verdict["request"][field].as_i64().unwrap();
    let (start, end) = (time("arrival_ns"), time("end_ns"));
    let (mut held, mut until) = (0, start);
    // In order of their starts: the server reports them as they came.
    for write in delayed {
        let write_end = write.end.min(end);
        held += (write_end - write.start.max(until)).max(0);
        until = until.max(write_end);
    }
    held * 2 >= end - start
}

/// One line for each verdict: cause, confidence, latency, stages and whether the device held it up.
fn lines(verdicts: &[&Value], delayed: &[Range<i64>]) -> String {
    let mut lines = String::new();
    for verdict in verdicts {
        let ms = |value: &Value| value.as_i64().unwrap_or(0) / 1_000_000;
        let stages = verdict["stages"].as_object().unwrap().iter().filter(|(_, time)| ms(time) > 0);
        let stages: Vec<String> = stages.map(|(stage, time)| format!("{stage} {}", ms(time))).collect();
        let request = &verdict["request"];
        let _ = writeln!(
            lines,
            "{} {} {} {} by {}: {} ms, {}; held up: {}",
            request["arrival_ns"],
            verdict["chain"],
            verdict["confidence"],
            request["api"],
            request["seen_by"],
            ms(&request["latency_ns"]),
            stages.join(", "),
            was_held_up(verdict, delayed)
        );
    }
    lines
}

/// Checks that `record --slower-than` is always-on by default. Its recording has the same cause.
fn assert_recorded_the_same(recording: &str, stderr: &str) {
    assert!(stderr.contains("--watch always-on by default"), "{stderr}");
    let arguments = ["explain", recording, "--slower-than", SLOWER_THAN, "--format", "json"];
    let (objects, summary) = brokerscope::run(arguments).done().objects();
    let of_journal: Vec<_> = objects.iter().filter(|object| object["cause"] == "journal-commit").collect();
    assert!(of_journal.len() * 10 >= ENOUGH * 9, "{summary:#}");
    // The first slow requests, for any reason, came before the escalation.
    assert!(objects.iter().any(|object| object["request"]["seen_by"] == "socket-calls"), "{summary:#}");
}

#[test]
fn slow_requests_have_their_cause() {
    let name = "slow_requests_have_their_cause";
    let Some(_alone) = gate::live(name) else { return };
    let kafka = Kafka::prepare(DEFAULT_VERSION).unwrap_or_else(|error| panic!("{error}"));
    let mut ground = Ground::prepare("always-on", "commit=1");
    let directory = ground.directory().to_owned();
    let mut options = BrokerOptions::new(directory.join("broker"));
    options.log_dir = Some(ground.path().join("logs"));
    options.metadata_dir = Some(directory.join("metadata"));
    let broker = Broker::start(&kafka, options).unwrap_or_else(|error| panic!("{error}"));
    broker.create_topic(&kafka, "always", 4).unwrap_or_else(|error| panic!("{error}"));
    let producer = Producer {
        topic: "always".to_owned(),
        client_id: "always-producer".to_owned(),
        rate: 400,
        record_bytes: 200,
        properties: vec!["acks=1".to_owned(), "linger.ms=0".to_owned()],
    };
    let mut load =
        Load::start(&kafka, &broker, &[producer], &directory).unwrap_or_else(|error| panic!("{error}"));
    sleep(Duration::from_secs(10));
    let (pid, time) = (broker.pid.to_string(), format!("{SECONDS}s"));
    let explaining = spawn(move || {
        let arguments =
            ["explain", "live", "--watch", "always-on", "--slower-than", SLOWER_THAN, "--format", "json"];
        brokerscope::run([&arguments[..], &["--pid", &pid, "--for", &time]].concat()).done()
    });
    let recording = directory.join("recording").display().to_string();
    let (pid, time, output) = (broker.pid.to_string(), format!("{SECONDS}s"), recording.clone());
    let recording_ended = spawn(move || {
        let arguments =
            ["record", "-o", &output, "--slower-than", SLOWER_THAN, "--pid", &pid, "--for", &time];
        brokerscope::run(arguments).done()
    });
    sleep(Duration::from_secs(SECONDS / 3));
    ground.delay_journal(COMMIT_MS);
    sleep(Duration::from_secs(SECONDS / 3));
    let delayed = ground.delayed_writes();
    ground.clear();
    let explained = explaining.join().unwrap();
    load.check().unwrap_or_else(|error| panic!("{error}"));
    let (objects, summary) = explained.objects();
    let verdicts: Vec<&Value> = objects.iter().filter(|object| object["type"] == "verdict").collect();
    let (stderr, all) = (&explained.stderr, lines(&verdicts, &delayed));
    let held_up: Vec<&&Value> = verdicts.iter().filter(|verdict| was_held_up(verdict, &delayed)).collect();
    let right = held_up.iter().filter(|verdict| verdict["cause"] == "journal-commit").count();
    let held_up = held_up.len();
    assert!(held_up >= ENOUGH, "{held_up} requests were held up:\n{all}{summary:#}\n{stderr}");
    assert!(right * 10 >= held_up * 9, "{right} of {held_up} are right:\n{all}{stderr}");
    for verdict in verdicts.iter().filter(|verdict| verdict["cause"] == "journal-commit") {
        let request = &verdict["request"];
        assert!(request["latency_ns"].as_i64() >= Some(65_000_000), "{verdict:#}");
        assert!(request["partitions"][0]["base_offset"].as_i64() >= Some(0), "{verdict:#}");
        // It waited for the journal itself, or behind a request on its connection that did.
        let waited = ["append", "head_of_line"].map(|stage| verdict["stages"][stage].as_i64().unwrap_or(0));
        assert!(waited.iter().sum::<i64>() >= 50_000_000, "{verdict:#}");
    }
    assert_recorded_the_same(&recording, &recording_ended.join().unwrap().stderr);
    assert_eq!(summary["joins"]["unjoined"], 0, "{summary:#}");
    assert!(losses::are_unpreventable(&summary), "{summary:#}");
}
