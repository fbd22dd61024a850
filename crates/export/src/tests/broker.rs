//! Events of an invented broker.

use std::sync::Arc;

use model::CommitPhases;
use model::{
    Batch, BatchHead, Device, Event, FileKind, FileOp, FileOpKind, JournalCommit, OffCpu, Partition, Request,
    Row, TopicPartition,
};

use super::ms;

pub(super) fn device() -> Device {
    Device { major: 7, minor: 0, name: "loop0".into() }
}

/// A produce request for one partition; times in milliseconds.
pub(super) fn produce(number: i32, topic: &str, arrival: i64, end: i64) -> Request {
    Request {
        arrival: ms(arrival),
        arrival_end: ms(arrival),
        response: Some(ms(end)),
        end: Some(ms(end)),
        head_of_line: Some(ms(0)),
        api_key: 0,
        api: "PRODUCE",
        api_version: 13,
        correlation_id: number,
        client_id: Some("payments".into()),
        request_bytes: 600,
        response_bytes: Some(60),
        acks: Some(1),
        throttle_ms: Some(0),
        partitions: vec![partition(topic, 0, 498, number as u32)],
        ..Request::new(
            format!("10.0.0.7:{}", 40_000 + number % 20_000).parse().unwrap(),
            "10.0.0.1:9092".parse().unwrap(),
        )
    }
}

pub(super) fn partition(topic: &str, partition: i32, bytes: u32, crc: u32) -> Partition {
    Partition {
        topic: Some(topic.into()),
        partition,
        bytes,
        records: Some(3),
        batches: vec![Batch { magic: 2, crc, bytes, records: 3, producer_id: -1, base_sequence: -1 }],
        base_offset: Some(i64::from(crc)),
        error_code: Some(0),
        ..Partition::default()
    }
}

/// A fetch that returned data that was already there.
pub(super) fn fetch(number: i32, topic: &str, arrival: i64, end: i64) -> Request {
    Request {
        api_key: 1,
        api: "FETCH",
        acks: None,
        min_bytes: Some(1),
        max_wait_ms: Some(500),
        data: Some(ms(arrival - 1)),
        ..produce(number, topic, arrival, end)
    }
}

/// The write of a produce request's batch.
pub(super) fn append(tid: u32, topic: &str, start: i64, end: i64, crc: u32) -> FileOp {
    FileOp {
        start: ms(start),
        end: ms(end),
        op: FileOpKind::Write,
        pid: 1,
        tid,
        thread: "data-plane-kafka-request-handler-0".into(),
        bytes: Some(498),
        offset: 1_000,
        file: format!("{topic}-0/00000000000000000000.log").into(),
        topic_partition: Some(TopicPartition { topic: topic.into(), partition: 0 }),
        kind: FileKind::Log,
        device: device(),
        inode: 12,
        fs: "ext4".into(),
        batch: Some(BatchHead {
            base_offset: i64::from(crc),
            bytes: 498,
            magic: 2,
            crc,
            producer_id: -1,
            base_sequence: -1,
            records: 3,
        }),
        journal_transaction: Some(2_286),
        ..Row::empty()
    }
}

pub(super) fn off_cpu(tid: u32, start: i64, woken: Option<i64>, end: i64) -> OffCpu {
    OffCpu {
        start: ms(start),
        end: ms(end),
        woken: woken.map(ms),
        pid: 1,
        tid,
        thread: "data-plane-kafka-request-handler-0".into(),
        preempted: false,
        stack: "ext4_file_write_iter;ext4_dirty_inode;jbd2__journal_start;wait_transaction_locked;schedule"
            .into(),
        ..Row::empty()
    }
}

pub(super) fn commit(transaction: u32, start: i64, end: i64) -> JournalCommit {
    JournalCommit {
        start: ms(start),
        end: ms(end),
        device: device(),
        transaction,
        phases: Some(CommitPhases { flushing: ms(120), locked: ms(4), ..CommitPhases::default() }),
    }
}

/// A write that waited for a commit, its request, and a request behind its lock.
pub(super) fn stall_events() -> Vec<Event> {
    let behind = FileOp { start: ms(1_127), ..append(4_484, "orders", 1_127, 1_128, 2) };
    vec![
        Event::OffCpu(Box::new(off_cpu(4_462, 1_001, None, 1_126))),
        op(append(4_462, "orders", 1_000, 1_126, 1)),
        op(behind),
        request_event(produce(1, "orders", 1_000, 1_127)),
        request_event(produce(2, "orders", 1_007, 1_128)),
        Event::JournalCommit(Box::new(commit(2_285, 1_000, 1_140))),
    ]
}

pub(super) fn request_event(request: Request) -> Event {
    Event::Request(Box::new(request))
}

pub(super) fn op(op: FileOp) -> Event {
    Event::FileOp(Box::new(op))
}

pub(super) fn text(text: &str) -> Arc<str> {
    text.into()
}
