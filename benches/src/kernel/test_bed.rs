//! The test bed: a journaled ext4 on a loop device in memory, with a real broker on it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use lab::broker::make_keystore;
use lab::client::Endpoint;
use lab::kafka::{DEFAULT_VERSION, Kafka};
use lab::volume::{Volume, VolumeOptions};
use lab::{Broker, BrokerOptions, Site, sweep_in};

use super::TOPIC;

/// Default number of the topic's partitions.
const PARTITIONS: u32 = 8;
/// Timeout for creating the partitions, and for electing their leaders.
const PATIENCE: Duration = Duration::from_secs(20);
const SETTLE: Duration = Duration::from_secs(1);
/// Size of the sparse image.
const VOLUME_BYTES: u64 = 6 << 30;

/// Settings that delete segments soon. The volume then has room for any number of runs.
const SHORT_LIVED: [(&str, &str); 5] = [
    ("log.segment.bytes", "67108864"),
    ("log.retention.bytes", "134217728"),
    ("log.retention.check.interval.ms", "1000"),
    ("log.segment.delete.delay.ms", "1000"),
    ("log.cleaner.backoff.ms", "1000"),
];

/// Options of a test bed.
pub(crate) struct Setting {
    /// Partitions of the topic.
    pub(crate) partitions: u32,
    /// Whether the load uses TLS.
    pub(crate) is_tls: bool,
    /// The Java that runs the broker.
    pub(crate) java: PathBuf,
    /// Further arguments of its JVM.
    pub(crate) jvm_arguments: Vec<String>,
}

impl Default for Setting {
    fn default() -> Self {
        Self { partitions: PARTITIONS, is_tls: false, java: PathBuf::from("java"), jvm_arguments: Vec::new() }
    }
}

/// A broker with one topic, and the directory with everything in it. Removed when dropped.
pub(crate) struct TestBed {
    // Dropped in this order: what is mounted goes last.
    broker: Broker,
    volume: Option<Volume>,
    site: Site,
    partitions: u32,
}

impl TestBed {
    /// Creates one in a directory shared by all; also removes what a killed run left there.
    pub(crate) fn set(directory: &Path, setting: &Setting) -> anyhow::Result<Self> {
        let site = claim(directory)?;
        let log_dir = mount(&site)?;
        Self::start(site, None, log_dir, setting)
    }

    /// As [`TestBed::set`], on a device with injectable latency. `brokerscope-lab` serves the device.
    pub(crate) fn set_slow(
        directory: &Path,
        setting: &Setting,
        volume: &VolumeOptions,
    ) -> anyhow::Result<Self> {
        let site = claim(directory)?;
        let volume = Volume::prepare(&site, volume)?;
        let log_dir = volume.directory().to_owned();
        Self::start(site, Some(volume), log_dir, setting)
    }

    fn start(
        site: Site,
        volume: Option<Volume>,
        log_dir: PathBuf,
        setting: &Setting,
    ) -> anyhow::Result<Self> {
        let kafka = Kafka::prepare_with(&setting.java, DEFAULT_VERSION)?;
        let mut options = BrokerOptions::new(site.directory("broker")?);
        options.log_dir = Some(log_dir);
        options.metadata_dir = Some(site.directory("metadata")?);
        options.site = Some(site.path().to_owned());
        options.jvm_arguments.clone_from(&setting.jvm_arguments);
        if setting.is_tls {
            options.keystore = Some(make_keystore(site.path())?);
        }
        options.properties.extend(SHORT_LIVED.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let broker = Broker::start(&kafka, options)?;
        broker.create_topic(&kafka, TOPIC, setting.partitions)?;
        let bed = Self { broker, volume, site, partitions: setting.partitions };
        bed.await_partitions()?;
        Ok(bed)
    }

    pub(crate) fn partitions(&self) -> u32 {
        self.partitions
    }

    /// The broker's volume, if it has injectable latency.
    pub(crate) fn volume(&mut self) -> Option<&mut Volume> {
        self.volume.as_mut()
    }

    /// Takes the volume out, to control it while the test bed is borrowed. It must be given back.
    pub(crate) fn take_volume(&mut self) -> Option<Volume> {
        self.volume.take()
    }

    pub(crate) fn give_back(&mut self, volume: Volume) {
        self.volume = Some(volume);
    }

    pub(crate) fn pid(&self) -> u32 {
        self.broker.pid
    }

    pub(crate) fn port(&self) -> u16 {
        self.broker.port
    }

    /// The endpoint for the load.
    pub(crate) fn endpoint(&self) -> Endpoint {
        self.broker.clients_endpoint()
    }

    /// A directory that is removed with this.
    pub(crate) fn directory(&self) -> &Path {
        self.site.path()
    }

    /// A path in that directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.site.path().join(name)
    }

    /// Waits for the partitions' leaders: the controller answers for a new topic before the broker leads its partitions.
    fn await_partitions(&self) -> anyhow::Result<()> {
        let end = Instant::now() + PATIENCE;
        while !(0..self.partitions).all(|number| self.partition(number).is_dir()) {
            ensure!(Instant::now() < end, "the broker does not make the topic's partitions");
            sleep(Duration::from_millis(50));
        }
        sleep(SETTLE);
        Ok(())
    }

    fn partition(&self, number: u32) -> PathBuf {
        self.broker.log_dir.join(format!("{TOPIC}-{number}"))
    }
}

/// Claims a site in the directory, after removing sites that no process holds.
pub(crate) fn claim(directory: &Path) -> anyhow::Result<Site> {
    fs::create_dir_all(directory)?;
    sweep_in(directory)?;
    Ok(Site::claim_in(directory)?)
}

/// Mounts the volume in memory. The commit latency of this machine's disk is irrelevant to the comparison.
fn mount(site: &Site) -> anyhow::Result<PathBuf> {
    let (memory, volume) = (site.directory("memory")?, site.directory("volume")?);
    let room = format!("size={VOLUME_BYTES}");
    run(Command::new("mount").args(["-t", "tmpfs", "-o", &room, "tmpfs"]).arg(&memory))?;
    let image = memory.join("image");
    File::create(&image)?.set_len(VOLUME_BYTES)?;
    let initialised = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
    run(Command::new("mkfs.ext4").args(["-q", "-F", "-N", "16384", "-E", initialised]).arg(&image))?;
    run(Command::new("mount").args(["-t", "ext4", "-o", "loop,commit=1"]).arg(&image).arg(&volume))?;
    // A log directory may contain only partitions.
    fs::remove_dir(volume.join("lost+found"))?;
    Ok(volume)
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("cannot run {:?}", command.get_program()))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}
