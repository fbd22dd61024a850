//! Where a fault is planted: a broker, the file system beneath it, and clients at hand. Taken down in order when
//! dropped.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::door::Door;
use super::plan::{Fault, Ground};
use crate::broker::{Broker, BrokerOptions};
use crate::client::{Connection, Running, Topic, Traffic, create_topic};
use crate::device::DeviceOptions;
use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::jvm::{Stop, stops, stops_argument};
use crate::kafka::Kafka;
use crate::net::Place;
use crate::random::Random;
use crate::site::Site;
use crate::steps::Steps;
use crate::volume::{Volume, VolumeOptions};

/// Sparse.
const SIZE_BYTES: u64 = 2 << 30;
/// How long the JVM's compiler gets before anything is recorded.
const WARM_UP: Duration = Duration::from_secs(4);
/// The same of a broker that has been warmed up before, for a load of another kind.
const WARM_UP_AGAIN: Duration = Duration::from_secs(1);
/// How long load runs before and after what is planted.
const QUIET: Duration = Duration::from_millis(600);

/// What all scenes share.
#[derive(Clone)]
pub(crate) struct Props {
    pub(crate) interrupt: Interrupt,
    pub(crate) steps: Steps,
}

/// A broker that a fault is planted on. Fields are dropped in their order.
pub(crate) struct Scene {
    /// The broker that is recorded.
    pub(crate) broker: Broker,
    volume: Option<Volume>,
    /// The network namespace of its clients: the lab's own, unless a fault says otherwise.
    pub(crate) clients: Place,
    pub(crate) kafka: Kafka,
    pub(crate) interrupt: Interrupt,
    pub(crate) site: Site,
    /// The JVM's log of its stops, not on what is planted on.
    stops: PathBuf,
    is_warm: bool,
}

impl Scene {
    /// Sets up what `fault` asks for, on this ground.
    pub(crate) fn set(
        props: &Props,
        fault: &mut dyn Fault,
        ground: Option<Ground>,
        seed: u64,
        random: &mut Random,
    ) -> Result<Self, Error> {
        let kafka = Kafka::prepare(fault.kafka_version(), props.steps)?;
        let site = Site::claim()?;
        let volume = ground.map(|ground| prepare_volume(&site, ground, seed)).transpose()?;
        props.interrupt.check()?;
        let mut options = BrokerOptions::new(site.directory("broker")?);
        options.log_dir = volume.as_ref().map(|volume| volume.directory().join("data"));
        options.metadata_dir = Some(site.directory("metadata")?);
        options.site = Some(site.path().to_owned());
        options.interrupt = props.interrupt.clone();
        let stops = options.directory.join("stops.log");
        options.jvm_arguments.push(stops_argument(&stops));
        fault.configure(&mut options, random)?;
        let broker = Broker::start(&kafka, options)?;
        let clients = Place::own();
        Ok(Self {
            broker,
            volume,
            clients,
            kafka,
            interrupt: props.interrupt.clone(),
            site,
            stops,
            is_warm: false,
        })
    }

    /// The broker's listener.
    pub(crate) fn address(&self) -> SocketAddr {
        self.broker.listener()
    }

    /// The file system beneath the broker.
    ///
    /// # Errors
    /// Where the fault asked for none.
    pub(crate) fn volume(&mut self) -> Result<&mut Volume, Error> {
        self.volume.as_mut().ok_or_else(|| Error::Unusable("this fault has no volume".to_owned()))
    }

    /// Whether the broker's logs are on it, and not on the machine's own disk.
    pub(crate) fn is_on_its_volume(&self) -> bool {
        self.volume.as_ref().is_some_and(|volume| self.broker.log_dir.starts_with(volume.directory()))
    }

    /// When the broker's JVM stopped its threads, by its own log.
    pub(crate) fn stops(&self) -> Result<Vec<Stop>, Error> {
        stops(&self.stops)
    }

    /// How many of the device's reads and writes were held back since this was last asked.
    pub(crate) fn held_back(&mut self) -> Result<usize, Error> {
        let served = self.volume()?.device().trace()?;
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

    /// Load with nothing planted, before and after.
    pub(crate) fn quiet(&self) -> Result<(), Error> {
        self.sleep(QUIET)
    }

    /// For clients on threads of their own.
    pub(super) fn door(&self) -> Door {
        Door { address: self.address(), place: self.clients.clone(), interrupt: self.interrupt.clone() }
    }

    /// A connection of one of its clients.
    pub(crate) fn connect(&self, client_id: &str) -> Result<Connection, Error> {
        self.door().connect(client_id)
    }

    /// Makes a topic, if it is not there, and waits until the broker leads its partitions.
    pub(crate) fn create_topic(&self, topic: &Topic) -> Result<(), Error> {
        create_topic(&mut self.connect("lab-admin")?, topic, &self.interrupt)
    }

    /// A topic with so many partitions and nothing special.
    pub(crate) fn create_plain_topic(&self, name: &str, partitions: u32) -> Result<(), Error> {
        self.create_topic(&Topic { name: name.to_owned(), partitions, ..Topic::default() })
    }

    /// The same with one setting of its own.
    pub(crate) fn create_topic_with(
        &self,
        name: &str,
        partitions: u32,
        (key, value): (&str, &str),
    ) -> Result<(), Error> {
        let configs = vec![(key.to_owned(), value.to_owned())];
        self.create_topic(&Topic { name: name.to_owned(), partitions, configs, ..Topic::default() })
    }

    /// Starts producers.
    pub(crate) fn produce(&self, traffic: &Traffic, random: &mut Random) -> Result<Running, Error> {
        let address = self.address();
        self.clients.within(|| traffic.start(address, random))?
    }

    /// Has the broker compile what it needs for this kind of load.
    pub(crate) fn warm_up(&mut self, traffic: &Traffic, random: &mut Random) -> Result<(), Error> {
        let running = self.produce(traffic, random)?;
        self.sleep(if self.is_warm { WARM_UP_AGAIN } else { WARM_UP })?;
        self.is_warm = true;
        running.stop().map(drop)
    }
}

fn prepare_volume(site: &Site, ground: Ground, seed: u64) -> Result<Volume, Error> {
    let device = DeviceOptions { size_bytes: SIZE_BYTES, seed };
    let (file_system, mount_options) = (ground.file_system, ground.mount_options.to_owned());
    Volume::prepare(site, &VolumeOptions { device, file_system, mount_options })
}
