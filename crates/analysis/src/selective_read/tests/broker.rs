//! A simulated broker under a light load: connections, handlers and network threads, each doing one thing at a time, with
//! journal commits that delay appends and flushes, GC pauses, threads without a CPU, followers that fetch late and consumers
//! that long poll. Seconds may pass between related events. The same seed gives the same events.

#[path = "broker/events.rs"]
mod events;

use model::{
    BatchHead, Event, FileKind, FileOp, FileOpKind, JournalCommit, JvmPause, JvmPauseKind, Nanos, Partition,
    PartitionState, Row, SocketOpKind, TopicPartition,
};

use std::path::Path;

use recording::{Manifest, Recording, Writer, WriterOptions};

use events::{device, op, topic_partition_at};

/// 2026-01-01, UTC.
pub(super) const BEGIN: Nanos = Nanos(1_767_225_600_000_000_000);
const MICRO: i64 = 1_000;
const MILLI: i64 = 1_000 * MICRO;
const CONNECTIONS: usize = 12;
/// The remaining connections are consumers'.
const PRODUCERS: usize = 10;
const PARTITIONS: usize = 6;
const HANDLERS: usize = 4;
const NETWORK_THREADS: usize = 2;
const JOURNAL: &str =
    "ext4_file_write_iter;ext4_dirty_inode;jbd2__journal_start;wait_transaction_locked;schedule";
const DEVICE_WAIT: &str = "ksys_write;ext4_file_write_iter;__wait_on_buffer;bit_wait_io;io_schedule;schedule";
const IDLE: &str = "do_futex;futex_wait;schedule";

const LASTS: Nanos = Nanos::from_millis(240_000);

/// Records the simulated broker's events, with several parts per table.
pub(super) fn record(directory: &Path, habits: Habits, seed: u64) -> Recording {
    let mut manifest = Manifest { started_ns: BEGIN.0, ..Manifest::default() };
    let options = WriterOptions { rotate_rows: 7_000, ..WriterOptions::default() };
    let mut writer = Writer::create(directory, &manifest, options).unwrap();
    for event in Broker::new(habits, seed).events(LASTS) {
        writer.write(&event).unwrap();
    }
    manifest.ended_ns = Some((BEGIN + LASTS).0);
    writer.finish(&manifest).unwrap();
    Recording::open(directory).unwrap()
}

/// Behaviour of the simulated broker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    stalls: bool,
    followed: bool,
    reads_disk: bool,
}

impl Habits {
    pub(super) fn quiet() -> Self {
        Self { stalls: false, followed: false, reads_disk: false }
    }
    pub(super) fn alone() -> Self {
        Self { stalls: true, ..Self::quiet() }
    }
    pub(super) fn followed() -> Self {
        Self { followed: true, ..Self::alone() }
    }
    pub(super) fn read_from_disk() -> Self {
        Self { reads_disk: true, ..Self::alone() }
    }
}

pub(super) struct Broker {
    habits: Habits,
    random: u64,
    now: i64,
    number: u32,
    connections: [i64; CONNECTIONS],
    partitions: [i64; PARTITIONS],
    offsets: [i64; PARTITIONS],
    handlers: [i64; HANDLERS],
    network: [i64; NETWORK_THREADS],
    fetched: i64,
    next_stall: i64,
    next_pause: i64,
    next_starving: i64,
    pause: (i64, i64),
    transaction: u32,
    events: Vec<Event>,
}

impl Broker {
    pub(super) fn new(habits: Habits, seed: u64) -> Self {
        let now = BEGIN.0;
        let mut broker = Self {
            habits,
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            now,
            number: 0,
            connections: [now; CONNECTIONS],
            partitions: [now; PARTITIONS],
            offsets: [0; PARTITIONS],
            handlers: [now; HANDLERS],
            network: [now; NETWORK_THREADS],
            fetched: now,
            next_stall: 0,
            next_pause: 0,
            next_starving: 0,
            pause: (0, 0),
            transaction: 100,
            events: Vec::new(),
        };
        broker.next_stall = now + broker.below(20_000 * MILLI);
        broker.next_pause = now + broker.below(40_000 * MILLI);
        broker.next_starving = now + broker.below(60_000 * MILLI);
        broker
    }

    /// Simulates the broker for a time; returns the events in order of their end.
    pub(super) fn events(mut self, lasts: Nanos) -> Vec<Event> {
        let replicas = if self.habits.followed { 3 } else { 1 };
        self.events.extend((0..PARTITIONS).map(|number| {
            let TopicPartition { topic, partition } = topic_partition_at(number);
            Event::PartitionState(PartitionState { at: BEGIN, topic, partition, replicas })
        }));
        while self.now < (BEGIN + lasts).0 {
            self.now += self.below(25 * MILLI);
            self.collect();
            match self.below(12) {
                0 => self.consume(),
                _ => self.produce(),
            }
        }
        self.events.sort_by_key(Event::time);
        self.events
    }

    fn below(&mut self, limit: i64) -> i64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        ((self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 1) as i64) % limit
    }

    /// The given time, or the end of the JVM pause around it.
    fn awake(&self, at: i64) -> i64 {
        if self.pause.0 <= at && at < self.pause.1 { self.pause.1 } else { at }
    }

    fn collect(&mut self) {
        if !self.habits.stalls || self.now < self.next_pause {
            return;
        }
        self.pause = (self.now, self.now + 50 * MILLI + self.below(400 * MILLI));
        self.next_pause = self.now + 50_000 * MILLI + self.below(60_000 * MILLI);
        self.events.push(Event::JvmPause(Box::new(JvmPause {
            start: Nanos(self.pause.0),
            end: Nanos(self.pause.1),
            pid: 1,
            kind: JvmPauseKind::Gc,
            operation: "G1Full".into(),
            cause: "Allocation Failure".into(),
            gc_id: Some(self.transaction),
            ..Row::empty()
        })));
    }

    fn produce(&mut self) {
        self.number += 1;
        let (connection, partition) =
            (self.below(PRODUCERS as i64) as usize, self.below(PARTITIONS as i64) as usize);
        let arrival = self.now;
        let complete = arrival + 20 * MICRO;
        let from = complete.max(self.connections[connection]);
        let thread = connection % NETWORK_THREADS;
        let read = self.awake(from.max(self.network[thread]) + 15 * MICRO);
        self.network[thread] = read + 10 * MICRO;
        self.socket(thread, connection, SocketOpKind::Read, read, self.number);
        let (handler, taken) = self.handler(read + 20 * MICRO);
        let ready = taken + 30 * MICRO + self.starve(handler, taken);
        let free = self.partitions[partition];
        let start = self.awake(ready.max(free + 30 * MICRO));
        if start - ready > MILLI && self.below(2) == 0 {
            self.lock_wait(handler, ready, start);
        }
        let end = self.append(handler, partition, start);
        let lock_end = end + self.after_append(handler, end);
        self.partitions[partition] = lock_end;
        self.handlers[handler] = lock_end + 20 * MICRO;
        let answered = self.replicate(partition, lock_end + 50 * MICRO);
        let write = self.awake(answered.max(self.network[thread]));
        self.network[thread] = write + 10 * MICRO;
        self.socket(thread, connection, SocketOpKind::Write, write, self.number);
        self.connections[connection] = write + 12 * MICRO;
        let partitions = vec![self.produced_partition(partition)];
        self.offsets[partition] += 5;
        let times = (arrival, complete, from - complete, write);
        let number = self.number as i32;
        self.request((0, "PRODUCE"), number, connection, times, "producer", partitions);
    }

    /// A consumer's fetch, which waits for data or reads old records from the device.
    fn consume(&mut self) {
        let connection = PRODUCERS + self.below(2) as usize;
        // A consumer waits for a response before it sends the next fetch.
        if self.connections[connection] > self.now {
            return;
        }
        self.number += 1;
        let (arrival, complete) = (self.now, self.now + 10 * MICRO);
        let from = complete.max(self.connections[connection]);
        let thread = connection % NETWORK_THREADS;
        let read = self.awake(from.max(self.network[thread]) + 15 * MICRO);
        self.socket(thread, connection, SocketOpKind::Read, read, self.number);
        let waits = self.below(3) == 0;
        let wait = if waits { self.below(500 * MILLI) } else { 200 * MICRO };
        let write = self.awake((read + wait).max(self.network[thread]));
        let sent =
            if self.habits.reads_disk && self.below(60) == 0 { MILLI + self.below(400 * MILLI) } else { 0 };
        if sent > 0 {
            self.sendfile(thread, write + 5 * MICRO, write + 5 * MICRO + sent);
            self.network[thread] = write + sent + 10 * MICRO;
        }
        self.socket(thread, connection, SocketOpKind::Write, write, self.number);
        self.connections[connection] = write + sent + 12 * MICRO;
        let partition = Partition { bytes: 400, ..self.produced_partition(0) };
        let times = (arrival, complete, from - complete, write + sent);
        let number = self.number as i32;
        self.request(
            (1, "FETCH"),
            number,
            connection,
            times,
            "consumer",
            vec![Partition { batches: Vec::new(), ..partition }],
        );
    }

    fn handler(&mut self, ready: i64) -> (usize, i64) {
        let first = (0..HANDLERS).min_by_key(|&at| self.handlers[at]).unwrap();
        let free = self.handlers[first];
        let taken = self.awake(ready.max(free) + 10 * MICRO);
        if taken > free {
            self.off_cpu(100 + first as u32, free, taken, IDLE, taken - 3 * MICRO);
        }
        (first, taken)
    }

    /// Leaves a handler without a CPU before its append; returns for how long.
    fn starve(&mut self, handler: usize, from: i64) -> i64 {
        if !self.habits.stalls || from < self.next_starving {
            return 0;
        }
        let length = 10 * MILLI + self.below(300 * MILLI);
        self.off_cpu(
            100 + handler as u32,
            from + 10 * MICRO,
            from + 10 * MICRO + length,
            IDLE,
            from + 12 * MICRO,
        );
        // Some follow closely.
        let max_gap = if self.below(2) == 0 { 100_000 } else { 1_000 };
        self.next_starving = from + 500 * MILLI + self.below(max_gap * MILLI);
        length
    }

    /// Appends and returns the end. A commit or the device delays it now and then, sometimes by seconds.
    fn append(&mut self, handler: usize, partition: usize, start: i64) -> i64 {
        let tid = 100 + handler as u32;
        let mut end = start + 40 * MICRO + self.below(60 * MICRO);
        if self.habits.stalls && start > self.next_stall {
            let scale = if self.below(4) == 0 { 4_000 } else { 500 };
            end = start + 50 * MILLI + self.below(scale * MILLI);
            self.next_stall = end + 30_000 * MILLI + self.below(60_000 * MILLI);
            self.transaction += 1;
            if self.below(2) == 0 {
                self.off_cpu(tid, start + 10 * MICRO, end - 10 * MICRO, JOURNAL, end - 14 * MICRO);
                let (start, end) = (Nanos(start - 300 * MILLI), Nanos(end - 12 * MICRO));
                let commit = JournalCommit {
                    start,
                    end,
                    device: device(),
                    transaction: self.transaction,
                    ..Row::empty()
                };
                self.events.push(Event::JournalCommit(Box::new(commit)));
            } else {
                self.off_cpu(tid, start + 10 * MICRO, end - 10 * MICRO, DEVICE_WAIT, end - 14 * MICRO);
            }
            self.block_io(start + 20 * MICRO, end - 15 * MICRO);
        }
        let number = self.number;
        let offset = self.offsets[partition];
        self.events.push(Event::FileOp(Box::new(FileOp {
            topic_partition: Some(topic_partition_at(partition)),
            kind: FileKind::Log,
            batch: Some(BatchHead {
                base_offset: offset,
                bytes: 400,
                magic: 2,
                // Now and then the CRC repeats: a batch is written again.
                crc: if number % 50 == 0 { 7 } else { number },
                producer_id: -1,
                base_sequence: -1,
                records: 5,
            }),
            ..op(
                FileOpKind::Write,
                tid,
                start,
                end,
                &format!("/data/{}/0.log", topic_partition_at(partition)),
            )
        })));
        end
    }

    /// How long the handler holds the log lock after the write. The cause is a fault on its index, or a flush.
    fn after_append(&mut self, handler: usize, end: i64) -> i64 {
        let tid = 100 + handler as u32;
        match self.below(10_000) {
            0 if self.habits.stalls => {
                let length = 20 * MILLI + self.below(4_000 * MILLI);
                self.off_cpu(tid, end + 100 * MICRO, end + length, JOURNAL, end + length - MICRO);
                length
            }
            1 if self.habits.stalls => {
                let length = 5 * MILLI + self.below(300 * MILLI);
                let path = "/data/orders-0/0.index";
                self.block_io(end + 200 * MICRO, end + length - MILLI);
                self.off_cpu(
                    tid,
                    end + 200 * MICRO,
                    end + length - MILLI / 2,
                    DEVICE_WAIT,
                    end + length - MILLI,
                );
                self.events.push(Event::FileOp(Box::new(FileOp {
                    topic_partition: Some(topic_partition_at(0)),
                    kind: FileKind::Index,
                    ..op(FileOpKind::Fsync, tid, end + 100 * MICRO, end + length, path)
                })));
                length
            }
            _ => 0,
        }
    }

    /// The time when the follower has fetched the records; it is late now and then.
    fn replicate(&mut self, partition: usize, at: i64) -> i64 {
        if !self.habits.followed {
            return at;
        }
        let late = if self.below(1_500) == 0 { self.below(400 * MILLI) } else { self.below(2 * MILLI) };
        let reached = at.max(self.fetched) + late;
        let partition = Partition {
            fetch_offset: Some(self.offsets[partition] + 5),
            ..self.produced_partition(partition)
        };
        let times = (reached - 20 * MICRO, reached, 0, reached + 300 * MICRO);
        self.fetched = reached + 320 * MICRO;
        let number = self.number as i32;
        let partitions = vec![Partition { batches: Vec::new(), bytes: 0, ..partition }];
        self.request((1, "FETCH"), number, CONNECTIONS, times, "broker-2-fetcher-0", partitions);
        reached + 100 * MICRO
    }

    fn sendfile(&mut self, thread: usize, start: i64, end: i64) {
        let tid = 200 + thread as u32;
        self.off_cpu(tid, start + 10 * MICRO, end - 20 * MICRO, DEVICE_WAIT, end - 22 * MICRO);
        self.block_io(start + 12 * MICRO, end - 25 * MICRO);
        self.events.push(Event::FileOp(Box::new(FileOp {
            topic_partition: Some(topic_partition_at(0)),
            kind: FileKind::Log,
            disk_bytes: Some(4_096),
            offset: 1_000,
            ..op(FileOpKind::Sendfile, tid, start, end, "/data/orders-0/0.log")
        })));
    }
}
