//! What watching costs a broker: throughput, latency and processor time with `brokerscope record` beside
//! nobody, beside the same hooks with programs that do nothing, and beside tcpdump with a bpftrace script; what its
//! BPF programs take; whether anything is lost, at the load that a broker must bear and at ten times the events; what
//! other processes pay.
//!
//! Everything runs on one machine, so the load takes of the broker's processors as the watchers do. All runs
//! are in turns, and ratios are of runs beside each other.

pub(crate) mod accounts;
mod bystander;
mod flood;
mod floor;
mod judgement;
mod latencies;
pub(crate) mod producer;
mod recorded;
pub(crate) mod run;
pub(crate) mod stage;
mod stand_in;
pub(crate) mod watcher;

use std::path::Path;

use crate::target::Target;
use crate::{stop, table};
use accounts::Counting;
pub(crate) use bystander::bystand;
pub(crate) use flood::flood;
pub(crate) use producer::produce;
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
/// What a broker must bear while it is watched, and somewhat more; requests a second.
const RATE: u64 = 6_000;
/// Records of 100 bytes in a request: the least, where watching costs the most beside the broker's own work; and
/// as many as fill a batch of the default `batch.size`.
const SHAPES: [(&str, u64); 2] = [("one record", 1), ("16 KiB", 144)];
/// How long a run measures.
const MEASURED_SECONDS: u64 = 6;
const ROUNDS: usize = 4;
/// Runs in which the kernel counts what BPF programs take; that costs time of its own, so they count for
/// nothing else.
const COUNTED_ROUNDS: usize = 2;
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

/// Measures everything, prints tables, and says what was reached.
pub(crate) fn hold(brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    let stage = Stage::set(&directory.join("kernel"), &Setting::default())?;
    let mut targets = Vec::new();
    for (shape, records) in SHAPES {
        targets.extend(requests_of(shape, records, &stage, brokerscope)?);
    }
    targets.extend(bystander::hold(&stage, brokerscope)?);
    targets.extend(flood::hold(&stage, brokerscope)?);
    Ok(targets)
}

/// Measures requests of one shape.
fn requests_of(shape: &str, records: u64, stage: &Stage, brokerscope: &Path) -> anyhow::Result<Vec<Target>> {
    let load = |rate| Load { records, rate, seconds: MEASURED_SECONDS };
    let (unpaced, paced) = (load(0), load(RATE));
    for _ in 0..WARM_UPS {
        Run::hold(stage, brokerscope, Kind::Nobody, unpaced)?;
    }
    println!("requests of {shape}, as fast as the broker answers (throughput):");
    let fast = rounds(stage, brokerscope, unpaced)?;
    println!("\nrequests of {shape}, {RATE} a second (latency):");
    let steady = rounds(stage, brokerscope, paced)?;
    println!(
        "\nrequests of {shape}, {RATE} a second, BPF programs' time counted (which costs time of its own):"
    );
    let counted = counted(stage, brokerscope, paced)?;
    println!();
    Ok(judgement::of(shape, &fast, &steady, &counted))
}

/// All of them side by side, so many times; who comes first changes.
fn rounds(stage: &Stage, brokerscope: &Path, load: Load) -> anyhow::Result<Vec<Run>> {
    let mut kinds = [Kind::Nobody, Kind::Hooks, Kind::Brokerscope, Kind::Tools];
    let mut runs = Vec::new();
    for _ in 0..ROUNDS {
        for kind in kinds {
            runs.push(Run::hold(stage, brokerscope, kind, load)?);
        }
        kinds.rotate_left(1);
    }
    table::print(&Run::HEADINGS, runs.iter().map(Run::row));
    Ok(runs)
}

fn counted(stage: &Stage, brokerscope: &Path, load: Load) -> anyhow::Result<Vec<Run>> {
    let _counting = Counting::start()?;
    let mut runs = Vec::new();
    for _ in 0..COUNTED_ROUNDS {
        for kind in [Kind::Hooks, Kind::Brokerscope, Kind::Tools] {
            stop::check()?;
            runs.push(Run::hold(stage, brokerscope, kind, load)?);
        }
    }
    table::print(&Run::HEADINGS, runs.iter().map(Run::row));
    Ok(runs)
}
