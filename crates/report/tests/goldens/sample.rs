//! Events, verdicts and examinations as inputs of the outputs: the tail-latency case's figures, and hostile names.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use diagnose::{Call, CauseTotal, Detail, JoinStats, LossDetail, Reason, RootTotal, Summary};
use model::{
    Batch, BatchHead, BlockIo, Cause, Confidence, Device, Direction, Doubt, Evidence, EvidenceKind, FileKind,
    FileOp, FileOpKind, JournalCommit, LossKind, Nanos, Partition, Request, Row, SpanSource, Stage,
    StageSpan, Stages, TlsCount, TlsTotals, TopicId, TopicPartition, Verdict, Waiter, Waker,
};
use model::{CaptureCounters, CommitPhases};
use report::doctor::{
    BrokerFacts, Examination, Fact, Hook, OutageFacts, PlanCost, ProgramFacts, Remedy, WatchFacts,
};
use report::explanation::{Conclusion, Unobservable};
use report::requests::RequestSummary;
use report::segments::{BatchRow, RecordRow, SegmentFile};

/// 2024-06-21 12:11:36.521 UTC.
const ARRIVAL: Nanos = Nanos(1_718_971_896_521_480_000);
/// A possible name of a client, a topic or a thread.
const HOSTILE: &str = "\x1b]0;gone\x07\r\n\u{9b}2J\u{202e},\"evil\"";

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn produce(latency: Nanos) -> Request {
    Request {
        arrival: ARRIVAL,
        arrival_end: ARRIVAL + Nanos(120_000),
        response: Some(ARRIVAL + latency - Nanos(50_000)),
        end: Some(ARRIVAL + latency),
        head_of_line: Some(Nanos::ZERO),
        api_key: 0,
        api: "PRODUCE",
        api_version: 13,
        correlation_id: 7,
        client_id: Some("producer-1".into()),
        request_bytes: 2_115,
        response_bytes: Some(58),
        acks: Some(-1),
        throttle_ms: Some(0),
        seen_by: Some(model::RequestSource::Packets),
        partitions: vec![partition("topicA", 2, &["371409548"])],
        ..Request::new(address("10.0.0.7:41234"), address("10.0.0.1:9092"))
    }
}

fn partition(topic: &str, number: i32, ids: &[&str]) -> Partition {
    Partition {
        topic: Some(topic.into()),
        topic_id: None,
        partition: number,
        bytes: 2_009,
        records: Some(5),
        batches: vec![Batch {
            magic: 2,
            crc: 0x00c0_ffee,
            bytes: 2_009,
            records: 5,
            producer_id: -1,
            base_sequence: -1,
        }],
        fetch_offset: None,
        base_offset: Some(2_938_697_123),
        error_code: Some(0),
        newest_record: None,
        message_ids: ids.iter().map(|&id| id.into()).collect(),
    }
}

pub(crate) fn requests() -> Vec<Request> {
    let mut topic_id = [7; 16];
    topic_id[15] = 1;
    let unresolved = Partition {
        topic: None,
        topic_id: Some(TopicId(topic_id)),
        batches: Vec::new(),
        records: None,
        base_offset: None,
        error_code: Some(100),
        ..partition("", 11, &[])
    };
    vec![
        produce(Nanos(538_400_000)),
        Request {
            partitions: vec![partition("topicB", 0, &["1", "2"]), unresolved],
            ..produce(Nanos(4_200_000))
        },
        Request {
            acks: Some(0),
            response: None,
            end: None,
            head_of_line: None,
            response_bytes: None,
            throttle_ms: None,
            correlation_id: 8,
            ..produce(Nanos::ZERO)
        },
        Request {
            client_id: Some(HOSTILE.into()),
            transactional_id: Some(HOSTILE.into()),
            error: Some(format!("topic {HOSTILE} cut at byte 99").into()),
            partitions: vec![partition(HOSTILE, 1, &[HOSTILE])],
            ..produce(Nanos(12_000_000))
        },
        Request {
            api_key: 3,
            api: "METADATA",
            acks: None,
            throttle_ms: None,
            client_id: None,
            partitions: Vec::new(),
            ..produce(Nanos(900_000))
        },
        Request {
            api_key: 1,
            api: "FETCH",
            api_version: 12,
            acks: None,
            group_id: Some(HOSTILE.into()),
            min_bytes: Some(1),
            max_wait_ms: Some(500),
            data: Some(ARRIVAL + Nanos(498_000_000)),
            error_code: Some(0),
            partitions: vec![Partition {
                fetch_offset: Some(2_938_697_123),
                base_offset: None,
                batches: Vec::new(),
                ..partition("topicA", 2, &[])
            }],
            ..produce(Nanos(501_000_000))
        },
    ]
}

/// Requests of an overview: two producers, one of them well batched and sometimes behind its own requests, and a
/// consumer that mostly waits.
pub(crate) fn traffic() -> Vec<Request> {
    let mut requests = Vec::new();
    for n in 0..1_000_i64 {
        let at = |request: Request, latency: i64| Request {
            arrival: ARRIVAL + Nanos::from_millis(n * 20),
            arrival_end: ARRIVAL + Nanos::from_millis(n * 20),
            end: Some(ARRIVAL + Nanos::from_millis(n * 20) + Nanos(latency)),
            ..request
        };
        let slow = if n % 100 == 0 { 300_000_000 + n * 1_000_000 } else { 0 };
        requests.push(at(produce(Nanos::ZERO), 800_000 + n * 1_000 + slow));
        let behind = if n % 4 == 0 { 90_000_000 } else { 0 };
        let full =
            Partition { bytes: 16_300 + (n % 80) as u32, records: Some(60), ..partition("topicB", 0, &[]) };
        requests.push(at(
            Request {
                client_id: Some("payments-service-eu-west-producer-17".into()),
                client: address("10.0.0.8:50000"),
                head_of_line: Some(Nanos(behind)),
                partitions: vec![full.clone(), Partition { partition: 1, ..full }],
                ..produce(Nanos::ZERO)
            },
            2_000_000 + behind,
        ));
        requests.push(at(fetch(n % 10 == 0), if n % 10 == 0 { 4_000_000 } else { 501_500_000 }));
    }
    requests.extend(self::requests());
    requests
}

fn fetch(brings: bool) -> Request {
    Request {
        api_key: 1,
        api: "FETCH",
        acks: None,
        client_id: Some("consumer-1".into()),
        client: address("[fe80::7]:50001"),
        min_bytes: Some(1),
        max_wait_ms: Some(500),
        partitions: vec![Partition {
            bytes: if brings { 32_000 } else { 0 },
            batches: Vec::new(),
            base_offset: None,
            ..partition("topicB", 0, &[])
        }],
        ..produce(Nanos::ZERO)
    }
}

pub(crate) fn request_summary() -> RequestSummary {
    RequestSummary {
        requests: 12_345,
        matched: 5,
        counters: CaptureCounters {
            requests_by_api: BTreeMap::from([("PRODUCE", 12_340), ("METADATA", 5)]),
            packets: 264_681,
            bytes: 354_000_000,
            connections: 12,
            gaps: 1,
            gap_bytes: 1_448,
            retransmitted_bytes: 2_896,
            undecodable_frames: 2,
            kernel_drops: 3,
            tls_connections: 1,
            ..CaptureCounters::default()
        },
        notes: Vec::new(),
    }
}

fn device() -> Device {
    Device { major: 7, minor: 0, name: "loop0".into() }
}

/// Operations and what their time was spent on.
pub(crate) fn file_ops() -> Vec<(FileOp, Vec<Reason>)> {
    let ms = Nanos::from_millis;
    let slow = slow_write();
    let why_slow = vec![
        Reason {
            function: Some("wait_transaction_locked".into()),
            woken_by: Some(Waker {
                tid: 812,
                thread: "jbd2/loop0-8".into(),
                stack: "kthread;kjournald2;jbd2_journal_commit_transaction;__wake_up".into(),
            }),
            ..reason("journal-commit", ms(151))
        },
        reason("cpu", Nanos(5_400_000)),
        reason("run-queue", ms(2)),
    ];
    let failed = FileOp {
        end: ARRIVAL + Nanos(300_000),
        thread: HOSTILE.into(),
        file: HOSTILE.into(),
        bytes: None,
        errno: Some(28),
        offset: 0,
        topic_partition: None,
        kind: FileKind::Other,
        device: Device { major: 254, minor: 17, name: "".into() },
        batch: None,
        journal_transaction: None,
        ..slow.clone()
    };
    let failed_reasons = vec![reason("unobserved", failed.latency())];
    let moved = FileOp {
        op: FileOpKind::Rename,
        end: ARRIVAL + ms(12),
        errno: None,
        bytes: Some(0),
        offset: 0,
        file: "topicA-0/00000000000000000000.snapshot".into(),
        renamed_to: Some("topicA-0/00000000000000000000.snapshot.deleted".into()),
        kind: FileKind::Snapshot,
        batch: None,
        ..slow.clone()
    };
    let moved_reasons = vec![
        Reason { function: Some("ext4_rename2".into()), ..reason("other", ms(11)) },
        reason("cpu", ms(1)),
    ];
    let from_disk = FileOp {
        op: FileOpKind::Sendfile,
        end: ARRIVAL + ms(31),
        tid: 4_461,
        thread: "data-plane-kafk".into(),
        bytes: Some(1_048_576),
        disk_bytes: Some(983_040),
        readahead_bytes: Some(131_072),
        offset: 4_096,
        batch: None,
        journal_transaction: None,
        ..slow.clone()
    };
    let from_disk_reasons = vec![
        Reason { function: Some("folio_wait_bit_common".into()), ..reason("device", ms(20)) },
        reason("device-queue", ms(8)),
        reason("cpu", ms(3)),
    ];
    vec![(slow, why_slow), (failed, failed_reasons), (moved, moved_reasons), (from_disk, from_disk_reasons)]
}

fn reason(name: &'static str, time: Nanos) -> Reason {
    Reason { name, time, function: None, woken_by: None }
}

fn slow_write() -> FileOp {
    FileOp {
        start: ARRIVAL,
        end: ARRIVAL + Nanos(158_400_000),
        op: FileOpKind::Write,
        pid: 4_400,
        tid: 4_478,
        thread: "data-plane-kafk".into(),
        bytes: Some(2_009),
        offset: 90_979_668_000,
        file: "topicA-0/00000000002938697123.log".into(),
        topic_partition: Some(TopicPartition { topic: "topicA".into(), partition: 0 }),
        kind: FileKind::Log,
        device: device(),
        inode: 1_234,
        fs: "ext4".into(),
        batch: Some(BatchHead {
            base_offset: 2_938_697_123,
            bytes: 2_009,
            magic: 2,
            crc: 0x00c0_ffee,
            producer_id: -1,
            base_sequence: -1,
            records: 5,
        }),
        journal_transaction: Some(2_286),
        ..Row::empty()
    }
}

fn block_io(inode: Option<u64>, direction: Direction, bytes: u32) -> BlockIo {
    BlockIo {
        start: ARRIVAL,
        end: ARRIVAL + Nanos(700_000),
        device: device(),
        direction,
        sector: 8,
        bytes,
        tid: 33,
        thread: "kworker/u4:1".into(),
        flags: "W".into(),
        inode,
        ..Row::empty()
    }
}

/// Block requests before and after the operations.
pub(crate) fn block_ios() -> (Vec<BlockIo>, Vec<BlockIo>) {
    let early = vec![block_io(Some(1_234), Direction::Read, 131_072)];
    let late = vec![
        block_io(Some(1_234), Direction::Write, 4_096),
        block_io(Some(99), Direction::Write, 8_192),
        block_io(None, Direction::Write, 40_960),
    ];
    (early, late)
}

/// A commit, a call behind it, and the other kinds of calls.
pub(crate) fn calls() -> Vec<Call> {
    let ms = Nanos::from_millis;
    let commit = Call {
        start: ARRIVAL,
        end: ARRIVAL + ms(1_332),
        function: "jbd2_journal_commit_transaction".into(),
        seen_by: SpanSource::Tracepoints,
        device: Some(device()),
        thread: None,
        file: None,
        detail: Detail::Commit(JournalCommit {
            start: ARRIVAL,
            end: ARRIVAL + ms(1_332),
            device: device(),
            transaction: 2_285,
            phases: Some(CommitPhases {
                wait: ms(4),
                running: ms(5_000),
                locked: Nanos::ZERO,
                flushing: ms(1_240),
                logging: ms(88),
                handles: 1_812,
                blocks: 31,
                blocks_logged: 33,
            }),
        }),
    };
    let behind = Call {
        start: ARRIVAL + ms(2),
        end: ARRIVAL + ms(1_282),
        function: "ext4_dirty_inode".into(),
        seen_by: SpanSource::OffCpu,
        thread: Some((4_478, "data-plane-kafk".into())),
        file: Some("topicA-0/00000000002938697123.log".into()),
        detail: Detail::Wait("journal-commit", "wait_transaction_locked".into()),
        ..commit.clone()
    };
    let reclaim = Call {
        start: ARRIVAL + ms(9),
        end: ARRIVAL + ms(14),
        function: "try_to_free_mem_cgroup_pages".into(),
        seen_by: SpanSource::Tracepoints,
        device: None,
        thread: Some((4_461, HOSTILE.into())),
        file: None,
        detail: Detail::Reclaim { pages: 32, memcg: true },
    };
    let span = Call {
        start: ARRIVAL + ms(20),
        end: ARRIVAL + ms(31),
        function: "xfs_log_force_seq".into(),
        seen_by: SpanSource::Function,
        detail: Detail::Nothing,
        ..behind.clone()
    };
    vec![commit, behind, reclaim, span]
}

pub(crate) fn segment_file() -> SegmentFile {
    SegmentFile {
        file: "topicA-0/00000000002938697123.log".into(),
        topic_partition: Some(TopicPartition { topic: "topicA".into(), partition: 0 }),
    }
}

pub(crate) fn segment() -> Vec<(BatchRow, Vec<RecordRow>)> {
    let batch = BatchRow {
        base_offset: 10,
        last_offset: 11,
        bytes: 2_009,
        position: 4_096,
        magic: 2,
        crc: 0xc0_ffee,
        crc_ok: true,
        codec: "zstd",
        producer_id: 4_000,
        records: Some(2),
        timestamp_ms: 1_718_971_896_521,
        control: false,
        message_ids: vec!["839584818".to_owned(), HOSTILE.to_owned()],
    };
    let record = RecordRow {
        offset: 10,
        timestamp_ms: 1_718_971_896_520,
        key_bytes: Some(8),
        value_bytes: Some(1_000),
        message_id: Some("839584818".to_owned()),
    };
    let tombstone = RecordRow {
        offset: 11,
        timestamp_ms: -1,
        key_bytes: None,
        value_bytes: None,
        message_id: Some(HOSTILE.to_owned()),
    };
    let marker = BatchRow {
        base_offset: 12,
        last_offset: 12,
        position: 6_105,
        bytes: 78,
        crc_ok: false,
        codec: "none",
        control: true,
        records: None,
        timestamp_ms: -1,
        message_ids: Vec::new(),
        ..batch.clone()
    };
    vec![(batch, vec![record, tombstone]), (marker, Vec::new())]
}

fn evidence(
    kind: EvidenceKind,
    from_ms: i64,
    to_ms: i64,
    thread: Option<(&str, u32)>,
    text: &str,
) -> Evidence {
    Evidence {
        kind,
        start: ARRIVAL + Nanos::from_millis(from_ms),
        end: ARRIVAL + Nanos::from_millis(to_ms),
        tid: thread.map(|(_, tid)| tid),
        thread: thread.map(|(name, _)| name.into()),
        waiter: None,
        text: text.to_owned(),
    }
}

fn stages(request: &Request, spent: &[(Stage, Nanos)]) -> Stages {
    let mut stages = Stages::default();
    for &(stage, length) in spent {
        stages.add(stage, length);
    }
    stages.add(Stage::Unobserved, request.latency().unwrap() - stages.total());
    stages
}

/// The stage spans, one after the other.
fn spans(request: &Request, spent: &[(Stage, Nanos)]) -> Vec<StageSpan> {
    let mut at = request.arrival;
    let mut spans = Vec::new();
    for (stage, length) in stages(request, spent).iter().filter(|(_, length)| *length > Nanos::ZERO) {
        spans.push(StageSpan { stage, start: at, end: at + length });
        at += length;
    }
    spans
}

const COMMIT: &str = "jbd2 commit 2285 on loop0 took 531 ms, 520 ms of it logging";
const JOURNAL_ADVICE: &str = "put the log dirs on XFS: its log does not stop every writer at a commit";

pub(crate) fn own_write() -> Verdict {
    let handler = Some(("data-plane-kafka-request-handler-24", 4_478));
    let request = Request {
        partitions: vec![partition("topicB", 0, &["5"]), partition("topicA", 2, &["371409548", "371409549"])],
        ..produce(Nanos(538_400_000))
    };
    Verdict {
        stages: stages(&request, &[(Stage::NetworkIn, Nanos(120_000)), (Stage::Append, Nanos(530_000_000))]),
        stage_spans: spans(
            &request,
            &[(Stage::NetworkIn, Nanos(120_000)), (Stage::Append, Nanos(530_000_000))],
        ),
        request,
        cause: Cause::JournalCommit,
        chain: vec![Cause::JournalCommit],
        root: "journal-commit:loop0:2285".into(),
        confidence: Confidence::Exact,
        partition: Some(TopicPartition { topic: "topicA".into(), partition: 2 }),
        evidence: vec![
            evidence(EvidenceKind::FileOp, 2, 532, handler, "write of 2009 bytes to topicA-2 took 530 ms"),
            evidence(
                EvidenceKind::OffCpu,
                2,
                531,
                handler,
                "of which 529 ms off the CPU in wait_transaction_locked",
            ),
            evidence(EvidenceKind::Kernel, 0, 531, None, COMMIT),
            evidence(
                EvidenceKind::BlockIo,
                1,
                521,
                Some(("jbd2/loop0-8", 312)),
                "loop0: write of 45056 bytes at sector 2098920 took 520 ms (jbd2/loop0-8)",
            ),
        ],
        advice: vec![JOURNAL_ADVICE],
        losses: vec!["3 probe events at 12:11:36".into()],
        kafka: None,
        doubts: Vec::new(),
    }
}

pub(crate) fn waiting() -> Verdict {
    let request = Request { correlation_id: 9, ..produce(Nanos(119_000_000)) };
    let lock =
        "waited 110 ms for topicA-2's log lock, held by data-plane-kafka-request-handler-24 (thread 4478)";
    let mut evidence_found = own_write().evidence;
    let wait = evidence(EvidenceKind::LockWait, 3, 113, Some(("data-plane-kafk", 4_478)), lock);
    let waiter = Waiter { tid: 4_484, thread: "data-plane-kafka-request-handler-30".into() };
    evidence_found.insert(0, Evidence { waiter: Some(waiter), ..wait });
    Verdict {
        stages: stages(&request, &[(Stage::Lock, Nanos(110_000_000)), (Stage::Append, Nanos(300_000))]),
        stage_spans: spans(&request, &[(Stage::Lock, Nanos(110_000_000)), (Stage::Append, Nanos(300_000))]),
        request,
        chain: vec![Cause::LogLock, Cause::JournalCommit],
        confidence: Confidence::Strong,
        evidence: evidence_found,
        losses: Vec::new(),
        ..own_write()
    }
}

/// A request behind `ahead` others of its connection. The first of them waited for the lock.
pub(crate) fn behind(ahead: usize) -> Verdict {
    let request = Request { correlation_id: 10, ..produce(Nanos(116_000_000)) };
    let behind = "waited 112 ms behind request 9 (PRODUCE) of the same connection, which took 119 ms";
    let mut evidence_found = waiting().evidence;
    evidence_found.insert(0, evidence(EvidenceKind::Request, 0, 119, None, behind));
    Verdict {
        stages: stages(&request, &[(Stage::HeadOfLine, Nanos(112_000_000)), (Stage::Append, Nanos(5_000))]),
        stage_spans: spans(
            &request,
            &[(Stage::HeadOfLine, Nanos(112_000_000)), (Stage::Append, Nanos(5_000))],
        ),
        request,
        chain: [vec![Cause::HeadOfLine; ahead], waiting().chain].concat(),
        evidence: evidence_found,
        partition: None,
        ..waiting()
    }
}

fn unexplained() -> Verdict {
    let request = Request {
        client_id: Some(HOSTILE.into()),
        error: Some(HOSTILE.into()),
        partitions: vec![partition(HOSTILE, 0, &[HOSTILE, "2"]), partition("topicB", 1, &[])],
        ..produce(Nanos(2_100_000_000))
    };
    Verdict {
        stages: stages(&request, &[]),
        stage_spans: spans(&request, &[]),
        request,
        cause: Cause::Unobserved,
        chain: vec![Cause::Unobserved],
        root: "unobserved".into(),
        confidence: Confidence::Weak,
        partition: None,
        evidence: vec![evidence(EvidenceKind::Request, 0, 1, Some((HOSTILE, 1)), HOSTILE)],
        advice: Vec::new(),
        losses: vec![HOSTILE.into()],
        kafka: None,
        doubts: vec![Doubt {
            stage: Stage::Unobserved,
            time: Nanos::from_millis(7),
            what: HOSTILE.to_owned(),
            tells: "lock-waits, which was not watched: run with --flight-recorder always".to_owned(),
        }],
    }
}

/// A request whose only write was quick.
fn ruled_out() -> Verdict {
    let request = produce(Nanos(149_000_000));
    let handler = Some(("data-plane-kafk", 4_478));
    let write = "write of 2009 bytes at offset 0 of topicA-2/00000000000000000000.log took 1.0 ms";
    Verdict {
        stages: stages(&request, &[(Stage::Append, Nanos(1_000_000))]),
        stage_spans: spans(&request, &[(Stage::Append, Nanos(1_000_000))]),
        request,
        evidence: vec![evidence(EvidenceKind::FileOp, 2, 3, handler, write)],
        losses: Vec::new(),
        ..unexplained()
    }
}

/// A request with its own slow write, and requests that waited behind it. Also two unexplained ones.
pub(crate) fn verdicts() -> Vec<Verdict> {
    vec![own_write(), waiting(), behind(1), behind(3), unexplained(), ruled_out()]
}

fn tls() -> TlsTotals {
    let mut totals = TlsTotals::default();
    totals.add("10.0.0.1:9093".parse().unwrap(), TlsCount { connections: 3, bytes: 1_234_567 });
    totals
}

pub(crate) fn conclusion() -> Conclusion {
    let time = |verdicts: &[Verdict]| verdicts.iter().filter_map(|verdict| verdict.request.latency()).sum();
    let (journal, other) = (time(&[own_write(), waiting()]), time(&[unexplained()]));
    let root = |root: &str, cause, text: &str, requests, time, slowest: Verdict| RootTotal {
        root: root.into(),
        cause,
        text: text.to_owned(),
        requests,
        time,
        slowest: slowest.request.latency().unwrap(),
    };
    let total = |cause, requests, time, slowest: Verdict| {
        let (slowest, api) = (slowest.request.latency().unwrap(), Some("PRODUCE"));
        CauseTotal { cause, requests, time, slowest, api }
    };
    Conclusion {
        summary: Summary {
            requests: 12_345,
            slow: 40,
            not_judged: vec![("FETCH", 12)],
            by_cause: vec![
                total(Cause::Unobserved, 1, other, unexplained()),
                total(Cause::JournalCommit, 39, journal, own_write()),
            ],
            by_root: vec![
                root("unobserved", Cause::Unobserved, "", 1, other, unexplained()),
                root("journal-commit:loop0:2285", Cause::JournalCommit, COMMIT, 37, journal, own_write()),
                root(
                    "journal-commit:loop0:2290",
                    Cause::JournalCommit,
                    "jbd2 commit 2290 on loop0",
                    2,
                    journal,
                    waiting(),
                ),
            ],
            joins: JoinStats { by_crc: 12_000, by_base_offset: 3, unjoined: 1, not_written: 2 },
            losses: vec![
                (LossKind::PacketsDropped, 0),
                (LossKind::ProbeEventsDropped, 3),
                (LossKind::SourceDown, 95),
            ],
            loss_details: vec![
                LossDetail {
                    kind: LossKind::ProbeEventsDropped,
                    detail: "the kernel skipped a probe".into(),
                    count: 3,
                },
                LossDetail {
                    kind: LossKind::SourceDown,
                    detail: format!("the source packets is off: {HOSTILE}").into(),
                    count: 95,
                },
            ],
            tls: tls(),
        },
        slower_than: Nanos::from_millis(100),
        is_of_one_request: false,
        asks_why_not: false,
        agreement: None,
        lag: None,
        unobservable: vec![Unobservable {
            what: "waits for Java locks".to_owned(),
            why: "no JVM source in this version; they are inferred from the order of appends".to_owned(),
        }],
        notes: vec![format!("the recorder was killed while {HOSTILE}")],
    }
}

pub(crate) fn examination() -> Examination {
    let hook = |purpose: &str, mechanism: &str, missing: Option<&str>| Hook {
        purpose: purpose.to_owned(),
        mechanism: mechanism.to_owned(),
        missing: missing.map(str::to_owned),
    };
    let fact = |name: &str, value: &str| Fact { name: name.to_owned(), value: value.to_owned() };
    Examination {
        live: true,
        facts: vec![fact("kernel", "6.12.0"), fact("BTF", "/sys/kernel/btf/vmlinux"), fact("odd", HOSTILE)],
        hooks: vec![
            hook("file writes", "tp_btf/sys_enter", None),
            hook("journal commits", "tp_btf/jbd2_run_stats", Some("this kernel has no jbd2")),
        ],
        brokers: vec![BrokerFacts {
            pid: 4_400,
            node_id: Some("1".to_owned()),
            listeners: vec!["PLAINTEXT://0.0.0.0:9092".to_owned()],
            log_dirs: vec![format!("/data/{HOSTILE}")],
            facts: vec![Fact { name: "network".to_owned(), value: format!("its own {HOSTILE}") }],
        }],
        watches: vec![WatchFacts {
            pid: 5_100,
            mode: "always-on".to_owned(),
            programs_cpus: Some(0.0213),
            process_cpus: 0.0025,
            down: vec![OutageFacts {
                since_ns: 1_753_000_000_000_000_000,
                purposes: vec!["requests".to_owned(), "replicas".to_owned()],
                why: format!("no packets were captured: Network is down {HOSTILE}"),
            }],
        }],
        costs: vec![
            PlanCost {
                plan: "always-on".to_owned(),
                programs: [("receive", 2.0, 640.0), ("switch", 4.5, 560.5)]
                    .map(|(program, runs_per_request, ns_per_request)| ProgramFacts {
                        program: program.to_owned(),
                        runs_per_request,
                        ns_per_request,
                    })
                    .to_vec(),
                missing: None,
            },
            PlanCost { plan: "full".to_owned(), programs: Vec::new(), missing: Some(HOSTILE.to_owned()) },
        ],
        remedies: vec![Remedy {
            problem: "journal commits cannot be seen: this kernel has no jbd2".to_owned(),
            action: "modprobe ext4".to_owned(),
        }],
    }
}
