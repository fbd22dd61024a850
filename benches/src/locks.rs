//! Measures the cost for a broker of observing lock waits. Also checks whether all of them are observed. Measures
//! throughput with and without Flight Recorder, and with and without tracing of request handler calls, the JVM pause
//! for each request to the JVM, and the cost of its probes per wait, and compares waits with async-profiler.
//!
//! Everything is measured with the default JDK; the broker's throughput and pauses also with a newer one, if there is
//! one.

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

/// The parts, each of which can be requested separately.
pub(crate) const PARTS: [&str; 4] = ["locks-flight", "locks-handlers", "locks-probes", "locks-witness"];

/// Measures the requested part, prints tables, and returns the results.
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
