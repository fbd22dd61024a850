//! What the JVM reports: the injected lock, roll, page or pause must be named with its holder, and nothing of another
//! thread, partition or process.

use std::sync::Arc;

use model::{
    Cause, Confidence, Event, EvidenceKind, FileKind, FileOp, FileOpKind, JvmPause, JvmPauseKind, Lock,
    LockHolder, LockKind, LockSource, LockWait, Nanos, OffCpu, Row, Stage, Verdict,
};
use proptest::prelude::*;

use super::stages::{numbered, read};
use super::{JOURNAL_STACK, append, commit, io, ms, off_cpu, op, request, request_event, run};

const APPEND: &str = "kafka.server.KafkaRequestHandler.run;kafka.server.KafkaApis.handleProduceRequest;kafka.server.ReplicaManager.appendRecords;kafka.cluster.Partition.appendRecordsToLeader;kafka.log.UnifiedLog.append;kafka.log.UnifiedLog.$anonfun$append$2";
const INDEX: &str = "kafka.server.KafkaApis.handleProduceRequest;kafka.log.UnifiedLog.append;kafka.log.LogSegment.append;kafka.log.OffsetIndex.append;kafka.utils.CoreUtils$.inLock;java.util.concurrent.locks.ReentrantLock.lock";

fn us(n: i64) -> Nanos {
    Nanos::from_micros(n)
}

fn handler(number: u32) -> Arc<str> {
    format!("data-plane-kafka-request-handler-{number}").into()
}

pub(super) fn monitor(tid: u32, start: Nanos, end: Nanos, owner: Option<u32>) -> LockWait {
    LockWait {
        start,
        end,
        pid: 1,
        tid,
        thread: handler(tid),
        lock: Lock { kind: LockKind::Monitor, class: "java.lang.Object".into(), address: 0x7f00 },
        holder: owner.map(|tid| LockHolder { tid: Some(tid), thread: handler(tid) }),
        stack: APPEND.into(),
        source: LockSource::Jfr,
    }
}

pub(super) fn locked(wait: LockWait) -> Event {
    Event::LockWait(Box::new(wait))
}

fn of(verdicts: &[Verdict], number: i32) -> &Verdict {
    verdicts.iter().find(|verdict| verdict.request.correlation_id == number).unwrap()
}

/// The four requests of the tail-latency case as the JVM reports them: each waiter got the lock from the waiter
/// before it, and only the first from the thread that delayed all of them.
fn four_requests() -> Vec<Event> {
    let mut events = vec![
        off_cpu(4462, us(1_000_900), ms(1_126), JOURNAL_STACK),
        op(append(4462, 6, us(1_000_050), ms(1_126), 1)),
        request_event(request(1, 6, 1_000, 1_127, 1)),
    ];
    let mut owner = 4462;
    for (i, (tid, since)) in [(4484, 1_007), (4499, 1_007), (4467, 1_012)].into_iter().enumerate() {
        let i = i as i64;
        let start = us(1_126_100 + 100 * i);
        events.push(op(append(tid, 6, start, start + us(70), 10 + i as u32)));
        events.push(request_event(request(10 + i as i32, 6, since - 1, 1_128, 10 + i as u32)));
        events.push(locked(monitor(tid, ms(since), start - us(20), Some(owner))));
        owner = tid;
    }
    events.push(commit(2285, 1_000, 1_140));
    events
}

#[test]
fn each_waiter_names_the_lock_its_holder_and_the_holder_write() {
    let (verdicts, summary) = run(four_requests());
    assert_eq!((verdicts.len(), summary.by_root.len()), (4, 1));
    for (number, waited) in [(10, 119), (11, 119), (12, 114)] {
        let verdict = of(&verdicts, number);
        assert_eq!(verdict.chain, [Cause::LogLock, Cause::JournalCommit]);
        assert_eq!(verdict.confidence, Confidence::Exact);
        assert_eq!(&*verdict.root, "journal-commit:loop0:2285");
        assert_eq!(verdict.stages.of(Stage::Lock).as_millis_rounded(), waited);
        assert_eq!(Some(verdict.stages.total()), verdict.request.latency());
        let wait = &verdict.evidence[0];
        assert_eq!((wait.kind, wait.tid), (EvidenceKind::LockWait, Some(4462)));
        let expected = format!(
            "waited {waited} ms for topicF-6's log lock, held by data-plane-kafka-request-handler-4462 (thread 4462)"
        );
        assert!(wait.text.starts_with(&expected), "{}", wait.text);
        assert!(verdict.evidence[1].text.starts_with("write of 498 bytes at offset 1000 of topicF-6/"));
        assert!(verdict.evidence.iter().any(|seen| seen.text.starts_with("jbd2 commit 2285")));
    }
}

#[test]
fn late_jvm_reports_give_the_same_verdicts() {
    let key = |verdict: &Verdict| verdict.request.correlation_id;
    let sorted = |mut verdicts: Vec<Verdict>| {
        verdicts.sort_by_key(key);
        verdicts
    };
    let expected = sorted(run(four_requests()).0);
    let (late, others): (Vec<_>, Vec<_>) =
        four_requests().into_iter().partition(|event| matches!(event, Event::LockWait(_)));
    let mut events = others.clone();
    // Three seconds of other requests pass before the JVM's Flight Recorder passes its buffers on.
    events.extend((0..30).map(|i| {
        request_event(request(1_000 + i, 0, 1_200 + i64::from(i) * 100, 1_201 + i64::from(i) * 100, 9))
    }));
    events.extend(late.into_iter().rev());
    assert_eq!(sorted(run(events).0), expected);
}

#[test]
fn lock_wait_of_another_thread_or_purpose_explains_nothing() {
    let slow = || {
        vec![
            op(append(4462, 6, ms(1_000), ms(1_126), 1)),
            // Long after the holder: nothing can be inferred.
            op(append(7, 6, ms(1_180), ms(1_181), 2)),
            request_event(request(2, 6, 1_001, 1_182, 2)),
        ]
    };
    let cause_with = |wait: LockWait| {
        let (verdicts, _) = run(slow().into_iter().chain([locked(wait)]));
        (of(&verdicts, 2).cause, of(&verdicts, 2).stages.of(Stage::Lock))
    };
    let ours = || monitor(7, ms(1_002), ms(1_179), Some(4462));
    assert_eq!(cause_with(ours()), (Cause::LogLock, ms(177)));
    let nothing = (Cause::Unobserved, Nanos::ZERO);
    assert_eq!(cause_with(LockWait { tid: 8, ..ours() }), nothing);
    let fetch = "kafka.server.KafkaApis.handleFetchRequest;kafka.log.UnifiedLog.maybeIncrementHighWatermark";
    assert_eq!(cause_with(LockWait { stack: fetch.into(), ..ours() }), nothing);
    assert_eq!(cause_with(LockWait { source: LockSource::ThreadDump, ..ours() }), nothing);
    let idle = Lock {
        kind: LockKind::Park,
        class: "java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject".into(),
        address: 1,
    };
    let receive = "kafka.server.KafkaRequestHandler.run;kafka.network.RequestChannel.receiveRequest";
    assert_eq!(cause_with(LockWait { lock: idle.clone(), stack: receive.into(), ..ours() }), nothing);
    assert_eq!(
        cause_with(LockWait { lock: idle, ..ours() }).0,
        Cause::JavaWait,
        "a condition, not the log's lock"
    );
    let before = LockWait { start: ms(800), end: ms(1_000), ..ours() };
    assert_eq!(cause_with(before), nothing, "the request had not come");
}

#[test]
fn lock_wait_for_the_previous_request_is_not_counted() {
    let (verdicts, _) = run([
        op(append(4462, 6, ms(900), ms(1_100), 1)),
        locked(monitor(7, ms(950), ms(1_100), Some(4462))),
        op(append(7, 6, ms(1_100), ms(1_101), 2)),
        op(append(7, 3, ms(1_150), ms(1_151), 3)),
        request_event(request(3, 3, 960, 1_152, 3)),
    ]);
    let verdict = of(&verdicts, 3);
    assert_eq!((verdict.cause, verdict.stages.of(Stage::Lock)), (Cause::Unobserved, Nanos::ZERO));
}

#[test]
fn stackless_lock_wait_right_before_an_append_is_for_the_log() {
    let bare = |start, end| LockWait {
        holder: None,
        stack: "".into(),
        source: LockSource::Usdt,
        ..monitor(7, start, end, None)
    };
    let events = |wait| {
        [
            off_cpu(4462, ms(1_001), ms(1_126), JOURNAL_STACK),
            op(append(4462, 6, ms(1_000), ms(1_126), 1)),
            locked(wait),
            op(append(7, 6, us(1_126_300), ms(1_127), 2)),
            request_event(request(2, 6, 1_001, 1_128, 2)),
            commit(2285, 1_000, 1_140),
        ]
    };
    let (verdicts, _) = run(events(bare(ms(1_002), us(1_126_200))));
    let verdict = of(&verdicts, 2);
    assert_eq!(verdict.chain, [Cause::LogLock, Cause::JournalCommit]);
    assert_eq!(verdict.confidence, Confidence::Exact);
    assert!(verdict.evidence[0].text.contains("topicF-6's log lock"), "{}", verdict.evidence[0].text);
    // Without the JVM the same is inferred.
    let (verdicts, _) = run(events(bare(ms(2), ms(3))));
    assert_eq!(of(&verdicts, 2).confidence, Confidence::Strong);
}

fn fsync(tid: u32, partition: i32, start: Nanos, end: Nanos) -> FileOp {
    FileOp {
        op: FileOpKind::Fsync,
        kind: FileKind::Snapshot,
        file: format!("topicF-{partition}/00000000000000009000.snapshot").into(),
        bytes: Some(0),
        batch: None,
        ..append(tid, partition, start, end, 0)
    }
}

#[test]
fn roll_fsync_is_the_cause_of_its_request_and_of_its_waiters() {
    let (verdicts, summary) = run([
        op(fsync(7, 6, ms(1_001), ms(1_140))),
        off_cpu(7, ms(1_002), ms(1_139), "ext4_sync_file;jbd2_log_wait_commit;schedule"),
        op(append(7, 6, us(1_140_500), ms(1_141), 1)),
        request_event(request(1, 6, 1_000, 1_142, 1)),
        locked(monitor(8, ms(1_010), us(1_141_050), Some(7))),
        op(append(8, 6, us(1_141_100), us(1_141_200), 2)),
        request_event(request(2, 6, 1_009, 1_142, 2)),
        commit(2285, 1_001, 1_140),
    ]);
    assert_eq!((summary.by_root.len(), &*summary.by_root[0].root), (1, "journal-commit:loop0:2285"));
    assert!(summary.by_root[0].text.starts_with("jbd2 commit 2285"), "{}", summary.by_root[0].text);
    let own = of(&verdicts, 1);
    assert_eq!(own.chain, [Cause::RollFsync, Cause::JournalCommit]);
    assert_eq!(own.confidence, Confidence::Strong, "which transaction an fsync waits for is not known");
    assert!(own.evidence[0].text.starts_with("fsync of topicF-6/"), "{}", own.evidence[0].text);
    assert_eq!((own.stages.of(Stage::Handler), own.stages.of(Stage::Append)), (ms(139), us(500)));
    let waiter = of(&verdicts, 2);
    assert_eq!(waiter.chain, [Cause::LogLock, Cause::RollFsync, Cause::JournalCommit]);
    assert_eq!(waiter.confidence, Confidence::Strong);
    assert!(waiter.evidence.iter().any(|seen| seen.text.starts_with("jbd2 commit 2285")), "the way goes on");
    for verdict in &verdicts {
        assert_eq!(Some(verdict.stages.total()), verdict.request.latency());
    }
}

#[test]
fn infers_a_roll_waiter_without_the_jvm_despite_a_server_log_write() {
    let logged = FileOp {
        kind: FileKind::Other,
        file: "/var/log/kafka/server.log".into(),
        topic_partition: None,
        batch: None,
        ..append(7, 6, us(1_140_050), us(1_140_100), 0)
    };
    let (verdicts, _) = run([
        op(fsync(7, 6, ms(1_001), ms(1_140))),
        op(logged),
        op(append(7, 6, us(1_140_500), ms(1_141), 1)),
        request_event(request(1, 6, 1_000, 1_142, 1)),
        op(append(8, 6, us(1_141_100), us(1_141_200), 2)),
        request_event(request(2, 6, 1_009, 1_142, 2)),
    ]);
    assert_eq!(of(&verdicts, 1).chain, [Cause::RollFsync]);
    let waiter = of(&verdicts, 2);
    assert_eq!(waiter.chain, [Cause::LogLock, Cause::RollFsync]);
    assert_eq!(waiter.stages.longest(), Stage::Lock);
}

#[test]
fn infers_a_roll_waiter_that_reads_before_its_append() {
    let read = FileOp { op: FileOpKind::Read, batch: None, ..append(8, 6, us(1_141_100), us(1_141_101), 0) };
    let (verdicts, _) = run([
        op(fsync(7, 6, ms(1_001), ms(1_140))),
        op(append(7, 6, us(1_140_500), ms(1_141), 1)),
        op(read),
        op(append(8, 6, us(1_141_110), us(1_141_200), 2)),
        request_event(request(2, 6, 1_009, 1_142, 2)),
    ]);
    assert_eq!(verdicts[0].chain, [Cause::LogLock, Cause::RollFsync]);
    assert_eq!(verdicts[0].stages.longest(), Stage::Lock);
}

#[test]
fn roll_is_recognized_despite_run_queue_time_before_the_append() {
    let cause = |without_cpu_from: i64| {
        let away = OffCpu {
            start: us(without_cpu_from),
            end: us(1_145_400),
            pid: 1,
            tid: 7,
            thread: "data-plane-kafk".into(),
            preempted: true,
            stack: "".into(),
            ..Row::empty()
        };
        let (verdicts, _) = run([
            op(fsync(7, 6, ms(1_001), ms(1_140))),
            Event::OffCpu(Box::new(away)),
            op(append(7, 6, us(1_145_500), ms(1_146), 1)),
            request_event(request(1, 6, 1_000, 1_147, 1)),
        ]);
        of(&verdicts, 1).cause
    };
    assert_eq!(cause(1_141_000), Cause::RollFsync);
    assert_eq!(cause(1_144_000), Cause::Unobserved, "it computed for four milliseconds");
}

#[test]
fn fsync_of_another_partition_or_thread_or_time_is_no_roll() {
    for other in [
        fsync(7, 5, ms(1_001), ms(1_140)),
        fsync(8, 6, ms(1_001), ms(1_140)),
        fsync(7, 6, ms(1_001), ms(1_110)),
    ] {
        let (verdicts, _) = run([
            op(other),
            op(append(7, 6, us(1_140_500), ms(1_141), 1)),
            request_event(request(1, 6, 1_000, 1_142, 1)),
        ]);
        assert_eq!(of(&verdicts, 1).cause, Cause::Unobserved);
    }
}

#[test]
fn log_lock_wait_includes_the_flush_of_the_holder() {
    let mut flush = fsync(7, 6, us(1_002_100), ms(1_140));
    (flush.kind, flush.op) = (FileKind::Log, FileOpKind::Fdatasync);
    let named = |flush: FileOp| {
        let (verdicts, _) = run([
            op(append(7, 6, ms(1_001), ms(1_002), 1)),
            op(flush),
            op(append(8, 6, us(1_140_200), us(1_140_300), 2)),
            request_event(request(2, 6, 1_003, 1_141, 2)),
        ]);
        verdicts[0].chain.clone()
    };
    let elsewhere = FileOp {
        topic_partition: Some(model::TopicPartition { topic: "topicF".into(), partition: 5 }),
        ..flush.clone()
    };
    assert_eq!(named(flush), [Cause::LogLock, Cause::RollFsync]);
    assert_eq!(named(elsewhere), [Cause::Unobserved], "a flush of another partition's log");
}

#[test]
fn flush_after_the_write_is_roll_fsync() {
    let mut flush = fsync(7, 6, us(1_002_100), ms(1_140));
    flush.kind = FileKind::Log;
    flush.op = FileOpKind::Fdatasync;
    let (verdicts, _) = run([
        op(append(7, 6, ms(1_001), ms(1_002), 1)),
        op(flush),
        request_event(request(1, 6, 1_000, 1_142, 1)),
    ]);
    assert_eq!(verdicts[0].chain, [Cause::RollFsync]);
    assert_eq!(verdicts[0].stages.of(Stage::Handler), ms(1_140) - us(1_002_100));
}

#[test]
fn a_chain_of_locks_is_followed_to_its_root() {
    // 9 flushes an index under its lock; 8 holds the log and waits for that lock; 7 waits for the log.
    let index = Lock {
        kind: LockKind::Park,
        class: "java.util.concurrent.locks.ReentrantLock$NonfairSync".into(),
        address: 5,
    };
    let flush = FileOp { op: FileOpKind::Msync, kind: FileKind::Index, ..fsync(9, 6, ms(1_001), ms(1_140)) };
    let (verdicts, _) = run([
        op(flush),
        op(append(8, 6, us(1_002_000), us(1_002_300), 1)),
        locked(LockWait {
            lock: index,
            stack: INDEX.into(),
            ..monitor(8, us(1_002_400), us(1_140_100), Some(9))
        }),
        locked(monitor(7, us(1_003_000), us(1_140_300), Some(8))),
        op(append(7, 6, us(1_140_400), us(1_140_500), 2)),
        request_event(request(2, 6, 1_002, 1_142, 2)),
    ]);
    let verdict = of(&verdicts, 2);
    assert_eq!(verdict.chain, [Cause::LogLock, Cause::LogLock, Cause::RollFsync]);
    assert_eq!(verdict.confidence, Confidence::Exact);
    assert!(
        verdict.evidence[0].text.contains("topicF-6's log lock, held by data-plane-kafka-request-handler-8")
    );
    assert!(verdict.evidence[1].text.contains("index lock"), "{}", verdict.evidence[1].text);
    assert!(verdict.evidence[1].text.contains("held by data-plane-kafka-request-handler-9"));
}

#[test]
fn threads_that_wait_for_each_other_are_followed_once() {
    let (verdicts, _) = run([
        locked(monitor(7, ms(1_001), ms(1_140), Some(8))),
        locked(monitor(8, ms(1_001), ms(1_140), Some(9))),
        locked(monitor(9, ms(1_001), ms(1_140), Some(7))),
        op(append(7, 6, ms(1_140), ms(1_141), 2)),
        request_event(request(2, 6, 1_000, 1_142, 2)),
    ]);
    assert_eq!(of(&verdicts, 2).cause, Cause::LogLock);
    assert_eq!(of(&verdicts, 2).stages.of(Stage::Lock), ms(139));
}

fn pause(kind: JvmPauseKind, start: i64, end: i64, reach: i64) -> JvmPause {
    JvmPause {
        start: ms(start),
        end: ms(end),
        pid: 1,
        kind,
        operation: "G1New".into(),
        cause: "G1 Evacuation Pause".into(),
        gc_id: Some(41),
        time_to_safepoint: Some(ms(reach)),
    }
}

fn stopped(pause: JvmPause) -> Event {
    Event::JvmPause(Box::new(pause))
}

/// Two requests during a pause: one before its append, one before its answer.
fn two_stopped() -> Vec<Event> {
    vec![
        op(append(7, 6, ms(1_130), ms(1_131), 1)),
        request_event(request(1, 6, 1_000, 1_132, 1)),
        op(append(8, 5, ms(1_004), ms(1_005), 2)),
        request_event(request(2, 5, 1_003, 1_131, 2)),
    ]
}

#[test]
fn gc_pause_is_one_root_of_all_stopped_requests() {
    let with = |pauses: Vec<JvmPause>| run(two_stopped().into_iter().chain(pauses.into_iter().map(stopped)));
    let gc = || pause(JvmPauseKind::Gc, 1_006, 1_129, 2);
    let (verdicts, summary) = with(vec![gc()]);
    assert_eq!((summary.by_root.len(), &*summary.by_root[0].root), (1, "gc-pause:1:41"));
    for verdict in &verdicts {
        assert_eq!((verdict.cause, verdict.confidence), (Cause::GcPause, Confidence::Exact));
        assert_eq!(verdict.evidence[0].kind, EvidenceKind::Gc);
        assert_eq!(
            verdict.evidence[0].text,
            "the JVM stopped all threads for 123 ms: G1New (G1 Evacuation Pause), 2.0 ms of it until every thread had stopped"
        );
        assert_eq!(Some(verdict.stages.total()), verdict.request.latency());
    }
    // The safepoint around it is the same pause.
    let around = JvmPause {
        gc_id: None,
        operation: "G1CollectForAllocation".into(),
        ..pause(JvmPauseKind::Safepoint, 1_005, 1_130, 2)
    };
    let (verdicts, summary) = with(vec![around, gc()]);
    assert_eq!((verdicts[0].cause, summary.by_root.len()), (Cause::GcPause, 1));
    for other in [
        JvmPause { pid: 2, ..gc() },
        pause(JvmPauseKind::Gc, 900, 1_000, 1),
        pause(JvmPauseKind::Gc, 1_060, 1_100, 1),
        pause(JvmPauseKind::Gc, 1_200, 1_400, 1),
    ] {
        let (verdicts, _) = with(vec![other]);
        assert!(verdicts.iter().all(|verdict| verdict.cause == Cause::Unobserved));
    }
}

#[test]
fn pause_ends_at_the_first_call_of_a_resumed_thread() {
    let verdict = |read_at: i64, reach: Option<Nanos>| {
        let ours = numbered(request(1, 6, 1_020, 1_170, 1));
        let cleanup = JvmPause {
            operation: "Cleanup".into(),
            cause: "".into(),
            gc_id: None,
            time_to_safepoint: reach,
            ..pause(JvmPauseKind::Safepoint, 1_000, 1_160, 0)
        };
        let (verdicts, _) = run([
            stopped(cleanup),
            read(&ours, ms(read_at), us(read_at * 1_000 + 10)),
            op(append(7, 6, ms(1_168), ms(1_169), 1)),
            request_event(ours),
        ]);
        (verdicts[0].cause, verdicts[0].confidence)
    };
    let reach = Some(us(100));
    assert_eq!(verdict(1_161, reach), (Cause::Safepoint, Confidence::Exact));
    assert_eq!(verdict(1_040, reach).0, Cause::Unobserved, "20 ms of 150");
    assert_eq!(verdict(1_130, reach), (Cause::Safepoint, Confidence::Strong), "110 ms of 150");
    assert_eq!(verdict(1_150, reach), (Cause::Safepoint, Confidence::Exact), "not much sooner than it says");
    assert_eq!(verdict(1_040, Some(ms(60))).0, Cause::Safepoint, "threads were still coming");
    assert_eq!(verdict(1_040, None).0, Cause::Safepoint, "they may have been");
}

#[test]
fn pause_without_slow_requests_gives_no_verdict() {
    let (verdicts, _) = run([
        stopped(pause(JvmPauseKind::Gc, 1_000, 1_050, 1)),
        op(append(7, 6, ms(1_060), ms(1_061), 1)),
        request_event(request(1, 6, 1_000, 1_062, 1)),
    ]);
    assert_eq!(verdicts, []);
}

#[test]
fn write_continues_during_a_jvm_pause() {
    let (verdicts, _) = run([
        stopped(pause(JvmPauseKind::Gc, 1_002, 1_139, 1)),
        off_cpu(7, ms(1_002), ms(1_139), JOURNAL_STACK),
        op(append(7, 6, ms(1_001), ms(1_140), 1)),
        request_event(request(1, 6, 1_000, 1_141, 1)),
        commit(2285, 1_000, 1_150),
    ]);
    assert_eq!(verdicts[0].chain, [Cause::JournalCommit]);
}

#[test]
fn lock_waiter_has_the_gc_pause_of_the_holder() {
    let (verdicts, _) = run([
        stopped(pause(JvmPauseKind::Gc, 1_003, 1_139, 1)),
        op(append(8, 6, us(1_002_000), us(1_002_300), 1)),
        locked(monitor(7, us(1_001_900), us(1_140_300), Some(8))),
        op(append(7, 6, us(1_140_400), us(1_140_500), 2)),
        request_event(request(2, 6, 1_001, 1_142, 2)),
    ]);
    assert_eq!(verdicts[0].chain, [Cause::LogLock, Cause::GcPause]);
}

/// A safepoint that took 120 ms to reach. A fault may have kept the JVM waiting.
fn long_to_reach(fault: Option<FileOp>) -> Vec<Event> {
    let stop = JvmPause {
        operation: "RevokeBias".into(),
        cause: "".into(),
        gc_id: None,
        ..pause(JvmPauseKind::Safepoint, 1_006, 1_129, 120)
    };
    let mut events = two_stopped();
    events.push(stopped(stop));
    events.extend(fault.map(op));
    events
}

fn fault(kind: FileKind, start: i64, end: i64) -> FileOp {
    FileOp {
        op: FileOpKind::MmapFault,
        kind,
        file: "topicF-2/00000000000000000000.index".into(),
        batch: None,
        ..append(44, 2, ms(start), ms(end), 0)
    }
}

#[test]
fn slow_safepoint_has_the_page_fault_it_waited_for_as_its_cause() {
    let (verdicts, _) = run(long_to_reach(None));
    assert_eq!(verdicts[0].chain, [Cause::Safepoint]);
    assert!(verdicts[0].evidence[0].text.contains("120 ms of it until every thread had stopped"));

    let (verdicts, summary) =
        run(long_to_reach(Some(fault(FileKind::Index, 1_004, 1_126))).into_iter().chain([io(1_004, 1_126)]));
    assert_eq!(summary.by_root.len(), 1);
    for verdict in &verdicts {
        assert_eq!(verdict.chain, [Cause::Safepoint, Cause::IndexPageFault, Cause::SlowDevice]);
        assert_eq!(verdict.confidence, Confidence::Strong);
        assert!(verdict.evidence.iter().any(|seen| seen.kind == EvidenceKind::BlockIo));
    }
    // Ended at another time, of another process, or too short to be what the JVM waited for.
    let elsewhere = FileOp { pid: 9, ..fault(FileKind::Index, 1_004, 1_126) };
    for other in [fault(FileKind::Index, 1_004, 1_090), elsewhere, fault(FileKind::Index, 1_100, 1_126)] {
        assert_eq!(run(long_to_reach(Some(other))).0[0].chain, [Cause::Safepoint]);
    }
    // Inside a system call the JVM does not wait for it.
    let call = FileOp { op: FileOpKind::Read, kind: FileKind::Other, ..fault(FileKind::Other, 1_003, 1_127) };
    let events = long_to_reach(Some(fault(FileKind::Index, 1_004, 1_126))).into_iter().chain([op(call)]);
    assert_eq!(run(events).0[0].chain, [Cause::Safepoint]);
}

#[test]
fn index_page_fault_of_the_same_thread_and_partition_is_named() {
    let ours = |tid, partition| FileOp {
        tid,
        topic_partition: append(7, partition, ms(0), ms(0), 0).topic_partition,
        ..fault(FileKind::Index, 1_002, 1_139)
    };
    let with = |fault: FileOp| {
        let (verdicts, _) = run([
            op(fault),
            op(append(7, 6, us(1_139_500), ms(1_140), 1)),
            request_event(request(1, 6, 1_000, 1_141, 1)),
        ]);
        verdicts[0].cause
    };
    assert_eq!(with(ours(7, 6)), Cause::IndexPageFault);
    assert_eq!(with(ours(7, 5)), Cause::Unobserved);
    assert_eq!(with(ours(8, 6)), Cause::Unobserved);
}

/// Any events of a few threads and partitions, plausible or not.
fn anything() -> impl Strategy<Value = Event> {
    let time = 0_i64..400;
    let span = (time, 0_i64..200).prop_map(|(start, length)| (ms(start), ms(start + length)));
    let tid = 7_u32..11;
    let owner = proptest::option::of(7_u32..11);
    prop_oneof![
        (span.clone(), tid.clone(), 5_i32..7, 0_u32..4)
            .prop_map(|(span, tid, of, crc)| op(append(tid, of, span.0, span.1, crc))),
        (span.clone(), tid.clone(), 5_i32..7).prop_map(|(span, tid, of)| op(fsync(tid, of, span.0, span.1))),
        (span.clone(), tid.clone(), owner)
            .prop_map(|(span, tid, owner)| locked(monitor(tid, span.0, span.1, owner))),
        (span.clone(), tid.clone()).prop_map(|(span, tid)| off_cpu(tid, span.0, span.1, JOURNAL_STACK)),
        (span.clone(), tid.clone(), 6_u32..11).prop_map(|(span, tid, waker)| {
            super::waker::parked(tid, span.0.0 / 1_000, span.1.0 / 1_000, waker, super::waker::WAKE)
        }),
        (span.clone(), 0_i64..50).prop_map(|(span, reach)| {
            let at = |time: Nanos| time.0 / 1_000_000;
            stopped(pause(JvmPauseKind::Gc, at(span.0), at(span.1), reach))
        }),
        (span.clone(), tid).prop_map(|(span, tid)| super::causes::anything_of(tid, span.0, span.1)),
        (span.clone(), 0_usize..7, 7_u32..11)
            .prop_map(|(span, kind, tid)| { super::causes::trouble_of_some_kind(kind, tid, span.0, span.1) }),
        (span, 5_i32..7, 0_u32..4, 0_i32..50, 0_i64..200).prop_map(|(span, of, crc, number, trickle)| {
            let (start, end) = (span.0.0 / 1_000_000, span.1.0 / 1_000_000);
            let mut some = request(number, of, start, end, crc);
            some.arrival_end = ms(start + trickle.min(end - start));
            (some.sequence, some.response_sequence) = (Some(100), Some(5_000));
            some.transactional_id = (number % 2 == 0).then(|| "payments".into());
            request_event(some)
        }),
    ]
}

proptest! {
    /// Stages add up to the latency, and roots never explain more than there was.
    #[test]
    fn stages_add_up_to_the_latency(events in proptest::collection::vec(anything(), 0..40)) {
        let (verdicts, _) = run(events);
        for verdict in verdicts {
            prop_assert_eq!(Some(verdict.stages.total()), verdict.request.latency());
            prop_assert!(verdict.stages.iter().all(|(_, time)| time >= Nanos::ZERO));
        }
    }

    /// The order of arrival never changes anything.
    #[test]
    fn arrival_order_does_not_change_verdicts(
        (events, shuffled) in proptest::collection::vec(anything(), 0..30)
            .prop_flat_map(|events| (Just(events.clone()), Just(events).prop_shuffle()))
    ) {
        let describe = |events| run(events).0.iter().map(|verdict| format!("{verdict:?}")).collect::<Vec<_>>();
        let (mut one, mut other) = (describe(events), describe(shuffled));
        one.sort();
        other.sort();
        prop_assert_eq!(one, other);
    }
}
