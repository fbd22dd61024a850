//! What watching costs a broker: throughput, latency and processor time with `brokerscope record` beside
//! nobody, beside the same hooks with programs that do nothing, and beside tcpdump with a bpftrace script; what its
//! BPF programs take; whether anything is lost, and what other processes pay.
//!
//! Two parts. `kernel-paced` is the load that a broker must bear while it is watched, 5,000 requests a second, no matter what
//! comes of them: latency, the recorder's share of the processor, completeness. `kernel` is as much as broker and load
//! can do on this machine, where every processor is taken and all that anybody else does is taken of the
//! throughput; ten times the events; and other processes.
//!
//! Everything runs on one machine, so the load takes of the broker's processors as the watchers do. All runs
//! are in turns, and ratios are of runs beside each other.

pub(crate) mod accounts;
mod bystander;
mod flood;
mod floor;
mod judgement;
mod latencies;
mod paced;
pub(crate) mod producer;
mod recorded;
pub(crate) mod run;
pub(crate) mod stage;
mod stand_in;
pub(crate) mod watcher;

use std::path::Path;

use crate::target::Target;
use crate::{stop, table};
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
pub(crate) fn hold(part: &str, brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    let stage = Stage::set(&directory.join("kernel"), &Setting::default())?;
    let hold_shape = if part == "kernel-paced" { paced::hold } else { saturated };
    let mut targets = Vec::new();
    for (shape, records) in SHAPES {
        let unpaced = Load { records, rate: 0, seconds: MEASURED_SECONDS };
        for _ in 0..WARM_UPS {
            Run::hold(&stage, brokerscope, Kind::Nobody, unpaced)?;
        }
        for mut target in hold_shape(shape, records, &stage, brokerscope)? {
            target.what = format!("{part}: {shape}: {}", target.what);
            targets.push(target);
        }
    }
    if part == "kernel" {
        targets.extend(bystander::hold(&stage, brokerscope)?);
        targets.extend(flood::hold(&stage, brokerscope)?);
    }
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
