//! The command line of `brokerscope-lab`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::broker::{Broker, BrokerOptions};
use crate::demo::DemoArguments;
use crate::device::ServeArguments;
use crate::error::{Error, Result};
use crate::faults::FaultsArguments;
use crate::file_systems::FsArguments;
use crate::fleet::FleetArguments;
use crate::kafka::{DEFAULT_VERSION, Kafka};
use crate::session::{interrupt, print, print_elapsed, print_status};
use crate::site::Site;
use crate::tuning::TuneArguments;
use crate::{demo, device, faults, file_systems, fleet, site, tuning};

/// Run experiments on a real Kafka broker.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "brokerscope-lab", version, arg_required_else_help = true)]
pub struct Arguments {
    /// Run this brokerscope [default: what `BROKERSCOPE_BIN` names, else the one beside this program]
    #[arg(long, value_name = "PATH", global = true)]
    pub brokerscope: Option<PathBuf>,
    /// The experiment.
    #[command(subcommand)]
    pub command: Command,
}

/// Experiments.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Command {
    /// Slow down the file system journal of a real broker, and explain its slow requests
    Demo(DemoArguments),
    /// Inject causes on a real broker and count how often explanations name them
    Faults(FaultsArguments),
    /// Make one of nine brokers read unused data from disk, and find it
    Fleet(FleetArguments),
    /// Run a broker on several file systems, one after the other, and compare them
    Fs(FsArguments),
    /// Change one setting of a broker at a time, and compare the throughput
    Tune(TuneArguments),
    /// Start a broker with its request log on, print its port and pid, run until interrupted
    Broker(BrokerArguments),
    /// Clean up what a killed lab left behind
    Clean,
    /// Serve a block device with injected latency
    #[command(hide = true)]
    Device(ServeArguments),
}

/// Arguments of `broker`.
#[derive(Clone, Debug, clap::Args)]
pub struct BrokerArguments {
    /// Keep everything in DIR instead of a temporary directory
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Port to listen on, on 127.0.0.1 (default: a free one)
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Topic to create (repeatable)
    #[arg(long, value_name = "NAME[:PARTITIONS]", value_parser = parse_topic)]
    pub topic: Vec<(String, u32)>,
    /// Line for server.properties (repeatable)
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_property)]
    pub property: Vec<(String, String)>,
    /// Further argument of the JVM (repeatable)
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub jvm_arg: Vec<String>,
    /// Version of Kafka to run
    #[arg(long, value_name = "VERSION", default_value = DEFAULT_VERSION)]
    pub kafka: String,
}

/// Runs a subcommand to its end.
pub fn run(Arguments { brokerscope, command }: Arguments) -> Result<()> {
    let exe = brokerscope.as_deref();
    match command {
        Command::Demo(arguments) => demo::run(&arguments, exe),
        Command::Faults(arguments) => faults::run(&arguments, exe),
        Command::Fleet(arguments) => fleet::run(&arguments, exe),
        Command::Fs(arguments) => file_systems::run(&arguments, exe),
        Command::Tune(arguments) => tuning::run(&arguments, exe),
        Command::Broker(arguments) => run_broker(arguments),
        Command::Clean => {
            match site::sweep()? {
                0 => print_status("nothing to clean"),
                count => print_status(&format!("cleaned up after {count} killed lab(s)")),
            }
            Ok(())
        }
        Command::Device(arguments) => device::serve(&arguments),
    }
}

fn run_broker(arguments: BrokerArguments) -> Result<()> {
    interrupt().catch_signals()?;
    site::sweep()?;
    let kafka = Kafka::prepare(&arguments.kafka)?;
    let site = Site::claim()?;
    let started = Instant::now();
    let directory = arguments.dir.unwrap_or_else(|| site.path().join("broker"));
    let mut options = BrokerOptions::new(directory);
    options.port = arguments.port;
    options.request_log = true;
    options.properties = arguments.property;
    options.jvm_arguments = arguments.jvm_arg;
    options.site = Some(site.path().to_owned());
    let mut broker = Broker::start(&kafka, options)?;
    let topics: Vec<(&str, u32)> =
        arguments.topic.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    broker.create_topics(&kafka, &topics)?;
    print_elapsed(started, &format!("Kafka {} answers; Ctrl-C stops it", kafka.version));
    print(&description(&broker))?;
    while broker.runs() {
        if interrupt().sleep(Duration::from_millis(200)).is_err() {
            return Ok(());
        }
    }
    Err(Error::ended("the broker", &broker.server_log))
}

/// One `key=value` per line, for people and scripts alike.
fn description(broker: &Broker) -> String {
    let Broker { pid, port, log_dir, server_log, request_log, .. } = broker;
    let (log_dir, server_log) = (log_dir.display(), server_log.display());
    let requests = request_log.as_ref().map(|path| format!("request_log={}\n", path.display()));
    let requests = requests.unwrap_or_default();
    format!("pid={pid}\nport={port}\nlog_dir={log_dir}\nserver_log={server_log}\n{requests}")
}

fn parse_topic(text: &str) -> Result<(String, u32), String> {
    let (name, partitions) = text.rsplit_once(':').unwrap_or((text, "1"));
    match partitions.parse() {
        Ok(count) if count > 0 && !name.is_empty() => Ok((name.to_owned(), count)),
        _ => Err("expected NAME or NAME:PARTITIONS".to_owned()),
    }
}

fn parse_property(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(key, _)| !key.is_empty());
    parts
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or_else(|| "expected KEY=VALUE".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_topics_and_properties() {
        assert_eq!(parse_topic("a").unwrap(), ("a".to_owned(), 1));
        assert_eq!(parse_topic("a:12").unwrap(), ("a".to_owned(), 12));
        assert!(parse_topic(":3").is_err() && parse_topic("a:0").is_err() && parse_topic("a:b").is_err());
        assert_eq!(parse_property("k=v=w").unwrap(), ("k".to_owned(), "v=w".to_owned()));
        assert!(parse_property("=v").is_err() && parse_property("k").is_err());
    }
}
