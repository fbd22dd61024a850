//! `doctor`: what can be seen on this host, what is missing, and what to do about it.

#[cfg(feature = "live")]
mod attach;
#[cfg(feature = "live")]
mod container;
#[cfg(feature = "live")]
mod host;
#[cfg(feature = "live")]
mod jvm;

use anyhow::Context as _;
use broker::{Broker, Processes};
#[cfg(feature = "live")]
use probes::facts::Capabilities;
use report::doctor::{BrokerFacts, DoctorJson, DoctorReport, DoctorText, Examination, Fact, Remedy};

use crate::cli::Doctor;
use crate::failure::Usage;
use crate::options::Format;
use crate::output::{self, Pace};

/// Examines this host.
pub(crate) fn run(args: &Doctor) -> anyhow::Result<()> {
    let out = output::stdout(Pace::AllThere);
    let mut report: Box<dyn DoctorReport> = match args.presentation.format {
        Format::Table => Box::new(DoctorText::new(out, args.presentation.look(Pace::AllThere).colour)),
        Format::Json => Box::new(DoctorJson(out)),
        Format::Csv => return Err(Usage("doctor has no csv; use --format json".to_owned()).into()),
    };
    let examination = examine(args)?;
    report.examination(&examination).context(output::CANNOT_WRITE)
}

fn examine(args: &Doctor) -> anyhow::Result<Examination> {
    let mut examination = of_host();
    let brokers = match args.pid {
        Some(pid) => vec![Ok(Broker::of_pid(pid)?)],
        None => Broker::all(&Processes::default()),
    };
    if brokers.is_empty() {
        examination.remedies.push(Remedy {
            problem: "no Kafka broker was found running on this host".to_owned(),
            action: "start it, or run doctor as the user who may see it (root sees all)".to_owned(),
        });
    }
    for broker in &brokers {
        match broker {
            Ok(broker) => {
                examination.brokers.push(found(broker));
                examination.remedies.extend(remedies(broker));
            }
            Err(error) => examination.remedies.push(Remedy {
                problem: error.to_string(),
                action: "run doctor as the user who may read it (root reads all)".to_owned(),
            }),
        }
    }
    #[cfg(feature = "live")]
    jvm::examine(&mut examination);
    Ok(examination)
}

#[cfg(feature = "live")]
fn of_host() -> Examination {
    host::examine()
}

#[cfg(not(feature = "live"))]
fn of_host() -> Examination {
    Examination {
        live: false,
        remedies: vec![Remedy {
            problem:
                "this brokerscope was built without the feature `live`: it reads files and recordings only"
                    .to_owned(),
            action: "build it with that feature, on Linux, to watch a broker".to_owned(),
        }],
        ..Examination::default()
    }
}

fn found(broker: &Broker) -> BrokerFacts {
    BrokerFacts {
        pid: broker.pid,
        node_id: broker.node_id.map(|id| id.to_string()),
        listeners: broker.listeners.iter().map(ToString::to_string).collect(),
        log_dirs: broker.log_dirs.iter().map(|dir| dir.display().to_string()).collect(),
        facts: surroundings(broker),
    }
}

#[cfg(feature = "live")]
fn surroundings(broker: &Broker) -> Vec<Fact> {
    container::facts(broker)
}

#[cfg(not(feature = "live"))]
fn surroundings(_: &Broker) -> Vec<Fact> {
    Vec::new()
}

#[cfg(feature = "live")]
fn remedies(broker: &Broker) -> Vec<Remedy> {
    container::remedies(broker, Capabilities::of_this_process())
}

#[cfg(not(feature = "live"))]
fn remedies(_: &Broker) -> Vec<Remedy> {
    Vec::new()
}
