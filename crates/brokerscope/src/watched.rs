//! Starting a live watch on the broker that is meant. Does not read its events.

use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use broker::Broker;
use model::{Nanos, Pid};
use watch::{Jfr, Memory, Options, Outcome, Packets, Watch};

use crate::options::{Filter, Target};
use crate::output;

/// The broker the user named, or the only one that runs here.
pub(crate) fn broker(target: &Target) -> anyhow::Result<Broker> {
    match target.pid {
        Some(pid) => Ok(Broker::of_pid(pid)?),
        None => Ok(Broker::only()?),
    }
}

/// What to capture of it: the ports the user named, or its own.
pub(crate) fn packets(filter: &Filter, broker: &Broker, interface: &str) -> Packets {
    let ports = if filter.ports.is_empty() { broker.client_ports() } else { filter.ports.clone() };
    Packets {
        interface: interface.to_owned(),
        ports,
        message_id_header: filter.message_id.clone().map(String::into_bytes),
    }
}

/// Starts to watch it; `jvm` says what to have its JVM record, none leaves the JVM alone. An error where nothing at all
/// can be seen.
pub(crate) fn start(
    target: &Target,
    broker: &Broker,
    packets: Option<Packets>,
    kernel: bool,
    jvm: Option<Jfr>,
    memory: Memory,
) -> anyhow::Result<Watch> {
    let watch = Watch::start(&Options {
        pid: broker.pid,
        node_id: broker.node_id,
        log_dirs: broker.log_dirs.clone(),
        named_dirs: (!target.log_dirs.is_empty()).then(|| target.log_dirs.clone()),
        host: packets.is_some(),
        packets,
        kernel,
        jvm: jvm.is_some(),
        jfr: jvm.unwrap_or(Jfr::Never),
        memory,
    });
    if !watch.sees_anything() {
        let reasons = watch.plan().iter().filter_map(|purpose| match &purpose.outcome {
            Outcome::Missing(why) => Some(why.as_str()),
            Outcome::Active(_) => None,
        });
        let mut reasons = reasons.collect::<Vec<_>>();
        reasons.dedup();
        bail!(
            "broker {}: nothing can be seen of it: {}; `brokerscope doctor` says more",
            broker.pid,
            reasons.join("; ")
        );
    }
    Ok(watch)
}

/// Has the JVM's own probes tell of waits for monitors that are at least so long.
pub(crate) fn probe_jvm(watch: &mut Watch, pid: Pid, min_wait: Nanos) {
    watch.probe_jvm(pid, Duration::from_nanos(min_wait.0.unsigned_abs()));
}

/// What is in the way of each of several means to see the same, in a line each; nothing where one of them works.
pub(crate) fn unseen(watch: &Watch, means: &[&str]) -> Vec<String> {
    let mut lines = Vec::new();
    for purpose in watch.plan().iter().filter(|purpose| means.contains(&purpose.purpose.as_str())) {
        match &purpose.outcome {
            Outcome::Active(_) => return Vec::new(),
            Outcome::Missing(why) => lines.push(format!("not seen: {}: {why}", purpose.purpose)),
        }
    }
    lines
}

/// Gives away what attaching needed and watching does not. `output` is where the command goes on writing files.
pub(crate) fn drop_privileges(output: Option<&Path>) {
    if let Err(error) = watch::drop_unneeded_capabilities(output) {
        output::warn(&format!("capabilities that are not needed any more could not be given away: {error}"));
    }
}
