//! Replays a day of a broker with a thousand partitions to `export`. Replays it as fast as it can be read. Memory must
//! stay bounded, and scrapes fast. The recording is invented: produce requests with their reads, writes and appends at
//! even intervals, host samples every second, and occasional journal stalls.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use model::{
    Batch, BatchHead, Device, Event, FileKind, FileOp, FileOpKind, HostSample, HostScope, JournalCommit,
    Nanos, OffCpu, Partition, Request, Row, SocketOp, SocketOpKind, TopicPartition, api_key,
};
use recording::{Manifest, Writer, WriterOptions};

use super::scraping::{self, Scraping};
use super::{EVERY, MEMORY_MIB, SCRAPE_MS};
use crate::kernel::accounts::peak_memory;
use crate::target::{Bound, Target};
use crate::{stop, table};
use fastrand::Rng;

/// A day, in seconds, and requests in each: as many events as can be read in some minutes.
const SECONDS: i64 = 24 * 3_600;
const RATE: i64 = 12;
const TOPICS: u64 = 100;
const PARTITIONS: u64 = 10;
const SECOND: i64 = 1_000_000_000;
const MILLI: i64 = 1_000_000;
/// 2026-01-01, UTC.
const BEGIN: i64 = 1_767_225_600_000_000_000;
/// Length of a journal stall, and seconds between two.
const STALL: i64 = 130 * MILLI;
const STALL_EVERY: i64 = 600;
const RECORDS_BYTES: u32 = 1_200;
const REQUEST_BYTES: u32 = 1_300;
const RESPONSE_BYTES: u32 = 60;
const PID: u32 = 4_000;
/// Timeout for reading.
const PATIENCE: Duration = Duration::from_secs(900);

/// Writes the recording, exports it, and returns the results.
pub(super) fn hold(brokerscope: &Path, directory: &Path) -> anyhow::Result<Vec<Target>> {
    let recording = directory.join("export-soak");
    let _ = std::fs::remove_dir_all(&recording);
    let begun = Instant::now();
    let events = write(&recording)?;
    println!(
        "\n{}: {SECONDS} s, {} partitions, {events} events, made in {:.0} s",
        recording.display(),
        TOPICS * PARTITIONS,
        begun.elapsed().as_secs_f64()
    );
    let targets = measure_export(brokerscope, &recording);
    let _ = std::fs::remove_dir_all(&recording);
    targets
}

fn measure_export(brokerscope: &Path, recording: &Path) -> anyhow::Result<Vec<Target>> {
    let begun = Instant::now();
    let mut exporting = Exporting::start(brokerscope, recording)?;
    let scraping = Scraping::start(exporting.address, EVERY);
    exporting.await_read()?;
    let took = begun.elapsed();
    let scraped = scraping.stop()?;
    let requests = SECONDS * RATE;
    ensure!(
        (scraped.requests - requests as f64).abs() < 0.5,
        "{} of {requests} requests are reported",
        scraped.requests
    );
    let peak_mib = peak_memory(exporting.child.id())? as f64 / f64::from(1 << 20);
    let slowest = scraped.times_ms.iter().copied().fold(0.0, f64::max);
    table::print(
        &["read in s", "requests", "series", "KiB a scrape", "scrapes", "slowest ms", "peak MiB"],
        std::iter::once(vec![
            format!("{:.0}", took.as_secs_f64()),
            requests.to_string(),
            scraped.series.to_string(),
            (scraped.bytes >> 10).to_string(),
            scraped.times_ms.len().to_string(),
            format!("{slowest:.1}"),
            format!("{peak_mib:.0}"),
        ]),
    );
    let target = |what: &str, measured, most, unit| Target {
        what: format!("export of a day of {} partitions: {what}", TOPICS * PARTITIONS),
        measured,
        spread: None,
        bound: Bound::AtMost(most),
        unit,
    };
    Ok(vec![
        target("peak memory", peak_mib, MEMORY_MIB, "MiB"),
        target("slowest scrape", slowest, SCRAPE_MS, "ms"),
    ])
}

/// `export --from`; killed when dropped.
struct Exporting {
    child: Child,
    address: SocketAddr,
}

impl Exporting {
    fn start(brokerscope: &Path, recording: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(brokerscope)
            .args(["export", "--quiet", "--listen", "127.0.0.1:0", "--top-topics", "100", "--from"])
            .arg(recording)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no pipe")?).read_line(&mut line)?;
        // Created before the address is known, so that the process is killed when dropped in any case.
        let mut exporting = Self { child, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        exporting.address = scraping::address(&line)?;
        Ok(exporting)
    }

    fn await_read(&mut self) -> anyhow::Result<()> {
        let end = Instant::now() + PATIENCE;
        while !scraping::get(self.address, "/readyz")?.0.contains(" 200 ") {
            stop::check()?;
            ensure!(Instant::now() < end && self.child.try_wait()?.is_none(), "the recording is not read");
            sleep(Duration::from_millis(200));
        }
        Ok(())
    }
}

impl Drop for Exporting {
    fn drop(&mut self) {
        // Both fail if it has already ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes the recording; returns the number of events.
fn write(directory: &Path) -> anyhow::Result<u64> {
    let mut manifest = Manifest { started_ns: BEGIN, ..Manifest::default() };
    let mut writer = Writer::create(directory, &manifest, WriterOptions::default())?;
    let (mut day, mut events) = (Day::new(), 0);
    for second in 0..SECONDS {
        stop::check()?;
        for event in day.second(second) {
            writer.write(&event)?;
            events += 1;
        }
    }
    manifest.ended_ns = Some(BEGIN + SECONDS * SECOND);
    manifest.rows = writer.rows();
    writer.finish(&manifest)?;
    Ok(events)
}

/// Values that are used repeatedly.
struct Day {
    rng: Rng,
    partitions: Vec<(TopicPartition, Arc<str>)>,
    clients: Vec<Arc<str>>,
    thread: Arc<str>,
    network_thread: Arc<str>,
    stack: Arc<str>,
    device: Device,
    number: u64,
}

/// One request's times.
struct ServedRequest {
    number: u64,
    arrival: i64,
    append: i64,
    appended: i64,
    end: i64,
    stalled: bool,
}

impl Day {
    fn new() -> Self {
        let named = |number: u64| {
            let (topic, partition) =
                (format!("topic-{:03}", number / PARTITIONS), (number % PARTITIONS) as i32);
            let file = format!("{topic}-{partition}/00000000000000000000.log");
            (TopicPartition { topic: topic.into(), partition }, file.into())
        };
        Self {
            rng: Rng::with_seed(8),
            partitions: (0..TOPICS * PARTITIONS).map(named).collect(),
            clients: (0..200).map(|number| format!("producer-{number}").into()).collect(),
            thread: "data-plane-kafka-request-handler-0".into(),
            network_thread: "data-plane-kafka-network-thread-0".into(),
            stack: "schedule;io_schedule;bit_wait_io;__wait_on_bit;do_get_write_access;ext4_dirty_inode;vfs_write".into(),
            device: Device { major: 8, minor: 16, name: "sdb".into() },
            number: 0,
        }
    }

    /// All events of a second, in the order of their ends.
    fn second(&mut self, second: i64) -> Vec<Event> {
        let from = BEGIN + second * SECOND;
        let stalls = second % STALL_EVERY == STALL_EVERY / 2;
        let mut events = Vec::new();
        for request in 0..RATE {
            let stalled = stalls && request == 3;
            let arrival = from + request * (SECOND / RATE) + self.rng.u64(..1_000_000) as i64;
            let append = arrival + 300_000;
            let appended = append + if stalled { STALL } else { 40_000 };
            let served = ServedRequest {
                number: self.number,
                arrival,
                append,
                appended,
                end: appended + 200_000,
                stalled,
            };
            self.number += 1;
            events.extend(self.request(&served));
        }
        events.extend(self.samples(from));
        events.sort_by_key(Event::time);
        events
    }

    fn request(&mut self, served: &ServedRequest) -> Vec<Event> {
        let at = self.rng.u64(..TOPICS * PARTITIONS) as usize;
        let nothing = || (TopicPartition { topic: "".into(), partition: 0 }, Arc::<str>::from(""));
        let (named, file) = self.partitions.get(at).cloned().unwrap_or_else(nothing);
        let crc = (served.number as u32).wrapping_mul(0x9e37_79b1);
        let batch =
            Batch { magic: 2, crc, bytes: RECORDS_BYTES, records: 10, producer_id: -1, base_sequence: -1 };
        let offset = served.number as i64 * 10;
        let op = self.append(served, &named, file, batch, offset);
        let partition = Partition {
            topic: Some(named.topic),
            partition: named.partition,
            bytes: RECORDS_BYTES,
            records: Some(10),
            batches: vec![batch],
            base_offset: Some(offset),
            error_code: Some(0),
            ..Partition::default()
        };
        let mut events = vec![
            self.socket_op(served, SocketOpKind::Read, served.arrival + 20_000),
            Event::FileOp(Box::new(op)),
            self.socket_op(served, SocketOpKind::Write, served.appended + 100_000),
            self.request_event(served, partition),
        ];
        if served.stalled {
            events.extend(self.stall(served));
        }
        events
    }

    fn append(
        &self,
        served: &ServedRequest,
        named: &TopicPartition,
        file: Arc<str>,
        batch: Batch,
        offset: i64,
    ) -> FileOp {
        FileOp {
            start: Nanos(served.append),
            end: Nanos(served.appended),
            op: FileOpKind::Write,
            pid: PID,
            tid: 100,
            thread: Arc::clone(&self.thread),
            bytes: Some(RECORDS_BYTES.into()),
            offset: offset.unsigned_abs() * 120,
            file,
            topic_partition: Some(named.clone()),
            kind: FileKind::Log,
            device: self.device.clone(),
            inode: 100,
            fs: "ext4".into(),
            batch: Some(BatchHead {
                base_offset: offset,
                bytes: batch.bytes,
                magic: 2,
                crc: batch.crc,
                producer_id: -1,
                base_sequence: -1,
                records: batch.records,
            }),
            journal_transaction: served.stalled.then_some(served.number as u32 + 1),
            ..Row::empty()
        }
    }

    /// The writing thread waits for a commit.
    fn stall(&self, served: &ServedRequest) -> [Event; 2] {
        let off_cpu = OffCpu {
            start: Nanos(served.append + 10_000),
            end: Nanos(served.appended - 10_000),
            pid: PID,
            tid: 100,
            thread: Arc::clone(&self.thread),
            preempted: false,
            stack: Arc::clone(&self.stack),
            ..Row::empty()
        };
        let commit = JournalCommit {
            start: Nanos(served.append - 5_000),
            end: Nanos(served.appended - 20_000),
            device: self.device.clone(),
            transaction: served.number as u32,
            ..Row::empty()
        };
        [Event::OffCpu(Box::new(off_cpu)), Event::JournalCommit(Box::new(commit))]
    }

    fn socket_op(&self, served: &ServedRequest, op: SocketOpKind, at: i64) -> Event {
        let bytes = if op == SocketOpKind::Read { REQUEST_BYTES } else { RESPONSE_BYTES } + 4;
        let sequence = (served.number as u32).wrapping_mul(bytes);
        let (local, remote) = ends(served.number);
        Event::SocketOp(Box::new(SocketOp {
            start: Nanos(at),
            end: Nanos(at + 10_000),
            op,
            pid: PID,
            tid: 200,
            thread: Arc::clone(&self.network_thread),
            local,
            remote,
            bytes: Some(bytes.into()),
            sequence,
            sequence_end: sequence.wrapping_add(bytes),
            ..Row::empty()
        }))
    }

    fn request_event(&self, served: &ServedRequest, partition: Partition) -> Event {
        let (broker, client) = ends(served.number);
        let client_id = self.clients.get(served.number as usize % self.clients.len()).cloned();
        Event::Request(Box::new(Request {
            arrival: Nanos(served.arrival),
            arrival_end: Nanos(served.arrival + 10_000),
            response: Some(Nanos(served.appended + 105_000)),
            end: Some(Nanos(served.end)),
            head_of_line: Some(Nanos::ZERO),
            api_key: api_key::PRODUCE,
            api: api_key::name(api_key::PRODUCE),
            api_version: 12,
            correlation_id: served.number as i32,
            client_id,
            request_bytes: REQUEST_BYTES,
            response_bytes: Some(RESPONSE_BYTES),
            sequence: Some((served.number as u32).wrapping_mul(REQUEST_BYTES + 4)),
            response_sequence: Some((served.number as u32).wrapping_mul(RESPONSE_BYTES + 4)),
            acks: Some(1),
            throttle_ms: Some(0),
            partitions: vec![partition],
            ..Request::new(client, broker)
        }))
    }

    fn samples(&self, from: i64) -> Vec<Event> {
        let figures = [
            (HostScope::Device, &*self.device.name, "util_ratio", 0.2),
            (HostScope::Device, &*self.device.name, "write_bytes_per_second", 1e6),
            (HostScope::Threads, "request-handlers", "cpu_ratio", 0.1),
            (HostScope::Threads, "request-handlers", "run_queue_ratio", 0.0),
            (HostScope::Threads, "request-handlers", "thread_count", 8.0),
        ];
        let sample = |(scope, name, metric, value): (HostScope, &str, &str, f64)| {
            let (start, end) = (Nanos(from), Nanos(from + SECOND));
            let sample = HostSample { start, end, scope, name: name.into(), metric: metric.into(), value };
            Event::HostSample(Box::new(sample))
        };
        figures.into_iter().map(sample).collect()
    }
}

/// The broker's and the client's end of a connection.
fn ends(number: u64) -> (SocketAddr, SocketAddr) {
    let port = 40_000 + (number % 200) as u16;
    (SocketAddr::from(([10, 0, 0, 1], 9_092)), SocketAddr::from(([10, 0, 0, 7], port)))
}
