//! Compares always-on records of appends with a real broker's segments.
//! The broker rolls and deletes its segments, on ext4 and XFS. Each batch is covered by records or counted as
//! overwritten, and each record lies in a batch with a valid CRC. Needs root, BPF, FUSE, a JDK,
//! `BROKERSCOPE_LIVE_TESTS=1`, and `brokerscope` built (it serves the devices). Without the variable, the test prints
//! that it did not run; with it, anything missing is a failure.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use broker::Segment;
use lab::client::{Connection, Request};
use lab::device::DeviceOptions;
use lab::kafka::{DEFAULT_VERSION, Kafka};
use lab::volume::{FileSystem, Volume, VolumeOptions};
use lab::{Broker, BrokerOptions, Site};
use model::FileKind;
use probes::Facts;
use probes::always_on::{Append, MAX_CHANGE_NS, Options, Plan, Purpose, Record, Session, generation};
use rustix::fs::{major, minor};

const TOPIC: &str = "appends";
/// Half of the partitions are on each file system.
const PARTITIONS: u32 = 4;
const PRODUCERS: usize = 3;
/// Sizes of a record's value: within a page, a page less or more than the batch's head, and several pages.
const SIZES: [usize; 7] = [1, 100, 3_950, 4_096, 9_000, 30_000, 70_000];
const RUN: Duration = Duration::from_secs(25);
/// Sparse; holds every segment of the run.
const VOLUME_BYTES: u64 = 2 << 30;
/// How often to read records and look for segments.
const INTERVAL: Duration = Duration::from_millis(50);
/// Number of readings after which the small ring is read too.
/// This is too late for most of its records.
const LATE: usize = 20;
const PAGE: u64 = 4_096;

/// The smallest segments that Kafka makes, deleted as soon as it can.
const SHORT_LIVED: [(&str, &str); 5] = [
    ("log.segment.bytes", "1048576"),
    ("log.retention.bytes", "2097152"),
    ("log.retention.check.interval.ms", "500"),
    ("log.initial.task.delay.ms", "500"),
    ("log.segment.delete.delay.ms", "500"),
];

/// A file by its device, its inode and the inode's generation.
type FileId = ((u32, u32), u64, u32);

#[test]
fn every_append_is_recorded_or_counted_as_overwritten() {
    if std::env::var_os("BROKERSCOPE_LIVE_TESTS").is_none_or(|value| value != "1") {
        eprintln!("NOT RUN: needs root, BPF, FUSE, a JDK and BROKERSCOPE_LIVE_TESTS=1");
        return;
    }
    let volumes = [FileSystem::Ext4, FileSystem::Xfs].map(LogVolume::prepare);
    let kafka = Kafka::prepare(DEFAULT_VERSION).unwrap_or_else(|error| panic!("{error}"));
    let broker = start(&kafka, &volumes);
    broker.create_topic(&kafka, TOPIC, PARTITIONS).unwrap();
    let whole = AppendReader::attach(&broker, Options::default().records);
    let small = AppendReader::attach(&broker, 1);
    let (readers, mut segments) = ([whole, small], Segments::default());
    let end = Instant::now() + RUN;
    let address = broker.listener();
    let producers = [0; PRODUCERS].map(|_| spawn(move || produce(address, end)));
    let [whole, small] = follow(readers, &mut segments, &volumes, end);
    let sent: usize = producers.into_iter().map(|producer| producer.join().unwrap()).sum();
    assert_eq!(whole.overwritten, 0, "records were overwritten between two readings");
    let (of_whole, of_small) = (segments.compare(&whole), segments.compare(&small));
    println!("appends of {sent} requests: {of_whole:?}\nby the small ring: {of_small:?}");
    // Each request is one batch, so no segment is missing.
    assert_eq!(of_whole.batches, sent);
    assert_eq!(of_whole.overwritten, 0);
    let (rolls, deleted) = (of_whole.segments - PARTITIONS as usize, of_whole.deleted);
    assert!(of_whole.over_pages > 100 && rolls >= 8 && deleted >= 4, "the run was too short: {of_whole:?}");
    assert_eq!(of_small.batches, sent);
    assert!(of_small.overwritten > 0, "the small ring was read in time");
    assert!(of_small.overwritten as u64 <= small.overwritten, "{} were counted", small.overwritten);
    let losses = whole.session.losses();
    assert_eq!(losses.skipped, 0, "{losses:?}");
}

/// A file system with a log dir.
struct LogVolume {
    volume: Volume,
    // Dropped after the volume.
    site: Site,
}

impl LogVolume {
    fn prepare(file_system: FileSystem) -> Self {
        let site = Site::claim().unwrap();
        let device = DeviceOptions { size_bytes: VOLUME_BYTES, seed: 1 };
        let options = VolumeOptions { device, file_system, mount_options: String::new() };
        let volume = Volume::prepare(&site, &options).unwrap();
        let this = Self { volume, site };
        fs::create_dir(this.log_dir()).unwrap();
        fs::create_dir(this.links()).unwrap();
        this
    }

    fn log_dir(&self) -> PathBuf {
        self.volume.directory().join("logs")
    }

    fn links(&self) -> PathBuf {
        self.volume.directory().join("links")
    }
}

fn start(kafka: &Kafka, volumes: &[LogVolume; 2]) -> Broker {
    let [first, second] = volumes;
    let mut options = BrokerOptions::new(first.site.directory("broker").unwrap());
    options.metadata_dir = Some(first.site.directory("metadata").unwrap());
    options.site = Some(first.site.path().to_owned());
    options.log_dir = Some(first.log_dir());
    options.properties.extend(SHORT_LIVED.map(|(name, value)| (name.to_owned(), value.to_owned())));
    let log_dirs = format!("{},{}", first.log_dir().display(), second.log_dir().display());
    options.properties.push(("log.dirs".to_owned(), log_dirs));
    options.is_throwaway = true;
    Broker::start(kafka, options).unwrap_or_else(|error| panic!("{error}"))
}

/// Sends one batch after another; returns how many.
fn produce(address: SocketAddr, end: Instant) -> usize {
    let mut connection = Connection::open(address, "appending-client").unwrap();
    let mut sent = 0;
    while Instant::now() < end {
        let value = vec![b'v'; SIZES[sent % SIZES.len()]];
        connection.order(&Request::produce(TOPIC, sent as u32 % PARTITIONS, 1, &[&value])).unwrap();
        sent += 1;
        sleep(Duration::from_millis(1));
    }
    sent
}

/// Reads records and looks for segments until everything was sent.
fn follow(
    [mut whole, mut small]: [AppendReader; 2],
    segments: &mut Segments,
    volumes: &[LogVolume; 2],
    end: Instant,
) -> [AppendReader; 2] {
    for reading in 1_usize.. {
        let is_over = Instant::now() > end + INTERVAL;
        for volume in volumes {
            segments.link(volume);
        }
        whole.read();
        if is_over || reading % LATE == 0 {
            small.read();
        }
        if is_over {
            break;
        }
        sleep(INTERVAL);
    }
    [whole, small]
}

/// Reads each append once.
struct AppendReader {
    session: Session,
    read_until_ns: u64,
    appends: Vec<Append>,
    overwritten: u64,
}

impl AppendReader {
    fn attach(broker: &Broker, records: u32) -> Self {
        let plan = Plan::choose(&Facts::survey());
        for purpose in [Purpose::Ext4Appends, Purpose::XfsAppends] {
            assert!(plan.uses(purpose), "{purpose:?} is missing: {:#?}", plan.hooks);
        }
        let options = Options { ports: vec![broker.port], records, ..Options::default() };
        let session = Session::attach(&plan, broker.pid, &options).unwrap_or_else(|error| panic!("{error}"));
        Self { session, read_until_ns: now_ns(), appends: Vec::new(), overwritten: 0 }
    }

    fn read(&mut self) {
        let fresh_ns = self.read_until_ns + 1..=now_ns() - MAX_CHANGE_NS;
        let interval = self.session.interval(*fresh_ns.start(), *fresh_ns.end());
        self.overwritten += interval.overwritten;
        self.appends.extend(interval.records.into_iter().filter_map(|record| match record {
            Record::Append(append) => Some(append).filter(|append| fresh_ns.contains(&append.last_ns)),
            _ => None,
        }));
        self.read_until_ns = *fresh_ns.end();
    }
}

fn now_ns() -> u64 {
    watch::now().monotonic_ns
}

/// Hard links to all segments of the topic.
/// A segment that the broker deletes thus keeps its bytes and its inode.
#[derive(Default)]
struct Segments(BTreeMap<FileId, PathBuf>);

/// Result of comparing batches with records.
#[derive(Debug, Default)]
struct Coverage {
    segments: usize,
    /// Segments that the broker has deleted.
    deleted: usize,
    /// Batches with a valid CRC.
    batches: usize,
    /// Batches that cross a page boundary.
    over_pages: usize,
    /// Batches with more than one record: their thread lost the CPU for long in between, or a record was overwritten.
    in_pieces: usize,
    /// Batches with a missing record.
    overwritten: usize,
}

impl Segments {
    fn link(&mut self, volume: &LogVolume) {
        let directories = fs::read_dir(volume.log_dir()).unwrap().map(|entry| entry.unwrap());
        let of_topic = |name: &str| name.starts_with(&format!("{TOPIC}-"));
        let directories = directories.filter(|entry| entry.file_name().to_str().is_some_and(of_topic));
        for path in directories.flat_map(|directory| fs::read_dir(directory.path()).unwrap()) {
            let path = path.unwrap().path();
            let is_segment = broker::path::classify(&path.to_string_lossy()).0 == FileKind::Log;
            // The file may be renamed or deleted meanwhile; a renamed file is linked by its next name.
            let Some(found) = fs::metadata(&path).ok().filter(|_| is_segment) else { continue };
            let link = volume.links().join(found.ino().to_string());
            if !link.exists() && fs::hard_link(&path, &link).is_ok() {
                self.0.insert(id(&link), link);
            }
        }
    }

    /// Compares all batches with the records of their bytes.
    fn compare(&self, reader: &AppendReader) -> Coverage {
        let mut of_files: BTreeMap<FileId, Vec<&Append>> = BTreeMap::new();
        for append in &reader.appends {
            of_files.entry((append.device, append.inode, append.generation)).or_default().push(append);
        }
        let mut coverage = Coverage { segments: self.0.len(), ..Coverage::default() };
        for (file, link) in &self.0 {
            coverage.deleted += usize::from(fs::metadata(link).unwrap().nlink() == 1);
            coverage.add(link, of_files.remove(file).unwrap_or_default());
        }
        coverage
    }
}

impl Coverage {
    fn add(&mut self, segment: &Path, mut records: Vec<&Append>) {
        for batch in Segment::open(segment).unwrap().batches() {
            let batch = batch.unwrap_or_else(|damage| panic!("{}: {damage}", segment.display()));
            assert!(batch.crc_ok, "{}: {}", segment.display(), batch.position);
            let bytes = batch.position..batch.position + batch.bytes.len() as u64;
            let (pieces, others): (Vec<&Append>, _) =
                records.into_iter().partition(|it| bytes.contains(&it.position));
            records = others;
            let covered: u64 = pieces.iter().map(|piece| piece.length).sum();
            assert!(covered <= batch.bytes.len() as u64, "{bytes:?} was recorded twice: {pieces:#?}");
            self.batches += 1;
            self.over_pages += usize::from(bytes.start / PAGE != (bytes.end - 1) / PAGE);
            self.in_pieces += usize::from(pieces.len() > 1);
            self.overwritten += usize::from(covered < batch.bytes.len() as u64);
        }
        assert!(records.is_empty(), "{}: of no batch: {records:#?}", segment.display());
    }
}

fn id(path: &Path) -> FileId {
    let found = fs::metadata(path).unwrap();
    let generation = generation(&File::open(path).unwrap()).unwrap();
    ((major(found.dev()), minor(found.dev())), found.ino(), generation)
}
