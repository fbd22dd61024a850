//! The load that a broker must bear while it is watched: so many requests a second at even times, no matter what comes of them, with
//! nobody, with the recorder, with its hooks alone and with an operator's own tools in turns; and what of the processors
//! everybody takes then, the kernel counting what BPF programs take. Nothing here is saturated: there is room for all, and
//! the question is who waits for whom.

use std::path::Path;

use super::accounts::Counting;
use super::run::Run;
use super::stage::Stage;
use super::watcher::Kind;
use super::{Load, floor, judgement};
use crate::table;
use crate::target::Target;

/// Requests a second: somewhat more than the least that all of it must hold at.
const RATE: u64 = 5_100;
/// A round is a run of each kind. Odd, so that a median is a round.
const ROUNDS: usize = 7;
const KINDS: [Kind; 4] = [Kind::Nobody, Kind::Hooks, Kind::Brokerscope, Kind::Tools];
/// Some 35,000 requests: 350 of them lie beyond the p99.
const MEASURED_SECONDS: u64 = 7;
/// Runs in which the kernel counts what BPF programs take; that costs its own time, so they count for nothing else.
const COUNTED_ROUNDS: usize = 2;
const COUNTED_SECONDS: u64 = 5;

/// Measures requests of one shape.
pub(super) fn hold(
    shape: &str,
    records: u64,
    stage: &Stage,
    brokerscope: &Path,
) -> anyhow::Result<Vec<Target>> {
    let load = |seconds| Load { records, rate: RATE, seconds };
    let runs = rounds(stage, brokerscope, load(MEASURED_SECONDS))?;
    println!("requests of {shape}, {RATE} a second:");
    table::print(&Run::HEADINGS, runs.iter().map(Run::row));
    println!();
    floor::print_against_nobody(&runs, &KINDS);
    let counted = counted(stage, brokerscope, load(COUNTED_SECONDS))?;
    println!("\nrequests of {shape}, {RATE} a second, BPF programs' time counted (counting costs time too):");
    table::print(&Run::HEADINGS, counted.iter().map(Run::row));
    println!();
    judgement::print_programs(&counted);
    judgement::print_recorded(runs.iter().chain(&counted));
    floor::print_counted(&counted);
    Ok(judgement::paced(&runs, &counted))
}

/// Who comes first changes.
fn rounds(stage: &Stage, brokerscope: &Path, load: Load) -> anyhow::Result<Vec<Run>> {
    // What was as fast as could be left has its pages written meanwhile.
    Run::hold(stage, brokerscope, Kind::Nobody, load)?;
    let mut kinds = KINDS;
    let mut runs = Vec::new();
    for _ in 0..ROUNDS {
        for kind in kinds {
            runs.push(Run::hold(stage, brokerscope, kind, load)?);
        }
        kinds.rotate_left(1);
    }
    Ok(runs)
}

fn counted(stage: &Stage, brokerscope: &Path, load: Load) -> anyhow::Result<Vec<Run>> {
    let _counting = Counting::start()?;
    let mut runs = Vec::new();
    for _ in 0..COUNTED_ROUNDS {
        for kind in [Kind::Hooks, Kind::Brokerscope, Kind::Tools] {
            runs.push(Run::hold(stage, brokerscope, kind, load)?);
        }
    }
    Ok(runs)
}
