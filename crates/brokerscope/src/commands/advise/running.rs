//! Collects what can be known about the broker that runs here: from its files and the kernel's, and, with `--for`, by
//! watching it. Advises nothing. If little of a broker can be read, reports that and what is missing.

use std::path::PathBuf;

use advise::{Inputs, Settings};
use analysis::advice::{AdviceTotals, WhyNot};
use analysis::source::{Live, LiveOptions};
use analysis::{Analysis, EventSource as _, Stop};
use anyhow::Context as _;
use broker::{Broker, Error, Processes};
use model::{Known, Pid};
use report::quantity::format_count_of;
use watch::admin::ClientProperties;
use watch::read_host_facts;

use super::{Advise, Findings, NO_DUMPS, add};
use crate::args::Jvm;

/// Maximum number of settings named in a note.
const MAX_NAMES: usize = 8;
/// Why nothing is known about requests if the broker was not watched.
const NOT_WATCHED: &str = "the broker was not watched; use advise --for 60s, or name a recording";
const NOTHING_SEEN: WhyNot = WhyNot {
    requests: "no request was seen while the broker was watched",
    samples: "none came while the broker was watched",
    files: "no operation on a file was seen while the broker was watched",
    profile: "no sample of it came while the broker was watched",
};

/// Reads what can be read, and watches the broker if requested.
pub(super) fn collect(args: &Advise) -> anyhow::Result<Findings> {
    let client = args.client.read()?;
    let pid = pid(args)?;
    let broker = match Broker::of_pid(pid) {
        Err(error @ (Error::NoProcess { .. } | Error::NotABroker { .. })) => return Err(error.into()),
        found => found,
    };
    let mut notes = Vec::new();
    let mut inputs = Inputs {
        settings: broker.as_ref().map(|broker| in_force(broker, client, &mut notes)).map_err(why),
        host_facts: read_host_facts(pid, &log_dirs(args, &broker)),
        dumps: Err(NO_DUMPS.into()),
        ..Inputs::unknown(NOT_WATCHED)
    };
    if args.length.duration.is_some() {
        let broker = broker
            .context("the broker cannot be watched; without --for, advise needs only what can be read")?;
        watch(args, &broker, &mut inputs, &mut notes)?;
    }
    notes.push("BEFORE and AFTER are recordings made before and after the change: brokerscope record -o BEFORE --for 60s".to_owned());
    Ok(Findings::new(inputs, format!("broker {pid}"), notes))
}

/// Finds the broker's process: everybody can read command lines, even if nothing else.
fn pid(args: &Advise) -> Result<Pid, Error> {
    if let Some(pid) = args.target.pid {
        return Ok(pid);
    }
    match &broker::pids(&Processes::default())[..] {
        [] => Err(Error::NoneRuns),
        [pid] => Ok(*pid),
        several => Err(Error::SeveralRun { pids: several.to_vec() }),
    }
}

/// Settings from the broker's file, updated with those that the broker reports.
fn in_force(broker: &Broker, client: ClientProperties, notes: &mut Vec<String>) -> Settings {
    let mut properties = broker.properties.clone();
    match watch::admin::settings(broker, client) {
        Ok(answered) => {
            let names =
                answered.dynamic.keys().take(MAX_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
            let changed = answered.dynamic.len() as u64;
            if changed > 0 {
                let settings = format_count_of(changed, "setting");
                notes.push(format!(
                    "{settings} changed while the broker runs (kafka-configs); the changed values are used: {names}"
                ));
            }
            answered.apply(&mut properties);
        }
        Err(error) => notes
            .push(format!("settings changed while the broker runs (kafka-configs) are not known: {error}")),
    }
    Settings::from(properties)
}

fn log_dirs(args: &Advise, broker: &Result<Broker, Error>) -> Known<Vec<PathBuf>> {
    if !args.target.log_dirs.is_empty() {
        return Ok(args.target.log_dirs.clone());
    }
    broker.as_ref().map(|broker| broker.log_dirs.clone()).map_err(why)
}

fn why(error: &Error) -> std::sync::Arc<str> {
    error.to_string().into()
}

fn watch(args: &Advise, broker: &Broker, inputs: &mut Inputs, notes: &mut Vec<String>) -> anyhow::Result<()> {
    let jvm = Jvm { no_attach: true, ..Jvm::default() };
    let options = LiveOptions { pid: Some(broker.pid), min_lock_wait: None, ..args.target.live_options(jvm) };
    let mut live = Live::start(options, Some(Stop::after(None)?), args.length.duration)?;
    tracing::info!("watching broker {}", broker.pid);
    let mut analysis = Analysis::new(live.config(args.slow.slower_than));
    let mut totals = AdviceTotals::default();
    analysis.run(&mut live, &mut |output| {
        add(&mut totals, output);
        Ok::<_, anyhow::Error>(())
    })?;
    let gaps = live.gaps(args.slow.slower_than);
    notes.extend(gaps.unobservable.iter().map(|gap| format!("not seen: {}: {}", gap.what, gap.why)));
    let dropped: u64 = gaps.losses.iter().map(|(_, count)| count).sum();
    if dropped > 0 {
        notes.push(format!("{dropped} events dropped: they came faster than they could be read"));
    }
    totals.finish(inputs, analysis.summary.requests > 0, None, &NOTHING_SEEN);
    Ok(())
}
