//! One run of the load, with or without a watcher: the producer's results, and everybody's CPU time meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;

use super::accounts::{self, Ran};
use super::latencies::LatencyStats;
use super::recorded::RecordingStats;
use super::stand_in::StandIn;
use super::test_bed::TestBed;
use super::watcher::{Kind, Watcher};
use super::{IDLE, Load, PRODUCE};
use crate::stop;

/// Results of a run.
pub(crate) struct Run {
    pub(crate) kind: Kind,
    pub(crate) seen: LatencyStats,
    /// The broker's CPU time, including hooks.
    pub(crate) broker: Duration,
    /// CPU time of the watching processes.
    pub(crate) watchers: Duration,
    /// Run time of their BPF programs in other threads; no times unless the kernel counts them.
    pub(crate) programs: BTreeMap<String, Ran>,
    /// The recorded events, if it was recorded.
    pub(crate) recorded: Option<RecordingStats>,
}

impl Run {
    /// Runs the load once.
    pub(crate) fn hold(bed: &TestBed, brokerscope: &Path, kind: Kind, load: Load) -> anyhow::Result<Self> {
        stop::check()?;
        let recording = bed.path("recording");
        let _ = fs::remove_dir_all(&recording);
        let idle = if kind == Kind::Hooks { Some(StandIn::start(bed, [IDLE])?) } else { None };
        let watched = idle.as_ref().map_or(bed.pid(), StandIn::pid);
        let watchers = match kind {
            Kind::Nobody => Vec::new(),
            Kind::Hooks | Kind::Brokerscope => {
                vec![Watcher::brokerscope(brokerscope, &recording, watched, &[])?]
            }
            Kind::Tools => vec![
                Watcher::tcpdump(&bed.path("tools.pcap"), bed.port())?,
                Watcher::bpftrace(&bed.path("tools.bt"), bed.pid())?,
            ],
        };
        let mut run = measure(bed, kind, load, &watchers)?;
        let mut log = String::new();
        for watcher in watchers {
            log = watcher.stop()?;
        }
        if kind == Kind::Brokerscope {
            run.recorded = Some(RecordingStats::read(brokerscope, &recording, run.seen.answered, log)?);
        }
        Ok(run)
    }

    /// Total CPU time of the programs.
    pub(crate) fn in_programs(&self) -> Duration {
        self.programs.values().map(|ran| ran.time).sum()
    }

    /// The broker's CPU time per request without the programs' part, in nanoseconds.
    pub(crate) fn broker_nanos(&self) -> f64 {
        self.broker.saturating_sub(self.in_programs()).as_nanos() as f64 / self.seen.requests as f64
    }

    pub(crate) fn row(&self) -> Vec<String> {
        let millis = |time: Duration| format!("{:.2}", time.as_secs_f64() * 1e3);
        let percent = |time: Duration| format!("{:.1} %", time.as_secs_f64() * 100.0 / self.seen.seconds);
        vec![
            self.kind.name().to_owned(),
            format!("{:.0}", self.seen.per_second()),
            millis(self.seen.median),
            millis(self.seen.p99),
            millis(self.seen.longest),
            percent(self.broker),
            percent(self.watchers),
            if self.in_programs().is_zero() { "-".to_owned() } else { percent(self.in_programs()) },
        ]
    }

    pub(crate) const HEADINGS: [&'static str; 8] =
        ["watched by", "requests/s", "median ms", "p99 ms", "max ms", "broker", "watchers", "BPF"];
}

/// Runs the producer and reads the accounts when its measurement starts and ends.
pub(crate) fn measure(bed: &TestBed, kind: Kind, load: Load, watchers: &[Watcher]) -> anyhow::Result<Run> {
    let numbers = [u64::from(bed.port()), bed.partitions().into(), load.records, load.rate, load.seconds];
    let mut producer = Command::new(std::env::current_exe()?)
        .arg(PRODUCE)
        .args(numbers.map(|number| number.to_string()))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(producer.stdout.take().context("no pipe")?).lines();
    let begun = lines.next().context("the producer did not begin")??;
    anyhow::ensure!(begun == "begin", "the producer said {begun}");
    let before = Accounts::read(bed, watchers)?;
    let ended = lines.next().context("the producer failed")??;
    anyhow::ensure!(ended == "end", "the producer said {ended}");
    let after = Accounts::read(bed, watchers)?;
    let last = lines.next().context("the producer failed in the end")??;
    producer.wait()?;
    let ran = |(name, ran): (&String, &Ran)| {
        (name.clone(), ran.since(before.programs.get(name).copied().unwrap_or_default()))
    };
    Ok(Run {
        kind,
        seen: LatencyStats::parse(&last)?,
        broker: after.broker.saturating_sub(before.broker),
        watchers: after.watchers.saturating_sub(before.watchers),
        programs: after.programs.iter().map(ran).collect(),
        recorded: None,
    })
}

/// CPU time of everybody so far.
struct Accounts {
    broker: Duration,
    watchers: Duration,
    programs: BTreeMap<String, Ran>,
}

impl Accounts {
    fn read(bed: &TestBed, watchers: &[Watcher]) -> anyhow::Result<Self> {
        let mut programs = BTreeMap::new();
        let mut taken = Duration::ZERO;
        for watcher in watchers {
            taken += watcher.processor_time()?;
            programs.extend(accounts::programs(watcher.pid())?);
        }
        Ok(Self { broker: accounts::processor_time(bed.pid())?, watchers: taken, programs })
    }
}
