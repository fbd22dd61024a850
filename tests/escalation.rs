//! Tests `record --watch always-on` on a real broker with two Java lock waits. An always-on watch does not observe such
//! a wait, so the first one has no cause. It makes the watch escalate: the second one has its cause, and packets show
//! its requests. No request is recorded twice, and none is missing while all are recorded.
//!
//! Live tests need root and run where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

use std::collections::BTreeMap;
use std::fs;
use std::thread::{sleep, spawn};
use std::time::Duration;

use e2e::brokerscope;
use e2e::gate;
use e2e::recorder::now_ns;
use e2e::table::{Row, rows};
use e2e::traffic;
use lab::jvm::{Jvm, lock_holder};
use lab::kafka::{DEFAULT_VERSION, Kafka};
use lab::load::{Load, Producer};
use lab::{Broker, BrokerOptions};
use serde_json::Value;

/// An escalation ends 60 s after the last slow request, unless others are slow.
const SECONDS: &str = "125s";
/// Time until everything is attached, and between the stalls.
const APART: Duration = Duration::from_secs(15);
/// Number of times that a stall holds the lock: one request at a time waits for it.
const TIMES: usize = 5;
const HELD: Duration = Duration::from_millis(400);
const SLOWER_THAN: &str = "250ms";
/// Time before and after the start or end of an escalation. A request in flight then may be observed by neither kind of
/// source.
const EDGE_NS: i64 = 1_000_000_000;

#[test]
fn escalates_after_a_stall_and_explains_the_next_one() {
    let Some(_alone) = gate::live("escalates_after_a_stall_and_explains_the_next_one") else { return };
    let kafka = Kafka::prepare(DEFAULT_VERSION).unwrap_or_else(|error| panic!("{error}"));
    let directory = traffic::directory("escalation");
    let options = BrokerOptions::new(directory.join("broker"));
    let broker = Broker::start(&kafka, options).unwrap_or_else(|error| panic!("{error}"));
    broker.create_topic(&kafka, "locked", 1).unwrap_or_else(|error| panic!("{error}"));
    let producer = Producer {
        topic: "locked".to_owned(),
        client_id: "locked-producer".to_owned(),
        rate: 300,
        record_bytes: 200,
        properties: ["acks=1", "linger.ms=0", "max.in.flight.requests.per.connection=1"]
            .map(str::to_owned)
            .to_vec(),
    };
    let mut load =
        Load::start(&kafka, &broker, &[producer], &directory).unwrap_or_else(|error| panic!("{error}"));
    let jvm = Jvm::attach(broker.pid).unwrap_or_else(|error| panic!("{error}"));
    let agent = directory.join("agent");
    fs::create_dir_all(&agent).unwrap();
    let agent = lock_holder(&agent).unwrap_or_else(|error| panic!("{error}"));
    let recording = directory.join("recording");
    let arguments =
        ["record", "--watch", "always-on", "--slower-than", SLOWER_THAN, "--for", SECONDS, "--pid"];
    let mut arguments = arguments.map(str::to_owned).to_vec();
    arguments.extend([broker.pid.to_string(), "-o".to_owned(), recording.display().to_string()]);
    let recording_thread = spawn(move || brokerscope::run(arguments).done());
    sleep(APART);
    let stall = || {
        for _ in 0..TIMES {
            let held = HELD.as_millis();
            let order = format!("JVMTI.agent_load {} locked,0,{held}", agent.display());
            jvm.order(&order).unwrap_or_else(|error| panic!("{error}"));
            sleep(2 * HELD);
        }
    };
    stall();
    sleep(APART);
    let second_ns = now_ns();
    stall();
    let recorded = recording_thread.join().unwrap();
    load.check().unwrap_or_else(|error| panic!("{error}"));
    let path = recording.display().to_string();
    let explained =
        brokerscope::run(["explain", &path, "--slower-than", SLOWER_THAN, "--format", "json"]).done();
    let (objects, summary) = explained.objects();
    let stderr = &recorded.stderr;
    let verdicts: Vec<&Value> = objects.iter().filter(|object| object["type"] == "verdict").collect();
    let is_first = |verdict: &&Value| verdict["request"]["arrival_ns"].as_i64().unwrap() < second_ns;
    let (first, second): (Vec<&Value>, Vec<&Value>) = verdicts.into_iter().partition(is_first);
    let by_packets = |verdict: &&&Value| verdict["request"]["seen_by"] == "packets";
    let by_calls = first.iter().filter(|verdict| !by_packets(verdict)).collect::<Vec<_>>();
    assert!(by_calls.len() >= 3, "{first:#?}\n{summary:#}\n{stderr}");
    assert!(by_calls.iter().all(|verdict| verdict["cause"] != "java-wait"), "{by_calls:#?}");
    let explained = second.iter().filter(by_packets).filter(|verdict| verdict["cause"] == "java-wait");
    let explained = explained.count();
    assert!(explained + 1 >= TIMES, "{explained} of {}: {second:#?}\n{summary:#}\n{stderr}", second.len());
    let requests = rows(&recording, "requests");
    assert_no_request_twice(&requests);
    let changes = rows(&recording, "broker_changes");
    let time = |state: &str| {
        let change = changes.iter().find(|change| change.text("state") == state);
        change.and_then(|change| change.number("at_ns")).unwrap_or_else(|| panic!("no {state}: {changes:#?}"))
    };
    assert_none_is_missing(&requests, time("escalated") as i64 + EDGE_NS, time("always-on") as i64 - EDGE_NS);
    fs::remove_dir_all(&directory).unwrap();
}

/// A request's connection and its number on it.
fn number(row: &Row) -> (String, i64) {
    (row.text("client").to_owned(), row.number("correlation_id").unwrap() as i64)
}

fn assert_no_request_twice(requests: &[Row]) {
    let mut seen: BTreeMap<(String, i64), Vec<&Row>> = BTreeMap::new();
    for row in requests {
        seen.entry(number(row)).or_default().push(row);
    }
    let twice: Vec<_> = seen.iter().filter(|(_, rows)| rows.len() > 1).take(3).collect();
    assert!(twice.is_empty() && seen.len() > 1_000, "of {}: {twice:#?}", seen.len());
}

/// Checks that none is missing: clients number the requests of a connection consecutively.
fn assert_none_is_missing(requests: &[Row], from_ns: i64, to_ns: i64) {
    let mut connections: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for row in requests {
        let arrival = row.number("arrival_ns").unwrap() as i64;
        if (from_ns..to_ns).contains(&arrival) {
            let (connection, id) = number(row);
            connections.entry(connection).or_default().push(id);
        }
    }
    assert!(connections.values().any(|ids| ids.len() > 1_000), "{}", connections.len());
    for (connection, mut ids) in connections {
        ids.sort_unstable();
        let missing = ids.windows(2).find(|pair| pair[1] != pair[0] + 1);
        assert_eq!(missing, None, "{connection}");
    }
}
