//! `demo`: a real broker on a device whose journal is slow, recorded and explained by brokerscope as a
//! user would do it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::broker::{Broker, BrokerOptions};
use crate::device::DeviceOptions;
use crate::error::Error;
use crate::kafka::{DEFAULT_VERSION, Kafka};
use crate::load::{Load, Producer, ProducerMetrics};
use crate::observer::Observer;
use crate::session::{Interrupt, Session, Steps, draw_seed};
use crate::site::Site;
use crate::volume::{FileSystem, Volume, VolumeOptions};

/// The injected delay of every write into the journal.
const LEAST_MS: u64 = 120;
const MOST_MS: u64 = 400;
/// Topics and partitions: few, so that producers meet at a partition's lock.
const TOPICS: &[(&str, u32)] = &[("topicA", 2), ("topicB", 1)];
/// Producer processes a topic, and records a second of each.
const PRODUCERS: usize = 3;
const RATE: u32 = 150;
/// How long the JVMs and the compiler get to settle before anything is measured.
const WARM_UP: Duration = Duration::from_secs(6);
/// How much longer than asked a recording may take to attach and to finish its files; and how long an explanation may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(120);

/// Arguments of `demo`.
#[derive(Clone, Debug, clap::Args)]
pub struct DemoArguments {
    /// Keep the recording in DIR instead of a directory that goes away with the demo
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
    /// Write a page of what was seen to FILE
    #[arg(long, value_name = "FILE")]
    pub page: Option<PathBuf>,
}

/// Runs the whole demo; what `explain` prints goes to stdout.
///
/// # Errors
/// When nothing could be shown: no broker, or neither `record` nor `explain` worked.
pub fn run(arguments: &DemoArguments, brokerscope: Option<&Path>) -> Result<(), Error> {
    let started = Instant::now();
    let (Session { steps, interrupt }, observer) = Session::start(brokerscope)?;
    let kafka = Kafka::prepare(&arguments.kafka, steps)?;
    let seed = arguments.seed.unwrap_or_else(draw_seed);
    let site = Site::claim()?;
    // Declared in the order they are set up, so that they are taken down in reverse, no matter what happens.
    let mut volume = prepare_volume(&site, seed, steps, &interrupt)?;
    let broker = start_broker(&kafka, &site, volume.as_ref(), &interrupt, steps)?;
    let load = start_load(&kafka, &broker, &site, &interrupt, steps)?;
    plant(volume.as_mut(), seed, steps)?;
    let recording = arguments.keep.clone().unwrap_or_else(|| site.path().join("recording"));
    let user =
        User { observer: &observer, recording: &recording, site: site.path(), interrupt: &interrupt, steps };
    let recorded = user.record(broker.pid, arguments.seconds, load);
    if let Some(volume) = &mut volume {
        volume.device().clear()?;
    }
    let shown = recorded.and_then(|()| user.explain()).and_then(|()| match &arguments.page {
        Some(page) => user.report(page),
        None => Ok(()),
    });
    take_down(broker, volume, site, steps);
    shown?;
    if let Some(kept) = &arguments.keep {
        steps.say(&format!(
            "the recording is in {0}; `brokerscope explain {0}` shows it again",
            kept.display()
        ));
    }
    steps.took(started, "done");
    Ok(())
}

/// A device where it is permitted, else `None` after saying why.
fn prepare_volume(
    site: &Site,
    seed: u64,
    steps: Steps,
    interrupt: &Interrupt,
) -> Result<Option<Volume>, Error> {
    interrupt.check()?;
    let started = Instant::now();
    let device = DeviceOptions { size_bytes: 2 << 30, seed };
    // A commit every 5 s is the kernel's default; written out because the demo's rhythm depends on it.
    let options =
        VolumeOptions { device, file_system: FileSystem::Ext4, mount_options: "commit=5".to_owned() };
    match Volume::prepare(site, &options) {
        Ok(volume) => {
            let device = volume.loop_device().display();
            steps.took(started, &format!("ext4 on {device}, a device that can be made slow"));
            Ok(Some(volume))
        }
        Err(error) => {
            interrupt.check()?;
            steps.say(&format!("no device with planted latency here: {error}"));
            steps.say("going on in a plain directory: requests will only be slow if this machine is");
            Ok(None)
        }
    }
}

fn start_broker(
    kafka: &Kafka,
    site: &Site,
    volume: Option<&Volume>,
    interrupt: &Interrupt,
    steps: Steps,
) -> Result<Broker, Error> {
    interrupt.check()?;
    let started = Instant::now();
    let directory = site.directory("broker")?;
    let mut options = BrokerOptions::new(&directory);
    options.log_dir = volume.map(|volume| volume.directory().to_owned());
    options.metadata_dir = Some(site.directory("metadata")?);
    options.site = Some(site.path().to_owned());
    options.interrupt = interrupt.clone();
    let broker = Broker::start(kafka, options)?;
    let (version, java, pid, port) = (kafka.version(), kafka.java_version(), broker.pid, broker.port);
    steps.took(started, &format!("Kafka {version} on Java {java}, pid {pid}, port {port}"));
    let started = Instant::now();
    broker.create_topics(kafka, TOPICS)?;
    let names: Vec<String> = TOPICS.iter().map(|(topic, count)| format!("{topic} with {count}")).collect();
    steps.took(started, &format!("topics: {} partition(s)", names.join(", ")));
    Ok(broker)
}

fn start_load(
    kafka: &Kafka,
    broker: &Broker,
    site: &Site,
    interrupt: &Interrupt,
    steps: Steps,
) -> Result<Load, Error> {
    interrupt.check()?;
    let started = Instant::now();
    let mut load = Load::start(kafka, broker, &producers(), &site.directory("load")?, Some(site.path()))?;
    interrupt.sleep(WARM_UP)?;
    load.check()?;
    let count = TOPICS.len() * PRODUCERS;
    steps.took(started, &format!("{count} producers, {RATE} records/s of 1 KiB each, acks=1, warmed up"));
    Ok(load)
}

fn producers() -> Vec<Producer> {
    let of_topic = |topic: &str| {
        let topic = topic.to_owned();
        (1..=PRODUCERS).map(move |number| Producer {
            client_id: format!("{topic}-producer-{number}"),
            topic: topic.clone(),
            rate: RATE,
            record_bytes: 1024,
            // Small and frequent requests; up to five of a connection wait at the broker.
            properties: ["acks=1", "linger.ms=0", "max.in.flight.requests.per.connection=5"]
                .map(str::to_owned)
                .to_vec(),
        })
    };
    TOPICS.iter().flat_map(|&(topic, _)| of_topic(topic)).collect()
}

fn plant(volume: Option<&mut Volume>, seed: u64, steps: Steps) -> Result<(), Error> {
    let Some(volume) = volume else { return Ok(()) };
    volume.inject_journal_delay(LEAST_MS, MOST_MS)?;
    steps.say(&format!(
        "planted: writes into the journal on {} now take {LEAST_MS}–{MOST_MS} ms longer (--seed {seed})",
        volume.loop_device().display()
    ));
    Ok(())
}

fn take_down(broker: Broker, volume: Option<Volume>, site: Site, steps: Steps) {
    let started = Instant::now();
    broker.stop();
    let what = if volume.is_some() { ", file system unmounted, devices detached" } else { "" };
    drop(volume);
    drop(site);
    steps.took(started, &format!("broker stopped{what}"));
}

/// Runs brokerscope as a user would, and says how it went.
struct User<'a> {
    observer: &'a Observer,
    recording: &'a Path,
    site: &'a Path,
    interrupt: &'a Interrupt,
    steps: Steps,
}

impl User<'_> {
    /// Records the broker while `load` runs, then ends the load and says what the producers saw.
    ///
    /// # Errors
    /// When there is nothing to explain; a recorder that failed after it had written something is only reported.
    fn record(&self, pid: u32, seconds: u64, mut load: Load) -> Result<(), Error> {
        let started = Instant::now();
        let (length, pid) = (format!("{seconds}s"), pid.to_string());
        self.steps.say(&format!("running `brokerscope record --for {length} --pid {pid}`"));
        load.measure();
        let further = ["--for", &length, "--pid", &pid].map(OsStr::new);
        let arguments = [&[OsStr::new("-o"), self.recording.as_os_str()], &further[..]].concat();
        let limit = Duration::from_secs(seconds) + COMMAND_TIMEOUT;
        // Its data goes to the recording; what it prints must not mix with the explanation's.
        let recorded =
            self.observer.show(("record", &arguments), self.site, Stdio::null(), limit, || load.check());
        let ProducerMetrics { records, mean_ms, max_ms, .. } = load.stop();
        if records > 0 {
            self.steps.say(&format!(
                "the producers themselves saw {mean_ms:.1} ms on average and {max_ms:.0} ms at worst over {records} records"
            ));
        }
        self.interrupt.check()?;
        match recorded {
            Err(error @ Error::Tool { .. }) if self.recording.is_dir() => {
                self.steps.say(&format!("{error}; explaining what there is"));
            }
            recorded => {
                recorded?;
                self.steps.took(started, &format!("recorded into {}", self.recording.display()));
            }
        }
        Ok(())
    }

    /// Shows the explanation on stdout.
    fn explain(&self) -> Result<(), Error> {
        self.steps.say("running `brokerscope explain` on it");
        self.show("explain", &[self.recording.as_os_str()], "explained")
    }

    /// Writes a page of the recording.
    fn report(&self, page: &Path) -> Result<(), Error> {
        let arguments =
            [self.recording.as_os_str(), OsStr::new("-o"), page.as_os_str(), OsStr::new("--quiet")];
        let done = format!("the same as a page: open {} in a browser", page.display());
        self.show("report", &arguments, &done)
    }

    fn show(&self, command: &str, arguments: &[&OsStr], done: &str) -> Result<(), Error> {
        let started = Instant::now();
        self.observer.show((command, arguments), self.site, Stdio::inherit(), COMMAND_TIMEOUT, || Ok(()))?;
        self.steps.took(started, done);
        Ok(())
    }
}
