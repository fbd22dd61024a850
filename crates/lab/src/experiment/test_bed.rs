//! One run of an experiment: a fresh file system, a broker on it, load, and brokerscope's recording of it. Everything
//! hangs on its own site and is taken down with it, also after a failure or an interruption.

use std::fs;
use std::net::Ipv4Addr;
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
use crate::kafka::Kafka;
use crate::net::{Network, Place};
use crate::observer::Observer;
use crate::session::Interrupt;
use crate::site::Site;
use crate::sysctl::Sysctl;
use crate::volume::{DirtyLimit, Volume, VolumeOptions};

/// The broker's number in a network of two.
const HOST: u8 = 1;

/// What all runs share.
pub(crate) struct Context<'a> {
    pub(crate) kafka: &'a Kafka,
    pub(crate) observer: &'a Observer,
    pub(crate) interrupt: &'a Interrupt,
}

/// How a run went.
pub(crate) enum Outcome {
    /// It was measured.
    Measured(Box<RunData>),
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
pub(crate) fn run(asked: &RunSpec, recording: &Path, context: &Context) -> Result<Outcome, Error> {
    let site = Site::claim()?;
    let volumes = match prepare_volumes(&asked.setup, asked.seed, &site, context) {
        Ok(volumes) => volumes,
        Err(error) => {
            context.interrupt.check()?;
            return Ok(Outcome::Impossible(one_line(&error.to_string())));
        }
    };
    let mut test_bed = TestBed::set(&asked.setup, volumes, site, context)?;
    let seen = test_bed.measure(asked, recording, context)?;
    test_bed.take_down()?;
    Ok(Outcome::Measured(Box::new(seen)))
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

fn prepare_volumes(setup: &Setup, seed: u64, site: &Site, context: &Context) -> Result<Vec<Volume>, Error> {
    let ground = &setup.ground;
    let options = VolumeOptions {
        device: DeviceOptions { size_bytes: ground.size_bytes, seed },
        file_system: ground.file_system,
        mount_options: ground.mount_options.clone(),
    };
    let prepare = |number| {
        context.interrupt.check()?;
        Volume::prepare_another(site, number, &options)
    };
    (1..=ground.volumes).map(prepare).collect()
}

impl TestBed {
    fn set(setup: &Setup, volumes: Vec<Volume>, site: Site, context: &Context) -> Result<Self, Error> {
        context.interrupt.check()?;
        let sysctls: Result<Vec<Sysctl>, Error> =
            setup.sysctls.iter().map(|(name, value)| Sysctl::set(site.path(), name, value)).collect();
        let limited = setup.ground.dirty_bytes.into_iter().flat_map(|bytes| {
            volumes.iter().map(move |volume| DirtyLimit::set(volume.device_number()?, bytes))
        });
        let limits: Result<Vec<DirtyLimit>, Error> = limited.collect();
        let network = match setup.network {
            Between::Loopback => None,
            Between::Link { mtu } => {
                let network = Network::make(site.path(), HOST)?;
                network.set_mtu(HOST, mtu)?;
                Some(network)
            }
        };
        let options = broker_options(setup, &volumes, network.as_ref(), &site, context)?;
        let broker = Broker::start(context.kafka, options)?;
        let test_bed = Self { broker, network, sysctls: sysctls?, limits: limits?, volumes, site };
        test_bed.create_topics(setup, context.interrupt)?;
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
    fn measure(&mut self, asked: &RunSpec, recording: &Path, context: &Context) -> Result<RunData, Error> {
        for volume in &mut self.volumes {
            volume.device().keep(asked.setup.ground.pace)?;
        }
        let from =
            Clients { place: &self.clients(), broker: &self.broker, kafka: context.kafka, site: &self.site };
        let mut driving = Driving::start(asked, &from)?;
        context.interrupt.sleep(Duration::from_secs(asked.setup.warm_up_s))?;
        let recorder = context.observer.record(recording, self.broker.pid, self.site.path())?;
        driving.measure();
        let start_ns = now_ns();
        let seconds = Duration::from_secs(asked.seconds);
        schedule::watch(seconds, context.interrupt, || driving.check())?;
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

fn broker_options(
    setup: &Setup,
    volumes: &[Volume],
    network: Option<&Network>,
    site: &Site,
    context: &Context,
) -> Result<BrokerOptions, Error> {
    let mut options = BrokerOptions::new(site.directory("broker")?);
    let log_dirs: Vec<PathBuf> = volumes.iter().map(|volume| volume.directory().join("data")).collect();
    options.log_dir = log_dirs.first().cloned();
    // The metadata log's fsync every half second would make commits that no broker apart from the controller has.
    options.metadata_dir = Some(site.directory("metadata")?);
    options.properties.clone_from(&setup.properties);
    if log_dirs.len() > 1 {
        for directory in &log_dirs {
            fs::create_dir_all(directory).map_err(Error::io("make", directory))?;
        }
        let all: Vec<String> = log_dirs.iter().map(|path| path.display().to_string()).collect();
        options.properties.push(("log.dirs".to_owned(), all.join(",")));
    }
    if let Some(network) = network {
        let host = network.host(HOST);
        options.place = host.ok_or_else(|| Error::Unusable("a network without a host".to_owned()))?;
        options.address = Network::address(HOST);
    } else {
        options.address = Ipv4Addr::LOCALHOST;
    }
    options.site = Some(site.path().to_owned());
    options.interrupt = context.interrupt.clone();
    Ok(options)
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

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
