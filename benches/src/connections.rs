//! Measures a recorder's cost per request for a broker with 100,000 connections. It has 10,000 topics and 20,000
//! partitions; the cost is relative to that with ten connections and ten topics at the same rate. Covers the way from
//! packets to rows in a recording, with the recorder's own crates. The loads take turns, so that other activity of the
//! machine affects all of them.

use std::fs;
use std::hint::black_box;
use std::io;
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::ensure;
use capture::{Analyzer, Config, Limits, LinkType, Packet};
use fastrand::Rng;
use model::Event;
use nix::time::ClockId;
use recording::{Manifest, Writer, WriterOptions};

use crate::packets::{End, PacketWriter, SYN};
use crate::records::{self, Deltas, Head, UNCOMPRESSED};
use crate::target::{Bound, Target};
use crate::traffic::PORT;
use crate::{stop, table};

/// Connections and topics; each topic has two partitions. Ratios are relative to the first.
const LOADS: [(u32, u64); 5] = [(10, 10), (1_000, 10), (100_000, 10), (10, 10_000), (100_000, 10_000)];
const MAX_RATIO: f64 = 1.10;
/// Odd, so that the median is a round.
const ROUNDS: usize = 7;
const REQUESTS: u64 = 50_000;
/// Time between two requests: 5,000 per second.
const INTERVAL_NS: u64 = 200_000;
/// The default limits of a recorder (`watch::Memory`): for connections, and for rows that wait.
const CONNECTION_BYTES: usize = 40 << 20;
const WAITING_BYTES: usize = 16 << 20;
/// Rows passed at a time (`watch::queue`).
const BATCH: usize = 6;
/// Interval at which a recorder checks for rows to write, and counts losses.
const TICK: Duration = Duration::from_millis(50);
const COUNT: Duration = Duration::from_secs(1);

/// Measures and prints a line for each load.
pub(crate) fn hold(directory: &Path) -> anyhow::Result<Vec<Target>> {
    let directory = directory.join("connections");
    let loads = LOADS.into_iter().map(|(connections, topics)| Load::begin(connections, topics));
    let mut loads = loads.collect::<io::Result<Vec<_>>>()?;
    for _ in 0..ROUNDS {
        for load in &mut loads {
            stop::check()?;
            let packets = load.make_requests(REQUESTS)?;
            let cost = load.record(&packets, &directory)?;
            load.costs_us.push(cost.as_secs_f64() * 1e6 / REQUESTS as f64);
        }
    }
    let first = loads.first().map_or(&[][..], |load| load.costs_us.as_slice());
    let mut targets: Vec<Target> = loads.iter().map(|load| load.target(first)).collect();
    let rows = loads.iter().zip(&targets).map(|(load, target)| load.row(target));
    table::print(&["load", "CPU of a request, µs", "x the first"], rows);
    // The other loads show which of the two costs more.
    Ok(targets.pop().into_iter().collect())
}

/// A broker's clients, and the analyzer of their packets.
struct Load {
    name: String,
    connections: Vec<[End; 2]>,
    topics: u64,
    packets: PacketWriter<Vec<u8>>,
    batch: Vec<u8>,
    rng: Rng,
    request_count: i32,
    analyzer: Analyzer,
    /// CPU time per request, in each round.
    costs_us: Vec<f64>,
}

impl Load {
    /// Opens all connections, with one request on each.
    fn begin(connections: u32, topics: u64) -> io::Result<Self> {
        let limits = Limits::within(CONNECTION_BYTES);
        let config = Config { ports: vec![PORT], limits, both_directions: true, ..Config::default() };
        let mut load = Self {
            name: format!("{connections} connections, {topics} topics"),
            connections: (0..connections).map(ends).collect(),
            topics,
            packets: PacketWriter::new(Vec::new())?,
            batch: small_batch(),
            rng: Rng::with_seed(10),
            request_count: 0,
            analyzer: Analyzer::new(config),
            costs_us: Vec::new(),
        };
        // The file header.
        load.packets.take();
        for [client, broker] in &mut load.connections {
            load.packets.send(client, broker, SYN, &[])?;
            load.packets.send(broker, client, SYN | 0x10, &[])?;
            load.packets.send(client, broker, 0, &[])?;
        }
        (0..load.connections.len()).try_for_each(|connection| load.exchange(connection))?;
        for packet in packets_of(&load.packets.take()) {
            load.analyzer.packet(&packet, &mut |_| ());
        }
        Ok(load)
    }

    /// The packets of `requests` requests on random connections.
    fn make_requests(&mut self, requests: u64) -> io::Result<Vec<u8>> {
        for _ in 0..requests {
            let connection = self.rng.usize(..self.connections.len());
            self.exchange(connection)?;
        }
        Ok(self.packets.take())
    }

    /// Writes a Produce or Fetch request for one partition, and its answer. Then writes the client's acknowledgement.
    fn exchange(&mut self, connection: usize) -> io::Result<()> {
        let (topic, partition) = (format!("topic-{:05}", self.rng.u64(..self.topics)), self.rng.i32(0..2));
        let of =
            OfPartition { correlation_id: self.request_count, topic: &topic, partition, batch: &self.batch };
        let (request, answer) = if self.request_count % 2 == 0 { of.produce() } else { of.fetch() };
        self.request_count += 1;
        let Some([client, broker]) = self.connections.get_mut(connection) else { return Ok(()) };
        self.packets.wait(INTERVAL_NS);
        self.packets.send(client, broker, 0x08, &request)?;
        self.packets.send(broker, client, 0x08, &answer)?;
        self.packets.send(client, broker, 0, &[])
    }

    /// The CPU time from packets to a finished recording.
    fn record(&mut self, packets: &[u8], directory: &Path) -> anyhow::Result<Duration> {
        let before = cpu_time()?;
        let manifest = Manifest::default();
        let mut writer = Writer::create(directory, &manifest, WriterOptions::default())?;
        let intake = writer.intake(WAITING_BYTES);
        let (mut batch, mut rows) = (Vec::with_capacity(BATCH), 0);
        let mut hand_over = |batch: &mut Vec<Event>| {
            let mut intake = intake.open();
            rows += batch.drain(..).filter(|event| intake.take(event)).count() as u64;
        };
        let (mut begun_ns, mut next_tick, mut next_count) = (None, TICK, COUNT);
        let begun = Instant::now();
        for packet in packets_of(packets) {
            self.analyzer.packet(&packet, &mut |request| batch.push(Event::Request(request)));
            if batch.len() >= BATCH {
                hand_over(&mut batch);
            }
            let now = Duration::from_nanos((packet.time_ns - *begun_ns.get_or_insert(packet.time_ns)) as u64);
            if now >= next_tick {
                next_tick += TICK;
                writer.tick(begun + now)?;
            }
            if now >= next_count {
                next_count += COUNT;
                black_box(self.analyzer.counters());
            }
        }
        hand_over(&mut batch);
        writer.finish(&manifest)?;
        let cost = cpu_time()?.saturating_sub(before);
        fs::remove_dir_all(directory)?;
        // Some come slightly later, in the next round.
        ensure!(
            rows.abs_diff(REQUESTS) <= REQUESTS / 1_000,
            "{}: {rows} rows of {REQUESTS} requests",
            self.name
        );
        Ok(cost)
    }

    fn target(&self, first_us: &[f64]) -> Target {
        let ratios: Vec<f64> = self.costs_us.iter().zip(first_us).map(|(cost, first)| cost / first).collect();
        let what = format!("connections: CPU of a request, {} / ten of each", self.name);
        Target::of_runs(what, &ratios, Bound::AtMost(MAX_RATIO), "x")
    }

    fn row(&self, ratio: &Target) -> Vec<String> {
        let cost = Target::of_runs(String::new(), &self.costs_us, ratio.bound, "µs");
        vec![self.name.clone(), format!("{:.2}", cost.measured), format!("{:.2}", ratio.measured)]
    }
}

fn ends(number: u32) -> [End; 2] {
    let address = Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 0).to_bits() + number);
    let client = End { address, port: 40_000, next: number };
    [client, End { address: Ipv4Addr::new(10, 200, 0, 1), port: PORT, next: 7 * number }]
}

fn cpu_time() -> nix::Result<Duration> {
    ClockId::CLOCK_PROCESS_CPUTIME_ID.now().map(Duration::from)
}

/// The packets of a pcap file without its header: seconds, nanoseconds and two lengths, and bytes.
fn packets_of(mut bytes: &[u8]) -> impl Iterator<Item = Packet<'_>> {
    std::iter::from_fn(move || {
        let (head, rest) = bytes.split_first_chunk::<16>()?;
        let mut words =
            head.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap_or_default()));
        let (seconds, nanos, original_len) = (words.next()?, words.next()?, words.next()?);
        let (packet, rest) = rest.split_at_checked(original_len as usize)?;
        bytes = rest;
        let time_ns = i64::from(seconds) * 1_000_000_000 + i64::from(nanos);
        Some(Packet { time_ns, link: LinkType::Ethernet, original_len, bytes: packet })
    })
}

/// A request for one partition of a topic.
struct OfPartition<'a> {
    correlation_id: i32,
    topic: &'a str,
    partition: i32,
    batch: &'a [u8],
}

impl OfPartition<'_> {
    /// Version 7 (ProduceRequest.json, ProduceResponse.json).
    fn produce(&self) -> (Vec<u8>, Vec<u8>) {
        // No transaction, acks=all, 30 s.
        let mut request = self.head([0, 0, 0, 7], b"\xff\xff\xff\xff\0\0\x75\x30");
        self.add_partition(&mut request);
        self.add_records(&mut request);
        let mut answer = self.correlation_id.to_be_bytes().to_vec();
        self.add_partition(&mut answer);
        answer.extend([0; 2]);
        answer.extend(i64::from(self.correlation_id).to_be_bytes());
        answer.extend([0; 8 + 8 + 4]);
        (framed(&request), framed(&answer))
    }

    /// Version 0 (FetchRequest.json, FetchResponse.json).
    fn fetch(&self) -> (Vec<u8>, Vec<u8>) {
        // A consumer (replica id -1), 500 ms, 1 byte.
        let mut request = self.head([0, 1, 0, 0], b"\xff\xff\xff\xff\0\0\x01\xf4\0\0\0\x01");
        self.add_partition(&mut request);
        request.extend(i64::from(self.correlation_id).to_be_bytes());
        request.extend((1u32 << 20).to_be_bytes());
        let mut answer = self.correlation_id.to_be_bytes().to_vec();
        self.add_partition(&mut answer);
        answer.extend([0; 2]);
        answer.extend((i64::from(self.correlation_id) + 1).to_be_bytes());
        self.add_records(&mut answer);
        (framed(&request), framed(&answer))
    }

    /// A header of version 1, and the fields before the topics.
    fn head(&self, api: [u8; 4], before_topics: &[u8]) -> Vec<u8> {
        [&api[..], &self.correlation_id.to_be_bytes(), b"\0\x06client", before_topics].concat()
    }

    fn add_partition(&self, bytes: &mut Vec<u8>) {
        bytes.extend(1u32.to_be_bytes());
        bytes.extend((self.topic.len() as u16).to_be_bytes());
        bytes.extend(self.topic.bytes());
        bytes.extend(1u32.to_be_bytes());
        bytes.extend(self.partition.to_be_bytes());
    }

    fn add_records(&self, bytes: &mut Vec<u8>) {
        bytes.extend((self.batch.len() as u32).to_be_bytes());
        bytes.extend(self.batch);
    }
}

fn framed(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_be_bytes()[..], body].concat()
}

/// A batch of one record of 100 bytes.
fn small_batch() -> Vec<u8> {
    let mut written = Vec::new();
    records::record(&mut written, Deltas { offset: 0, timestamp_ms: 0 }, b"key", &[7; 100], None);
    let now_ms = 1_760_000_000_000;
    let head = Head {
        base_offset: 0,
        base_timestamp_ms: now_ms,
        max_timestamp_ms: now_ms,
        attributes: UNCOMPRESSED,
        count: 1,
    };
    records::batch(&head, &written)
}
