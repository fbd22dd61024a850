//! What watching costs a broker that takes as much as broker and load can do on this machine, where every processor is taken and
//! all that anybody else does is taken of the throughput: throughput and latency with `brokerscope record` beside nobody,
//! beside the same hooks with programs that do nothing, and beside tcpdump with a bpftrace script; whether anything is
//! lost at ten times the events; and what other processes pay. The load that a broker must bear is [`crate::overhead`]'s.
//!
//! Everything runs on one machine, so the load takes of the broker's processors as the watchers do. All runs
//! are in turns, and ratios are of runs beside each other.

pub(crate) mod accounts;
mod bystander;
mod flood;
mod floor;
mod judgement;
pub(crate) mod latencies;
pub(crate) mod producer;
pub(crate) mod recorded;
pub(crate) mod run;
pub(crate) mod stage;
pub(crate) mod stand_in;
pub(crate) mod watcher;

use std::path::Path;

use crate::target::Target;
use crate::{stop, table};
pub(crate) use bystander::bystand;
pub(crate) use flood::flood;
pub(crate) use producer::{pace, produce};
use run::Run;
use stage::{Setting, Stage};
pub(crate) use stand_in::idle;
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
/// Records of 100 bytes in a request: the least, where watching costs the most beside the broker's own work; and
/// as many as fill a batch of the default `batch.size`.
const SHAPES: [(&str, u64); 2] = [("one record", 1), ("16 KiB", 144)];
/// How long a run measures.
const MEASURED_SECONDS: u64 = 6;
/// Odd, so that a median is a run.
const ROUNDS: usize = 3;
/// Runs until the JVM has compiled what it runs.
const WARM_UPS: usize = 3;

/// What the producer sends.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// In each request.
    pub(crate) records: u64,
    /// Requests a second; as fast as the broker answers if 0.
    pub(crate) rate: u64,
    /// How long it is measured.
    pub(crate) seconds: u64,
}

/// Measures what is asked for, prints tables, and says what was reached.
pub(crate) fn hold(brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    let stage = Stage::set(&directory.join("kernel"), &Setting::default())?;
    let mut targets = Vec::new();
    for (shape, records) in SHAPES {
        let unpaced = Load { records, rate: 0, seconds: MEASURED_SECONDS };
        for _ in 0..WARM_UPS {
            Run::hold(&stage, brokerscope, Kind::Nobody, unpaced)?;
        }
        for mut target in saturated(shape, records, &stage, brokerscope)? {
            target.what = format!("kernel: {shape}: {}", target.what);
            targets.push(target);
        }
    }
    targets.extend(bystander::hold(&stage, brokerscope)?);
    targets.extend(flood::hold(&stage, brokerscope)?);
    Ok(targets)
}

/// As fast as the broker answers, with nobody, hooks alone, the recorder and the tools side by side.
fn saturated(shape: &str, records: u64, stage: &Stage, brokerscope: &Path) -> anyhow::Result<Vec<Target>> {
    let load = Load { records, rate: 0, seconds: MEASURED_SECONDS };
    let mut kinds = [Kind::Nobody, Kind::Hooks, Kind::Brokerscope, Kind::Tools];
    let mut runs = Vec::new();
    for _ in 0..ROUNDS {
        for kind in kinds {
            runs.push(Run::hold(stage, brokerscope, kind, load)?);
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
