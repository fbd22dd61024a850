//! Compares a recorded broker with and without its Flight Recorder. Also compares it with and without the tracing of
//! request handler calls. That is the only difference each time. Measures throughput, and the JVM pauses that this
//! causes.

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
use crate::kernel::test_bed::{Setting, TestBed};
use crate::kernel::watcher::{Kind, Watcher};
use crate::target::{Bound, Target};
use crate::{stop, table};

/// Pairs of runs; the order alternates.
const ROUNDS: usize = 4;
/// The required rate, and as fast as the broker answers.
const PACED: Load = Load { records: 1, rate: 5_000, seconds: 3 };
const UNPACED: Load = Load { records: 1, rate: 0, seconds: 5 };
/// Warm-up runs for the JVM's compiler.
const WARM_UPS: usize = 2;
const THROUGHPUT_PERCENT: f64 = -1.0;

/// The difference between two sessions.
pub(super) struct Comparison {
    what: &'static str,
    /// Values of `--flight-recorder` without it and with it.
    without: &'static str,
    with: &'static str,
    /// Its purpose in the plan.
    purpose: &'static str,
    /// Maximum JVM pause for it.
    stop_ms: f64,
}

/// Flight Recorder.
pub(super) const FLIGHT_RECORDER: Comparison = Comparison {
    what: "Flight Recorder",
    without: "never",
    with: "always",
    purpose: "lock-waits",
    stop_ms: 20.0,
};
/// The calls of request handlers, for which the JVM redefines classes: only on request.
pub(super) const HANDLER_CALLS: Comparison = Comparison {
    what: "handler calls",
    without: "always",
    with: "handlers",
    purpose: "handler-calls",
    stop_ms: 100.0,
};

/// The broker during one recording.
struct Session {
    /// Whether the difference is on.
    with: bool,
    unpaced: Run,
    paced: Run,
    pauses: Vec<Pause>,
}

/// Measures with one JDK.
pub(super) fn hold(
    brokerscope: &Path,
    sites: &Path,
    jdk: &Jdk,
    compared: &Comparison,
) -> anyhow::Result<Vec<Target>> {
    let setting =
        Setting { java: jdk.java.clone(), jvm_arguments: vec![safepoints::argument()], ..Setting::default() };
    let bed = TestBed::set(sites, &setting)?;
    let mut log = Log::of(&bed.path("broker"));
    for _ in 0..WARM_UPS {
        stop::check()?;
        measure(&bed, Kind::Nobody, UNPACED, &[])?;
    }
    log.next()?;
    // The first start in a JVM is the most expensive, and is reported separately.
    let first = Session::hold(&bed, brokerscope, &mut log, compared, true)?;
    let mut sessions = Vec::new();
    for round in 0..ROUNDS {
        let odd = round % 2 == 1;
        for with in [odd, !odd] {
            sessions.push(Session::hold(&bed, brokerscope, &mut log, compared, with)?);
        }
    }
    let what = compared.what;
    println!("JDK {}, a broker that is recorded, with {what} and without:", jdk.version);
    table::print(&Session::headings(what), sessions.iter().map(Session::row));
    println!("\nJDK {}, the first start of {what}, and a thread dump:", jdk.version);
    safepoints::print(&first.caused_pauses());
    println!("\nJDK {}, all others:", jdk.version);
    let others: Vec<&Pause> = sessions.iter().flat_map(Session::caused_pauses).collect();
    safepoints::print(&others);
    Ok(targets(jdk, compared, &sessions, &first, &others))
}

fn targets(
    jdk: &Jdk,
    compared: &Comparison,
    sessions: &[Session],
    first: &Session,
    others: &[&Pause],
) -> Vec<Target> {
    let what = compared.what;
    let differences = |of: fn(&Session) -> f64| -> Vec<f64> {
        let with = sessions.iter().filter(|session| session.with);
        let without = sessions.iter().filter(|session| !session.with);
        with.zip(without).map(|(with, without)| (of(with) / of(without) - 1.0) * 100.0).collect()
    };
    let throughput = Target::of_runs(
        format!("JDK {}: throughput at 5,000/s, {what} on against off", jdk.version),
        &differences(|session| session.paced.seen.per_second()),
        Bound::AtLeast(THROUGHPUT_PERCENT),
        "%",
    );
    let longest = |what: String, measured| Target {
        what,
        measured,
        spread: None,
        bound: Bound::AtMost(compared.stop_ms),
        unit: "ms",
    };
    let is_asked_for = jdk.version < CHEAP_SINCE || compared.purpose == HANDLER_CALLS.purpose;
    let unasked = if is_asked_for { " (only where it is asked for)" } else { "" };
    vec![
        throughput,
        longest(
            format!("JDK {}: longest stop for what the JVM is asked with {what}", jdk.version),
            safepoints::longest_ms(others.iter().copied()),
        ),
        longest(
            format!("JDK {}: longest stop for the first start of {what}{unasked}", jdk.version),
            safepoints::longest_ms(first.caused_pauses()),
        ),
    ]
}

impl Session {
    fn hold(
        bed: &TestBed,
        brokerscope: &Path,
        log: &mut Log,
        compared: &Comparison,
        with: bool,
    ) -> anyhow::Result<Self> {
        stop::check()?;
        let recording = bed.path("recording");
        let _ = fs::remove_dir_all(&recording);
        let when = if with { compared.with } else { compared.without };
        let more = ["--flight-recorder", when];
        let watchers = [Watcher::brokerscope(brokerscope, &recording, bed.pid(), &more)?];
        let unpaced = measure(bed, Kind::Brokerscope, UNPACED, &watchers)?;
        let paced = measure(bed, Kind::Brokerscope, PACED, &watchers)?;
        for watcher in watchers {
            watcher.stop()?;
        }
        let sees = sees(&recording, compared.purpose)?;
        ensure!(sees == with, "--flight-recorder {when}: the JVM does not do so");
        Ok(Self { with, unpaced, paced, pauses: log.next()? })
    }

    /// The pauses of its JVM that the recording caused.
    fn caused_pauses(&self) -> Vec<&Pause> {
        self.pauses.iter().filter(|stop| !safepoints::is_its_own(stop)).collect()
    }

    fn headings(what: &'static str) -> [&'static str; 7] {
        [what, "requests/s", "broker us each", "paced/s", "median ms", "p99 ms", "broker us each"]
    }

    fn row(&self) -> Vec<String> {
        let millis = |time: Duration| format!("{:.2}", time.as_secs_f64() * 1e3);
        let each = |run: &Run| format!("{:.1}", run.broker.as_secs_f64() * 1e6 / run.seen.requests as f64);
        vec![
            if self.with { "on" } else { "off" }.to_owned(),
            format!("{:.0}", self.unpaced.seen.per_second()),
            each(&self.unpaced),
            format!("{:.1}", self.paced.seen.per_second()),
            millis(self.paced.seen.median),
            millis(self.paced.seen.p99),
            each(&self.paced),
        ]
    }
}

/// Whether a recording's plan says that this was watched.
fn sees(recording: &Path, purpose: &str) -> anyhow::Result<bool> {
    let manifest: Value = serde_json::from_str(&fs::read_to_string(recording.join("manifest.json"))?)?;
    let plan = manifest.get("plan").and_then(Value::as_array).context("the manifest has no plan")?;
    let text =
        |line: &Value, index: usize| line.get(index).and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(plan.iter().any(|line| text(line, 0) == purpose && text(line, 1).starts_with("seen: ")))
}
