//! Where a fault is injected: a broker, the file system beneath it, and clients at hand. Taken down in order when dropped.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use fastrand::Rng;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::plan::{Fault, VolumeKind};
use crate::broker::{Broker, BrokerOptions};
use crate::client::{Connection, Request, Running, Topic, Traffic, create_topic};
use crate::device::{DeviceOptions, Direction};
use crate::error::Error;
use crate::jvm::{Pause, pauses, pauses_argument};
use crate::kafka::Kafka;
use crate::net::Place;
use crate::session::{Interrupt, Session};
use crate::site::Site;
use crate::volume::{Volume, VolumeOptions};

/// Sparse.
const VOLUME_BYTES: u64 = 2 << 30;
/// How long the JVM's compiler gets before anything is recorded.
const WARM_UP: Duration = Duration::from_secs(4);
/// The same of a broker that has been warmed up before, for a load of another kind.
const WARM_UP_AGAIN: Duration = Duration::from_secs(1);
/// How long load runs before and after a fault.
const SETTLE: Duration = Duration::from_millis(600);

/// A broker that faults are injected on. Fields are dropped in their order.
pub(crate) struct TestBed {
    /// The broker that is recorded.
    pub(crate) broker: Broker,
    volume: Option<Volume>,
    /// The network namespace of its clients: the lab's own, unless a fault says otherwise.
    pub(crate) clients: Place,
    /// The processor that belongs to the broker, which its clients keep off.
    pub(crate) broker_cpu: Option<usize>,
    pub(crate) kafka: Kafka,
    pub(crate) interrupt: Interrupt,
    pub(crate) site: Site,
    /// The JVM's log of its pauses, not on what is slowed.
    pauses: PathBuf,
    is_warm: bool,
}

/// What of the device is slow.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slow {
    /// Writes into the file system's journal.
    JournalWrites,
    /// Reads outside the journal.
    Reads,
    /// Writes outside the journal.
    Writes,
}

impl TestBed {
    /// Sets up what `fault` declares, on this volume.
    pub(crate) fn set_up(
        Session { interrupt, steps }: &Session,
        fault: &mut dyn Fault,
        volume: Option<VolumeKind>,
        seed: u64,
        rng: &mut Rng,
    ) -> Result<Self, Error> {
        let declared = fault.declaration();
        let kafka = Kafka::prepare(declared.kafka, *steps)?;
        let site = Site::claim()?;
        let prepare = |kind: VolumeKind| {
            let device = DeviceOptions { size_bytes: VOLUME_BYTES, seed };
            let (file_system, mount_options) = (kind.file_system, kind.mount_options.to_owned());
            Volume::prepare(&site, &VolumeOptions { device, file_system, mount_options })
        };
        let volume = volume.map(prepare).transpose()?;
        interrupt.check()?;
        let mut options = BrokerOptions::new(site.directory("broker")?);
        options.log_dir = volume.as_ref().map(|volume| volume.directory().join("data"));
        options.metadata_dir = Some(site.directory("metadata")?);
        options.site = Some(site.path().to_owned());
        options.interrupt = interrupt.clone();
        let pauses = options.directory.join("stops.log");
        options.jvm_arguments.push(pauses_argument(&pauses));
        let properties = declared.properties.iter();
        options.properties.extend(properties.map(|&(key, value)| (key.to_owned(), value.to_owned())));
        fault.configure(&mut options, rng)?;
        let broker = Broker::start(&kafka, options)?;
        let (clients, interrupt) = (Place::own(), interrupt.clone());
        Ok(Self { broker, volume, clients, broker_cpu: None, kafka, interrupt, site, pauses, is_warm: false })
    }

    /// The broker's listener.
    pub(crate) fn address(&self) -> SocketAddr {
        self.broker.listener()
    }

    /// The file system beneath the broker.
    ///
    /// # Errors
    /// Where the fault declared none.
    pub(crate) fn volume(&mut self) -> Result<&mut Volume, Error> {
        self.volume.as_mut().ok_or_else(|| Error::Unusable("this fault has no volume".to_owned()))
    }

    /// Whether the broker's logs are on it, and not on the machine's own disk.
    pub(crate) fn is_on_its_volume(&self) -> bool {
        self.volume.as_ref().is_some_and(|volume| self.broker.log_dir.starts_with(volume.directory()))
    }

    /// When the broker's JVM paused, by its own log.
    pub(crate) fn pauses(&self) -> Result<Vec<Pause>, Error> {
        pauses(&self.pauses)
    }

    /// Makes operations of the device take so much longer from now on.
    pub(crate) fn delay(&mut self, slow: Slow, ms: u64) -> Result<(), Error> {
        let volume = self.volume()?;
        match slow {
            Slow::JournalWrites => volume.inject_journal_delay(ms, ms),
            Slow::Reads => volume.inject_data_delay(Direction::Read, ms, ms),
            Slow::Writes => volume.inject_data_delay(Direction::Write, ms, ms),
        }
    }

    /// Makes the device quick again; what is held back already stays so.
    pub(crate) fn clear_delays(&mut self) -> Result<(), Error> {
        self.volume()?.device().clear()
    }

    /// Slows operations of the device by `ms` for `length_ms`; returns `after_ms` later.
    pub(crate) fn slow_down(
        &mut self,
        slow: Slow,
        ms: u64,
        length_ms: u64,
        after_ms: u64,
    ) -> Result<(), Error> {
        self.delay(slow, ms)?;
        self.sleep(Duration::from_millis(length_ms))?;
        self.clear_delays()?;
        self.sleep(Duration::from_millis(after_ms))
    }

    /// How many of the device's reads and writes were held back since the last call; none without a device.
    pub(crate) fn held_back(&mut self) -> Result<usize, Error> {
        let Some(volume) = &mut self.volume else { return Ok(0) };
        let served = volume.device().trace()?;
        Ok(served.iter().filter(|served| served.held_ms > 0).count())
    }

    /// A directory of a partition.
    pub(crate) fn partition_directory(&self, topic: &str, partition: u32) -> PathBuf {
        self.broker.log_dir.join(format!("{topic}-{partition}"))
    }

    /// Sleeps, unless interrupted.
    pub(crate) fn sleep(&self, time: Duration) -> Result<(), Error> {
        self.interrupt.sleep(time)
    }

    /// Load without a fault, before and after.
    pub(crate) fn settle(&self) -> Result<(), Error> {
        self.sleep(SETTLE)
    }

    /// For clients on other threads.
    pub(super) fn access(&self) -> BrokerAccess {
        let (address, place) = (self.address(), self.clients.clone());
        BrokerAccess { address, place, interrupt: self.interrupt.clone() }
    }

    /// Connects as a client.
    pub(crate) fn connect(&self, client_id: &str) -> Result<Connection, Error> {
        self.access().connect(client_id)
    }

    /// Makes a topic, if it is not there, and waits until the broker leads its partitions.
    pub(crate) fn create_topic(&self, topic: &Topic) -> Result<(), Error> {
        create_topic(&mut self.connect("lab-admin")?, topic, &self.interrupt)
    }

    /// Makes a topic with so many partitions and nothing special.
    pub(crate) fn create_plain_topic(&self, name: &str, partitions: u32) -> Result<(), Error> {
        self.create_topic(&Topic { name: name.to_owned(), partitions, ..Topic::default() })
    }

    /// Makes a topic of one partition with these settings, and fills it with so many batches of so many bytes.
    pub(super) fn create_filled_topic(
        &self,
        name: &str,
        configs: &[(&str, &str)],
        (batches, bytes): (usize, usize),
        rng: &mut Rng,
    ) -> Result<(), Error> {
        let configs = configs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        self.create_topic(&Topic { name: name.to_owned(), partitions: 1, configs, ..Topic::default() })?;
        let mut connection = self.connect("filler")?;
        let mut value = vec![0; bytes];
        for _ in 0..batches {
            rng.fill(&mut value);
            connection.order(&Request::produce(name, 0, 1, &[&value]))?;
        }
        Ok(())
    }

    /// Starts producers.
    pub(crate) fn produce(&self, traffic: &Traffic, rng: &mut Rng) -> Result<Running, Error> {
        let (address, clients) = (self.address(), &self.clients);
        off_cpu(self.broker_cpu, || clients.within(|| traffic.start(address, rng)))??
    }

    /// Has the broker compile what it needs for this kind of load.
    pub(crate) fn warm_up(&mut self, traffic: &Traffic, rng: &mut Rng) -> Result<(), Error> {
        let running = self.produce(traffic, rng)?;
        self.sleep(if self.is_warm { WARM_UP_AGAIN } else { WARM_UP })?;
        self.is_warm = true;
        running.stop().map(drop)
    }
}

/// Starts clients where the broker is not: threads inherit where their parent may run.
fn off_cpu<T: Send>(cpu: Option<usize>, start: impl FnOnce() -> T + Send) -> Result<T, Error> {
    let Some(cpu) = cpu else { return Ok(start()) };
    let leave = || -> rustix::io::Result<()> {
        let mut allowed: CpuSet = sched_getaffinity(None)?;
        if allowed.count() > 1 {
            allowed.unset(cpu);
        }
        sched_setaffinity(None, &allowed)
    };
    std::thread::scope(|scope| {
        let starter = scope.spawn(|| {
            leave().map_err(|error| Error::system("keep off the broker's processor")(error.into()))?;
            Ok(start())
        });
        starter.join().unwrap_or_else(|_| Err(Error::Unusable("a client's thread died".to_owned())))
    })
}

/// Where a broker listens, and from where one gets there: for clients on other threads.
#[derive(Clone, Debug)]
pub(super) struct BrokerAccess {
    address: SocketAddr,
    place: Place,
    pub(super) interrupt: Interrupt,
}

impl BrokerAccess {
    /// Connects, unless interrupted.
    pub(super) fn connect(&self, client_id: &str) -> Result<Connection, Error> {
        self.interrupt.check()?;
        self.place.within(|| Connection::open(self.address, client_id))?
    }
}
