//! Invents recordings of the brokers of a cluster. They are in the folders that `brokerscope fleet` reads, and contain
//! produce requests and their writes, fetches and their `sendfile`s, and the host's device figures. One broker re-reads
//! large state files of tiered storage, another one's batches are small, a third leads twice as many partitions. The
//! same in every run.
//!
//! A separate file that uses nothing else of the bench, because tests create small ones with it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::api_key::{self, FETCH, PRODUCE};
use model::{
    Batch, BatchHead, Device, Event, FileKind, FileOp, FileOpKind, HostSample, HostScope, Nanos, Partition,
    Request, Row, TopicPartition,
};
use recording::{Broker, Manifest, Writer, WriterOptions};

/// 2026-01-01, UTC.
const BEGIN: i64 = 1_767_225_600_000_000_000;
const SECOND: i64 = 1_000_000_000;
const MICRO: i64 = 1_000;
const MILLI: i64 = 1_000_000;
const TOPICS: [&str; 3] = ["orders", "payments", "clicks"];
/// Partitions that a broker leads, except one that leads twice as many.
const LED: i32 = 12;
/// Further host figures per second, as many as from a recorder.
const OTHER_FIGURES: usize = 100;
/// Disk reads per second of every broker, and of the one that re-reads its state.
const READS: i64 = 5;
const STATE_READS: i64 = 350;
const STATE_READ_BYTES: u64 = 4_096;
const READAHEAD_BYTES: u64 = 12_288;
/// Device reads that no file operation explains.
const OTHER_DEVICE_READS: i64 = 45;
const BATCH_BYTES: u64 = 16_000;

/// The broker that reads state files, and the first of them.
pub(crate) const READS_STATE: usize = 4;
pub(crate) const STATE_FILE: &str = "retriever-mutation-53/00000000000000000000.tierstate.mutable";
/// The broker whose batches are small.
pub(crate) const SMALL_BATCHES: usize = 6;
/// The broker that leads twice as many partitions.
pub(crate) const LEADS_MORE: usize = 8;
/// The broker some of whose writes are slow.
pub(crate) const WRITES_SLOWLY: usize = 2;
/// The cluster's name.
pub(crate) const CLUSTER: &str = "prod";

/// Amount of data to invent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) brokers: usize,
    pub(crate) seconds: i64,
    /// Requests per second, half of them produce.
    pub(crate) requests: i64,
}

/// Writes the recordings below a directory; returns the number of events.
pub(crate) fn write(directory: &Path, size: Size) -> anyhow::Result<u64> {
    let mut events = 0;
    for number in 1..=size.brokers {
        events += SyntheticData::new(number).write(&folder(directory, number), size)?;
    }
    Ok(events)
}

/// The path of a broker's recording.
pub(crate) fn folder(directory: &Path, number: usize) -> PathBuf {
    directory.join(format!("cluster={CLUSTER}/broker={number}/date=2026-01-01/00h"))
}

/// One broker.
struct SyntheticData {
    number: usize,
    random: u64,
    offset: i64,
    partitions: Vec<TopicPartition>,
    device: Device,
    state_files: Vec<Arc<str>>,
    figures: Vec<Arc<str>>,
    names: Names,
}

/// Texts that are used repeatedly.
struct Names {
    handler: Arc<str>,
    network: Arc<str>,
    ext4: Arc<str>,
    client: Arc<str>,
    none: Arc<str>,
}

impl SyntheticData {
    fn new(number: usize) -> Self {
        let led = if number == LEADS_MORE { 2 * LED } else { LED };
        let partition = |i: i32| {
            let topic = TOPICS.get(i as usize % TOPICS.len()).copied().unwrap_or_default();
            TopicPartition { topic: topic.into(), partition: number as i32 * 100 + i }
        };
        let others =
            [7, 12].map(|of| format!("retriever-mutation-{of}/00000000000000000000.tierstate.mutable"));
        let text = |text: &str| Arc::<str>::from(text);
        Self {
            number,
            random: 0x9e37_79b9_7f4a_7c15 ^ number as u64,
            offset: 0,
            partitions: (0..led).map(partition).collect(),
            device: Device { major: 259, minor: 0, name: "nvme0n1".into() },
            state_files: std::iter::once(text(STATE_FILE)).chain(others.map(Arc::from)).collect(),
            figures: (0..OTHER_FIGURES).map(|i| format!("figure_{i}").into()).collect(),
            names: Names {
                handler: text("data-plane-kafka-request-handler-0"),
                network: text("data-plane-kafka-network-thread-1"),
                ext4: text("ext4"),
                client: text("producer-1"),
                none: text(""),
            },
        }
    }

    fn write(&mut self, directory: &Path, size: Size) -> anyhow::Result<u64> {
        let broker = Broker { node_id: Some(self.number as i32), ..Broker::default() };
        // A recorder's clock starts before its sources do.
        let mut manifest =
            Manifest { started_ns: BEGIN - SECOND / 2, broker: Some(broker), ..Manifest::default() };
        let mut writer = Writer::create(directory, &manifest, WriterOptions::default())?;
        let mut events = 0;
        for second in 0..size.seconds {
            let begin = BEGIN + second * SECOND;
            // Like a recorder, which samples the host once per second and not again at the end.
            let is_last = second + 1 == size.seconds;
            let events_then = self.second(begin, size.requests).into_iter();
            for event in events_then.filter(|event| !is_last || !matches!(event, Event::HostSample(_))) {
                writer.write(&event)?;
                events += 1;
            }
        }
        manifest.ended_ns = Some(BEGIN + size.seconds * SECOND);
        manifest.rows = writer.rows();
        writer.finish(&manifest)?;
        Ok(events)
    }

    /// xorshift64* (Vigna, 2016).
    fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) % limit.max(1)
    }

    fn second(&mut self, begin: i64, requests: i64) -> Vec<Event> {
        let mut events = Vec::new();
        let step = SECOND / requests.max(1);
        for i in 0..requests {
            let at = begin + i * step + self.below(step as u64 / 2) as i64;
            events.extend(if i % 2 == 0 { self.produce(at) } else { self.fetch(at) });
        }
        let reads = READS + if self.number == READS_STATE { STATE_READS } else { 0 };
        for i in 0..reads {
            let read = self.read(begin + i * (SECOND / reads), i >= READS);
            events.push(read);
        }
        self.samples(begin, reads, requests / 2, &mut events);
        events
    }

    fn partition(&mut self) -> TopicPartition {
        let at = self.below(self.partitions.len() as u64) as usize;
        self.partitions.get(at).cloned().unwrap_or_else(|| TopicPartition { topic: "".into(), partition: 0 })
    }

    fn produce(&mut self, at: i64) -> [Event; 2] {
        let of = self.partition();
        let mean = if self.number == SMALL_BATCHES { BATCH_BYTES / 8 } else { BATCH_BYTES };
        let bytes = mean / 2 + self.below(mean);
        let is_slow = self.number == WRITES_SLOWLY && self.below(200) == 0;
        let took = if is_slow { 300 * MILLI } else { 20 * MICRO + self.below(60) as i64 * MICRO };
        let (start, end) = (at + 200 * MICRO, at + 200 * MICRO + took);
        self.offset += 10;
        let head = BatchHead {
            base_offset: self.offset,
            bytes: bytes as u32,
            magic: 2,
            crc: self.offset as u32,
            producer_id: -1,
            base_sequence: -1,
            records: 10,
        };
        let partition = Partition {
            topic: Some(Arc::clone(&of.topic)),
            partition: of.partition,
            bytes: bytes as u32,
            records: Some(10),
            batches: vec![Batch {
                magic: 2,
                crc: head.crc,
                bytes: head.bytes,
                records: 10,
                producer_id: -1,
                base_sequence: -1,
            }],
            base_offset: Some(self.offset),
            error_code: Some(0),
            ..Partition::default()
        };
        let file = format!("{}-{}/00000000000000000000.log", of.topic, of.partition).into();
        let write = FileOp {
            batch: Some(head),
            topic_partition: Some(of),
            ..self.op(FileOpKind::Write, file, FileKind::Log, bytes, (start, end))
        };
        let request = self.request(PRODUCE, partition, (at, end + 300 * MICRO));
        [Event::FileOp(Box::new(write)), request]
    }

    fn fetch(&mut self, at: i64) -> [Event; 2] {
        let of = self.partition();
        let bytes = BATCH_BYTES + self.below(BATCH_BYTES);
        let partition = Partition {
            topic: Some(Arc::clone(&of.topic)),
            partition: of.partition,
            bytes: bytes as u32,
            fetch_offset: Some(self.offset),
            error_code: Some(0),
            ..Partition::default()
        };
        let file = format!("{}-{}/00000000000000000000.log", of.topic, of.partition).into();
        let span = (at + 300 * MICRO, at + 350 * MICRO);
        let sent = FileOp {
            topic_partition: Some(of),
            thread: Arc::clone(&self.names.network),
            disk_bytes: Some(0),
            readahead_bytes: Some(0),
            ..self.op(FileOpKind::Sendfile, file, FileKind::Log, bytes, span)
        };
        let request = self.request(FETCH, partition, (at, at + 600 * MICRO));
        [Event::FileOp(Box::new(sent)), request]
    }

    /// A read from the disk: of a segment, or of a state file.
    fn read(&mut self, at: i64, of_state: bool) -> Event {
        let (file, kind) = if of_state {
            // Half of all reads are of the first file, a quarter of each other one.
            let which = [0, 0, 1, 2].get(self.below(4) as usize).copied().unwrap_or(0);
            (self.state_files.get(which).cloned().unwrap_or_default(), FileKind::TierState)
        } else {
            let of = self.partition();
            (format!("{}-{}/00000000000000000000.log", of.topic, of.partition).into(), FileKind::Log)
        };
        let span = (at, at + 90 * MICRO + self.below(40) as i64 * MICRO);
        Event::FileOp(Box::new(FileOp {
            disk_bytes: Some(STATE_READ_BYTES),
            readahead_bytes: Some(READAHEAD_BYTES),
            ..self.op(FileOpKind::Read, file, kind, STATE_READ_BYTES, span)
        }))
    }

    fn op(&self, op: FileOpKind, file: Arc<str>, kind: FileKind, bytes: u64, span: (i64, i64)) -> FileOp {
        FileOp {
            start: Nanos(span.0),
            end: Nanos(span.1),
            op,
            pid: 4_000,
            tid: 4_010,
            thread: Arc::clone(&self.names.handler),
            bytes: Some(bytes),
            offset: 0,
            file,
            kind,
            device: self.device.clone(),
            inode: 1,
            fs: Arc::clone(&self.names.ext4),
            ..Row::empty()
        }
    }

    fn request(&self, api_key: i16, partition: Partition, span: (i64, i64)) -> Event {
        Event::Request(Box::new(Request {
            arrival: Nanos(span.0),
            arrival_end: Nanos(span.0 + 50 * MICRO),
            response: Some(Nanos(span.1 - 10 * MICRO)),
            end: Some(Nanos(span.1)),
            head_of_line: Some(Nanos(0)),
            api_key,
            api: api_key::name(api_key),
            api_version: 11,
            correlation_id: self.offset as i32,
            client_id: Some(Arc::clone(&self.names.client)),
            request_bytes: partition.bytes,
            response_bytes: Some(100),
            acks: (api_key == PRODUCE).then_some(1),
            min_bytes: (api_key == FETCH).then_some(1),
            max_wait_ms: (api_key == FETCH).then_some(500),
            throttle_ms: Some(0),
            partitions: vec![partition],
            ..Request::new(
                SocketAddr::from(([10, 0, 0, 7], 41_234)),
                SocketAddr::from(([10, 0, 0, 1], 9_092)),
            )
        }))
    }

    fn samples(&mut self, begin: i64, reads: i64, writes: i64, events: &mut Vec<Event>) {
        let sample = |scope: HostScope, name: &Arc<str>, metric: &Arc<str>, value: f64| {
            Event::HostSample(Box::new(HostSample {
                start: Nanos(begin),
                end: Nanos(begin + SECOND),
                scope,
                name: Arc::clone(name),
                metric: Arc::clone(metric),
                value,
            }))
        };
        let device_reads = reads + OTHER_DEVICE_READS + self.below(9) as i64 - 4;
        let (none, device) = (&self.names.none, &self.device.name);
        events.push(sample(HostScope::Host, none, &"cpu_count".into(), 16.0));
        events.push(sample(HostScope::Device, device, &"reads_per_second".into(), device_reads as f64));
        events.push(sample(HostScope::Device, device, &"writes_per_second".into(), writes as f64));
        // A device that holds none of the broker's files.
        events.push(sample(HostScope::Device, &"sda".into(), &"reads_per_second".into(), 7.0));
        events.extend(self.figures.iter().map(|figure| sample(HostScope::Host, none, figure, 1.5)));
    }
}
