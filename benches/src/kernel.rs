//! What watching costs a broker: throughput, latency and processor time with `brokerscope record` beside
//! nobody, and beside tcpdump with a bpftrace script; what its BPF programs take; whether anything is lost, at
//! the load that a broker must bear and at ten times the events; what other processes pay.
//!
//! Everything runs on one machine, so the load takes of the broker's processors as the watchers do. All runs
//! are in turns, and ratios are of runs beside each other.

mod accounts;
mod bystander;
mod flood;
mod judgement;
mod latencies;
mod producer;
mod recorded;
mod run;
mod stage;
mod watcher;

use std::path::Path;

use crate::target::Target;
use crate::{stop, table};
use accounts::Counting;
pub(crate) use bystander::bystand;
pub(crate) use flood::flood;
pub(crate) use producer::produce;
use run::Run;
use stage::Stage;
use watcher::Kind;

/// The first argument that makes this binary [`produce`].
pub(crate) const PRODUCE: &str = "--produce";
/// The first argument that makes this binary [`bystand`].
pub(crate) const BYSTAND: &str = "--bystand";
/// The first argument that makes this binary [`mod@flood`].
pub(crate) const FLOOD: &str = "--flood";

/// The topic that is written to.
const TOPIC: &str = "load";
/// What a broker must bear while it is watched, and somewhat more.
const RATE: u64 = 6_000;
/// As fast as it can.
const UNPACED: u64 = 0;
/// How long a run measures.
const MEASURED_SECONDS: u64 = 6;
const ROUNDS: usize = 5;
/// Runs in which the kernel counts what BPF programs take; that costs time of its own, so they count for
/// nothing else.
const COUNTED_ROUNDS: usize = 3;
/// Runs until the JVM has compiled what it runs.
const WARM_UPS: usize = 4;

/// Measures everything, prints tables, and says what was reached.
pub(crate) fn hold(brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    let stage = Stage::set(directory)?;
    for _ in 0..WARM_UPS {
        Run::hold(&stage, brokerscope, Kind::Nobody, UNPACED)?;
    }
    println!("as fast as the broker answers (throughput):");
    let unpaced = rounds(&stage, brokerscope, UNPACED)?;
    println!("\n{RATE} requests a second (latency):");
    let paced = rounds(&stage, brokerscope, RATE)?;
    println!("\n{RATE} requests a second, BPF programs' time counted (which costs time of its own):");
    let counted = counted(&stage, brokerscope)?;
    println!();
    let mut targets = judgement::of(&unpaced, &paced, &counted);
    targets.extend(bystander::hold(&stage, brokerscope)?);
    targets.extend(flood::hold(&stage, brokerscope)?);
    Ok(targets)
}

/// The three side by side, so many times; who comes first changes.
fn rounds(stage: &Stage, brokerscope: &Path, rate: u64) -> anyhow::Result<Vec<Run>> {
    let mut kinds = [Kind::Nobody, Kind::Brokerscope, Kind::Tools];
    let mut runs = Vec::new();
    for _ in 0..ROUNDS {
        for kind in kinds {
            runs.push(Run::hold(stage, brokerscope, kind, rate)?);
        }
        kinds.rotate_left(1);
    }
    table::print(&Run::HEADINGS, runs.iter().map(Run::row));
    Ok(runs)
}

fn counted(stage: &Stage, brokerscope: &Path) -> anyhow::Result<Vec<Run>> {
    let _counting = Counting::start()?;
    let mut runs = Vec::new();
    for _ in 0..COUNTED_ROUNDS {
        for kind in [Kind::Brokerscope, Kind::Tools] {
            stop::check()?;
            runs.push(Run::hold(stage, brokerscope, kind, RATE)?);
        }
    }
    table::print(&Run::HEADINGS, runs.iter().map(Run::row));
    Ok(runs)
}
