//! Measures on this machine what a test could not hold: of how many requests brokerscope's latency without
//! head-of-line wait lies within [-0.2, 5] ms of the time that Kafka itself logs. Prints the share for every client
//! and ends with status 1 where it is below 99 % of all. Run it where nothing else runs: `make latency`.
//!
//! No request is left out. The run is shaped so that what is measured is brokerscope and not the scheduler:
//! the broker has been through everything once before (a cold JVM compiles on the processors that its threads need),
//! clients work one after another, and they give way to the broker, as if they ran on a machine of their own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a measurement that cannot go on says so and ends"
)]

use std::process::ExitCode;

use e2e::bench::Bench;
use e2e::brokerscope;
use e2e::clients::{CLIENTS, Share};
use e2e::comparison::{Excess, latency_excess, quantile};
use e2e::kafka_log;
use e2e::spoken::client;
use e2e::tcpdump::Tcpdump;
use e2e::traffic::{come_to_rest, directory};

/// Of all requests, so many must lie within the bounds.
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

fn measure(version: &str) -> Vec<Excess> {
    let directory = directory("latency");
    let bench = Bench::start(version, &directory);
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
    latency_excess(&brokerscope::requests(&capture, port), &log)
}

/// A line of the table; returns the share within the bounds, in percent.
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

/// Where the time went of those beyond the bounds.
fn print_outliers(excess: &[Excess]) {
    let beyond: Vec<&Excess> = excess.iter().filter(|excess| !BOUNDS_MS.contains(&excess.ms)).collect();
    let below = beyond.iter().filter(|excess| excess.ms < *BOUNDS_MS.start()).count();
    let arriving =
        beyond.iter().filter(|excess| excess.ms - excess.arriving_ms <= *BOUNDS_MS.end()).count() - below;
    println!("{below} below: Kafka noted the end of a response late, after it was sent");
    println!("{arriving} above because the request itself took so long to arrive");
    println!("{} above because it waited to be read", beyond.len() - below - arriving);
    for one in beyond {
        println!(
            "  {:9.3} ms: {} {}, arrived in {:.3} ms, Kafka: total {:.3} ms, of it sending {:.3} ms",
            one.ms, one.client_id, one.api, one.arriving_ms, one.total_ms, one.send_ms
        );
    }
}
