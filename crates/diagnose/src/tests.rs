//! Injected causes: the injected one must be named, and nothing must be named where nothing was injected.

mod ahead;
mod blocked;
mod causes;
mod coordinators;
mod handler_calls;
mod host;
mod jvm;
mod logged;
mod order;
mod remote_tier;
mod stage_causes;
mod stages;
mod stops;
mod unread;
mod waker;

use std::sync::Arc;

use model::CommitPhases;
use model::{
    Batch, BatchHead, BlockIo, Cause, Confidence, Device, Direction, DirtyThrottle, Event, EvidenceKind,
    FileKind, FileOp, FileOpKind, JournalCommit, Loss, LossKind, Nanos, OffCpu, Partition, Request, Row,
    Stage, TopicPartition, Verdict,
};

use crate::{Config, Engine, Summary};

const JOURNAL_STACK: &str =
    "ext4_file_write_iter;ext4_dirty_inode;jbd2__journal_start;wait_transaction_locked;schedule";

fn ms(n: i64) -> Nanos {
    Nanos::from_millis(n)
}

fn device() -> Device {
    Device { major: 7, minor: 0, name: "loop0".into() }
}

/// A produce request with one partition; times in milliseconds.
fn request(correlation_id: i32, partition: i32, arrival: i64, end: i64, crc: u32) -> Request {
    Request {
        arrival: ms(arrival),
        arrival_end: ms(arrival),
        response: Some(ms(end)),
        end: Some(ms(end)),
        head_of_line: Some(Nanos::ZERO),
        api_key: 0,
        api: "PRODUCE",
        api_version: 13,
        correlation_id,
        request_bytes: 600,
        response_bytes: Some(60),
        acks: Some(1),
        throttle_ms: Some(0),
        partitions: vec![Partition {
            topic: Some("topicF".into()),
            partition,
            bytes: 498,
            batches: vec![Batch {
                magic: 2,
                crc,
                bytes: 498,
                records: 1,
                producer_id: -1,
                base_sequence: -1,
            }],
            base_offset: Some(i64::from(crc)),
            error_code: Some(0),
            ..Partition::default()
        }],
        ..Request::new(
            format!("10.0.0.7:{}", 40_000 + correlation_id).parse().unwrap(),
            "10.0.0.1:9092".parse().unwrap(),
        )
    }
}

fn append(tid: u32, partition: i32, start: Nanos, end: Nanos, crc: u32) -> FileOp {
    FileOp {
        start,
        end,
        op: FileOpKind::Write,
        pid: 1,
        tid,
        thread: "data-plane-kafk".into(),
        bytes: Some(498),
        offset: 1_000,
        file: format!("topicF-{partition}/00000000000000000000.log").into(),
        topic_partition: Some(TopicPartition { topic: "topicF".into(), partition }),
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
            records: 1,
        }),
        journal_transaction: Some(2286),
        ..Row::empty()
    }
}

pub(crate) fn off_cpu(tid: u32, start: Nanos, end: Nanos, stack: &str) -> Event {
    Event::OffCpu(Box::new(OffCpu {
        start,
        end,
        pid: 1,
        tid,
        thread: "data-plane-kafk".into(),
        preempted: false,
        stack: stack.into(),
        ..Row::empty()
    }))
}

fn commit(transaction: u32, start: i64, end: i64) -> Event {
    Event::JournalCommit(Box::new(JournalCommit {
        start: ms(start),
        end: ms(end),
        device: device(),
        transaction,
        phases: Some(CommitPhases { flushing: ms(120), ..CommitPhases::default() }),
    }))
}

fn op(op: FileOp) -> Event {
    Event::FileOp(Box::new(op))
}

fn request_event(request: Request) -> Event {
    Event::Request(Box::new(request))
}

fn run(events: impl IntoIterator<Item = Event>) -> (Vec<Verdict>, Summary) {
    let mut engine = Engine::new(Config::replay(ms(100)));
    let mut verdicts = Vec::new();
    for event in events {
        engine.push(event);
        verdicts.extend(engine.take_verdicts());
    }
    let summary = engine.finish();
    verdicts.extend(engine.take_verdicts());
    (verdicts, summary)
}

/// The four requests of the tail-latency case: one append of 126 ms stalled by a commit, three behind it.
fn four_requests() -> Vec<Event> {
    let mut events = vec![
        off_cpu(4462, Nanos(ms(1_001).0 - 900_000), ms(1_126), JOURNAL_STACK),
        op(append(4462, 6, Nanos(ms(1_000).0 + 50_000), ms(1_126), 1)),
        request_event(request(1, 6, 1_000, 1_127, 1)),
    ];
    for (i, tid) in [4484, 4499, 4467].into_iter().enumerate() {
        let i = i as i64;
        let start = Nanos(ms(1_126).0 + 200_000 * (i + 1));
        events.push(op(append(tid, 6, start, start + Nanos(90_000), 10 + i as u32)));
        events.push(request_event(request(10 + i as i32, 6, 1_007 + i, 1_127, 10 + i as u32)));
    }
    events.push(commit(2285, 1_000, 1_140));
    events
}

#[test]
fn slow_append_and_three_requests_behind_its_lock_have_one_root() {
    let (verdicts, summary) = run(four_requests());
    assert_eq!(verdicts.len(), 4);
    for verdict in &verdicts {
        assert_eq!(verdict.cause, Cause::JournalCommit);
        assert_eq!(&*verdict.root, "journal-commit:loop0:2285");
        assert_eq!(Some(verdict.stages.total()), verdict.request.latency());
        let commit = verdict.evidence.iter().find(|evidence| evidence.kind == EvidenceKind::Kernel);
        assert_eq!(commit.unwrap().text, "jbd2 commit 2285 on loop0 took 140 ms, 120 ms of it flushing");
    }
    assert_eq!(verdicts[0].chain, [Cause::JournalCommit]);
    assert_eq!(verdicts[0].confidence, Confidence::Exact);
    assert_eq!(verdicts[0].stages.longest(), Stage::Append);
    for waiting in &verdicts[1..] {
        assert_eq!(waiting.chain, [Cause::LogLock, Cause::JournalCommit]);
        assert_eq!(waiting.confidence, Confidence::Strong);
        assert_eq!(waiting.stages.longest(), Stage::Lock);
        assert_eq!(waiting.evidence[0].kind, EvidenceKind::LockWait);
        assert_eq!(waiting.evidence[0].tid, Some(4462));
    }
    assert_eq!(summary.by_root.len(), 1);
    assert_eq!(summary.by_root[0].requests, 4);
    assert_eq!((summary.joins.by_crc, summary.joins.unjoined), (4, 0));
}

#[test]
fn arrival_order_within_the_lateness_does_not_change_verdicts() {
    let (expected, expected_summary) = run(four_requests());
    let mut reversed = four_requests();
    reversed.reverse();
    let (verdicts, summary) = run(reversed);
    let key = |verdict: &Verdict| verdict.request.correlation_id;
    let sorted = |mut verdicts: Vec<Verdict>| {
        verdicts.sort_by_key(key);
        verdicts
    };
    assert_eq!(sorted(verdicts), sorted(expected));
    assert_eq!(summary.by_root, expected_summary.by_root);
}

#[test]
fn quick_requests_get_no_verdict() {
    let events = (0..500).flat_map(|i| {
        let at = i * 10;
        let append = append(7, 0, ms(at + 1), ms(at + 2), i as u32);
        [op(append), request_event(request(i as i32, 0, at, at + 4, i as u32))]
    });
    let (verdicts, summary) = run(events);
    assert_eq!(verdicts, []);
    assert_eq!((summary.requests, summary.slow, summary.joins.by_crc), (500, 0, 500));
}

#[test]
fn slow_request_with_a_fast_append_and_none_ahead_is_unobserved() {
    let (verdicts, _) = run([op(append(7, 0, ms(150), ms(151), 1)), request_event(request(1, 0, 0, 160, 1))]);
    assert_eq!(verdicts[0].cause, Cause::Unobserved);
    assert_eq!(verdicts[0].stages.of(Stage::Unobserved), ms(159));
}

/// The verdict on such a request.
pub(crate) fn unexplained() -> Verdict {
    run([op(append(7, 0, ms(150), ms(151), 1)), request_event(request(1, 0, 0, 160, 1))]).0.remove(0)
}

#[test]
fn concurrent_commit_is_no_cause_without_a_journal_wait() {
    // The append was slow on the CPU, or in something unknown: the commit is a coincidence.
    let events =
        [commit(2285, 0, 300), op(append(7, 0, ms(1), ms(150), 1)), request_event(request(1, 0, 0, 151, 1))];
    let (verdicts, _) = run(events);
    assert_eq!(verdicts[0].cause, Cause::Unobserved);
}

#[test]
fn journal_wait_without_an_observed_commit_is_weak() {
    let events = [
        off_cpu(7, ms(2), ms(150), JOURNAL_STACK),
        op(append(7, 0, ms(1), ms(150), 1)),
        request_event(request(1, 0, 0, 151, 1)),
    ];
    let (verdicts, _) = run(events);
    assert_eq!((verdicts[0].cause, verdicts[0].confidence), (Cause::JournalCommit, Confidence::Weak));
}

#[test]
fn commit_is_chosen_by_transaction_not_by_longest_overlap() {
    let events = [
        off_cpu(7, ms(2), ms(150), JOURNAL_STACK),
        op(append(7, 0, ms(1), ms(150), 1)),
        request_event(request(1, 0, 0, 151, 1)),
        commit(2285, 100, 149),
        commit(2284, 0, 300),
    ];
    let (verdicts, _) = run(events);
    assert_eq!(&*verdicts[0].root, "journal-commit:loop0:2285");
    assert_eq!(verdicts[0].confidence, Confidence::Exact);
}

#[test]
fn commit_of_another_device_is_not_blamed() {
    let Event::JournalCommit(mut elsewhere) = commit(2285, 0, 300) else { unreachable!() };
    elsewhere.device.minor = 1;
    let events = [
        off_cpu(7, ms(2), ms(150), JOURNAL_STACK),
        op(append(7, 0, ms(1), ms(150), 1)),
        request_event(request(1, 0, 0, 151, 1)),
        Event::JournalCommit(elsewhere),
    ];
    let (verdicts, _) = run(events);
    assert_eq!(verdicts[0].confidence, Confidence::Weak);
}

#[test]
fn thread_busy_on_another_partition_does_not_wait_for_the_lock() {
    // Thread 8 wrote to another partition until 1,125 ms: until then the request was queued, not waiting for the
    // lock.
    let mut events = four_requests();
    events.truncate(3);
    events.push(op(append(8, 1, ms(1_000), ms(1_125), 50)));
    let start = Nanos(ms(1_126).0 + 200_000);
    events.push(op(append(8, 6, start, start + Nanos(90_000), 10)));
    events.push(request_event(request(10, 6, 1_001, 1_128, 10)));
    events.push(commit(2285, 1_000, 1_140));
    let (verdicts, _) = run(events);
    let waiting = verdicts.iter().find(|verdict| verdict.request.correlation_id == 10).unwrap();
    assert!(waiting.stages.of(Stage::Lock) < ms(2));
    assert_eq!(waiting.cause, Cause::Unobserved);
}

#[test]
fn append_that_ended_long_before_is_no_lock_holder() {
    let events = [
        op(append(4462, 6, ms(1_000), ms(1_050), 1)),
        op(append(7, 6, ms(1_120), ms(1_121), 2)),
        request_event(request(2, 6, 1_001, 1_122, 2)),
    ];
    let (verdicts, _) = run(events);
    assert_eq!(verdicts[0].stages.of(Stage::Lock), Nanos::ZERO);
    assert_eq!(verdicts[0].cause, Cause::Unobserved);
}

#[test]
fn quick_appends_with_gaps_are_no_queue_for_the_log() {
    let waited = |took_us: i64| {
        let append_at = |tid: u32, n: i64| {
            let start = Nanos(ms(1_000).0 + n * 800_000);
            op(append(tid, 6, start, start + Nanos::from_micros(took_us), tid))
        };
        let mut events: Vec<Event> = (1..6).map(|n| append_at(20 + n as u32, n)).collect();
        events.push(append_at(7, 6));
        events.push(request_event(request(2, 6, 1_000, 1_005, 7)));
        let mut engine = Engine::new(Config::replay(ms(2)));
        for event in events {
            engine.push(event);
        }
        engine.finish();
        engine.take_verdicts().remove(0)
    };
    assert_eq!(waited(700).chain, [Cause::LogLock]);
    let idle = waited(20);
    assert_eq!((idle.cause, idle.stages.of(Stage::Lock)), (Cause::Unobserved, Nanos::ZERO));
}

#[test]
fn holder_slow_for_an_unknown_reason_makes_the_log_lock_the_cause() {
    let events = [
        op(append(4462, 6, ms(1_000), ms(1_126), 1)),
        op(append(7, 6, ms(1_126), ms(1_127), 2)),
        request_event(request(2, 6, 1_001, 1_128, 2)),
    ];
    let (verdicts, _) = run(events);
    assert_eq!((verdicts[0].cause, verdicts[0].confidence), (Cause::LogLock, Confidence::Strong));
}

#[test]
fn base_offset_distinguishes_two_appends_of_the_same_bytes() {
    let mut second = append(8, 0, ms(10), ms(130), 7);
    second.batch = second.batch.map(|head| BatchHead { base_offset: 99, ..head });
    let mut retried = request(2, 0, 0, 131, 7);
    retried.partitions[0].base_offset = Some(99);
    let events = [
        off_cpu(8, ms(10), ms(130), JOURNAL_STACK),
        op(append(7, 0, ms(5), ms(6), 7)),
        op(second),
        request_event(retried.clone()),
        commit(2285, 0, 140),
    ];
    let (verdicts, summary) = run(events.clone());
    assert_eq!(verdicts[0].stages.of(Stage::Append), ms(120));
    assert_eq!(summary.joins.by_crc, 1);
    // Without a base offset to distinguish them, neither is joined.
    retried.partitions[0].base_offset = None;
    let mut events = events;
    events[3] = request_event(retried);
    assert_eq!(run(events).1.joins.unjoined, 1);
}

#[test]
fn rewritten_batch_is_joined_by_its_base_offset() {
    let mut rewritten = append(8, 0, ms(1), ms(2), 1_000);
    rewritten.batch = rewritten.batch.map(|head| BatchHead { crc: 5, ..head });
    let (_, summary) = run([op(rewritten), request_event(request(1, 0, 0, 3, 1_000))]);
    assert_eq!((summary.joins.by_crc, summary.joins.by_base_offset), (0, 1));
}

#[test]
fn same_batch_on_another_partition_is_not_joined() {
    let (_, summary) = run([op(append(8, 1, ms(1), ms(2), 7)), request_event(request(1, 0, 0, 3, 7))]);
    assert_eq!(summary.joins.unjoined, 1);
}

#[test]
fn head_of_line_wait_has_the_cause_of_the_request_ahead() {
    let mut events = four_requests();
    let mut behind = request(2, 3, 1_010, 1_130, 77);
    behind.client = request(1, 6, 0, 0, 0).client;
    behind.head_of_line = Some(ms(117));
    events.push(op(append(9, 3, ms(1_128), ms(1_129), 77)));
    events.push(request_event(behind));
    let (verdicts, _) = run(events);
    let behind = verdicts.iter().find(|verdict| verdict.request.correlation_id == 2).unwrap();
    assert_eq!(behind.chain, [Cause::HeadOfLine, Cause::JournalCommit]);
    assert_eq!(&*behind.root, "journal-commit:loop0:2285");
    assert_eq!(behind.stages.longest(), Stage::HeadOfLine);
}

#[test]
fn cause_of_the_request_ahead_explains_only_its_own_share() {
    // The one ahead was in a stalled append for 70 of its 120 ms; the rest is unknown.
    let mut events = vec![
        off_cpu(7, ms(1_001), ms(1_070), JOURNAL_STACK),
        op(append(7, 6, ms(1_000), ms(1_070), 1)),
        commit(2285, 990, 1_071),
        request_event(request(1, 6, 1_000, 1_120, 1)),
    ];
    let of = |end| {
        let mut behind = request(2, 3, 1_010, end, 77);
        behind.client = request(1, 6, 0, 0, 0).client;
        behind.head_of_line = Some(ms(110));
        request_event(behind)
    };
    let named = |events: &[Event]| {
        let (verdicts, _) = run(events.iter().cloned());
        verdicts.iter().map(|verdict| (verdict.request.correlation_id, verdict.cause)).collect::<Vec<_>>()
    };
    events.push(of(1_125));
    assert_eq!(named(&events), [(1, Cause::JournalCommit), (2, Cause::JournalCommit)]);
    events.pop();
    events.push(of(1_160));
    assert_eq!(named(&events), [(1, Cause::JournalCommit), (2, Cause::Unobserved)], "60 of 150 ms");
}

/// Requests of one connection that arrived together. They were served one after the other, for these times.
fn queue_of_a_connection(lengths_ms: &[i64]) -> Vec<Event> {
    let client = request(1, 3, 0, 0, 0).client;
    let mut served = 0;
    let served_in_turn = lengths_ms.iter().zip(1..).map(|(length, number)| {
        let ahead = served;
        served += length;
        let mut one = request(number, 3, 1_000, 1_000 + served, number as u32);
        (one.client, one.head_of_line) = (client, Some(ms(ahead)));
        request_event(one)
    });
    served_in_turn.collect()
}

#[test]
fn request_behind_an_unexplained_slow_request_is_unexplained() {
    let (verdicts, _) = run(queue_of_a_connection(&[150, 2, 3]));
    assert_eq!(verdicts.len(), 3);
    for verdict in &verdicts {
        assert_eq!(verdict.cause, Cause::Unobserved, "{}", verdict.request.correlation_id);
    }
    assert_eq!(verdicts[2].stages.longest(), Stage::HeadOfLine);
}

#[test]
fn queue_of_quick_requests_is_a_cause_itself() {
    let (verdicts, _) = run(queue_of_a_connection(&[30, 30, 30, 30, 30, 3]));
    let last = verdicts.iter().find(|verdict| verdict.request.correlation_id == 6).unwrap();
    assert_eq!((last.cause, last.confidence), (Cause::HeadOfLine, Confidence::Exact));
}

#[test]
fn allowed_hand_over_time_grows_with_the_wait_for_the_log() {
    let waited = |gap_us: i64| {
        let paused = append(7, 6, ms(1_001), ms(1_200), 1);
        let stack = "generic_perform_write;balance_dirty_pages;io_schedule_timeout;schedule";
        let brief = append(8, 6, ms(1_201), ms(1_202), 2);
        let start = Nanos(ms(1_202).0 + gap_us * 1_000);
        let events = [
            off_cpu(7, ms(1_002), ms(1_199), stack),
            op(paused),
            op(brief),
            // The next one in the queue follows at once.
            op(append(10, 6, start, Nanos(start.0 + 5_000), 4)),
            op(append(9, 6, Nanos(start.0 + 10_000), Nanos(start.0 + 20_000), 3)),
            request_event(request(3, 6, 1_000, 1_240, 3)),
        ];
        run(events).0.remove(0).cause
    };
    assert_eq!(waited(4_000), Cause::DirtyThrottling);
    assert_eq!(waited(35_000), Cause::Unobserved, "too late for a tenth of the wait");
}

#[test]
fn exact_dirty_throttling_needs_a_pause_of_the_same_thread() {
    let pause = |tid| {
        Event::DirtyThrottle(DirtyThrottle {
            start: ms(5),
            end: ms(145),
            tid,
            dirty_pages: 9_000,
            limit_pages: 8_000,
        })
    };
    let stack = "generic_perform_write;balance_dirty_pages;io_schedule_timeout;schedule";
    let base = [
        off_cpu(7, ms(5), ms(145), stack),
        op(append(7, 0, ms(1), ms(150), 1)),
        request_event(request(1, 0, 0, 151, 1)),
    ];
    let with = |extra: Event| run(base.iter().cloned().chain([extra])).0.remove(0);
    let mine = with(pause(7));
    assert_eq!((mine.cause, mine.confidence), (Cause::DirtyThrottling, Confidence::Exact));
    assert_eq!(with(pause(8)).confidence, Confidence::Strong);
    // It was not seen to leave the CPU.
    let announced = |tid| run([base[1].clone(), base[2].clone(), pause(tid)]).0.remove(0);
    assert_eq!((announced(7).cause, announced(7).confidence), (Cause::DirtyThrottling, Confidence::Strong));
    assert_eq!(announced(8).cause, Cause::Unobserved);
    let in_part = off_cpu(7, ms(5), ms(60), stack);
    let both = run([in_part, base[1].clone(), base[2].clone(), pause(7)]).0.remove(0);
    assert_eq!(both.cause, Cause::DirtyThrottling, "the rest was announced");
}

fn io(start: i64, end: i64) -> Event {
    Event::BlockIo(Box::new(BlockIo {
        start: ms(start),
        end: ms(end),
        device: device(),
        direction: Direction::Read,
        sector: 8,
        bytes: 4_096,
        tid: 7,
        thread: "data-plane-kafk".into(),
        flags: "R".into(),
        ..Row::empty()
    }))
}

#[test]
fn commit_evidence_has_only_a_block_request_that_overlaps_the_wait() {
    let with = |ios: &[Event]| {
        let events = four_requests().into_iter().chain(ios.iter().cloned());
        let verdict = run(events).0.remove(0);
        verdict
            .evidence
            .into_iter()
            .filter(|evidence| evidence.kind == EvidenceKind::BlockIo)
            .collect::<Vec<_>>()
    };
    assert_eq!(with(&[io(1_127, 1_139)]), []);
    let evidence = with(&[io(1_126, 1_700), io(1_000, 1_125), io(990, 1_010)]);
    assert_eq!((evidence.len(), evidence[0].start), (1, ms(1_000)));
}

#[test]
fn a_slow_device_needs_a_block_request_that_covers_the_wait() {
    let stack = "ext4_map_blocks;ext4_wait_block_bitmap;__wait_on_buffer;bit_wait_io;io_schedule";
    let base = [
        off_cpu(7, ms(2), ms(150), stack),
        op(append(7, 0, ms(1), ms(150), 1)),
        request_event(request(1, 0, 0, 151, 1)),
    ];
    let with = |extra: Event| run(base.iter().cloned().chain([extra])).0.remove(0);
    assert_eq!(with(io(2, 149)).cause, Cause::SlowDevice);
    assert_eq!(with(io(2, 20)).cause, Cause::KernelWait);
}

#[test]
fn only_the_slow_partition_of_a_request_is_blamed() {
    let mut both = request(1, 0, 0, 140, 1);
    both.partitions.extend(request(1, 1, 0, 0, 2).partitions);
    let events = [
        op(append(7, 0, ms(1), ms(2), 1)),
        off_cpu(7, ms(3), ms(139), JOURNAL_STACK),
        op(append(7, 1, ms(2), ms(139), 2)),
        request_event(both),
        commit(2285, 0, 150),
    ];
    let (verdicts, _) = run(events);
    assert_eq!(verdicts[0].stages.of(Stage::Append), ms(138));
    assert_eq!(verdicts[0].partition.as_ref().unwrap().to_string(), "topicF-1");
    assert!(verdicts[0].evidence[0].text.contains("topicF-1/"), "{:?}", verdicts[0].evidence[0]);
}

#[test]
fn loss_near_a_request_is_reported_and_lowers_confidence() {
    let mut events = four_requests();
    events.insert(
        0,
        Event::Loss(Loss {
            start: ms(900),
            end: ms(1_100),
            kind: LossKind::ProbeEventsDropped,
            count: 3,
            detail: Arc::from("ring buffer full"),
        }),
    );
    let (verdicts, summary) = run(events);
    assert_eq!(verdicts[0].confidence, Confidence::Strong);
    assert_eq!(&*verdicts[0].losses[0], "3 probe-events-dropped (ring buffer full)");
    assert_eq!(summary.losses, [(LossKind::ProbeEventsDropped, 3)]);
}

/// Connections older than the watch have such requests. Otherwise they would leave no verdict exact.
#[test]
fn uncounted_requests_do_not_lower_confidence() {
    let loss = Loss {
        start: ms(900),
        end: ms(1_100),
        kind: LossKind::RequestsUncounted,
        count: 3,
        detail: Arc::from("reads"),
    };
    let (verdicts, summary) = run([vec![loss.into()], four_requests()].concat());
    assert_eq!((verdicts[0].confidence, verdicts[0].losses.len()), (Confidence::Exact, 0));
    assert_eq!(summary.losses, [(LossKind::RequestsUncounted, 3)]);
}

#[test]
fn summary_lists_losses_by_reason_and_outages_among_them() {
    let loss = |kind, start: i64, count, detail: &str| {
        let (start, end) = (ms(start), ms(start + 1_000));
        Event::from(Loss { start, end, kind, count, detail: detail.into() })
    };
    let down = |start, why: &str| loss(LossKind::SourceDown, start, 1, why);
    let mut events =
        vec![down(0, "no packets"), down(1_000, "no packets"), down(9_000, "its thread panicked")];
    events.push(loss(LossKind::ProbeMapFull, 0, 7, "threads"));
    let (_, summary) = run(events);
    assert_eq!(summary.losses, [(LossKind::ProbeMapFull, 7), (LossKind::SourceDown, 3)]);
    assert_eq!(summary.outages().collect::<Vec<_>>(), [("its thread panicked", 1), ("no packets", 2)]);
    let details = summary.loss_details.iter().map(|loss| (loss.kind, &*loss.detail, loss.count));
    assert_eq!(details.collect::<Vec<_>>()[0], (LossKind::ProbeMapFull, "threads", 7));
}

#[test]
fn a_long_poll_gets_no_verdict_but_is_counted() {
    let mut fetch = request(1, 0, 0, 500, 1);
    (fetch.api, fetch.api_key) = ("FETCH", 1);
    fetch.partitions[0].bytes = 0;
    let (verdicts, summary) = run([request_event(fetch)]);
    assert_eq!(verdicts, []);
    assert_eq!(summary.not_judged, [("FETCH", 1)]);
}

#[test]
fn slowly_arriving_request_is_slow_client() {
    let mut slow = request(1, 0, 0, 140, 1);
    slow.arrival_end = ms(130);
    let (verdicts, _) = run([op(append(7, 0, ms(131), ms(132), 1)), request_event(slow)]);
    assert_eq!(verdicts[0].cause, Cause::SlowClient);
}

#[test]
fn old_events_are_dropped_and_memory_stays_bounded() {
    let mut engine = Engine::new(Config { max_events: 1_000, ..Config::live(ms(100)) });
    for i in 0..100_000_i64 {
        engine.push(op(append(7, 0, Nanos(i * 1_000_000), Nanos(i * 1_000_000 + 1_000), i as u32)));
    }
    assert!(engine.retained_events() <= 2_000, "{}", engine.retained_events());
}

#[test]
fn large_requests_count_by_their_memory_toward_max_events() {
    let config = Config { max_events: 10_000, ..Config::live(ms(100)) };
    let max_bytes = config.max_events * Config::EVENT_BYTES;
    let (mut engine, topic) = (Engine::new(config), Arc::<str>::from("t".repeat(249)));
    for number in 0..1_000 {
        let mut fetch = request(number, 0, i64::from(number) * 10, i64::from(number) * 10 + 1, 1);
        let of = |partition| Partition { topic: Some(Arc::clone(&topic)), partition, ..Partition::default() };
        fetch.partitions = (0..84).map(of).collect();
        engine.push(request_event(fetch));
    }
    let bytes = engine.request_bytes();
    assert!(bytes > max_bytes / 4 && bytes <= 2 * max_bytes, "{bytes} bytes, at most about {max_bytes}");
}

#[test]
fn large_requests_count_by_their_memory_in_the_reorder_queue() {
    let mut engine = Engine::new(Config::live(ms(100)));
    let text = Arc::<str>::from("e".repeat(1_000 * Config::EVENT_BYTES));
    for number in 0..300 {
        engine.push(request_event(Request { error: Some(Arc::clone(&text)), ..request(number, 0, 0, 1, 1) }));
    }
    assert!((150..200).contains(&engine.unordered()), "{} wait", engine.unordered());
}

const FAULT_STACK: &str = "asm_exc_page_fault;do_fault;ext4_page_mkwrite;ext4_dirty_inode;jbd2_journal_get_write_access;do_get_write_access;out_of_line_wait_on_bit;io_schedule;schedule";

/// A fast append whose thread then waited for the journal.
/// It waited in a store into the mapped index, and another request wanted the same log meanwhile.
fn stalled_after_the_write(wait_end: Nanos) -> Vec<Event> {
    vec![
        op(append(7, 6, ms(1_001), ms(1_002), 1)),
        off_cpu(7, Nanos(ms(1_002).0 + 50_000), wait_end, FAULT_STACK),
        request_event(request(1, 6, 1_000, 1_151, 1)),
        op(append(8, 6, Nanos(ms(1_150).0 + 300_000), ms(1_151), 2)),
        request_event(request(2, 6, 1_010, 1_152, 2)),
        commit(2290, 1_000, 1_155),
    ]
}

#[test]
fn a_wait_right_after_the_write_still_holds_the_log() {
    let (verdicts, summary) = run(stalled_after_the_write(ms(1_150)));
    assert_eq!(verdicts[0].chain, [Cause::JournalCommit]);
    assert_eq!(verdicts[0].confidence, Confidence::Strong, "the order of things is no exact key");
    assert_eq!(verdicts[0].stages.longest(), Stage::Handler);
    assert_eq!(verdicts[1].chain, [Cause::LogLock, Cause::JournalCommit]);
    assert_eq!(&*verdicts[1].root, "journal-commit:loop0:2290");
    assert_eq!(summary.by_root.len(), 1);
    for verdict in &verdicts {
        assert_eq!(Some(verdict.stages.total()), verdict.request.latency());
    }
}

#[test]
fn wait_that_outlasts_the_response_is_not_attributed() {
    let mut events = stalled_after_the_write(ms(1_300));
    events.truncate(3);
    let (verdicts, _) = run(events);
    assert_eq!((verdicts[0].cause, verdicts[0].stages.of(Stage::Handler)), (Cause::Unobserved, Nanos::ZERO));
}

#[test]
fn wait_long_after_the_write_is_not_attributed() {
    let (verdicts, _) = run([
        op(append(7, 6, ms(1_001), ms(1_002), 1)),
        off_cpu(7, ms(1_020), ms(1_150), FAULT_STACK),
        request_event(request(1, 6, 1_000, 1_151, 1)),
    ]);
    assert_eq!(verdicts[0].cause, Cause::Unobserved);
}
