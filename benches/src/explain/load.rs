//! Writes the recording that a recorder would have made of a simulated broker: requests, each with its socket reads and
//! writes and its appends with the batch's CRC; off-CPU intervals of its handler in a blocked write; commits with their
//! block requests, and garbage collections. Nothing about handlers that wait for work or for a lock, which are not
//! traced (`off_cpu.h` in `probes`). Slightly more than four events per request. The same in every run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use model::{
    Batch, BatchHead, BlockIo, Device, Direction, Event, FileKind, FileOp, FileOpKind, JournalCommit,
    JvmPause, JvmPauseKind, Nanos, OffCpu, Partition, Request, Row, SocketOp, SocketOpKind, TopicPartition,
    api_key,
};
use recording::{Manifest, Writer, WriterOptions};
use serde_json::Value;

use super::beside::Beside;
use super::simulation::{
    Append, CONNECTIONS, HANDLERS, Incident, Incidents, MICRO, MILLI, NETWORK_THREADS, PARTITIONS,
    ServedRequest, Simulation, Stretch,
};
use crate::stop;

const SEED: u64 = 6;
const PID: u32 = 4_000;
/// 2026-01-01, UTC.
const BEGIN: i64 = 1_767_225_600_000_000_000;
/// Threshold of slow requests: the default of `explain`.
const SLOW: i64 = 100 * MILLI;
const TOPICS: [&str; 3] = ["orders", "payments", "clicks"];
const RECORDS_BYTES: u32 = 1_200;
const RECORDS: u32 = 10;
const JOURNAL_STACK: &str = "schedule;io_schedule;bit_wait_io;__wait_on_bit;out_of_line_wait_on_bit;\
    do_get_write_access;jbd2_journal_get_write_access;__ext4_journal_get_write_access;ext4_reserve_inode_write;\
    __ext4_mark_inode_dirty;ext4_dirty_inode;__mark_inode_dirty;generic_update_time;file_update_time;\
    ext4_buffered_write_iter;vfs_write;ksys_write;do_syscall_64";
/// Requests between two checks whether to stop.
const BURST: u64 = 10_000;

/// The contents of a recording.
#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    pub(super) requests: u64,
    /// Number of events that are not requests.
    pub(super) events: u64,
    pub(super) slow: u64,
    pub(super) bytes: u64,
}

/// Whether a verdict names an injected root: waits for a handler, a log or an answer are caused by one.
pub(super) fn is_injected(verdict: &Value) -> bool {
    let cause = verdict.get("cause").and_then(Value::as_str).unwrap_or_default();
    ["journal-commit", "gc-pause"].contains(&cause)
}

/// Writes a recording of `requests` requests into a new directory. The directory must not exist. Includes the host's
/// figures and CPU samples if requested.
pub(super) fn write(
    directory: &Path,
    requests: u64,
    incidents: Incidents,
    with_host: bool,
) -> anyhow::Result<Contents> {
    let mut manifest = Manifest { started_ns: BEGIN, ..Manifest::default() };
    let writer = Writer::create(directory, &manifest, WriterOptions::default())?;
    let mut load = Load {
        writer,
        event_builder: ReportedLoad::default(),
        waiting: BinaryHeap::new(),
        contents: Contents::default(),
    };
    let mut simulation = Simulation::new(SEED, BEGIN, requests, incidents);
    let mut beside = with_host.then(|| Beside::new(PID, BEGIN));
    while let Some((served, incidents)) = simulation.next() {
        if served.number % BURST == 0 {
            stop::check()?;
        }
        for incident in incidents {
            load.incident(incident);
        }
        load.served(&served);
        for event in beside.iter_mut().flat_map(|beside| beside.until(simulation.now())) {
            load.wait(event);
        }
        load.write_until(simulation.earliest_report_start())?;
    }
    load.write_until(i64::MAX)?;
    manifest.ended_ns = Some(simulation.now());
    manifest.rows = load.writer.rows();
    load.writer.finish(&manifest)?;
    let bytes = size(directory).with_context(|| directory.display().to_string())?;
    Ok(Contents { bytes, ..load.contents })
}

fn size(directory: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let found = entry.metadata()?;
        bytes += if found.is_dir() { size(&entry.path())? } else { found.len() };
    }
    Ok(bytes)
}

/// The writer, and events that are due later than some created after them.
struct Load {
    writer: Writer,
    event_builder: ReportedLoad,
    waiting: BinaryHeap<Reverse<Waiting>>,
    contents: Contents,
}

/// Names that are used repeatedly.
struct ReportedLoad {
    handlers: Vec<Arc<str>>,
    network_threads: Vec<Arc<str>>,
    clients: Vec<(Arc<str>, SocketAddr)>,
    partitions: Vec<(TopicPartition, Arc<str>)>,
    broker: SocketAddr,
    device: Device,
    fs: Arc<str>,
    journal: Arc<str>,
}

impl Default for ReportedLoad {
    fn default() -> Self {
        let named = |what: &str, count: usize| {
            (0..count).map(|i| Arc::from(format!("data-plane-kafka-{what}-{i}"))).collect::<Vec<Arc<str>>>()
        };
        let clients = (0..CONNECTIONS).map(|i| {
            let port = 40_000 + i as u16;
            (Arc::from(format!("producer-{}", i % 16)), SocketAddr::from(([10, 0, 0, 7], port)))
        });
        let topics = TOPICS.map(Arc::<str>::from);
        let partitions = topics.iter().cycle().zip(0..PARTITIONS).map(|(topic, i)| {
            let partition = TopicPartition { topic: Arc::clone(topic), partition: (i / TOPICS.len()) as i32 };
            let file = format!("/data/{partition}/00000000000000000000.log");
            (partition, Arc::from(file))
        });
        Self {
            handlers: named("request-handler", HANDLERS),
            network_threads: named("network-thread", NETWORK_THREADS),
            clients: clients.collect(),
            partitions: partitions.collect(),
            broker: SocketAddr::from(([10, 0, 0, 1], 9_092)),
            device: Device { major: 7, minor: 0, name: "loop0".into() },
            fs: "ext4".into(),
            journal: JOURNAL_STACK.into(),
        }
    }
}

impl Load {
    fn incident(&mut self, incident: Incident) {
        let (first, second) = self.event_builder.incident(incident);
        self.wait(first);
        if let Some(second) = second {
            self.wait(second);
        }
    }

    fn served(&mut self, served: &ServedRequest) {
        self.contents.requests += 1;
        self.contents.slow += u64::from(served.end - served.arrival.start >= SLOW);
        let mut partitions = Vec::with_capacity(served.appends.len());
        for append in &served.appends {
            let (op, partition) = self.event_builder.append(served, append);
            partitions.push(partition);
            self.wait(Event::FileOp(Box::new(op)));
        }
        for append in &served.appends {
            if append.held_by.is_some() {
                self.wait(self.event_builder.held_up(served, append));
            }
        }
        let [length, rest] = served.reads;
        let (of_request, of_response) = (REQUEST_BYTES + LENGTH_BYTES, RESPONSE_BYTES + LENGTH_BYTES);
        for (kind, time, moved) in [
            (SocketOpKind::Read, length, (of_request, 0..LENGTH_BYTES)),
            (SocketOpKind::Read, rest, (of_request, LENGTH_BYTES..of_request)),
            (SocketOpKind::Write, served.write, (of_response, 0..of_response)),
        ] {
            self.wait(self.event_builder.socket_op(served, kind, time, moved));
        }
        self.wait(self.event_builder.request(served, partitions));
    }

    fn wait(&mut self, event: Event) {
        self.contents.events += u64::from(!matches!(event, Event::Request(_)));
        let number = self.contents.requests + self.contents.events;
        self.waiting.push(Reverse(Waiting { at: (event.time(), number), event }));
    }

    /// Writes events that ended by then: no earlier ones follow.
    fn write_until(&mut self, time: i64) -> anyhow::Result<()> {
        while self.waiting.peek().is_some_and(|Reverse(first)| first.at.0.0 <= time) {
            let Some(Reverse(first)) = self.waiting.pop() else { break };
            self.writer.write(&first.event)?;
        }
        Ok(())
    }
}

impl ReportedLoad {
    fn incident(&self, incident: Incident) -> (Event, Option<Event>) {
        match incident {
            Incident::Commit(transaction, Stretch { start, end }) => {
                let (start, end, device) = (Nanos(start), Nanos(end), self.device.clone());
                let io = BlockIo {
                    start,
                    end: end - Nanos(2 * MILLI),
                    device: device.clone(),
                    direction: Direction::Write,
                    sector: 8_192 + u64::from(transaction) * 64,
                    bytes: 32_768,
                    tid: 300,
                    thread: "jbd2/loop0-8".into(),
                    flags: "WS".into(),
                    ..Row::empty()
                };
                let commit = JournalCommit { start, end, device, transaction, phases: None };
                (Event::JournalCommit(Box::new(commit)), Some(Event::BlockIo(Box::new(io))))
            }
            Incident::Collection(number, Stretch { start, end }) => {
                let pause = JvmPause {
                    start: Nanos(start),
                    end: Nanos(end),
                    pid: PID,
                    kind: JvmPauseKind::Gc,
                    operation: "G1 Young".into(),
                    cause: "G1 Evacuation Pause".into(),
                    gc_id: Some(number),
                    ..Row::empty()
                };
                (Event::JvmPause(Box::new(pause)), None)
            }
        }
    }

    /// An append as a file operation and as a partition of the request.
    fn append(&self, served: &ServedRequest, append: &Append) -> (FileOp, Partition) {
        let offset = append.place * i64::from(RECORDS);
        let crc = (served.number as u32).wrapping_mul(0x9e37_79b1) ^ append.partition as u32;
        let ((named, file), base_sequence) = (self.partition(append.partition), served.number as i32);
        let head = BatchHead {
            base_offset: offset,
            bytes: RECORDS_BYTES,
            magic: 2,
            crc,
            producer_id: served.connection as i64,
            base_sequence,
            records: RECORDS,
        };
        let op = FileOp {
            start: Nanos(append.time.start),
            end: Nanos(append.time.end),
            op: FileOpKind::Write,
            pid: PID,
            tid: handler_tid(served.handler),
            thread: name(&self.handlers, served.handler),
            bytes: Some(u64::from(RECORDS_BYTES)),
            offset: offset.unsigned_abs() * 120,
            file,
            topic_partition: Some(named.clone()),
            kind: FileKind::Log,
            device: self.device.clone(),
            inode: 100 + append.partition as u64,
            fs: Arc::clone(&self.fs),
            batch: Some(head),
            journal_transaction: append.held_by.map(|commit| commit + 1),
            ..Row::empty()
        };
        let batch = Batch {
            magic: 2,
            crc,
            bytes: RECORDS_BYTES,
            records: RECORDS,
            producer_id: head.producer_id,
            base_sequence,
        };
        let partition = Partition {
            topic: Some(named.topic),
            partition: named.partition,
            bytes: RECORDS_BYTES,
            records: Some(RECORDS),
            batches: vec![batch],
            base_offset: Some(offset),
            error_code: Some(0),
            ..Partition::default()
        };
        (op, partition)
    }

    /// The handler's wait for the journal in the write.
    fn held_up(&self, served: &ServedRequest, append: &Append) -> Event {
        let end = append.time.end - 5 * MICRO;
        Event::OffCpu(Box::new(OffCpu {
            start: Nanos(append.time.start + 10 * MICRO),
            end: Nanos(end),
            woken: Some(Nanos(end - 3 * MICRO)),
            pid: PID,
            tid: handler_tid(served.handler),
            thread: name(&self.handlers, served.handler),
            preempted: false,
            stack: Arc::clone(&self.journal),
            ..Row::empty()
        }))
    }

    /// A call that moved a part of a request or response. `of_bytes` is the size of the whole, including its length.
    fn socket_op(
        &self,
        served: &ServedRequest,
        op: SocketOpKind,
        time: Stretch,
        (of_bytes, part): (u32, Range<u32>),
    ) -> Event {
        let first = sequence(served.number, of_bytes);
        let thread = served.network_thread();
        Event::SocketOp(Box::new(SocketOp {
            start: Nanos(time.start),
            end: Nanos(time.end),
            op,
            pid: PID,
            tid: 200 + thread as u32,
            thread: name(&self.network_threads, thread),
            local: self.broker,
            remote: self.client(served.connection).1,
            bytes: Some(u64::from(part.end - part.start)),
            sequence: first.wrapping_add(part.start),
            sequence_end: first.wrapping_add(part.end),
            ..Row::empty()
        }))
    }

    fn request(&self, served: &ServedRequest, partitions: Vec<Partition>) -> Event {
        let (client_id, client) = self.client(served.connection);
        Event::Request(Box::new(Request {
            arrival: Nanos(served.arrival.start),
            arrival_end: Nanos(served.arrival.end),
            response: Some(Nanos(served.write.start + 4 * MICRO)),
            end: Some(Nanos(served.end)),
            head_of_line: Some(Nanos(served.head_of_line)),
            api_key: api_key::PRODUCE,
            api: api_key::name(api_key::PRODUCE),
            api_version: 12,
            correlation_id: served.number as i32,
            client_id: Some(client_id),
            request_bytes: REQUEST_BYTES,
            response_bytes: Some(RESPONSE_BYTES),
            sequence: Some(sequence(served.number, REQUEST_BYTES + LENGTH_BYTES)),
            response_sequence: Some(sequence(served.number, RESPONSE_BYTES + LENGTH_BYTES)),
            acks: Some(-1),
            throttle_ms: Some(0),
            partitions,
            ..Request::new(client, self.broker)
        }))
    }

    fn partition(&self, at: usize) -> (TopicPartition, Arc<str>) {
        self.partitions
            .get(at)
            .cloned()
            .unwrap_or_else(|| (TopicPartition { topic: "".into(), partition: 0 }, "".into()))
    }

    fn client(&self, at: usize) -> (Arc<str>, SocketAddr) {
        self.clients.get(at).cloned().unwrap_or_else(|| ("".into(), self.broker))
    }
}

const REQUEST_BYTES: u32 = 1_300;
const RESPONSE_BYTES: u32 = 60;
/// Size of the length field in front of each.
const LENGTH_BYTES: u32 = 4;

/// The sequence number at which a request or response starts: the numbers only need to increase and differ.
fn sequence(number: u64, bytes: u32) -> u32 {
    (number as u32).wrapping_mul(bytes)
}

fn handler_tid(handler: usize) -> u32 {
    100 + handler as u32
}

fn name(names: &[Arc<str>], at: usize) -> Arc<str> {
    names.get(at).cloned().unwrap_or_else(|| Arc::from(""))
}

/// An event that is not due yet, ordered by time and creation.
struct Waiting {
    at: (Nanos, u64),
    event: Event,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}
