//! Measures the cost of watching a broker at saturation. Every CPU is busy then, and any other work reduces throughput.
//! Measures throughput and latency with `brokerscope record`, compared with no watcher, with the same hooks with empty
//! programs, and with tcpdump plus a bpftrace script; whether anything is lost at ten times the events; and the cost
//! for other processes. The load that a broker must sustain is [`crate::overhead`]'s.
//!
//! Everything runs on one machine, so the load takes CPU time from the broker like the watchers do. All runs take
//! turns, and ratios are of adjacent runs.

pub(crate) mod accounts;
mod bystander;
mod flood;
mod floor;
mod judgement;
pub(crate) mod latencies;
pub(crate) mod producer;
pub(crate) mod recorded;
pub(crate) mod run;
pub(crate) mod stand_in;
pub(crate) mod test_bed;
pub(crate) mod watcher;

use std::path::Path;

use crate::target::Target;
use crate::{stop, table};
pub(crate) use bystander::bystand;
pub(crate) use flood::flood;
pub(crate) use producer::{pace, produce};
use run::Run;
pub(crate) use stand_in::idle;
use test_bed::{Setting, TestBed};
use watcher::Kind;

/// The first argument that makes this binary [`produce`].
pub(crate) const PRODUCE: &str = "--produce";
/// The first argument that makes this binary [`bystand`].
pub(crate) const BYSTAND: &str = "--bystand";
/// The first argument that makes this binary [`mod@flood`].
pub(crate) const FLOOD: &str = "--flood";

/// The first argument that makes this binary [`idle`].
pub(crate) const IDLE: &str = "--idle";

/// The topic that is written to.
const TOPIC: &str = "load";
/// Records of 100 bytes in a request: one, where watching costs the most compared with the broker's own work; and as
/// many as fill a batch of the default `batch.size`.
const SHAPES: [(&str, u64); 2] = [("one record", 1), ("16 KiB", 144)];
/// Length of a measurement.
const MEASURED_SECONDS: u64 = 6;
/// Odd, so that the median is a run.
const ROUNDS: usize = 3;
/// Warm-up runs for the JVM's compiler.
const WARM_UPS: usize = 3;

/// What the producer sends.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// Records in each request.
    pub(crate) records: u64,
    /// Requests per second; as fast as the broker answers if 0.
    pub(crate) rate: u64,
    /// Length of the measurement.
    pub(crate) seconds: u64,
}

/// Measures the requested part, prints tables, and returns the results.
pub(crate) fn hold(brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    let bed = TestBed::set(&directory.join("kernel"), &Setting::default())?;
    let mut targets = Vec::new();
    for (shape, records) in SHAPES {
        let unpaced = Load { records, rate: 0, seconds: MEASURED_SECONDS };
        for _ in 0..WARM_UPS {
            Run::hold(&bed, brokerscope, Kind::Nobody, unpaced)?;
        }
        for mut target in saturated(shape, records, &bed, brokerscope)? {
            target.what = format!("kernel: {shape}: {}", target.what);
            targets.push(target);
        }
    }
    targets.extend(bystander::hold(&bed, brokerscope)?);
    targets.extend(flood::hold(&bed, brokerscope)?);
    Ok(targets)
}

/// Runs at saturation in turns, each time with another kind of watcher. They are none, hooks alone, the recorder and
/// the tools.
fn saturated(shape: &str, records: u64, bed: &TestBed, brokerscope: &Path) -> anyhow::Result<Vec<Target>> {
    let load = Load { records, rate: 0, seconds: MEASURED_SECONDS };
    let mut kinds = [Kind::Nobody, Kind::Hooks, Kind::Brokerscope, Kind::Tools];
    let mut runs = Vec::new();
    for _ in 0..ROUNDS {
        for kind in kinds {
            runs.push(Run::hold(bed, brokerscope, kind, load)?);
        }
        kinds.rotate_left(1);
    }
    println!("requests of {shape}, as fast as the broker answers:");
    table::print(&Run::HEADINGS, runs.iter().map(Run::row));
    println!();
    judgement::print_recorded(runs.iter());
    floor::print_differences(&runs);
    Ok(judgement::saturated(&runs))
}
