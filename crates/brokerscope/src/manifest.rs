//! Fills a recording's manifest: host, broker, clocks, plan. Stores nothing itself.

use std::collections::BTreeMap;

use recording::{Clock, ClockPair, Host, Manifest};
use watch::{Ended, Outcome, Watch};

use crate::cli::Record;
use crate::options::{Presentation, Target};
use crate::output::warn;

/// Clock pairs kept in a manifest: one a second for two hours, then the newest replaces the last.
const MOST_CLOCK_PAIRS: usize = 7_200;
/// Properties whose values never leave the broker.
const SECRET: &[&str] = &["password", "secret", "jaas", "credential", "token", "key.store", "private", "ssl.keystore.key"];

/// The broker that the user means.
pub(crate) fn broker(target: &Target) -> anyhow::Result<broker::Broker> {
    Ok(match target.pid {
        Some(pid) => broker::Broker::of_pid(pid)?,
        None => broker::Broker::only()?,
    })
}

/// Says what will be seen and what will not, and why.
pub(crate) fn say_plan(watch: &Watch, presentation: &Presentation) {
    for item in watch.plan() {
        match &item.outcome {
            Outcome::Seen(means) => presentation.say(&format!("seeing {}: {means}", item.purpose)),
            Outcome::Missing(why) => warn(&format!("not seeing {}: {why}", item.purpose)),
        }
    }
}

/// The manifest of a recording that begins now.
pub(crate) fn of(watch: &Watch, broker: &broker::Broker, args: &Record) -> Manifest {
    let (offset, started) = watch.clock();
    let uname = rustix::system::uname();
    let text = |value: &std::ffi::CStr| value.to_string_lossy().into_owned();
    Manifest {
        started_ns: started.realtime_ns,
        host: Host {
            name: text(uname.nodename()),
            kernel: text(uname.release()),
            machine: text(uname.machine()),
            cpus: std::thread::available_parallelism().map_or(0, |cpus| cpus.get() as u32),
        },
        broker: Some(recording::Broker {
            pid: broker.pid,
            node_id: broker.node_id,
            log_dirs: broker.log_dirs.clone(),
            listeners: broker.listeners.iter().map(ToString::to_string).collect(),
            properties: without_secrets(&broker.properties),
            jvm: None,
        }),
        clock: Clock { offset_ns: offset.as_ns(), pairs: vec![stored(started)] },
        plan: watch
            .plan()
            .iter()
            .map(|item| {
                let outcome = match &item.outcome {
                    Outcome::Seen(means) => format!("seen: {means}"),
                    Outcome::Missing(why) => format!("{MISSING}{why}"),
                };
                (item.purpose.clone(), outcome)
            })
            .collect(),
        settings: BTreeMap::from([
            ("interface".to_owned(), args.interface.clone()),
            ("slower_than_ns".to_owned(), args.slower_than.0.to_string()),
        ]),
        ..Manifest::default()
    }
}

/// How the plan of a manifest marks what could not be seen.
pub(crate) const MISSING: &str = "missing: ";

/// Adds a reading of both clocks.
pub(crate) fn pair_clocks(manifest: &mut Manifest) {
    let pairs = &mut manifest.clock.pairs;
    pairs.truncate(MOST_CLOCK_PAIRS - 1);
    pairs.push(stored(watch::now()));
}

/// Completes the manifest of a recording that ends now.
pub(crate) fn end(manifest: &mut Manifest, ended: &Ended, dropped_rows: u64) {
    pair_clocks(manifest);
    manifest.ended_ns = Some(watch::now().realtime_ns);
    let dropped = ended.dropped + dropped_rows;
    if dropped > 0 {
        *manifest.losses.entry(model::LossKind::EventsDropped.as_str().to_owned()).or_default() += dropped;
    }
    let mut failure = |source: &str, error: String| {
        warn(&format!("{source} stopped early: {error}"));
        manifest.plan.push((source.to_owned(), format!("stopped early: {error}")));
    };
    if let Some(error) = &ended.kernel {
        failure("the probes", error.to_string());
    }
    if let Some(Err(error)) = &ended.packets {
        failure("the capture", error.to_string());
    }
}

fn stored(pair: model::clock::ClockPair) -> ClockPair {
    ClockPair { monotonic_ns: pair.monotonic_ns, realtime_ns: pair.realtime_ns }
}

fn without_secrets(properties: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let shown = |name: &str, value: &str| {
        let name = name.to_ascii_lowercase();
        if SECRET.iter().any(|secret| name.contains(secret)) { "(hidden)".to_owned() } else { value.to_owned() }
    };
    properties.iter().map(|(name, value)| (name.clone(), shown(name, value))).collect()
}

#[cfg(test)]
mod tests {
    use super::without_secrets;
    use std::collections::BTreeMap;

    #[test]
    fn no_secret_reaches_a_recording() {
        let properties = [
            ("log.dirs", "/data"),
            ("ssl.keystore.password", "hunter2"),
            ("listener.name.x.plain.sasl.jaas.config", "user=\"u\" password=\"p\""),
            ("delegation.token.secret.key", "k"),
        ];
        let properties: BTreeMap<String, String> =
            properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let shown = without_secrets(&properties);
        assert_eq!(shown["log.dirs"], "/data");
        assert_eq!(shown.values().filter(|value| *value == "(hidden)").count(), 3);
    }
}
