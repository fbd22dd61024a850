//! One run of an experiment: a fresh file system, a broker on it, load, and brokerscope's recording of it. Everything
//! hangs on its own site and is taken down with it, also after a failure or an interruption.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::load::{ClientMetrics, Clients, Driving};
use super::run_log::RunSpec;
use super::schedule;
use super::setup::{Network as Between, Setup};
use crate::broker::{Broker, BrokerOptions};
use crate::client::{Connection, Topic, create_topic, now_ns};
use crate::device::DeviceOptions;
use crate::error::Error;
use crate::files;
use crate::kafka::Kafka;
use crate::net::{Network, Place};
use crate::session::{Interrupt, Session};
use crate::site::Site;
use crate::sysctl::Sysctl;
use crate::volume::{DirtyLimit, Volume, VolumeOptions};

/// The broker's number in a network of two.
const HOST: u8 = 1;

/// How a run went.
pub(crate) enum Outcome {
    /// It was measured.
    Measured(RunData),
    /// There is no such file system here, or no device, and this is why.
    Impossible(String),
}

/// What was seen of a run.
pub(crate) struct RunData {
    pub(crate) start_ns: i64,
    pub(crate) measured: ClientMetrics,
    pub(crate) journal: Vec<String>,
}

/// Runs it once; the recording goes to `recording`, which must not exist.
///
/// # Errors
/// Where something failed that is no matter of the configuration; nothing stays behind.
pub(crate) fn run(
    asked: &RunSpec,
    recording: &Path,
    kafka: &Kafka,
    session: &Session,
) -> Result<Outcome, Error> {
    let site = Site::claim()?;
    let volumes = match prepare_volumes(&asked.setup, asked.seed, &site, &session.interrupt) {
        Ok(volumes) => volumes,
        Err(error) => {
            session.interrupt.check()?;
            let why = error.to_string();
            return Ok(Outcome::Impossible(why.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
    };
    let mut test_bed = TestBed::set(&asked.setup, volumes, site, kafka, &session.interrupt)?;
    let seen = test_bed.measure(asked, recording, kafka, session)?;
    test_bed.take_down()?;
    Ok(Outcome::Measured(seen))
}

/// A broker on its file systems. Fields are dropped in their order.
struct TestBed {
    broker: Broker,
    network: Option<Network>,
    /// Put back when dropped.
    sysctls: Vec<Sysctl>,
    /// Lifted when dropped.
    limits: Vec<DirtyLimit>,
    volumes: Vec<Volume>,
    site: Site,
}

fn prepare_volumes(
    setup: &Setup,
    seed: u64,
    site: &Site,
    interrupt: &Interrupt,
) -> Result<Vec<Volume>, Error> {
    let ground = &setup.ground;
    let options = VolumeOptions {
        device: DeviceOptions { size_bytes: ground.size_bytes, seed },
        file_system: ground.file_system,
        mount_options: ground.mount_options.clone(),
    };
    let prepare = |number| {
        interrupt.check()?;
        Volume::prepare_another(site, number, &options)
    };
    (1..=ground.volumes).map(prepare).collect()
}

impl TestBed {
    fn set(
        setup: &Setup,
        volumes: Vec<Volume>,
        site: Site,
        kafka: &Kafka,
        interrupt: &Interrupt,
    ) -> Result<Self, Error> {
        interrupt.check()?;
        let sysctls = setup.sysctls.iter().map(|(name, value)| Sysctl::set(site.path(), name, value));
        let sysctls = sysctls.collect::<Result<_, Error>>()?;
        let limited = setup.ground.dirty_bytes.into_iter().flat_map(|bytes| {
            volumes.iter().map(move |volume| DirtyLimit::set(volume.device_number()?, bytes))
        });
        let limits = limited.collect::<Result<_, Error>>()?;
        let network = match setup.network {
            Between::Loopback => None,
            Between::Link { mtu } => {
                let network = Network::make(site.path(), HOST)?;
                network.set_mtu(HOST, mtu)?;
                Some(network)
            }
        };
        let mut options = BrokerOptions::of_site(&site, "broker", interrupt)?;
        options.properties.clone_from(&setup.properties);
        set_log_dirs(&mut options, &volumes)?;
        if let Some(network) = &network {
            options.join(network, HOST)?;
        }
        let broker = Broker::start(kafka, options)?;
        let test_bed = Self { broker, network, sysctls, limits, volumes, site };
        test_bed.create_topics(setup, interrupt)?;
        Ok(test_bed)
    }

    fn clients(&self) -> Place {
        self.network.as_ref().map_or_else(Place::own, Network::clients)
    }

    fn create_topics(&self, setup: &Setup, interrupt: &Interrupt) -> Result<(), Error> {
        let address = self.broker.listener();
        let mut connection = self.clients().within(|| Connection::open(address, "lab-admin"))??;
        setup.topics.iter().try_for_each(|(name, partitions)| {
            let (name, configs) = (name.clone(), setup.topic_configs.clone());
            let topic = Topic { name, partitions: *partitions, configs, ..Topic::default() };
            create_topic(&mut connection, &topic, interrupt)
        })
    }

    /// Slows the devices down, warms the broker up, records it, and returns what its clients saw meanwhile.
    fn measure(
        &mut self,
        asked: &RunSpec,
        recording: &Path,
        kafka: &Kafka,
        Session { interrupt, observer, .. }: &Session,
    ) -> Result<RunData, Error> {
        for volume in &mut self.volumes {
            volume.device().keep(asked.setup.ground.pace)?;
        }
        let from = Clients { place: &self.clients(), broker: &self.broker, kafka, site: &self.site };
        let mut driving = Driving::start(asked, &from)?;
        interrupt.sleep(Duration::from_secs(asked.setup.warm_up_s))?;
        let recorder = observer.record(recording, self.broker.pid, self.site.path())?;
        driving.measure();
        let start_ns = now_ns();
        schedule::watch(Duration::from_secs(asked.seconds), interrupt, || driving.check())?;
        let end_ns = now_ns();
        recorder.stop()?;
        let measured = driving.stop((start_ns, end_ns), asked.slo_ms)?;
        Ok(RunData { start_ns, measured, journal: self.journal() })
    }

    /// How often the file systems' journals were committed, where the kernel counts that.
    fn journal(&self) -> Vec<String> {
        let names = self.volumes.iter().filter_map(|volume| volume.loop_device().file_name()?.to_str());
        names.flat_map(commits).collect()
    }

    /// Nobody reads the file systems any more: nothing is put in order, and the devices are quick again.
    fn take_down(mut self) -> Result<(), Error> {
        for volume in &mut self.volumes {
            volume.device().clear()?;
        }
        self.broker.kill();
        drop((self.network, self.sysctls, self.limits, self.volumes, self.site));
        Ok(())
    }
}

/// A log directory on each volume.
fn set_log_dirs(options: &mut BrokerOptions, volumes: &[Volume]) -> Result<(), Error> {
    let log_dirs: Vec<PathBuf> = volumes.iter().map(|volume| volume.directory().join("data")).collect();
    log_dirs.iter().try_for_each(|directory| files::make(directory))?;
    options.log_dir = log_dirs.first().cloned();
    let all: Vec<String> = log_dirs.iter().map(|path| path.display().to_string()).collect();
    options.properties.push(("log.dirs".to_owned(), all.join(",")));
    Ok(())
}

/// The kernel's own counts since the device was mounted: jbd2's transactions (`jbd2_seq_info_show`,
/// fs/jbd2/journal.c) and ext4's fast commits (`ext4_fc_info_show`, `fs/ext4/fast_commit.c`).
fn commits(device: &str) -> Vec<String> {
    let read = |path: String| fs::read_to_string(path).unwrap_or_default();
    let jbd2 = read(format!("/proc/fs/jbd2/{device}-8/info"));
    let fast = read(format!("/proc/fs/ext4/{device}/fc_info"));
    let first =
        jbd2.lines().next().and_then(|line| line.split(',').next()).map(|said| format!("jbd2: {said}"));
    let fast: Vec<&str> = fast.lines().skip(1).take(2).map(str::trim).collect();
    let fast = (!fast.is_empty()).then(|| format!("fast commits: {}", fast.join(", ")));
    first.into_iter().chain(fast).collect()
}
