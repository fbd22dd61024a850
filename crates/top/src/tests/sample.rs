//! Events and verdicts for this crate's tests.

use model::{
    Cause, Confidence, Device, Evidence, EvidenceKind, FileKind, FileOp, FileOpKind, Nanos, OffCpu,
    Partition, Request, Row, Stage, StageSpan, Stages, TopicPartition, Verdict,
};
use report::Zone;

use super::BrokerInfo;
use super::State;

/// 2026-11-22 12:00:00 UTC.
pub(crate) const NOON: Nanos = Nanos(1_795_348_800_000_000_000);
const THREAD: &str = "data-plane-kafka-request-handler-3";

/// An empty state of a watched broker.
pub(crate) fn state() -> State {
    State::new(BrokerInfo {
        broker: "broker 1 on vm".to_owned(),
        slower_than: Nanos::from_millis(100),
        zone: Zone::utc(),
        off_cpu: true,
        unobservable: Vec::new(),
    })
}

/// A produce request with that latency.
pub(crate) fn request(arrival: Nanos, latency: Nanos) -> Request {
    let end = arrival + latency;
    Request {
        arrival,
        arrival_end: arrival + Nanos(1_000),
        response: Some(end),
        end: Some(end),
        api_key: 0,
        api: "PRODUCE",
        api_version: 9,
        correlation_id: 371,
        client_id: Some("payments".into()),
        request_bytes: 2_100,
        response_bytes: Some(60),
        acks: Some(-1),
        partitions: vec![Partition {
            topic: Some("orders".into()),
            partition: 3,
            bytes: 2_009,
            ..Partition::default()
        }],
        ..Request::new(([10, 0, 0, 7], 41_234).into(), ([10, 0, 0, 1], 9_092).into())
    }
}

/// A verdict on a request that arrived at [`NOON`]. The request spent nine tenths of its time in the append.
pub(crate) fn verdict(latency: Nanos) -> Verdict {
    verdict_at(NOON, latency)
}

/// Like [`verdict`], for another time of arrival.
pub(crate) fn verdict_at(arrival: Nanos, latency: Nanos) -> Verdict {
    let request = request(arrival, latency);
    let append = Nanos(latency.0 / 10 * 9);
    let (append_start, end) = (arrival + (latency - append), arrival + latency);
    let mut stages = Stages::default();
    stages.add(Stage::Queue, latency - append);
    stages.add(Stage::Append, append);
    Verdict {
        request,
        stages,
        stage_spans: vec![
            StageSpan { stage: Stage::Queue, start: arrival, end: append_start },
            StageSpan { stage: Stage::Append, start: append_start, end },
        ],
        cause: Cause::JournalCommit,
        chain: vec![Cause::JournalCommit],
        root: "journal-commit:loop0:2285".into(),
        confidence: Confidence::Exact,
        evidence: vec![Evidence {
            kind: EvidenceKind::Kernel,
            start: append_start,
            end,
            tid: None,
            thread: None,
            waiter: None,
            text: format!("jbd2 commit 2285 on loop0 took {append}"),
        }],
        partition: Some(TopicPartition { topic: "orders".into(), partition: 3 }),
        advice: vec!["put the log on XFS"],
        losses: Vec::new(),
        kafka: None,
        doubts: Vec::new(),
    }
}

/// A write by a request handler.
pub(crate) fn write(start: Nanos, end: Nanos) -> FileOp {
    FileOp {
        start,
        end,
        op: FileOpKind::Write,
        pid: 9,
        tid: 4_462,
        thread: THREAD.into(),
        bytes: Some(2_009),
        offset: 88_847_331,
        file: "orders-3/00000000000000000000.log".into(),
        topic_partition: Some(TopicPartition { topic: "orders".into(), partition: 3 }),
        kind: FileKind::Log,
        device: Device { major: 7, minor: 0, name: "loop0".into() },
        inode: 12,
        fs: "ext4".into(),
        ..Row::empty()
    }
}

/// An off-CPU interval of the same thread, for the journal.
pub(crate) fn off_cpu(start: Nanos, end: Nanos) -> OffCpu {
    OffCpu {
        start,
        end,
        woken: Some(end),
        pid: 9,
        tid: 4_462,
        thread: THREAD.into(),
        preempted: false,
        stack: "vfs_write;ext4_dirty_inode;wait_transaction_locked;schedule".into(),
        ..Row::empty()
    }
}
