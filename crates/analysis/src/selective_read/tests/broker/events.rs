//! Events of the simulated broker.

use std::net::SocketAddr;
use std::sync::Arc;

use model::{
    Batch, BlockIo, Device, Direction, Event, FileKind, FileOp, FileOpKind, Lock, LockHolder, LockKind,
    LockSource, LockWait, Nanos, OffCpu, Partition, Request, Row, SocketOp, SocketOpKind, TopicPartition,
};

use super::{Broker, MICRO};

impl Broker {
    pub(super) fn lock_wait(&mut self, handler: usize, start: i64, end: i64) {
        let holder = LockHolder { tid: None, thread: "data-plane-kafka-request-handler-0".into() };
        self.events.push(Event::LockWait(Box::new(LockWait {
            start: Nanos(start),
            end: Nanos(end),
            pid: 1,
            tid: 100 + handler as u32,
            thread: format!("data-plane-kafka-request-handler-{handler}").into(),
            lock: Lock { kind: LockKind::Monitor, class: "java.lang.Object".into(), address: 7 },
            holder: Some(holder),
            stack: "".into(),
            source: LockSource::Usdt,
        })));
    }

    pub(super) fn off_cpu(&mut self, tid: u32, start: i64, end: i64, stack: &str, woken: i64) {
        self.events.push(Event::OffCpu(Box::new(OffCpu {
            start: Nanos(start),
            end: Nanos(end),
            woken: Some(Nanos(woken)),
            pid: 1,
            tid,
            thread: "data-plane-kafk".into(),
            preempted: false,
            stack: stack.into(),
            ..Row::empty()
        })));
    }

    pub(super) fn block_io(&mut self, start: i64, end: i64) {
        self.events.push(Event::BlockIo(Box::new(BlockIo {
            start: Nanos(start),
            end: Nanos(end),
            device: device(),
            direction: Direction::Write,
            sector: u64::from(self.number),
            bytes: 4_096,
            flags: "WS".into(),
            tid: 1,
            thread: "jbd2/loop0-8".into(),
            inode: Some(12),
            ..Row::empty()
        })));
    }

    pub(super) fn socket(
        &mut self,
        thread: usize,
        connection: usize,
        kind: SocketOpKind,
        start: i64,
        number: u32,
    ) {
        let bytes = if kind == SocketOpKind::Read { 604 } else { 64 };
        self.events.push(Event::SocketOp(Box::new(SocketOp {
            start: Nanos(start),
            end: Nanos(start + 5 * MICRO),
            op: kind,
            pid: 1,
            tid: 200 + thread as u32,
            thread: "data-plane-kafk".into(),
            local: broker(),
            remote: client(connection),
            bytes: Some(bytes),
            sequence: number.wrapping_mul(bytes as u32),
            sequence_end: (number + 1).wrapping_mul(bytes as u32),
            ..Row::empty()
        })));
    }

    pub(super) fn produced_partition(&self, partition: usize) -> Partition {
        let number = self.number;
        let batch = Batch {
            magic: 2,
            crc: if number % 50 == 25 {
                0
            } else if number % 50 == 0 {
                7
            } else {
                number
            },
            bytes: 400,
            records: 5,
            producer_id: -1,
            base_sequence: -1,
        };
        let TopicPartition { topic, partition: at } = topic_partition_at(partition);
        Partition {
            topic: Some(topic),
            partition: at,
            bytes: if number % 90 == 0 { 0 } else { 400 },
            records: Some(5),
            batches: vec![batch],
            fetch_offset: None,
            base_offset: Some(self.offsets[partition]),
            error_code: Some(0),
            ..Partition::default()
        }
    }

    pub(super) fn request(
        &mut self,
        (api_key, api): (i16, &'static str),
        correlation_id: i32,
        connection: usize,
        (arrival, complete, ahead, write): (i64, i64, i64, i64),
        name: &str,
        partitions: Vec<Partition>,
    ) {
        let is_fetch = api_key == 1;
        let number = correlation_id as u32;
        self.events.push(Event::Request(Box::new(Request {
            arrival: Nanos(arrival),
            arrival_end: Nanos(complete),
            response: Some(Nanos(write + 3 * MICRO)),
            end: Some(Nanos(write + 10 * MICRO)),
            head_of_line: Some(Nanos(ahead)),
            api_key,
            api,
            api_version: 13,
            correlation_id,
            client_id: Some(Arc::from(name)),
            request_bytes: 600,
            response_bytes: Some(60),
            sequence: Some(number.wrapping_mul(604)),
            response_sequence: Some(number.wrapping_mul(64)),
            acks: (!is_fetch).then_some(-1),
            min_bytes: is_fetch.then_some(1),
            max_wait_ms: is_fetch.then_some(500),
            throttle_ms: Some(0),
            partitions,
            ..Request::new(client(connection), broker())
        })));
    }
}

pub(super) fn op(kind: FileOpKind, tid: u32, start: i64, end: i64, file: &str) -> FileOp {
    FileOp {
        start: Nanos(start),
        end: Nanos(end),
        op: kind,
        pid: 1,
        tid,
        thread: "data-plane-kafk".into(),
        bytes: Some(400),
        offset: 1_000,
        file: file.into(),
        kind: FileKind::Other,
        device: device(),
        inode: 12,
        fs: "ext4".into(),
        ..Row::empty()
    }
}

pub(super) fn device() -> Device {
    Device { major: 7, minor: 0, name: "loop0".into() }
}

pub(super) fn topic_partition_at(partition: usize) -> TopicPartition {
    TopicPartition {
        topic: if partition % 2 == 0 { "orders" } else { "clicks" }.into(),
        partition: partition as i32 / 2,
    }
}

fn client(connection: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 7], 40_000 + connection as u16))
}

fn broker() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 9_092))
}
