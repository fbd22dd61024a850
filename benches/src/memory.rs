//! Reads captures of one, three and ten times the size: time must grow linearly with the file, and memory must not grow.

use std::path::Path;

use crate::contest::{middle, millis, ratios};
use crate::frames::MESSAGE_ID_HEADER;
use crate::run::{Cost, run};
use crate::target::{Bound, Target};
use crate::{Capture, table};

const SIZES: [u64; 3] = [1, 3, 10];
const ROUNDS: usize = 3;
const PEAK_MIB: f64 = 64.0;
/// Maximum time per byte of the largest capture, relative to the smallest one.
const LINEAR: f64 = 1.25;

struct MemoryUse {
    size: u64,
    bytes: u64,
    plain: Vec<Cost>,
    with_ids: Vec<Cost>,
}

/// Reads captures of all sizes; removes each afterwards.
pub(crate) fn compare(brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    let brokerscope = brokerscope.to_str().unwrap_or_default();
    let mut measured = Vec::new();
    for size in SIZES {
        let capture = Capture::make(directory, size)?;
        measured.push(MemoryUse::of(brokerscope, size, &capture)?);
    }
    println!();
    table::print(
        &["size", "MB", "requests", "per GB", "peak MiB", "--message-id", "per GB", "peak MiB"],
        measured.iter().map(MemoryUse::row),
    );
    Ok(targets(&measured))
}

impl MemoryUse {
    fn of(brokerscope: &str, size: u64, capture: &Capture) -> anyhow::Result<Self> {
        let arguments = ["requests", "--format", "json", capture.name(), "--message-id", MESSAGE_ID_HEADER];
        let (plain, with_ids) = (arguments.get(..4).unwrap_or_default(), &arguments[..]);
        let mut measured =
            Self { size, bytes: capture.contents.bytes, plain: Vec::new(), with_ids: Vec::new() };
        for _ in 0..ROUNDS {
            measured.plain.push(run(brokerscope, plain)?);
            measured.with_ids.push(run(brokerscope, with_ids)?);
        }
        Ok(measured)
    }

    fn per_gb(&self, costs: &[Cost]) -> f64 {
        middle(costs, |cost| cost.wall).as_secs_f64() * 1e9 / self.bytes as f64
    }

    fn row(&self) -> Vec<String> {
        let mut row = vec![format!("{}x", self.size), (self.bytes / 1_000_000).to_string()];
        for costs in [&self.plain, &self.with_ids] {
            row.push(millis(middle(costs, |cost| cost.wall)));
            row.push(format!("{:.2} s", self.per_gb(costs)));
            row.push(format!("{:.1}", peak_mib(costs)));
        }
        row
    }
}

fn peak_mib(costs: &[Cost]) -> f64 {
    costs.iter().map(|cost| cost.peak_kib).max().unwrap_or(0) as f64 / 1024.0
}

fn targets(measured: &[MemoryUse]) -> Vec<Target> {
    let mut targets = Vec::new();
    for (what, costs) in [
        ("requests", (|one: &MemoryUse| &one.plain) as fn(&MemoryUse) -> &Vec<Cost>),
        ("requests --message-id", |one| &one.with_ids),
    ] {
        let peak = measured.iter().map(|one| peak_mib(costs(one))).fold(0.0, f64::max);
        targets.push(Target {
            what: format!("{what}: peak memory"),
            measured: peak,
            spread: None,
            bound: Bound::AtMost(PEAK_MIB),
            unit: "MiB",
        });
        if let [smallest, .., largest] = measured {
            let runs: Vec<f64> = ratios(costs(largest), costs(smallest))
                .into_iter()
                .map(|ratio| ratio * smallest.bytes as f64 / largest.bytes as f64)
                .collect();
            let what = format!("{what}: time per byte, 10x / 1x");
            targets.push(Target::of_runs(what, &runs, Bound::AtMost(LINEAR), "x"));
        }
    }
    targets
}
