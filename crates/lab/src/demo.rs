//! `demo`: a real broker on a device with a slow journal, recorded and explained by brokerscope as a user would do it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::broker::{Broker, BrokerOptions, make_keystore};
use crate::error::{Error, Result};
use crate::kafka::{DEFAULT_VERSION, Kafka};
use crate::load::{Load, Producer, ProducerMetrics};
use crate::session;
use crate::session::{Observer, draw_seed, interrupt, print_elapsed, print_status};
use crate::site::Site;
use crate::volume::{FileSystem, Volume, VolumeOptions};

/// The injected delay of every write to the journal.
const MIN_MS: u64 = 120;
const MAX_MS: u64 = 400;
/// Topics and partitions: few, so that producers meet at a partition's lock.
const TOPICS: &[(&str, u32)] = &[("topicA", 2), ("topicB", 1)];
/// Producer processes per topic, and records per second of each.
const PRODUCERS: usize = 3;
const RATE: u32 = 150;
/// How long the JVMs and the compiler settle before the measurement.
const WARM_UP: Duration = Duration::from_secs(6);
/// Time for a recording to attach and to finish its files. It is added to the requested length. Also the timeout of an
/// explanation.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);

/// Arguments of `demo`.
#[derive(Clone, Debug, clap::Args)]
pub struct DemoArguments {
    /// Keep the recording in DIR instead of a temporary directory
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// How long to record
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// Seed of the injected delays; a new one is drawn and printed if not given
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Version of Kafka to run
    #[arg(long, value_name = "VERSION", default_value = DEFAULT_VERSION)]
    pub kafka: String,
    /// Make the producers use TLS
    #[arg(long)]
    pub tls: bool,
    /// With --tls, take their requests from Kafka's request log instead of an agent
    #[arg(long, requires = "tls")]
    pub request_log: bool,
    /// Write an HTML page of the results to FILE
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
}

/// Runs the whole demo; `explain` prints to stdout.
///
/// # Errors
/// Nothing could be shown: no broker, or neither `record` nor `explain` worked.
pub(crate) fn run(arguments: &DemoArguments, brokerscope: Option<&Path>) -> Result<()> {
    let started = Instant::now();
    let observer = session::start(brokerscope)?;
    let kafka = Kafka::prepare(&arguments.kafka)?;
    let seed = arguments.seed.unwrap_or_else(draw_seed);
    let site = Site::claim()?;
    let recording = arguments.keep.clone().unwrap_or_else(|| site.path().join("recording"));
    let DemoArguments { tls, request_log, .. } = *arguments;
    let demo =
        Demo { observer: &observer, kafka: &kafka, site: &site, recording: &recording, tls, request_log };
    // Declared in the order of setup, so that they are taken down in reverse, no matter what happens.
    let mut volume = demo.prepare_volume(seed)?;
    let broker = demo.start_broker(volume.as_ref())?;
    let load = demo.start_load(&broker)?;
    if let Some(volume) = &mut volume {
        inject(volume, seed)?;
    }
    let recorded = demo.record(&broker, arguments.seconds, load);
    if let Some(volume) = &mut volume {
        volume.device().clear()?;
    }
    let result = recorded.and_then(|()| demo.explain()).and_then(|()| match &arguments.page {
        Some(page) => demo.report(page),
        None => Ok(()),
    });
    take_down(broker, volume, site);
    result?;
    if let Some(directory) = &arguments.keep {
        let directory = directory.display();
        print_status(&format!(
            "the recording is in {directory}; `brokerscope explain {directory}` shows it again"
        ));
    }
    print_elapsed(started, "done");
    Ok(())
}

struct Demo<'a> {
    observer: &'a Observer,
    kafka: &'a Kafka,
    site: &'a Site,
    recording: &'a Path,
    /// Whether the producers speak TLS.
    tls: bool,
    /// Whether their requests are read from Kafka's request log.
    request_log: bool,
}

impl Demo<'_> {
    /// Sets up a device if that is permitted; else prints why not and returns `None`.
    fn prepare_volume(&self, seed: u64) -> Result<Option<Volume>> {
        let started = Instant::now();
        // A commit every 5 s is the kernel's default; explicit because the demo's rhythm depends on it.
        let options = VolumeOptions::new(FileSystem::Ext4, "commit=5", 2 << 30, seed);
        match Volume::prepare(self.site, &options) {
            Ok(volume) => {
                let device = volume.loop_device().display();
                print_elapsed(started, &format!("ext4 on {device}, a device that can be made slow"));
                Ok(Some(volume))
            }
            Err(error) => {
                interrupt().check()?;
                print_status(&format!("no device with injected latency here: {error}"));
                print_status("using a plain directory instead: requests are slow only if this machine is");
                Ok(None)
            }
        }
    }

    fn start_broker(&self, volume: Option<&Volume>) -> Result<Broker> {
        interrupt().check()?;
        let started = Instant::now();
        let mut options = BrokerOptions::of_site(self.site, "broker")?;
        options.log_dir = volume.map(|volume| volume.directory().to_owned());
        options.keystore = self.tls.then(|| make_keystore(&options.directory)).transpose()?;
        options.request_log = self.request_log;
        let broker = Broker::start(self.kafka, options)?;
        let Kafka { version, java_version: java, .. } = self.kafka;
        let (pid, port) = (broker.pid, broker.tls_port.unwrap_or(broker.port));
        let tls = if self.tls { " for TLS" } else { "" };
        print_elapsed(started, &format!("Kafka {version} on Java {java}, pid {pid}, port {port}{tls}"));
        let started = Instant::now();
        broker.create_topics(self.kafka, TOPICS)?;
        let names: Vec<String> =
            TOPICS.iter().map(|(topic, count)| format!("{topic} with {count}")).collect();
        print_elapsed(started, &format!("topics: {} partition(s)", names.join(", ")));
        Ok(broker)
    }

    fn start_load(&self, broker: &Broker) -> Result<Load> {
        interrupt().check()?;
        let started = Instant::now();
        let directory = self.site.directory("load")?;
        let mut load = Load::start(self.kafka, broker, &producers(), &directory)?;
        interrupt().sleep(WARM_UP)?;
        load.check()?;
        let count = TOPICS.len() * PRODUCERS;
        print_elapsed(
            started,
            &format!("{count} producers, {RATE} records/s of 1 KiB each, acks=1, warmed up"),
        );
        Ok(load)
    }

    /// Records the broker while `load` runs. Then ends the load and prints what the producers measured.
    ///
    /// # Errors
    /// There is nothing to explain; a recorder that failed after it had written something is only reported.
    fn record(&self, broker: &Broker, seconds: u64, mut load: Load) -> Result<()> {
        let started = Instant::now();
        let (length, pid) = (format!("{seconds}s"), broker.pid.to_string());
        let tls = match &broker.request_log {
            Some(log) => vec!["--request-log".to_owned(), log.display().to_string()],
            None => self.tls.then(|| "--see-tls".to_owned()).into_iter().collect(),
        };
        let flags = ["", &tls.join(" ")].join(if tls.is_empty() { "" } else { " " });
        print_status(&format!("running `brokerscope record --for {length} --pid {pid}{flags}`"));
        load.measure();
        let mut command = self.observer.command("record");
        // Its data goes to the recording; its output must not mix with the explanation.
        command.arg("-o").arg(self.recording).args(["--for", &length, "--pid", &pid]).args(tls);
        command.stdout(Stdio::null());
        let limit = Duration::from_secs(seconds) + COMMAND_TIMEOUT;
        let recorded = session::show(command, self.site.path(), limit, || load.check());
        let ProducerMetrics { records, mean_ms, max_ms, .. } = load.stop();
        if records > 0 {
            print_status(&format!(
                "the producers themselves saw {mean_ms:.1} ms on average and {max_ms:.0} ms at worst over {records} records"
            ));
        }
        interrupt().check()?;
        match recorded {
            Err(error @ Error::Tool { .. }) if self.recording.is_dir() => {
                print_status(&format!("{error}; explaining what there is"));
            }
            recorded => {
                recorded?;
                print_elapsed(started, &format!("recorded into {}", self.recording.display()));
            }
        }
        Ok(())
    }

    /// Shows the explanation on stdout.
    fn explain(&self) -> Result<()> {
        print_status("running `brokerscope explain` on it");
        self.show("explain", &[], "explained")
    }

    /// Writes a page of the recording.
    fn report(&self, page: &Path) -> Result<()> {
        let done = format!("the same as a page: open {} in a browser", page.display());
        self.show("report", &["-o".as_ref(), page.as_os_str(), "--quiet".as_ref()], &done)
    }

    fn show(&self, subcommand: &str, further: &[&OsStr], done: &str) -> Result<()> {
        let started = Instant::now();
        let mut command = self.observer.command(subcommand);
        command.arg(self.recording).args(further);
        session::show(command, self.site.path(), COMMAND_TIMEOUT, || Ok(()))?;
        print_elapsed(started, done);
        Ok(())
    }
}

fn inject(volume: &mut Volume, seed: u64) -> Result<()> {
    volume.inject_journal_delay(MIN_MS, MAX_MS)?;
    print_status(&format!(
        "injected: writes into the journal on {} now take {MIN_MS}–{MAX_MS} ms longer (--seed {seed})",
        volume.loop_device().display()
    ));
    Ok(())
}

fn take_down(broker: Broker, volume: Option<Volume>, site: Site) {
    let started = Instant::now();
    broker.stop();
    let what = if volume.is_some() { ", file system unmounted, devices detached" } else { "" };
    drop(volume);
    drop(site);
    print_elapsed(started, &format!("broker stopped{what}"));
}

fn producers() -> Vec<Producer> {
    let named = TOPICS.iter().flat_map(|&(topic, _)| (1..=PRODUCERS).map(move |number| (topic, number)));
    named
        .map(|(topic, number)| Producer {
            client_id: format!("{topic}-producer-{number}"),
            topic: topic.to_owned(),
            rate: RATE,
            record_bytes: 1024,
            // Small and frequent requests; up to five per connection wait at the broker.
            properties: ["acks=1", "linger.ms=0", "max.in.flight.requests.per.connection=5"]
                .map(str::to_owned)
                .to_vec(),
        })
        .collect()
}
