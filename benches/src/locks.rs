//! What it costs a broker that waits for locks are seen, and whether all of them are: throughput with Flight Recorder
//! against without it, and with the calls of request handlers against without them, how long each question to the JVM stops its
//! threads, what its own probes cost a wait, and async-profiler's account of the same waits beside ours.
//!
//! All of it with the JDK that `java` is, and the broker's throughput and stops with a newer one too, where there is one.

mod flight;
mod jdk;
mod probes;
mod profiler;
mod safepoints;
mod wait;
mod witness;

use std::path::Path;

use crate::target::Target;
use jdk::{CHEAP_SINCE, Jdk};

/// The parts of it, each of which can be asked for by itself.
pub(crate) const PARTS: [&str; 4] = ["locks-flight", "locks-handlers", "locks-probes", "locks-witness"];

/// Measures what is asked for, prints tables, and says what was reached.
pub(crate) fn hold(part: &str, brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    let sites = directory.join("locks");
    let [by_flight_recorder, by_calls, by_probes, by_witness] =
        PARTS.map(|one| part == "locks" || part == one);
    let mut targets = Vec::new();
    for jdk in if by_flight_recorder { Jdk::all()? } else { Vec::new() } {
        targets.extend(flight::hold(brokerscope, &sites, &jdk, &flight::FLIGHT_RECORDER)?);
        println!();
    }
    let traces = |jdk: &Jdk| jdk.version >= CHEAP_SINCE;
    for jdk in if by_calls { Jdk::all()? } else { Vec::new() }.iter().filter(|jdk| traces(jdk)) {
        targets.extend(flight::hold(brokerscope, &sites, jdk, &flight::HANDLER_CALLS)?);
        println!();
    }
    if by_probes {
        targets.extend(probes::hold(&sites)?);
        println!();
    }
    if by_witness {
        targets.extend(witness::hold(brokerscope, &sites)?);
    }
    for target in &mut targets {
        target.what = format!("locks: {}", target.what);
    }
    Ok(targets)
}
