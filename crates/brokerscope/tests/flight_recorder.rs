//! Checks that a flight recorder's events give the same verdicts as all events. It retains events of a real
//! recording, and of generated ones. Needs no privilege.
#![cfg(feature = "live")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use diagnose::{Config, Engine};
use model::{
    Batch, BatchHead, BlockIo, Device, Direction, DirtyThrottle, Event, FileKind, FileOp, FileOpKind,
    JournalCommit, LossKind, Nanos, OffCpu, Partition, Request, Row, TopicPartition, Verdict,
};
use recording::{Manifest, Recording, Writer, WriterOptions};
use watch::{Flight, FlightRecorder};

const SECOND: Nanos = Nanos::from_millis(1_000);

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/journal-stall")
}

fn flight(slower_than: Nanos, max_bytes: usize) -> FlightRecorder {
    let apis = Config::replay(slower_than).apis;
    FlightRecorder::new(Flight { slower_than, apis, hold: Nanos::from_millis(30_000), max_bytes })
}

/// The events that a recorder retains, and the number of those it leaves out.
fn retain_events(events: &[Event], slower_than: Nanos, max_bytes: usize) -> (Vec<Event>, u64) {
    let mut flight = flight(slower_than, max_bytes);
    let mut retained = Vec::new();
    for event in events {
        flight.push(event.clone(), &mut |event| retained.push(event));
        assert!(flight.buffered_bytes() <= max_bytes);
    }
    let left_out = flight.finish(&mut |event| retained.push(event));
    (retained, left_out)
}

/// The verdicts on events sorted by time, as a recording's are.
fn verdicts(mut events: Vec<Event>, slower_than: Nanos) -> Vec<Verdict> {
    events.sort_by_key(Event::time);
    let mut engine = Engine::new(Config::replay(slower_than));
    for event in events {
        engine.push(event);
    }
    engine.finish();
    engine.take_verdicts()
}

#[test]
fn sample_has_the_same_verdicts_from_retained_events() {
    let events: Vec<Event> = Recording::open(&sample()).unwrap().events().map(Result::unwrap).collect();
    for ms in [30, 60, 100] {
        let slower_than = Nanos::from_millis(ms);
        let (retained, left_out) = retain_events(&events, slower_than, usize::MAX);
        let all = verdicts(events.clone(), slower_than);
        assert!(!all.is_empty() && left_out > 0, "{ms} ms: {} verdicts, {left_out} left out", all.len());
        assert_eq!(verdicts(retained, slower_than), all, "{ms} ms");
    }
}

#[test]
fn partial_recording_is_explained_like_a_full_one_and_marked() {
    let dir = tempfile::tempdir().unwrap();
    let slower_than = Nanos::from_millis(100);
    let recording = Recording::open(&sample()).unwrap();
    let events: Vec<Event> = recording.events().map(Result::unwrap).collect();
    let (retained, left_out) = retain_events(&events, slower_than, usize::MAX);
    let mut manifest = Manifest { ended_ns: Some(0), ..recording.manifest().clone() };
    manifest.settings.insert("fine_events_around_slower_than_ns".to_owned(), slower_than.0.to_string());
    manifest.settings.insert("fine_events_left_out".to_owned(), left_out.to_string());
    let partial = dir.path().join("partial");
    let mut writer = Writer::create(&partial, &manifest, WriterOptions::default()).unwrap();
    for event in &retained {
        writer.write(event).unwrap();
    }
    writer.finish(&manifest).unwrap();
    let output_of = |dir: &Path, format: &str| {
        let arguments = ["explain", dir.to_str().unwrap(), "--format", format];
        let output = Command::new(env!("CARGO_BIN_EXE_brokerscope")).args(arguments).output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let lines = |dir: &Path| -> Vec<String> {
        let verdicts = output_of(dir, "json");
        verdicts.lines().filter(|line| line.contains("\"type\":\"verdict\"")).map(str::to_owned).collect()
    };
    assert!(!lines(&sample()).is_empty());
    assert_eq!(lines(&partial), lines(&sample()));
    let note = "around requests and file operations";
    assert!(output_of(&partial, "table").contains(note));
    assert!(!output_of(&sample(), "table").contains(note));
}

/// A small deterministic random number generator (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }

    fn micros(&mut self, from: u64, until: u64) -> Nanos {
        Nanos(((from + self.below(until - from)) * 1_000) as i64)
    }
}

/// A broker with a few partitions, handlers and pipelined connections. The journal of its device stalls now and then.
/// Everything it does is observed.
struct Broker {
    random: Random,
    now: Nanos,
    events: Vec<Event>,
    partition_free: Vec<Nanos>,
    connection_free: Vec<Nanos>,
    stalled_until: Nanos,
    requests: u32,
}

impl Broker {
    fn run(seed: u64, length: Nanos) -> Vec<Event> {
        let begin = SECOND;
        let mut broker = Self {
            random: Random(seed | 1),
            now: begin,
            events: Vec::new(),
            partition_free: vec![Nanos::ZERO; 3],
            connection_free: vec![Nanos::ZERO; 4],
            stalled_until: Nanos::ZERO,
            requests: 0,
        };
        while broker.now < begin + length {
            broker.now += broker.random.micros(2_000, 60_000);
            match broker.random.below(60) {
                0 => broker.stall(),
                1 => broker.other_work(),
                _ => broker.request(),
            }
        }
        // Sources deliver events after their end, within tens of milliseconds.
        let mut events = broker.events;
        events.sort_by_key(Event::time);
        events
    }

    fn device() -> Device {
        Device { major: 7, minor: 0, name: "loop0".into() }
    }

    /// A commit, and the block request that it waited for.
    fn stall(&mut self) {
        let length = self.random.micros(5_000, 400_000);
        let start = self.now.max(self.stalled_until);
        self.stalled_until = start + length;
        let device = Self::device();
        let transaction = self.requests;
        let commit = JournalCommit { start, end: start + length, device, transaction, phases: None };
        self.events.push(Event::JournalCommit(Box::new(commit)));
        let io = BlockIo {
            start: start + Nanos(length.0 / 10),
            end: start + length,
            device: Self::device(),
            direction: Direction::Write,
            sector: 8,
            bytes: 4_096,
            tid: 9,
            thread: "jbd2/loop0-8".into(),
            flags: "WS".into(),
            ..Row::empty()
        };
        self.events.push(Event::BlockIo(Box::new(io)));
    }

    /// A pause of a thread that serves no request.
    fn other_work(&mut self) {
        let pause = self.random.micros(1_000, 50_000);
        let (start, end) = (self.now, self.now + pause);
        self.events.push(Event::DirtyThrottle(DirtyThrottle {
            start,
            end,
            tid: 99,
            dirty_pages: 10,
            limit_pages: 5,
        }));
        self.off_cpu(99, start, end, "balance_dirty_pages;io_schedule");
    }

    fn request(&mut self) {
        self.requests += 1;
        let connection = self.random.below(self.connection_free.len() as u64) as usize;
        let partition = self.random.below(self.partition_free.len() as u64) as usize;
        let tid = 100 + self.random.below(4) as u32;
        let arrival = self.now;
        let complete = arrival + self.random.micros(1, 300);
        let served = complete.max(self.connection_free[connection]);
        let locked = (served + self.random.micros(20, 2_000)).max(self.partition_free[partition]);
        let (written, stack) = self.written(locked);
        let response = written + self.random.micros(20, 1_000);
        let end = response + self.random.micros(1, 200);
        if let Some((from, until, stack)) = stack {
            self.off_cpu(tid, from, until, stack);
        }
        self.append(partition, tid, locked, written);
        self.answered(connection, partition, (arrival, complete, served), (response, end));
        self.partition_free[partition] = written + self.random.micros(5, 50);
        self.connection_free[connection] = response;
    }

    /// When a write that starts then ends, and what its thread waited for meanwhile.
    fn written(&mut self, start: Nanos) -> (Nanos, Option<(Nanos, Nanos, &'static str)>) {
        let quick = start + self.random.micros(10, 900);
        if start < self.stalled_until && self.random.below(2) == 0 {
            let until = self.stalled_until;
            return (
                until + Nanos(20_000),
                Some((start + Nanos(5_000), until, "ext4_dirty_inode;wait_transaction_locked")),
            );
        }
        match self.random.below(400) {
            0 => {
                let until = start + self.random.micros(20_000, 6_000_000);
                (
                    until + Nanos(9_000),
                    Some((start + Nanos(3_000), until, "folio_wait_writeback;io_schedule")),
                )
            }
            1..8 => (start + self.random.micros(1_000, 80_000), None),
            _ => (quick, None),
        }
    }

    fn off_cpu(&mut self, tid: u32, start: Nanos, end: Nanos, stack: &str) {
        let interval = OffCpu {
            start,
            end,
            woken: Some(end - Nanos(1_000)),
            pid: 7,
            tid,
            thread: "data-plane-kafk".into(),
            preempted: false,
            stack: stack.into(),
            ..Row::empty()
        };
        self.events.push(Event::OffCpu(Box::new(interval)));
    }

    fn append(&mut self, partition: usize, tid: u32, start: Nanos, end: Nanos) {
        let op = FileOp {
            start,
            end,
            op: FileOpKind::Write,
            pid: 7,
            tid,
            thread: "data-plane-kafk".into(),
            bytes: Some(500),
            offset: u64::from(self.requests) * 500,
            file: format!("t-{partition}/00000000000000000000.log").into(),
            topic_partition: Some(TopicPartition { topic: "t".into(), partition: partition as i32 }),
            kind: FileKind::Log,
            device: Self::device(),
            inode: 12,
            fs: "ext4".into(),
            batch: Some(BatchHead {
                base_offset: i64::from(self.requests),
                bytes: 500,
                magic: 2,
                // Some batches have the same bytes.
                crc: self.requests / 3,
                producer_id: -1,
                base_sequence: -1,
                records: 1,
            }),
            ..Row::empty()
        };
        self.events.push(Event::FileOp(Box::new(op)));
    }

    fn answered(
        &mut self,
        connection: usize,
        partition: usize,
        (arrival, complete, served): (Nanos, Nanos, Nanos),
        (response, end): (Nanos, Nanos),
    ) {
        let batch = Batch {
            magic: 2,
            crc: self.requests / 3,
            bytes: 500,
            records: 1,
            producer_id: -1,
            base_sequence: -1,
        };
        let partition = Partition {
            topic: Some(Arc::from("t")),
            partition: partition as i32,
            bytes: 500,
            batches: vec![batch],
            base_offset: Some(i64::from(self.requests)),
            error_code: Some(0),
            ..Partition::default()
        };
        let request = Request {
            arrival,
            arrival_end: complete,
            response: Some(response),
            end: Some(end),
            head_of_line: Some(served - complete),
            api_key: 0,
            api: "PRODUCE",
            api_version: 9,
            correlation_id: self.requests as i32,
            request_bytes: 600,
            response_bytes: Some(60),
            acks: Some(1),
            throttle_ms: Some(0),
            partitions: vec![partition],
            ..Request::new(
                format!("10.0.0.1:{}", 4_000 + connection).parse().unwrap(),
                "10.0.0.2:9092".parse().unwrap(),
            )
        };
        self.events.push(Event::Request(Box::new(request)));
    }
}

#[test]
fn generated_recordings_have_the_same_verdicts_from_retained_events() {
    let (mut judged, mut spared) = (0, 0);
    let mut chains = std::collections::BTreeSet::new();
    for seed in 1..7 {
        let events = Broker::run(seed * 7_919, Nanos(60 * SECOND.0));
        for ms in [20, 100, 1_000] {
            let slower_than = Nanos::from_millis(ms);
            let (retained, left_out) = retain_events(&events, slower_than, usize::MAX);
            let all = verdicts(events.clone(), slower_than);
            judged += all.len();
            chains.extend(all.iter().map(|verdict| verdict.chain.clone()));
            let partial = verdicts(retained, slower_than);
            for (partial, full) in partial.iter().zip(&all) {
                assert_eq!(partial, full, "seed {seed}, {ms} ms");
            }
            assert_eq!(partial.len(), all.len());
            spared += left_out;
        }
    }
    assert!(judged > 250 && spared > 1_000, "{judged} verdicts, {spared} events left out");
    assert!(chains.len() >= 4, "the generator has few stories: {chains:?}");
}

#[test]
fn evicted_events_are_a_loss_only_if_a_slow_request_needs_them() {
    let events = Broker::run(4_711, Nanos(60 * SECOND.0));
    let losses = |slower_than, max_bytes| {
        let (retained, _) = retain_events(&events, slower_than, max_bytes);
        let counts = retained.into_iter().map(|event| match event {
            Event::Loss(loss) => {
                assert_eq!(loss.kind, LossKind::EventsDropped);
                loss.count
            }
            _ => 0,
        });
        counts.sum::<u64>()
    };
    let slower_than = Nanos::from_millis(20);
    assert_eq!(losses(slower_than, usize::MAX), 0);
    assert!(losses(slower_than, 4_096) > 0, "a ring of a few events reaches back nowhere");
    let nothing_is_that_slow = Nanos::from_millis(60_000);
    assert_eq!(losses(nothing_is_that_slow, 4_096), 0, "nothing that was wanted is missing");
}
