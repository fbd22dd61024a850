//! `doctor`: what can be observed on this host, what is missing, and what to do about it.

#[cfg(feature = "live")]
mod container;
#[cfg(feature = "live")]
mod host;
#[cfg(feature = "live")]
mod jvm;
#[cfg(feature = "live")]
pub(crate) mod measure;

use anyhow::Context as _;
use broker::{Broker, Processes};
use clap::Args;
use report::doctor::{self, BrokerFacts, Examination, Remedy};

use super::Run;
use crate::args::{Flags, Format, Presentation, Target};
use crate::failure::usage;
use crate::output::{self, Pace};

/// `doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brokerscope doctor
  sudo brokerscope doctor --measure
  brokerscope doctor --format json")]
pub(crate) struct Doctor {
    #[command(flatten)]
    target: Target,
    /// Measure what the BPF programs of each kind of watch cost a request, with
    /// requests to this process (some seconds; needs root).
    #[cfg(feature = "live")]
    #[arg(long)]
    measure: bool,
    #[command(flatten)]
    presentation: Presentation,
}

impl Run for Doctor {
    const FLAGS: Flags = Flags {
        hidden: &["utc", "wide"],
        unused: &["log-dir"],
        help: &[("pid", "Examine this broker only")],
        ..Flags::NONE
    };

    fn run(&self) -> anyhow::Result<()> {
        if self.presentation.format == Format::Csv {
            return usage("doctor has no csv; use --format json");
        }
        #[cfg_attr(not(feature = "live"), allow(unused_mut))]
        let mut examination = examine(self.target.pid)?;
        #[cfg(feature = "live")]
        if self.measure {
            examination.costs = measure::measure();
        }
        let out = output::stdout(Pace::Buffered);
        let written = match self.presentation.form(Pace::Buffered) {
            report::Format::Table(style) => doctor::write_text(out, &style, &examination),
            report::Format::Json | report::Format::Csv => doctor::write_json(out, &examination),
        };
        written.context(output::CANNOT_WRITE)
    }
}

fn examine(pid: Option<u32>) -> anyhow::Result<Examination> {
    #[cfg(feature = "live")]
    let mut examination = host::examine();
    #[cfg(not(feature = "live"))]
    let mut examination = Examination {
        live: false,
        remedies: vec![remedy(
            "this brokerscope was built without the feature `live`: it reads files and recordings only",
            "build it with that feature, on Linux, to watch a broker",
        )],
        ..Examination::default()
    };
    let brokers = match pid {
        Some(pid) => vec![Ok(Broker::of_pid(pid)?)],
        None => Broker::all(&Processes::default()),
    };
    if brokers.is_empty() {
        examination.remedies.push(remedy(
            "no Kafka broker was found running on this host",
            "start it, or run doctor as the user who may see it (root sees all)",
        ));
    }
    for broker in brokers {
        match broker {
            Ok(broker) => {
                examination.brokers.push(BrokerFacts {
                    pid: broker.pid,
                    node_id: broker.node_id.map(|id| id.to_string()),
                    listeners: broker.listeners.iter().map(ToString::to_string).collect(),
                    log_dirs: broker.log_dirs.iter().map(|dir| dir.display().to_string()).collect(),
                    #[cfg(feature = "live")]
                    facts: container::facts(&broker),
                    #[cfg(not(feature = "live"))]
                    facts: Vec::new(),
                });
                examination.remedies.extend(tls(&broker));
                #[cfg(feature = "live")]
                examination.remedies.extend(request_log(&broker));
                #[cfg(feature = "live")]
                examination.remedies.extend(container::remedies(&broker));
            }
            Err(error) => examination
                .remedies
                .push(remedy(error.to_string(), "run doctor as the user who may read it (root reads all)")),
        }
    }
    #[cfg(feature = "live")]
    jvm::examine(&mut examination);
    Ok(examination)
}

/// Remedy for the TLS listeners whose requests are not read.
fn tls(broker: &Broker) -> Option<Remedy> {
    let listeners = broker.tls_listeners().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    (!listeners.is_empty()).then(|| {
        let (why, action) = reading_tls(broker.pid);
        remedy(format!("requests of broker {} on {listeners} are TLS: {why}", broker.pid), action)
    })
}

/// Describes how to read requests on TLS listeners without an agent in the JVM.
#[cfg(feature = "live")]
fn request_log(broker: &Broker) -> Option<Remedy> {
    let listener = broker.tls_listeners().next()?;
    let plaintext = broker.listeners.iter().find(|listener| !listener.controller && !listener.tls);
    let reached = plaintext.unwrap_or(listener);
    let host = if reached.host.is_empty() { "localhost" } else { &reached.host };
    let id = broker.node_id.map_or_else(|| "ID".to_owned(), |id| id.to_string());
    let own = if plaintext.is_some() { "" } else { " --command-config CLIENT.properties" };
    Some(remedy(
        format!(
            "without an agent, requests of broker {} on TLS are read only with --request-log",
            broker.pid
        ),
        format!(
            "kafka-configs.sh --bootstrap-server {host}:{}{own} --alter --entity-type broker-loggers --entity-name {id} \
             --add-config kafka.request.logger=DEBUG has Kafka log its requests without a restart (=WARN ends it); then \
             give record, export, top or explain live the file that it writes with --request-log FILE, such as \
             logs/kafka-request.log",
            reached.port
        ),
    ))
}

/// Advice if no agent can be loaded into the JVM.
const PLAINTEXT: &str = "have clients whose requests matter use a plaintext listener, such as one on localhost; or end TLS in \
                         front of the broker";

#[cfg(feature = "live")]
fn reading_tls(pid: u32) -> (String, &'static str) {
    match ::jvm::Machine::of(pid).and_then(|machine| ::jvm::agent::check(&machine)) {
        Ok(()) => (
            "they are counted, and read only with --see-tls".to_owned(),
            "run record, explain live, export or top with --see-tls: an agent in the broker's JVM copies them into memory",
        ),
        Err(error) => (format!("they are counted and not read, also with --see-tls: {error}"), PLAINTEXT),
    }
}

#[cfg(not(feature = "live"))]
fn reading_tls(_pid: u32) -> (String, &'static str) {
    ("they are counted and not read".to_owned(), PLAINTEXT)
}

fn remedy(problem: impl Into<String>, action: impl Into<String>) -> Remedy {
    Remedy { problem: problem.into(), action: action.into() }
}

#[cfg(feature = "live")]
fn fact(name: &str, value: impl Into<String>) -> report::doctor::Fact {
    report::doctor::Fact { name: name.to_owned(), value: value.into() }
}
