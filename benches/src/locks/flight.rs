//! A broker that is recorded, with its Flight Recorder and without it, which is all that differs: throughput, and how
//! long its JVM stopped for what was asked of it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use lab::jvm::Pause;
use serde_json::Value;

use super::jdk::{CHEAP_SINCE, Jdk};
use super::safepoints::{self, Log};
use crate::kernel::Load;
use crate::kernel::run::{Run, measure};
use crate::kernel::stage::{Setting, Stage};
use crate::kernel::watcher::{Kind, Watcher};
use crate::target::{Bound, Target};
use crate::{stop, table};

/// Pairs of runs; who comes first changes.
const ROUNDS: usize = 4;
/// What the issue asks for, and as fast as the broker answers.
const PACED: Load = Load { records: 1, rate: 5_000, seconds: 3 };
const UNPACED: Load = Load { records: 1, rate: 0, seconds: 5 };
/// Until the JVM has compiled what it runs.
const WARM_UPS: usize = 2;
const THROUGHPUT_PERCENT: f64 = -1.0;
const STOP_MS: f64 = 20.0;

/// The broker while it was recorded once.
struct Session {
    flight_recorder: bool,
    unpaced: Run,
    paced: Run,
    pauses: Vec<Pause>,
}

/// Measures with one JDK.
pub(super) fn hold(brokerscope: &Path, sites: &Path, jdk: &Jdk) -> anyhow::Result<Vec<Target>> {
    let setting =
        Setting { java: jdk.java.clone(), jvm_arguments: vec![safepoints::argument()], ..Setting::default() };
    let stage = Stage::set(sites, &setting)?;
    let mut log = Log::of(&stage.path("broker"));
    for _ in 0..WARM_UPS {
        stop::check()?;
        measure(&stage, Kind::Nobody, UNPACED, &[])?;
    }
    log.next()?;
    // The first start in a JVM is dearer than all others, and is reported by itself.
    let first = Session::hold(&stage, brokerscope, &mut log, true)?;
    let mut sessions = Vec::new();
    for round in 0..ROUNDS {
        let odd = round % 2 == 1;
        for flight_recorder in [odd, !odd] {
            sessions.push(Session::hold(&stage, brokerscope, &mut log, flight_recorder)?);
        }
    }
    println!("JDK {}, a broker that is recorded, with Flight Recorder and without:", jdk.version);
    table::print(&Session::HEADINGS, sessions.iter().map(Session::row));
    println!("\nJDK {}, the first start of Flight Recorder, and a thread dump:", jdk.version);
    safepoints::print(&first.asked());
    println!("\nJDK {}, all others:", jdk.version);
    let others: Vec<&Pause> = sessions.iter().flat_map(Session::asked).collect();
    safepoints::print(&others);
    Ok(targets(jdk, &sessions, &first, &others))
}

fn targets(jdk: &Jdk, sessions: &[Session], first: &Session, others: &[&Pause]) -> Vec<Target> {
    let differences = |of: fn(&Session) -> f64| -> Vec<f64> {
        let with = sessions.iter().filter(|session| session.flight_recorder);
        let without = sessions.iter().filter(|session| !session.flight_recorder);
        with.zip(without).map(|(with, without)| (of(with) / of(without) - 1.0) * 100.0).collect()
    };
    let throughput = Target::of_runs(
        format!("JDK {}: throughput at 5,000/s, Flight Recorder on against off", jdk.version),
        &differences(|session| session.paced.seen.per_second()),
        Bound::AtLeast(THROUGHPUT_PERCENT),
        "%",
    );
    let longest = |what: String, measured| Target {
        what,
        measured,
        spread: None,
        bound: Bound::AtMost(STOP_MS),
        unit: "ms",
    };
    let unasked = if jdk.version < CHEAP_SINCE { " (only where it is asked for)" } else { "" };
    vec![
        throughput,
        longest(
            format!("JDK {}: longest stop for what the JVM is asked", jdk.version),
            safepoints::longest_ms(others.iter().copied()),
        ),
        longest(
            format!("JDK {}: longest stop for the first start of Flight Recorder{unasked}", jdk.version),
            safepoints::longest_ms(first.asked()),
        ),
    ]
}

impl Session {
    fn hold(stage: &Stage, brokerscope: &Path, log: &mut Log, flight_recorder: bool) -> anyhow::Result<Self> {
        stop::check()?;
        let recording = stage.path("recording");
        let _ = fs::remove_dir_all(&recording);
        let when = if flight_recorder { "always" } else { "never" };
        let more = ["--flight-recorder", when];
        let watchers = [Watcher::brokerscope(brokerscope, &recording, stage.pid(), &more)?];
        let unpaced = measure(stage, Kind::Brokerscope, UNPACED, &watchers)?;
        let paced = measure(stage, Kind::Brokerscope, PACED, &watchers)?;
        for watcher in watchers {
            watcher.stop()?;
        }
        let records = records_waits(&recording)?;
        ensure!(records == flight_recorder, "--flight-recorder {when}: the JVM does not do so");
        Ok(Self { flight_recorder, unpaced, paced, pauses: log.next()? })
    }

    /// What its JVM stopped for that it would not have by itself.
    fn asked(&self) -> Vec<&Pause> {
        self.pauses.iter().filter(|stop| !safepoints::is_its_own(stop)).collect()
    }

    const HEADINGS: [&'static str; 7] = [
        "Flight Recorder",
        "requests/s",
        "broker us each",
        "paced/s",
        "median ms",
        "p99 ms",
        "broker us each",
    ];

    fn row(&self) -> Vec<String> {
        let millis = |time: Duration| format!("{:.2}", time.as_secs_f64() * 1e3);
        let each = |run: &Run| format!("{:.1}", run.broker.as_secs_f64() * 1e6 / run.seen.requests as f64);
        vec![
            if self.flight_recorder { "on" } else { "off" }.to_owned(),
            format!("{:.0}", self.unpaced.seen.per_second()),
            each(&self.unpaced),
            format!("{:.1}", self.paced.seen.per_second()),
            millis(self.paced.seen.median),
            millis(self.paced.seen.p99),
            each(&self.paced),
        ]
    }
}

/// Whether a recording's plan says that the JVM reported waits.
fn records_waits(recording: &Path) -> anyhow::Result<bool> {
    let manifest: Value = serde_json::from_str(&fs::read_to_string(recording.join("manifest.json"))?)?;
    let plan = manifest.get("plan").and_then(Value::as_array).context("the manifest has no plan")?;
    let text =
        |line: &Value, index: usize| line.get(index).and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(plan.iter().any(|line| text(line, 0) == "lock-waits" && text(line, 1).starts_with("seen: ")))
}
