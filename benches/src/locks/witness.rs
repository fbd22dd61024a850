//! Cross-checks async-profiler and brokerscope on the same waits: a broker with one partition, writes that meet a slow
//! journal, and several producers. async-profiler observes waits through JVMTI and writes a separate file, which the
//! JDK's own reader reads; brokerscope observes them once through Flight Recorder, once through the JVM's own probes.

mod commits;

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use lab::device::DeviceOptions;
use lab::volume::{FileSystem, VolumeOptions};

use super::profiler;
use super::wait::{self, From, Wait, paired};
use crate::kernel::Load;
use crate::kernel::run::measure;
use crate::kernel::test_bed::{Setting, TestBed};
use crate::kernel::watcher::{Kind, Watcher};
use crate::table;
use crate::target::{Bound, Target};
use commits::Commits;

/// Sparse.
const VOLUME_BYTES: u64 = 1 << 30;
/// Delays injected into writes to the journal.
const INJECTED_MS: (u64, u64) = (10, 40);
const LOAD: Load = Load { records: 1, rate: 1_000, seconds: 20 };
const LEAST_WAITS: usize = 100;
const LONG_NS: i64 = 1_000_000;
const SHARE_PERCENT: f64 = 99.0;
/// Maximum number of unmatched waits to print.
const SHOWN: usize = 5;
/// Margin at the start and the end of a recording. Waits that start within it may be in one source only.
const MARGIN: Duration = Duration::from_secs(1);

/// Measures, prints a table, and judges.
pub(super) fn hold(brokerscope: &Path, sites: &Path) -> anyhow::Result<Vec<Target>> {
    let library = profiler::library()?;
    // Outside the test bed, because async-profiler writes it when the JVM ends.
    let file = sites.join("async-profiler.jfr");
    let mut bed = set(sites, &library, &file)?;
    let (by_jfr, by_probes) = (bed.path("by-jfr"), bed.path("by-probes"));
    let watchers = [
        Watcher::brokerscope(brokerscope, &by_jfr, bed.pid(), &JFR)?,
        Watcher::brokerscope(brokerscope, &by_probes, bed.pid(), &PROBES)?,
    ];
    let begun = now_ns();
    load(&mut bed, &watchers)?;
    let ended = now_ns();
    for watcher in watchers {
        watcher.stop()?;
    }
    let jfr = wait::read(brokerscope, From::Recording, &by_jfr, "jfr")?;
    let probes = wait::read(brokerscope, From::Recording, &by_probes, "usdt")?;
    drop(bed);
    let margin = MARGIN.as_nanos() as i64;
    let within = |wait: &Wait| (begun + margin..ended - margin).contains(&wait.start_ns);
    let long = |waits: Vec<Wait>| -> Vec<Wait> {
        waits.into_iter().filter(|wait| within(wait) && wait.length_ns > LONG_NS).collect()
    };
    let theirs = long(wait::read_jfr(&file)?);
    let read = wait::read(brokerscope, From::FlightRecording, &file, "jfr")?;
    std::fs::remove_file(&file)?;
    ensure!(theirs.len() >= LEAST_WAITS, "async-profiler saw {} waits", theirs.len());
    let long_jfr = long(jfr.clone());
    let accounts = [
        ("async-profiler's waits, told by Flight Recorder", &theirs, &jfr),
        ("async-profiler's waits, told by the JVM's probes", &theirs, &probes),
        ("Flight Recorder's waits, told by the JVM's probes", &long_jfr, &probes),
        ("async-profiler's waits, in its file as brokerscope reads it", &theirs, &read),
    ];
    let targets = compare(&accounts);
    same_holders(&long_jfr, &probes);
    Ok(targets)
}

fn set(sites: &Path, library: &Path, file: &Path) -> anyhow::Result<TestBed> {
    let agent =
        format!("-agentpath:{}=start,event=lock,lock=1ms,jfr,file={}", library.display(), file.display());
    let setting = Setting {
        partitions: 1,
        jvm_arguments: vec![agent, "-XX:+DTraceMonitorProbes".to_owned()],
        ..Setting::default()
    };
    let device = DeviceOptions { size_bytes: VOLUME_BYTES, seed: 5 };
    let file_system = FileSystem::Ext4;
    let volume = VolumeOptions { device, file_system, mount_options: "commit=1".to_owned() };
    TestBed::set_slow(sites, &setting, &volume)
}

/// Sends requests while the journal is slow, and pauses for a moment.
fn load(bed: &mut TestBed, watchers: &[Watcher]) -> anyhow::Result<()> {
    let volume = bed.volume().context("a test bed without a device")?;
    volume.inject_journal_delay(INJECTED_MS.0, INJECTED_MS.1)?;
    let commits = Commits::start(volume.directory());
    measure(bed, Kind::Brokerscope, LOAD, watchers)?;
    drop(commits);
    bed.volume().context("a test bed without a device")?.device().clear()?;
    sleep(MARGIN);
    Ok(())
}

/// Flags for only what the JVM records, and for only what its probes report.
const JFR: [&str; 4] = ["--flight-recorder", "always", "--lock-waits", "1h"];
const PROBES: [&str; 3] = ["--no-attach", "--lock-waits", "500us"];

/// Compares waits: which of them another source has, with the same length.
fn compare(accounts: &[(&str, &Vec<Wait>, &Vec<Wait>)]) -> Vec<Target> {
    let (mut targets, mut rows) = (Vec::new(), Vec::new());
    for (what, waits, others) in accounts {
        let pairs = paired(waits, others);
        let same = pairs.iter().filter(|(_, other)| other.is_some()).count();
        let apart =
            |(wait, other): &(&Wait, Option<&Wait>)| Some((wait.length_ns - (*other)?.length_ns).abs());
        let furthest = pairs.iter().filter_map(apart).max().unwrap_or(0);
        let (all, millis) = (waits.len(), format!("{:.3}", furthest as f64 / 1e6));
        rows.push(vec![(*what).to_owned(), all.to_string(), same.to_string(), millis]);
        for (missed, _) in pairs.iter().filter(|(_, other)| other.is_none()).take(SHOWN) {
            println!("not the same: {what}: {missed:?}");
        }
        targets.push(share(what, same, all));
    }
    println!("waits for monitors over 1 ms, of one partition with a slow journal:");
    table::print(&["whose", "waits", "the same", "lengths at most ms apart"], rows);
    targets
}

/// Prints how often two sources that both name the previous holder agree. That is not a target: Flight Recorder names
/// the holder when the wait started, the probes the last thread that released it before the wait ended.
fn same_holders(waits: &[Wait], others: &[Wait]) {
    let both =
        paired(waits, others).into_iter().filter_map(|(wait, other)| Some((wait.owner?, other?.owner?)));
    let both: Vec<(u64, u64)> = both.collect();
    let agreed = both.iter().filter(|(one, other)| one == other).count();
    println!(
        "of {} waits, Flight Recorder and the JVM's probes name the same holder of {agreed}",
        both.len()
    );
}

fn share(what: &str, part: usize, whole: usize) -> Target {
    Target {
        what: what.to_owned(),
        measured: part as f64 * 100.0 / whole as f64,
        spread: None,
        bound: Bound::AtLeast(SHARE_PERCENT),
        unit: "%",
    }
}

fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}
