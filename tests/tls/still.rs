//! A parser of TLS connections that stops for longer than the agent waits for it. That happens on a machine that gives
//! it no CPU.

use std::collections::HashMap;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use e2e::recorder::Recorder;
use lab::kafka::DEFAULT_VERSION;
use lab::program::children;
use model::{Event, Loss, LossKind, Nanos, Request};
use recording::Recording;
use rustix::process::{Pid, Signal, kill_process};

use super::site::{PATIENCE, STOPS_WITHIN, Site, comes_true, connections_to};

/// Slack for the client's own pace and for polling.
const SLACK: Nanos = Nanos::from_millis(200);

/// Checks that the agent stops. Traffic until another one copies must be a loss, and every request outside of that must
/// have its row.
pub(crate) fn is_a_loss_until_another_agent_copies(name: &str) {
    let site = Site::start(name, DEFAULT_VERSION, Path::new("java"), false);
    site.create_topic("tls");
    let load = site.produce("TLSv1.3", 1_000_000, 100, 100, &["acks=1", "linger.ms=0"]);
    let port = site.broker.tls_port.unwrap();
    assert!(comes_true(PATIENCE, || connections_to(port).len() >= 2), "the producer does not connect");
    let directory = site.directory.join("recording");
    let recorder = Recorder::start_with(&directory, site.broker.pid, &["--see-tls"]);
    sleep(Duration::from_secs(5));
    let parsers: Vec<Pid> =
        children(recorder.pid()).into_iter().filter_map(|pid| Pid::from_raw(pid as i32)).collect();
    let signal = |signal| parsers.iter().for_each(|parser| kill_process(*parser, signal).unwrap());
    signal(Signal::STOP);
    let has_stopped = comes_true(STOPS_WITHIN, || !site.has_agent());
    signal(Signal::CONT);
    assert!(has_stopped, "the agent goes on though nobody reads");
    assert!(comes_true(PATIENCE, || site.has_agent()), "no other agent");
    sleep(Duration::from_secs(4));
    recorder.stop();
    drop(load);
    let events: Vec<Event> = Recording::open(&directory).unwrap().events().map(Result::unwrap).collect();
    let (start, end) = without_agent(&events);
    println!("no agent for {}", end - start);
    let requests = of_the_producer(&events);
    let before = requests.iter().filter(|row| row.arrival < start).count();
    let after = requests.iter().filter(|row| row.arrival > end).count();
    assert!(before > 20 && after > 20, "{before} requests before, {after} after");
    // A client numbers its requests consecutively.
    for pair in requests.windows(2).filter(|pair| pair[1].correlation_id != pair[0].correlation_id + 1) {
        let (last, next) = (pair[0].arrival, pair[1].arrival);
        assert!(last >= start - SLACK && next <= end + SLACK, "requests are missing from {last} to {next}");
    }
}

/// The interval without an agent, from the losses.
fn without_agent(events: &[Event]) -> (Nanos, Nanos) {
    let is_it = |loss: &&Loss| {
        loss.kind == LossKind::SourceDown && loss.detail.starts_with("TLS connections were not read")
    };
    let losses =
        events.iter().filter_map(|event| if let Event::Loss(loss) = event { Some(loss) } else { None });
    let losses: Vec<&Loss> = losses.filter(is_it).collect();
    let start = losses.iter().map(|loss| loss.start).min();
    start.zip(losses.iter().map(|loss| loss.end).max()).expect("no loss")
}

/// The requests on the connection with the most of them.
fn of_the_producer(events: &[Event]) -> Vec<&Request> {
    let mut connections: HashMap<_, Vec<&Request>> = HashMap::new();
    for event in events {
        if let Event::Request(row) = event {
            connections.entry(row.client).or_default().push(row);
        }
    }
    let mut requests = connections.into_values().max_by_key(Vec::len).expect("no request");
    requests.sort_unstable_by_key(|row| row.correlation_id);
    requests
}
