//! Requests to coordinators: answered when their record is in the coordinator's topic.

use model::{
    Cause, Confidence, CpuSample, Event, FileOp, FileOpKind, PartitionState, Request, RequestSource, Stage,
    TopicPartition, Verdict,
};

use super::host::preempted;
use super::stages::{numbered, read, us, write};
use super::{JOURNAL_STACK, append, commit, io, ms, off_cpu, op, request, request_event, run};

const OFFSETS: &str = "__consumer_offsets";
/// The partition of the group `billing`, of four.
const BILLING: i32 = 1;
/// Threads of the coordinator.
const FIRST: u32 = 50;
const SECOND: u32 = 51;

/// A commit of the offsets of a group, from 1,000 to 1,200 ms.
fn offset_commit(group: &str) -> Request {
    let plain = request(1, 6, 1_000, 1_200, 0);
    numbered(Request {
        api_key: 8,
        api: "OFFSET_COMMIT",
        acks: None,
        group_id: Some(group.into()),
        partitions: vec![model::Partition {
            bytes: 0,
            batches: Vec::new(),
            base_offset: None,
            ..plain.partitions[0].clone()
        }],
        ..plain
    })
}

/// An append to a coordinator's topic by one of its threads.
fn record(tid: u32, partition: i32, start: i64, end: i64) -> FileOp {
    FileOp {
        thread: "group-coordinat".into(),
        file: format!("{OFFSETS}-{partition}/00000000000000000000.log").into(),
        topic_partition: Some(TopicPartition { topic: OFFSETS.into(), partition }),
        ..append(tid, partition, ms(start), ms(end), start as u32)
    }
}

fn stalled(tid: u32, partition: i32, start: i64, end: i64) -> Vec<Event> {
    let stack = JOURNAL_STACK;
    vec![
        off_cpu(tid, us(start * 1_000 + 100), ms(end), stack),
        op(record(tid, partition, start, end)),
        commit(2285, start - 5, end + 1),
    ]
}

/// The topic's partitions, each with this many replicas.
fn partitions(count: i32, replicas: u32) -> Vec<Event> {
    let state = |partition| PartitionState { at: ms(0), topic: OFFSETS.into(), partition, replicas };
    (0..count).map(|partition| Event::PartitionState(state(partition))).collect()
}

/// The verdict on a commit that was read at 1,001 and answered at 1,200 ms.
fn committed(ours: &Request, events: Vec<Event>) -> Verdict {
    let own = [
        read(ours, us(1_000_900), ms(1_001)),
        write(ours, us(1_199_900), ms(1_200)),
        request_event(ours.clone()),
    ];
    let mut verdicts = run(events.into_iter().chain(own)).0;
    assert_eq!(verdicts.len(), 1);
    let verdict = verdicts.remove(0);
    assert_eq!(Some(verdict.stages.total()), verdict.request.latency());
    verdict
}

fn of_billing(events: Vec<Event>) -> Verdict {
    committed(&offset_commit("billing"), [partitions(4, 1), events].concat())
}

#[test]
fn offset_commit_waits_for_the_append_of_its_group_partition() {
    let verdict = of_billing(stalled(FIRST, BILLING, 1_020, 1_199));
    assert_eq!((&*verdict.chain, verdict.confidence), (&[Cause::JournalCommit][..], Confidence::Strong));
    assert_eq!(&*verdict.root, "journal-commit:loop0:2285");
    assert_eq!(verdict.partition.unwrap().to_string(), "__consumer_offsets-1");
    assert_eq!(verdict.stages.of(Stage::Append), ms(179));
    let transactional = Request { api_key: 28, api: "TXN_OFFSET_COMMIT", ..offset_commit("billing") };
    let verdict =
        committed(&transactional, [partitions(4, 1), stalled(FIRST, BILLING, 1_020, 1_199)].concat());
    assert_eq!(verdict.cause, Cause::JournalCommit);
}

#[test]
fn append_of_another_group_is_no_cause() {
    let unobserved = |events| assert_eq!(of_billing(events).cause, Cause::Unobserved);
    unobserved(stalled(FIRST, BILLING + 1, 1_020, 1_199));
    // It began before the request was read, and nothing of the group was written afterwards.
    unobserved(stalled(FIRST, BILLING, 990, 1_199));
    // A follower's copy of the partition, or the log cleaner's.
    let of_other = |thread: &str| {
        let mut events = stalled(FIRST, BILLING, 1_020, 1_199);
        events[1] = op(FileOp { thread: thread.into(), ..record(FIRST, BILLING, 1_020, 1_199) });
        events
    };
    unobserved(of_other("ReplicaFetcherT"));
    unobserved(of_other("kafka-log-clean"));
    let failed = Request { error_code: Some(16), ..offset_commit("billing") };
    let verdict = committed(&failed, [partitions(4, 1), stalled(FIRST, BILLING, 1_020, 1_199)].concat());
    assert_eq!(verdict.cause, Cause::Unobserved, "a coordinator that refuses appends nothing");
    let other = Request { group_id: None, ..offset_commit("billing") };
    assert_eq!(committed(&other, stalled(FIRST, BILLING, 1_020, 1_199)).cause, Cause::Unobserved);
}

#[test]
fn without_a_partition_count_only_a_single_append_is_joined() {
    let ours = offset_commit("billing");
    let alone = committed(&ours, stalled(FIRST, 3, 1_020, 1_199));
    assert_eq!(alone.cause, Cause::JournalCommit);
    let two = [stalled(FIRST, 3, 1_020, 1_199), vec![op(record(SECOND, 2, 1_190, 1_191))]].concat();
    assert_eq!(committed(&ours, two).cause, Cause::Unobserved);
}

/// An always-on watch does not see the group.
#[test]
fn commit_of_an_unseen_group_joins_the_append_right_before_its_response() {
    let unseen = |api_key, api| Request {
        group_id: None,
        seen_by: Some(RequestSource::SocketCalls),
        api_key,
        api,
        ..offset_commit("billing")
    };
    let (commit, quick) = (unseen(8, "OFFSET_COMMIT"), op(record(SECOND, 2, 1_190, 1_191)));
    let among_others = [partitions(4, 1), stalled(FIRST, 3, 1_020, 1_199), vec![quick]].concat();
    let verdict = committed(&commit, among_others.clone());
    assert_eq!((verdict.cause, verdict.confidence), (Cause::JournalCommit, Confidence::Strong));
    assert_eq!(committed(&unseen(22, "INIT_PRODUCER_ID"), among_others).cause, Cause::Unobserved);
    // The response came 30 ms after the last append.
    assert_eq!(committed(&commit, stalled(FIRST, 3, 1_020, 1_169)).cause, Cause::Unobserved);
    // The last append is another one, and quick.
    let followed = [stalled(FIRST, 3, 1_020, 1_169), vec![op(record(SECOND, 2, 1_198, 1_199))]].concat();
    assert_eq!(committed(&commit, followed).cause, Cause::Unobserved);
}

/// A broker numbers partitions from 0; a recording may contain any number.
#[test]
fn negative_partition_gives_no_partition_count() {
    let nonsense = |partition| PartitionState { at: ms(0), topic: OFFSETS.into(), partition, replicas: 1 };
    for partition in [-1, i32::MIN] {
        let state = vec![Event::PartitionState(nonsense(partition))];
        let two =
            [state, stalled(FIRST, 0, 1_020, 1_199), vec![op(record(SECOND, 2, 1_190, 1_191))]].concat();
        assert_eq!(committed(&offset_commit("billing"), two).cause, Cause::Unobserved);
    }
}

#[test]
fn a_quick_append_of_a_slow_commit_explains_nothing() {
    let quick = of_billing(vec![op(record(FIRST, BILLING, 1_190, 1_191)), commit(2285, 1_000, 1_200)]);
    assert_eq!(quick.cause, Cause::Unobserved);
}

#[test]
fn a_record_behind_another_of_its_partition_waits_for_the_coordinator() {
    for first in [FIRST, SECOND] {
        let ahead = stalled(first, BILLING, 990, 1_190);
        let verdict = of_billing([ahead, vec![op(record(FIRST, BILLING, 1_191, 1_192))]].concat());
        assert_eq!(verdict.chain, [Cause::CoordinatorBusy, Cause::JournalCommit], "thread {first}");
        assert_eq!((&*verdict.root, verdict.confidence), ("journal-commit:loop0:2285", Confidence::Strong));
        assert_eq!(verdict.stages.of(Stage::Queue), ms(189));
        assert_eq!(verdict.stages.of(Stage::Lock), ms(0));
    }
}

#[test]
fn record_waits_for_a_thread_that_appends_to_another_partition() {
    let elsewhere = stalled(FIRST, BILLING + 1, 990, 1_190);
    let ours = |tid| op(record(tid, BILLING, 1_191, 1_192));
    let verdict = of_billing([elsewhere.clone(), vec![ours(FIRST)]].concat());
    assert_eq!(verdict.chain, [Cause::CoordinatorBusy, Cause::JournalCommit]);
    // Another thread had appended, and was idle.
    let verdict = of_billing([elsewhere, vec![ours(SECOND)]].concat());
    assert_eq!(verdict.cause, Cause::Unobserved);
}

#[test]
fn response_waits_for_a_free_thread_after_the_append() {
    let ours = vec![op(record(FIRST, BILLING, 1_010, 1_011))];
    let busy = |threads: &[u32]| -> Vec<Event> {
        threads.iter().flat_map(|tid| stalled(*tid, BILLING + 1, 1_012, 1_199)).collect()
    };
    let known = vec![op(record(SECOND, BILLING + 1, 900, 901))];
    let all = of_billing([known.clone(), ours.clone(), busy(&[FIRST, SECOND])].concat());
    assert_eq!(all.chain, [Cause::CoordinatorBusy, Cause::JournalCommit]);
    let one = of_billing([known, ours, busy(&[FIRST])].concat());
    assert_eq!(one.cause, Cause::Unobserved, "another thread was free");
}

#[test]
fn response_may_wait_for_unobserved_followers() {
    let ours = vec![op(record(FIRST, BILLING, 1_010, 1_011))];
    let busy = stalled(FIRST, BILLING + 1, 1_012, 1_199);
    let replicated = [partitions(4, 3), ours, busy].concat();
    let verdict = committed(&offset_commit("billing"), replicated);
    assert_eq!(verdict.cause, Cause::Unobserved);
    assert!(verdict.doubts[0].what.contains("__consumer_offsets-1"), "{:?}", verdict.doubts);
}

#[test]
fn end_txn_waits_for_the_append_of_its_handler() {
    let topic: std::sync::Arc<str> = "__transaction_state".into();
    let (api, partitions) = ("END_TXN", vec![]);
    let ours =
        Request { api_key: 26, api, transactional_id: Some("pay".into()), partitions, ..offset_commit("") };
    let write_of = |thread: &str| {
        let partition = Some(TopicPartition { topic: topic.clone(), partition: 0 });
        let file = format!("{topic}-0/00000000000000000000.log").into();
        let own =
            FileOp { thread: thread.into(), file, topic_partition: partition, ..record(7, 0, 1_020, 1_199) };
        vec![off_cpu(7, us(1_020_100), ms(1_199), JOURNAL_STACK), op(own), commit(2285, 1_000, 1_200)]
    };
    let verdict = committed(&ours, write_of("data-plane-kafk"));
    assert_eq!((&*verdict.chain, verdict.confidence), (&[Cause::JournalCommit][..], Confidence::Strong));
    assert_eq!(verdict.stages.of(Stage::Append), ms(179));
    let completed_later = committed(&ours, write_of("TxnMarkerSender"));
    assert_eq!(completed_later.cause, Cause::Unobserved);
}

const METADATA: &str = "__cluster_metadata";
const RAFT: u32 = 60;
/// An fsync that waits for the device.
const FSYNC_STACK: &str =
    "do_fsync;ext4_sync_file;file_write_and_wait_range;folio_wait_writeback;io_schedule;schedule";

/// A request to the controller, from 1,000 to 1,200 ms.
fn to_controller(api_key: i16, api: &'static str) -> Request {
    Request { api_key, api, group_id: None, partitions: Vec::new(), ..offset_commit("") }
}

/// The raft thread's append to the cluster's metadata, and the fsync after it.
fn metadata(start: i64, synced: i64) -> Vec<Event> {
    let of = |op| FileOp {
        thread: "kafka-1-raft-io".into(),
        file: format!("{METADATA}-0/00000000000000000000.log").into(),
        topic_partition: Some(TopicPartition { topic: METADATA.into(), partition: 0 }),
        ..op
    };
    let write = of(append(RAFT, 0, ms(start), ms(start + 1), start as u32));
    let fsync =
        FileOp { op: FileOpKind::Fsync, batch: None, ..of(append(RAFT, 0, ms(start + 1), ms(synced), 0)) };
    vec![op(write), off_cpu(RAFT, us((start + 1) * 1_000 + 100), ms(synced), FSYNC_STACK), op(fsync)]
}

#[test]
fn controller_request_waits_for_the_metadata_fsync() {
    for (key, api) in
        [(19, "CREATE_TOPICS"), (58, "ENVELOPE"), (56, "ALTER_PARTITION"), (63, "BROKER_HEARTBEAT")]
    {
        let verdict =
            committed(&to_controller(key, api), [metadata(1_010, 1_198), vec![io(1_012, 1_198)]].concat());
        assert_eq!(verdict.chain, [Cause::MetadataFsync, Cause::SlowDevice], "{api}");
        assert_eq!(verdict.confidence, Confidence::Strong);
        assert_eq!(verdict.partition.unwrap().to_string(), "__cluster_metadata-0");
    }
    // Kafka 4.1 reads what it has appended before it forces it to the device.
    let [write, wait, fsync] = metadata(1_010, 1_198).try_into().unwrap();
    let Event::FileOp(written) = write.clone() else { unreachable!() };
    let (start, end) = (us(1_011_010), us(1_011_020));
    let look = op(FileOp { op: FileOpKind::Read, start, end, batch: None, ..*written });
    let events = vec![write, look, wait, fsync, io(1_012, 1_198)];
    let verdict = committed(&to_controller(19, "CREATE_TOPICS"), events);
    assert_eq!(verdict.chain, [Cause::ControllerBusy, Cause::MetadataFsync, Cause::SlowDevice]);
    // Not a request to the controller.
    let verdict = committed(&to_controller(10, "FIND_COORDINATOR"), metadata(1_010, 1_198));
    assert_eq!(verdict.cause, Cause::Unobserved);
}

#[test]
fn fsync_of_another_partition_or_an_earlier_one_is_no_cause() {
    let ours = to_controller(19, "CREATE_TOPICS");
    assert_eq!(committed(&ours, metadata(900, 999)).cause, Cause::Unobserved);
    let elsewhere = metadata(1_010, 1_198).into_iter().map(|event| match event {
        Event::FileOp(seen) => op(FileOp {
            topic_partition: Some(TopicPartition { topic: "orders".into(), partition: 0 }),
            thread: "data-plane-kafk".into(),
            ..*seen
        }),
        other => other,
    });
    assert_eq!(committed(&ours, elsewhere.collect()).cause, Cause::Unobserved);
    let refused = Request { error_code: Some(41), ..ours };
    let quick = [metadata(1_010, 1_012), vec![]].concat();
    assert_eq!(committed(&refused, quick).cause, Cause::Unobserved);
}

#[test]
fn request_without_an_append_waits_for_the_busy_controller() {
    let heartbeat = to_controller(63, "BROKER_HEARTBEAT");
    let verdict = committed(&heartbeat, [metadata(990, 1_198), vec![io(992, 1_198)]].concat());
    assert_eq!(verdict.chain, [Cause::ControllerBusy, Cause::MetadataFsync, Cause::SlowDevice]);
    assert_eq!(verdict.confidence, Confidence::Strong);
    // The answer did not follow, or the thread was idle for most of the time.
    assert_eq!(committed(&heartbeat, metadata(990, 1_120)).cause, Cause::Unobserved);
    assert_eq!(committed(&heartbeat, metadata(990, 1_050)).cause, Cause::Unobserved);
    let verdict = committed(&to_controller(10, "FIND_COORDINATOR"), metadata(990, 1_198));
    assert_eq!(verdict.cause, Cause::Unobserved);
}

#[test]
fn metadata_change_behind_another_waits_for_the_controller() {
    let ours = to_controller(19, "CREATE_TOPICS");
    let verdict =
        committed(&ours, [metadata(990, 1_190), metadata(1_195, 1_198), vec![io(992, 1_190)]].concat());
    assert_eq!(verdict.chain, [Cause::ControllerBusy, Cause::MetadataFsync, Cause::SlowDevice]);
    assert_eq!(verdict.stages.of(Stage::Queue), ms(189));
}

#[test]
fn controller_on_the_cpu_is_the_cause_itself() {
    let sampled = |thread: &str, until: i64| -> Vec<Event> {
        let sample = |at| CpuSample {
            at: ms(at),
            period: ms(10),
            pid: 1,
            tid: 61,
            thread: thread.into(),
            stack: "".into(),
        };
        (1_000..until).step_by(10).map(|at| Event::CpuSample(Box::new(sample(at)))).collect()
    };
    let cause = |events| committed(&to_controller(19, "CREATE_TOPICS"), events).chain;
    assert_eq!(cause(sampled("quorum-controll", 1_200)), [Cause::ControllerBusy]);
    assert_eq!(cause(sampled("quorum-controll", 1_030)), [Cause::Unobserved]);
    assert_eq!(cause(sampled("kafka-log-clean", 1_200)), [Cause::Unobserved]);
    // It decides on a change before the raft thread, which is idle until then, can append it.
    let appended = |until| cause([sampled("quorum-controll", until), metadata(1_195, 1_197)].concat());
    assert_eq!(appended(1_190), [Cause::ControllerBusy]);
    assert_eq!(appended(1_030), [Cause::Unobserved]);
    // Its earlier decisions are appended meanwhile; the samples are far apart.
    let sparse = sampled("quorum-controll", 1_190).into_iter().step_by(2);
    let earlier = (1_010..1_190).step_by(12).flat_map(|at| metadata(at, at + 1));
    assert_eq!(cause(sparse.chain(earlier).chain(metadata(1_195, 1_197)).collect()), [Cause::ControllerBusy]);
    // A thread that waits for a CPU again and again has work, even if samples seldom hit it.
    let wanting = |until: i64, every: usize| {
        let known = sampled("quorum-controll", 1_190).into_iter().take(1);
        let waits = (1_005..until).step_by(every).map(|at| preempted(61, at, at + 2));
        cause(known.chain(waits).chain(metadata(1_195, 1_197)).collect())
    };
    assert_eq!(wanting(1_190, 20), [Cause::ControllerBusy]);
    assert_eq!(wanting(1_190, 60), [Cause::Unobserved]);
    assert_eq!(wanting(1_060, 20), [Cause::Unobserved]);
}

#[test]
fn sync_group_is_judged_by_the_append_of_its_assignment() {
    let ours = Request { api_key: 14, api: "SYNC_GROUP", partitions: Vec::new(), ..offset_commit("billing") };
    let verdict_on = |ours: &Request, events: Vec<Event>| {
        let own = [
            read(ours, us(1_000_900), ms(1_001)),
            write(ours, us(1_199_900), ms(1_200)),
            request_event(ours.clone()),
        ];
        run([partitions(4, 1), events].concat().into_iter().chain(own)).0.pop()
    };
    let verdict = verdict_on(&ours, stalled(FIRST, BILLING, 1_080, 1_199)).unwrap();
    assert_eq!((&*verdict.chain, verdict.confidence), (&[Cause::JournalCommit][..], Confidence::Strong));
    assert_eq!((verdict.stages.of(Stage::Remote), verdict.stages.of(Stage::Append)), (ms(79), ms(119)));
    assert_eq!(verdict_on(&ours, stalled(FIRST, BILLING, 1_150, 1_199)), None, "it waited for the others");
    assert_eq!(verdict_on(&ours, stalled(FIRST, BILLING, 1_010, 1_150)), None, "the answer did not follow");
    assert_eq!(verdict_on(&ours, stalled(FIRST, BILLING + 1, 1_010, 1_199)), None);
    let joining = Request { api_key: 11, api: "JOIN_GROUP", ..ours };
    assert_eq!(verdict_on(&joining, stalled(FIRST, BILLING, 1_010, 1_199)), None);
}
