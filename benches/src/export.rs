//! Measures `export`: its CPU time for a broker under a steady load, relative to that of `record`; its memory and the
//! time of a scrape meanwhile; and the same while it replays a day of a thousand partitions as fast as possible.

mod scraping;
mod soak;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::kernel::Load;
use crate::kernel::accounts::{peak_memory, processor_time};
use crate::kernel::run::measure;
use crate::kernel::test_bed::{Setting, TestBed};
use crate::kernel::watcher::{Kind, Watcher};
use crate::table;
use crate::target::{Bound, Target};
use scraping::Scraping;

const WARM_UP: Load = Load { records: 1, rate: 5_000, seconds: 3 };
const LOAD: Load = Load { records: 1, rate: 5_000, seconds: 12 };
/// Pairs of one run with the recorder and one with the exporter. Odd, so that the median is a pair.
const PAIRS: usize = 3;
/// Scrape interval, somewhat shorter than usual.
pub(super) const EVERY: Duration = Duration::from_secs(1);
const MORE_PERCENT: f64 = 3.0;
const SCRAPE_MS: f64 = 50.0;
const MEMORY_MIB: f64 = 128.0;

/// Measures, prints tables, and returns the results.
pub(crate) fn hold(brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    let mut targets = live(brokerscope, directory)?;
    targets.extend(soak::hold(brokerscope, directory)?);
    Ok(targets)
}

/// Results of a run.
struct Run {
    who: &'static str,
    per_second: f64,
    p99: Duration,
    /// CPU time in per cent of a core.
    percent: f64,
    peak_mib: f64,
    scrapes_ms: Vec<f64>,
    lost: f64,
}

impl Run {
    fn row(&self) -> Vec<String> {
        let slowest = self.scrapes_ms.iter().copied().fold(0.0, f64::max);
        vec![
            self.who.to_owned(),
            format!("{:.0}", self.per_second),
            format!("{:.2}", self.p99.as_secs_f64() * 1e3),
            format!("{:.1}", self.percent),
            format!("{:.0}", self.peak_mib),
            if self.scrapes_ms.is_empty() { "-".to_owned() } else { format!("{slowest:.1}") },
            format!("{:.0}", self.lost),
        ]
    }
}

fn live(brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    let bed = TestBed::set(&directory.join("export"), &Setting::default())?;
    for _ in 0..2 {
        measure(&bed, Kind::Nobody, WARM_UP, &[])?;
    }
    let mut runs = Vec::new();
    for _ in 0..PAIRS {
        runs.push(recorded(brokerscope, &bed)?);
        runs.push(exported(brokerscope, &bed)?);
    }
    println!("5,000 requests/s:");
    let headings =
        ["watched by", "requests/s", "p99 ms", "of a core, %", "peak MiB", "slowest scrape ms", "lost"];
    table::print(&headings, runs.iter().map(Run::row));
    let each =
        |of: fn(&Run) -> f64| runs.chunks(2).filter_map(move |pair| pair.get(1).map(of)).collect::<Vec<_>>();
    let more: Vec<f64> =
        runs.chunks(2).filter_map(|pair| Some(pair.get(1)?.percent - pair.first()?.percent)).collect();
    let slowest = |run: &Run| run.scrapes_ms.iter().copied().fold(0.0, f64::max);
    Ok(vec![
        target("export at 5,000/s: of a core over record", &more, MORE_PERCENT, "%"),
        target("export at 5,000/s: peak memory", &each(|run| run.peak_mib), MEMORY_MIB, "MiB"),
        target("export at 5,000/s: slowest scrape", &each(slowest), SCRAPE_MS, "ms"),
    ])
}

fn target(what: &str, runs: &[f64], most: f64, unit: &'static str) -> Target {
    Target::of_runs(what.to_owned(), runs, Bound::AtMost(most), unit)
}

fn recorded(brokerscope: &Path, bed: &TestBed) -> anyhow::Result<Run> {
    let recording = bed.path("recording");
    let _ = std::fs::remove_dir_all(&recording);
    let watcher = Watcher::brokerscope(brokerscope, &recording, bed.pid(), &[])?;
    let run = loaded("record", bed, watcher.pid())?;
    watcher.stop()?;
    Ok(run)
}

fn exported(brokerscope: &Path, bed: &TestBed) -> anyhow::Result<Run> {
    let watcher = Watcher::exporter(brokerscope, &bed.path("export.out"), bed.pid())?;
    let address = scraping::address(&watcher.log())?;
    let scraping = Scraping::start(address, EVERY);
    let run = loaded("export", bed, watcher.pid())?;
    let scraped = scraping.stop()?;
    ensure!(scraped.requests > 0.0, "the exporter saw no request");
    watcher.stop()?;
    Ok(Run { scrapes_ms: scraped.times_ms, lost: scraped.lost, ..run })
}

/// Runs the load once before the measurement, so that one-time reads are done.
fn loaded(who: &'static str, bed: &TestBed, pid: u32) -> anyhow::Result<Run> {
    measure(bed, Kind::Brokerscope, WARM_UP, &[])?;
    let (cpu, begun) = (processor_time(pid)?, Instant::now());
    let run = measure(bed, Kind::Brokerscope, LOAD, &[])?;
    let took = processor_time(pid)?.saturating_sub(cpu);
    Ok(Run {
        who,
        per_second: run.seen.per_second(),
        p99: run.seen.p99,
        percent: took.as_secs_f64() * 100.0 / begun.elapsed().as_secs_f64(),
        peak_mib: peak_memory(pid).context("it has ended")? as f64 / f64::from(1 << 20),
        scrapes_ms: Vec::new(),
        lost: 0.0,
    })
}
