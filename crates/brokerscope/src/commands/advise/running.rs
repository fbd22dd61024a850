//! What there is to know of the broker that runs here: from its files and the kernel's, and, where the user gives time for it, from
//! watching it. Advises nothing. A broker of which little can be read is still told about, with what is missing.

use std::path::PathBuf;
use std::time::Duration;

use advise::{Inputs, Settings};
use anyhow::Context as _;
use broker::{Broker, Error, Processes};
use diagnose::Config;
use model::{Known, Pid};
use report::quantity::format_count_of;
use watch::read_host_facts;
use watch::{Memory, Watch};

use super::seen::Seen;
use super::{Gathered, dumps};
use crate::advising::WhyNot;
use crate::cli::Advise;
use crate::options::{CPU_SAMPLES, Filter};
use crate::stop::Stop;
use crate::watched;

/// Settings named in a note.
const MOST_NAMES: usize = 8;
/// The longest that is waited for an event.
const WAIT: Duration = Duration::from_millis(50);
/// Why nothing of requests is known where nobody watched.
const NOT_WATCHED: &str = "the broker was not watched: advise --for 60s, or name a recording";
const NOTHING_SEEN: WhyNot = WhyNot {
    requests: "no request was seen while the broker was watched",
    samples: "none came while the broker was watched",
    files: "no operation on a file was seen while the broker was watched",
    profile: "no sample of it came while the broker was watched",
};

/// Reads what can be read, and watches where that is asked for.
pub(super) fn gather(args: &Advise) -> anyhow::Result<Gathered> {
    let stop = Stop::after(None)?;
    let pid = pid(args)?;
    let broker = match Broker::of_pid(pid) {
        Err(error @ (Error::NoProcess { .. } | Error::NotABroker { .. })) => return Err(error.into()),
        found => found,
    };
    let mut notes = Vec::new();
    let mut inputs = Inputs {
        settings: broker.as_ref().map(|broker| in_force(broker, &mut notes)).map_err(why),
        surroundings: read_host_facts(pid, &log_dirs(args, &broker)),
        dumps: Err(dumps::NONE.into()),
        ..Inputs::unknown(NOT_WATCHED)
    };
    if args.duration.is_some() {
        let broker =
            broker.context("the broker cannot be watched; without --for there is advice all the same")?;
        watch(args, &broker, &stop, &mut inputs, &mut notes)?;
    }
    notes.push("BEFORE and AFTER are recordings of before and after a change: brokerscope record -o BEFORE --for 60s".to_owned());
    let subject = format!("broker {pid}");
    Ok(Gathered { inputs, blocked: Vec::new(), subject, notes, whole: Ok(()) })
}

/// The broker's process: command lines are open to everybody, whatever else is not.
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

/// Its file's settings, brought up to date by what it says itself, where it answers.
fn in_force(broker: &Broker, notes: &mut Vec<String>) -> Settings {
    let mut properties = broker.properties.clone();
    match watch::admin::settings(broker) {
        Ok(answered) => {
            let names =
                answered.dynamic.keys().take(MOST_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
            let changed = answered.dynamic.len() as u64;
            if changed > 0 {
                let settings = format_count_of(changed, "setting");
                notes.push(format!(
                    "{settings} changed while the broker runs (kafka-configs) and used as such: {names}"
                ));
            }
            answered.apply(&mut properties);
        }
        Err(error) => notes.push(format!(
            "settings that were changed while the broker runs (kafka-configs) are not known: {error}"
        )),
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

fn watch(
    args: &Advise,
    broker: &Broker,
    stop: &Stop,
    inputs: &mut Inputs,
    notes: &mut Vec<String>,
) -> anyhow::Result<()> {
    let packets = watched::packets(&Filter::default(), broker, "any");
    let mut watch = watched::start(&args.target, broker, Some(packets), true, None, Memory::default())?;
    watch.sample_cpu(broker.pid, CPU_SAMPLES);
    watched::drop_privileges(None);
    let stop = stop.clone().within(args.duration);
    args.presentation.say(&format!("watching broker {}", broker.pid));
    let config = Config { file_ops_observed: watch.sees_files(), ..Config::live(args.slower_than) };
    let mut seen = Seen::new(config);
    while !stop.asked() {
        if let Some(event) = watch.next(WAIT) {
            seen.event(event);
        }
    }
    notes.extend(unseen(&watch));
    let ended = watch.stop(&mut |rest| seen.event(rest));
    if ended.unreported > 0 {
        notes.push(format!("{} events could not be taken in time and were dropped", ended.unreported));
    }
    let (advising, requests) = seen.finish();
    advising.finish(inputs, requests, None, &NOTHING_SEEN);
    Ok(())
}

fn unseen(watch: &Watch) -> Vec<String> {
    let missing = watch.plan().iter().filter_map(|purpose| match &purpose.outcome {
        watch::Outcome::Missing(why) => Some(format!("not seen: {}: {why}", purpose.purpose)),
        watch::Outcome::Active(_) => None,
    });
    missing.collect()
}
