//! Measures on this machine what a test could not require: for how many requests brokerscope's latency without
//! head-of-line wait is within [-0.2, 5] ms of the time that Kafka itself logs. Prints the share for every client and
//! ends with status 1 if it is below 99 % overall. Run it on an otherwise idle machine: `make latency`.
//!
//! No request is left out. The run is set up to measure brokerscope, and neither the scheduler nor the request log
//! itself: see `quiet` and `measure`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a measurement that cannot go on says so and ends"
)]

use std::collections::HashMap;
use std::process::ExitCode;

use e2e::bench::Bench;
use e2e::brokerscope;
use e2e::clients::{CLIENTS, Share};
use e2e::comparison::{Excess, latency_excess, quantile};
use e2e::kafka_log::{self, LoggedRequest};
use e2e::row::{self, Output};
use e2e::spoken::client;
use e2e::tcpdump::Tcpdump;
use e2e::traffic::{come_to_rest, directory};
use lab::BrokerOptions;

/// Minimum percentage of requests within the bounds.
const ENOUGH_PERCENT: f64 = 99.0;
const BOUNDS_MS: std::ops::RangeInclusive<f64> = -0.2..=5.0;

fn main() -> ExitCode {
    let version = std::env::args().nth(1).unwrap_or_else(|| lab::kafka::DEFAULT_VERSION.to_owned());
    let excess = measure(&version);
    println!("Kafka {version}; latency - head of line - Kafka's total, ms:");
    println!(
        "{:<16}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}",
        "client", "requests", "within", "min", "1 %", "10 %", "median", "90 %", "99 %", "max"
    );
    for name in CLIENTS.into_iter().chain(["other"]) {
        print(name, excess.iter().filter(|excess| client(&excess.client_id, &CLIENTS) == name));
    }
    let within = print("all", excess.iter());
    print_outliers(&excess);
    if within < ENOUGH_PERCENT {
        println!("FAILED: {within:.2} % within {BOUNDS_MS:?} ms, less than {ENOUGH_PERCENT} %");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Configures a broker so that its own measurement is hardly disturbed.
fn quiet(broker: &mut BrokerOptions) {
    // A network thread writes the log's lines, and meanwhile neither reads requests nor notes that responses are sent:
    // with many threads, few connections share one.
    broker.properties.push(("num.network.threads".to_owned(), "16".to_owned()));
    // Code is compiled after few calls and cheaply, because compiling takes CPU time from the network threads.
    broker.jvm_arguments.push("-XX:TieredStopAtLevel=1".to_owned());
}

/// Runs clients one after another, with lower priority than the broker. That is as if they were on a separate machine.
/// The broker has gone through the whole run once before.
fn measure(version: &str) -> Vec<Excess> {
    let directory = directory("latency");
    let bench = Bench::start_as(version, &directory, quiet);
    let one_by_one = || {
        for name in CLIENTS {
            bench.clients().run(&[name], Share::Spare, bench.bootstrap(), &directory);
        }
    };
    bench.clients().set_up(bench.bootstrap(), &directory);
    one_by_one();
    let capture = directory.join("capture.pcap");
    let tcpdump = Tcpdump::start(&capture, bench.port());
    one_by_one();
    come_to_rest(&capture);
    tcpdump.stop();
    let (port, broker) = (bench.port(), bench.bootstrap().to_owned());
    let log = kafka_log::read_listener(&bench.stop(), &broker);
    let output = brokerscope::requests(&capture, port);
    latency_excess(&output, &captured(log, &output))
}

/// Leaves out requests logged before the capture started: of those with the same client address and number (a port may be
/// reused), the last ones have rows.
fn captured(log: Vec<LoggedRequest>, output: &Output) -> Vec<LoggedRequest> {
    let mut rows: HashMap<(String, i64), usize> = HashMap::new();
    for row in &output.rows {
        *rows.entry((row::client(row), row::correlation_id(row))).or_default() += 1;
    }
    let mut has_row = |logged: &LoggedRequest| {
        let left = rows.get_mut(&(logged.client.clone(), logged.correlation_id)).filter(|left| **left > 0);
        left.map(|left| *left -= 1).is_some()
    };
    let mut log: Vec<LoggedRequest> = log.into_iter().rev().filter(|logged| has_row(logged)).collect();
    log.reverse();
    log
}

/// Prints a line of the table; returns the share within the bounds, in percent.
fn print<'e>(name: &str, excess: impl Iterator<Item = &'e Excess>) -> f64 {
    let mut ms: Vec<f64> = excess.map(|excess| excess.ms).collect();
    ms.sort_by(f64::total_cmp);
    let within = ms.iter().filter(|ms| BOUNDS_MS.contains(ms)).count();
    let percent = within as f64 * 100.0 / ms.len() as f64;
    let quantiles =
        [0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 1.0].map(|share| format!("{:9.3}", quantile(&ms, share)));
    println!("{name:<16}{:>9}{percent:>7.2} %{}", ms.len(), quantiles.concat());
    percent
}

/// Prints a breakdown of the time of requests beyond the bounds.
fn print_outliers(excess: &[Excess]) {
    let beyond: Vec<&Excess> = excess.iter().filter(|excess| !BOUNDS_MS.contains(&excess.ms)).collect();
    let below = beyond.iter().filter(|excess| excess.ms < *BOUNDS_MS.start()).count();
    let arriving =
        beyond.iter().filter(|excess| excess.ms - excess.arriving_ms <= *BOUNDS_MS.end()).count() - below;
    println!("{below} below: Kafka noted the end of a response late, or the response waited in the kernel");
    println!("{arriving} above because the request itself took so long to arrive");
    println!(
        "{} above because it waited to be read, or its response to be sent",
        beyond.len() - below - arriving
    );
    for one in beyond {
        println!(
            "  {:9.3} ms: {} {}, arrived in {:.3} ms, Kafka: total {:.3} ms, of it sending {:.3} ms",
            one.ms, one.client_id, one.api, one.arriving_ms, one.total_ms, one.send_ms
        );
    }
}
