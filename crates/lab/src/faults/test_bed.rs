//! Where a fault is injected: a broker, the file system below it, and clients. Taken down in order on drop.

use std::path::PathBuf;
use std::time::Duration;

use fastrand::Rng;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::RequestSource;
use super::plan::{Fault, Tools, VolumeKind};
use crate::broker::{Broker, BrokerOptions, make_keystore};
use crate::client::{Connection, Endpoint, Request, Running, Topic, Traffic, create_topic};
use crate::device::Direction;
use crate::error::{Error, Result};
use crate::experiment::setup::pairs;
use crate::jvm::{Pause, pauses, pauses_argument};
use crate::kafka::Kafka;
use crate::net::Place;
use crate::process::on_own_thread;
use crate::session::{Observer, interrupt};
use crate::site::Site;
use crate::volume::{Volume, VolumeOptions};

/// The volume is sparse.
const VOLUME_BYTES: u64 = 2 << 30;
/// How long the JVM's compiler settles before anything is recorded.
const WARM_UP: Duration = Duration::from_secs(4);
/// Like [`WARM_UP`], for a broker that is warm already and a load of another kind.
const WARM_UP_AGAIN: Duration = Duration::from_secs(1);
/// How long load runs before and after a fault.
pub(super) const SETTLE: Duration = Duration::from_millis(600);

/// A broker that faults are injected on. Fields are dropped in order.
pub(super) struct TestBed {
    /// The broker that is recorded.
    pub(super) broker: Broker,
    volume: Option<Volume>,
    /// The broker's processor, which its clients keep off.
    pub(super) broker_cpu: Option<usize>,
    pub(super) kafka: Kafka,
    pub(super) site: Site,
    /// The JVM's log of its pauses, on a disk that is not slowed.
    pauses: PathBuf,
    is_warm: bool,
}

/// The slow operations of the device.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slow {
    /// Writes to the file system's journal.
    JournalWrites,
    /// Reads outside the journal.
    Reads,
    /// Writes outside the journal.
    Writes,
}

impl TestBed {
    /// Sets up what `fault` declares, on this volume, and what this source of requests needs.
    pub(super) fn set_up(
        (fault, tools): (&Fault, &mut Tools),
        (volume, source): (Option<VolumeKind>, RequestSource),
        seed: u64,
        rng: &mut Rng,
    ) -> Result<Self> {
        let kafka = Kafka::prepare(fault.kafka)?;
        let site = Site::claim()?;
        let prepare = |VolumeKind { file_system, mount_options }| {
            Volume::prepare(&site, &VolumeOptions::new(file_system, mount_options, VOLUME_BYTES, seed))
        };
        let volume = volume.map(prepare).transpose()?;
        interrupt().check()?;
        let mut options = BrokerOptions::of_site(&site, "broker")?;
        options.log_dir = volume.as_ref().map(|volume| volume.directory().join("data"));
        let pauses = options.directory.join("pauses.log");
        options.jvm_arguments.push(pauses_argument(&pauses));
        options.properties = pairs(fault.properties);
        options.request_log = source == RequestSource::RequestLog;
        options.keystore = source.is_encrypted().then(|| make_keystore(&options.directory)).transpose()?;
        (fault.configure)(&mut options, tools, rng)?;
        let broker = Broker::start(&kafka, options)?;
        Ok(Self { broker, volume, broker_cpu: None, kafka, site, pauses, is_warm: false })
    }

    /// Makes the broker's JVM load brokerscope's agent once, and ends the agent: the first time, the JVM discards all
    /// its compiled code. That would slow the recorded requests, and no fault did it.
    pub(super) fn load_agent(&self, observer: &Observer) -> Result<()> {
        // The first connection loads the class that the agent changes.
        drop(self.connect("lab-admin")?);
        observer.record(&self.site.path().join("first-load"), self.broker.pid, self.site.path())?.stop()
    }

    /// The file system below the broker.
    ///
    /// # Errors
    /// The fault declared none.
    pub(super) fn volume(&mut self) -> Result<&mut Volume> {
        self.volume.as_mut().ok_or_else(|| Error::Unusable("this fault has no volume".to_owned()))
    }

    /// Whether the broker's logs are on its volume, and not on the machine's own disk.
    pub(super) fn is_on_its_volume(&self) -> bool {
        self.volume.as_ref().is_some_and(|volume| self.broker.log_dir.starts_with(volume.directory()))
    }

    /// The pauses of the broker's JVM, from its own log.
    pub(super) fn pauses(&self) -> Result<Vec<Pause>> {
        pauses(&self.pauses)
    }

    /// Makes operations of the device take `ms` longer from now on.
    pub(super) fn delay(&mut self, slow: Slow, ms: u64) -> Result<()> {
        let volume = self.volume()?;
        match slow {
            Slow::JournalWrites => volume.inject_journal_delay(ms, ms),
            Slow::Reads => volume.inject_data_delay(Direction::Read, ms),
            Slow::Writes => volume.inject_data_delay(Direction::Write, ms),
        }
    }

    /// Makes the device fast again; operations that are already held back stay so.
    pub(super) fn clear_delays(&mut self) -> Result<()> {
        self.volume()?.device().clear()
    }

    /// Slows operations of the device by `ms` for `length_ms`; returns `after_ms` later.
    pub(super) fn slow_down(&mut self, slow: Slow, ms: u64, length_ms: u64, after_ms: u64) -> Result<()> {
        self.delay(slow, ms)?;
        interrupt().sleep(Duration::from_millis(length_ms))?;
        self.clear_delays()?;
        interrupt().sleep(Duration::from_millis(after_ms))
    }

    /// How many of the device's reads and writes were held back since the last call; 0 without a device.
    pub(super) fn held_back(&mut self) -> Result<usize> {
        let Some(volume) = &mut self.volume else { return Ok(0) };
        let served = volume.device().trace()?;
        Ok(served.iter().filter(|served| served.held_ms > 0).count())
    }

    /// The directory of a partition.
    pub(super) fn partition_directory(&self, topic: &str, partition: u32) -> PathBuf {
        self.broker.log_dir.join(format!("{topic}-{partition}"))
    }

    /// Access for clients on other threads.
    pub(super) fn access(&self) -> BrokerAccess {
        BrokerAccess { endpoint: self.broker.clients_endpoint(), place: self.broker.options.clients.clone() }
    }

    /// Connects as a client.
    pub(super) fn connect(&self, client_id: &str) -> Result<Connection> {
        self.access().connect(client_id)
    }

    /// Creates a topic if it is missing. Waits until the broker leads its partitions.
    pub(super) fn create_topic(&self, topic: &Topic) -> Result<()> {
        create_topic(&mut self.connect("lab-admin")?, topic)
    }

    /// Creates a topic of one partition with these settings. Fills it with `batches` batches of `bytes` bytes.
    pub(super) fn create_filled_topic(
        &self,
        name: &str,
        configs: &[(&str, &str)],
        (batches, bytes): (usize, usize),
        rng: &mut Rng,
    ) -> Result<()> {
        let (name, configs) = (name.to_owned(), pairs(configs));
        self.create_topic(&Topic { name: name.clone(), partitions: 1, configs, ..Topic::default() })?;
        let mut connection = self.connect("filler")?;
        let mut value = vec![0; bytes];
        for _ in 0..batches {
            rng.fill(&mut value);
            connection.order(&Request::produce(&name, 0, 1, &[&value]))?;
        }
        Ok(())
    }

    /// Starts producers.
    pub(super) fn produce(&self, traffic: &Traffic, rng: &mut Rng) -> Result<Running> {
        let (endpoint, clients) = (self.broker.clients_endpoint(), &self.broker.options.clients);
        off_cpu(self.broker_cpu, || clients.within(|| traffic.start(endpoint, rng)))??
    }

    /// Lets the broker compile what it needs for this kind of load.
    pub(super) fn warm_up(&mut self, traffic: &Traffic, rng: &mut Rng) -> Result<()> {
        let running = self.produce(traffic, rng)?;
        interrupt().sleep(if self.is_warm { WARM_UP_AGAIN } else { WARM_UP })?;
        self.is_warm = true;
        running.stop().map(drop)
    }
}

/// Starts clients off the broker's processor: threads inherit the affinity of their parent.
fn off_cpu<T: Send>(cpu: Option<usize>, start: impl FnOnce() -> T + Send) -> Result<T> {
    let Some(cpu) = cpu else { return Ok(start()) };
    let leave = || -> rustix::io::Result<()> {
        let mut allowed: CpuSet = sched_getaffinity(None)?;
        if allowed.count() > 1 {
            allowed.unset(cpu);
        }
        sched_setaffinity(None, &allowed)
    };
    on_own_thread("a client's thread", || {
        leave().map_err(Error::system("keep off the broker's processor"))?;
        Ok(start())
    })
}

/// A broker's listener, and the network namespace that reaches it: for clients on other threads.
#[derive(Clone, Debug)]
pub(super) struct BrokerAccess {
    endpoint: Endpoint,
    place: Place,
}

impl BrokerAccess {
    /// Connects, unless interrupted.
    pub(super) fn connect(&self, client_id: &str) -> Result<Connection> {
        interrupt().check()?;
        self.place.within(|| Connection::open(self.endpoint, client_id))?
    }
}
