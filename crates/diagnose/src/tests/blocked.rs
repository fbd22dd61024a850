//! Unexplained waits: named by where they were, and only if no cause takes their time.

use std::sync::Arc;

use model::{
    Cause, Confidence, Event, EvidenceKind, FileKind, FileOp, FileOpKind, Lock, LockHolder, LockKind,
    LockSource, LockWait, Nanos, OffCpu, Row, Stage, Verdict, Waker,
};
use proptest::prelude::*;

use super::stages::{NETWORK, numbered, read, us, write};
use super::{JOURNAL_STACK, append, commit, ms, off_cpu, op, request, request_event, run};

const FREEZE: &str =
    "ksys_write;vfs_write;ext4_file_write_iter;ext4_journal_check_start;percpu_rwsem_wait;schedule";

fn woken_by(event: Event, tid: u32, name: &str, stack: &str) -> Event {
    let Event::OffCpu(interval) = event else { unreachable!() };
    let waker = Waker { tid, thread: name.into(), stack: stack.into() };
    Event::OffCpu(Box::new(OffCpu { waker: Some(waker), ..*interval }))
}

/// A request of 460 ms whose append was off the CPU in `stack` for `milliseconds`.
fn stalled(stack: &str, milliseconds: i64) -> Vec<Event> {
    let away = off_cpu(7, ms(1_003), ms(1_003 + milliseconds), stack);
    vec![
        woken_by(away, 99, "lvcreate", "ksys_ioctl;thaw_super;percpu_up_write;try_to_wake_up"),
        op(append(7, 0, ms(1_002), ms(1_458), 1)),
        request_event(request(1, 0, 1_000, 1_460, 1)),
    ]
}

fn first(events: impl IntoIterator<Item = Event>) -> Verdict {
    run(events).0.remove(0)
}

#[test]
fn kernel_wait_names_the_function_its_callers_and_the_waker() {
    let verdict = first(stalled(FREEZE, 453));
    assert_eq!((verdict.chain.as_slice(), verdict.confidence), (&[Cause::KernelWait][..], Confidence::Exact));
    assert_eq!(&*verdict.root, "kernel-wait:percpu_rwsem_wait");
    assert_eq!(
        verdict.evidence[1].text,
        "of which 453 ms off the CPU in percpu_rwsem_wait (called by ext4_journal_check_start, ext4_file_write_iter, \
         vfs_write, ksys_write), woken by lvcreate (thread 99)"
    );
    assert_eq!(verdict.partition.as_ref().unwrap().to_string(), "topicF-0");
    assert_eq!(Some(verdict.stages.total()), verdict.request.latency());
}

#[test]
fn kernel_wait_needs_a_function_and_half_of_the_write() {
    assert_eq!(first(stalled("", 453)).cause, Cause::Unobserved);
    assert_eq!(first(stalled("schedule", 453)).cause, Cause::Unobserved);
    for parked in
        ["do_futex;futex_wait;futex_wait_queue;schedule", "do_epoll_wait;ep_poll;schedule_hrtimeout_range"]
    {
        assert_eq!(
            first(stalled(parked, 453)).cause,
            Cause::Unobserved,
            "what it waits for is in user space"
        );
    }
    assert_eq!(first(stalled(FREEZE, 200)).cause, Cause::Unobserved);
    let mut preempted = stalled(FREEZE, 453);
    let Event::OffCpu(away) = &mut preempted[0] else { unreachable!() };
    away.preempted = true;
    assert_eq!(first(preempted).cause, Cause::RunQueue);
}

#[test]
fn interrupt_is_not_named_as_the_waker() {
    let Event::OffCpu(away) = stalled(FREEZE, 453).remove(0) else { unreachable!() };
    let by_interrupt = woken_by(Event::OffCpu(away), 44, "java", "asm_common_interrupt;try_to_wake_up");
    let verdict = first([by_interrupt].into_iter().chain(stalled(FREEZE, 453).into_iter().skip(1)));
    assert!(!verdict.evidence[1].text.contains("woken by"), "{}", verdict.evidence[1].text);
}

#[test]
fn kernel_wait_does_not_hide_a_cause_of_most_of_the_write() {
    let with = |journal: i64| {
        first([
            off_cpu(7, ms(1_003), ms(1_003 + journal), JOURNAL_STACK),
            off_cpu(7, ms(1_003 + journal), ms(1_457), FREEZE),
            op(append(7, 0, ms(1_002), ms(1_458), 1)),
            request_event(request(1, 0, 1_000, 1_460, 1)),
            commit(2285, 1_000, 1_460),
        ])
    };
    assert_eq!(with(320).chain, [Cause::JournalCommit]);
    let less = with(130);
    assert_eq!(less.chain, [Cause::KernelWait]);
    assert!(less.evidence.iter().any(|seen| seen.text.starts_with("besides, 130 ms")), "{:?}", less.evidence);
}

#[test]
fn threads_waiting_in_one_kernel_function_have_one_root() {
    let events = (0..5_u32).flat_map(|i| {
        let (since, number) = (i64::from(i) * 20, i as i32);
        [
            off_cpu(7 + i, ms(1_003 + since), ms(1_456), FREEZE),
            op(append(7 + i, number, ms(1_002 + since), ms(1_457), i)),
            request_event(request(number, number, 1_000 + since, 1_460, i)),
        ]
    });
    let (verdicts, summary) = run(events);
    assert_eq!((verdicts.len(), summary.by_root.len()), (5, 1));
    assert!(summary.by_root[0].text.starts_with("of which"), "{}", summary.by_root[0].text);
}

#[test]
fn log_lock_waiter_has_the_kernel_wait_of_the_holder() {
    let (verdicts, _) = run(stalled(FREEZE, 453).into_iter().chain([
        op(append(8, 0, us(1_458_100), us(1_458_200), 2)),
        request_event(request(2, 0, 1_010, 1_460, 2)),
    ]));
    let waiter = verdicts.iter().find(|verdict| verdict.request.correlation_id == 2).unwrap();
    assert_eq!(waiter.chain, [Cause::LogLock, Cause::KernelWait]);
    assert_eq!(waiter.confidence, Confidence::Strong);
}

#[test]
fn roll_fsync_in_an_unknown_function_stays_a_roll_fsync() {
    let fsync = FileOp {
        op: FileOpKind::Fsync,
        kind: FileKind::Snapshot,
        batch: None,
        ..append(7, 6, ms(1_001), ms(1_140), 0)
    };
    let verdict = first([
        op(fsync),
        off_cpu(7, ms(1_002), ms(1_139), "ext4_sync_file;percpu_rwsem_wait;schedule"),
        op(append(7, 6, us(1_140_500), ms(1_141), 1)),
        request_event(request(1, 6, 1_000, 1_142, 1)),
    ]);
    assert_eq!(verdict.chain, [Cause::RollFsync]);
}

/// A request that was appended at once and answered 100 ms later.
/// The thread that answered had waited in the kernel meanwhile.
fn answered_late(tid: u32, from: i64, until: i64) -> Verdict {
    let ours = numbered(request(1, 6, 1_000, 1_107, 1));
    first([
        read(&ours, us(1_000_100), us(1_000_200)),
        op(append(7, 6, ms(1_002), ms(1_003), 1)),
        off_cpu(tid, ms(from), ms(until), "asm_exc_page_fault;do_user_addr_fault;mmap_read_lock;schedule"),
        write(&ours, us(1_106_000), us(1_106_100)),
        request_event(ours),
    ])
}

#[test]
fn kernel_wait_of_the_network_thread_delays_the_response() {
    let verdict = answered_late(NETWORK, 1_010, 1_105);
    assert_eq!(
        (verdict.chain.as_slice(), verdict.confidence),
        (&[Cause::KernelWait][..], Confidence::Strong)
    );
    assert_eq!(&*verdict.root, "kernel-wait:mmap_read_lock");
    assert_eq!(
        verdict.evidence[0].text,
        "data-plane-kafk was off the CPU in mmap_read_lock for 95 ms (called by do_user_addr_fault, asm_exc_page_fault)"
    );
    assert_eq!(answered_late(55, 1_010, 1_105).cause, Cause::Unobserved, "nobody needed it");
    assert_eq!(answered_late(NETWORK, 1_010, 1_040).cause, Cause::Unobserved, "not for most of the time");
}

const HANDLE: &str = "kafka.server.KafkaRequestHandler.run;kafka.server.KafkaApis.handleProduceRequest";

const IDLE: &str = "kafka.server.KafkaRequestHandler.run;kafka.network.RequestChannel.receiveRequest";

fn java_wait(tid: u32, start: Nanos, end: Nanos, stack: &str) -> LockWait {
    LockWait {
        start,
        end,
        pid: 1,
        tid,
        thread: format!("data-plane-kafka-request-handler-{tid}").into(),
        lock: Lock {
            kind: LockKind::Park,
            class: "java.util.concurrent.locks.ReentrantReadWriteLock$NonfairSync".into(),
            address: 3,
        },
        stack: stack.into(),
        source: LockSource::Jfr,
        ..Row::empty()
    }
}

fn locked(wait: LockWait) -> Event {
    Event::LockWait(Box::new(wait))
}

/// A request of 150 ms whose handler waited in Java for 100 ms. The wait is before its append, or after it.
fn with_java_wait(is_before: bool, change: impl Fn(&mut LockWait)) -> Verdict {
    let ours = numbered(request(1, 6, 1_000, 1_150, 1));
    let (written, waited, stack) = if is_before {
        (
            ms(1_135),
            us(1_010_000),
            format!(
                "{HANDLE};kafka.server.AuthHelper.authorize;java.util.concurrent.locks.ReentrantReadWriteLock$ReadLock.lock"
            ),
        )
    } else {
        (
            ms(1_002),
            us(1_030_000),
            format!(
                "{HANDLE};kafka.server.ReplicaManager.appendRecords;kafka.server.ReplicaManager.addProducePurgatory;java.util.concurrent.locks.ReentrantLock.lock"
            ),
        )
    };
    let mut wait = java_wait(7, waited, waited + ms(105), &stack);
    change(&mut wait);
    first([
        read(&ours, us(1_000_100), us(1_000_200)),
        op(append(7, 6, written, written + ms(1), 1)),
        locked(wait),
        write(&ours, us(1_149_000), us(1_149_100)),
        request_event(ours),
    ])
}

#[test]
fn java_wait_before_the_append_delays_the_request() {
    let verdict = with_java_wait(true, |_| {});
    assert_eq!((verdict.chain.as_slice(), verdict.confidence), (&[Cause::JavaWait][..], Confidence::Exact));
    assert_eq!(
        verdict.evidence[0].text,
        "data-plane-kafka-request-handler-7 waited 105 ms in kafka.server.AuthHelper.authorize (called by \
         kafka.server.KafkaApis.handleProduceRequest, kafka.server.KafkaRequestHandler.run)"
    );
    assert_eq!(verdict.stages.longest(), Stage::Handler, "it was out of the queue");
    assert_eq!(Some(verdict.stages.total()), verdict.request.latency());
}

#[test]
fn java_wait_after_the_append_is_recognized_by_its_stack() {
    let verdict = with_java_wait(false, |_| {});
    assert_eq!((verdict.chain.as_slice(), verdict.confidence), (&[Cause::JavaWait][..], Confidence::Strong));
    assert!(verdict.evidence[0].text.contains("in kafka.server.ReplicaManager.addProducePurgatory"));
    assert_eq!(verdict.stages.longest(), Stage::Handler);
}

#[test]
fn java_wait_for_work_or_of_another_thread_or_stackless_is_ignored() {
    type Change = fn(&mut LockWait);
    let others: [Change; 4] = [
        |wait| wait.tid = 8,
        |wait| wait.stack = "".into(),
        |wait| wait.stack = IDLE.into(),
        |wait| wait.source = LockSource::ThreadDump,
    ];
    for other in others {
        for is_before in [true, false] {
            let verdict = with_java_wait(is_before, other);
            assert!(!verdict.chain.contains(&Cause::JavaWait), "{verdict:?}");
        }
    }
}

#[test]
fn java_wait_is_followed_to_the_lock_holder() {
    let ours = numbered(request(1, 6, 1_000, 1_150, 1));
    let owner = LockHolder { tid: Some(9), thread: Arc::from("kafka-scheduler-3") };
    let wait = LockWait {
        holder: Some(owner),
        ..java_wait(7, ms(1_010), ms(1_115), &format!("{HANDLE};kafka.server.AuthHelper.authorize"))
    };
    let verdict = first([
        read(&ours, us(1_000_100), us(1_000_200)),
        op(append(9, 3, ms(1_008), ms(1_114), 9)),
        off_cpu(9, ms(1_009), ms(1_113), JOURNAL_STACK),
        commit(2285, 1_000, 1_116),
        op(append(7, 6, ms(1_120), ms(1_121), 1)),
        locked(wait),
        write(&ours, us(1_149_000), us(1_149_100)),
        request_event(ours),
    ]);
    assert_eq!(verdict.chain, [Cause::JavaWait, Cause::JournalCommit]);
    assert!(
        verdict.evidence[0].text.ends_with(", held by kafka-scheduler-3 (thread 9)"),
        "{:?}",
        verdict.evidence[0]
    );
}

/// What an append's thread did in turn: a stack, or the CPU, and the milliseconds.
fn breakdown() -> impl Strategy<Value = Vec<(usize, i64)>> {
    proptest::collection::vec((0..STACKS.len(), 1_i64..200), 1..6)
}

const STACKS: [&str; 9] = [
    "on a CPU",
    "",
    JOURNAL_STACK,
    FREEZE,
    "generic_perform_write;balance_dirty_pages;io_schedule_timeout;schedule",
    "ext4_dirty_inode;jbd2__journal_start;start_this_handle;schedule",
    "vfs_write;ext4_file_write_iter;down_write;rwsem_down_write_slowpath;schedule",
    "ext4_da_write_begin;ext4_block_write_begin;__wait_on_buffer;bit_wait_io;io_schedule",
    "tcp_sendmsg;lock_sock_nested;__lock_sock;schedule",
];

proptest! {
    /// If a write is unobserved, no wait in a known function took most of the request.
    #[test]
    fn unobserved_request_has_no_long_wait_in_a_known_function(
        breakdown in breakdown(),
        around in 0_i64..400,
        troubles in proptest::collection::vec((0_usize..7, 8_u32..11, 0_i64..1_500, 1_i64..400), 0..6),
    ) {
        let mut at = 1_000 + around / 2;
        let mut events = Vec::new();
        let (start, mut end) = (at, at);
        for (stack, length) in breakdown {
            end = at + length;
            if stack > 0 {
                events.push(off_cpu(7, ms(at), ms(end), STACKS[stack]));
            }
            at = end;
        }
        events.push(op(append(7, 0, ms(start), ms(end), 1)));
        events.push(request_event(request(1, 0, 1_000, (end + around / 2).max(1_150), 1)));
        events.extend(troubles.into_iter().map(|(kind, tid, since, length)| {
            super::causes::trouble_of_some_kind(kind, tid, ms(since), ms(since + length))
        }));
        for verdict in run(events).0.iter().filter(|verdict| verdict.cause == Cause::Unobserved) {
            let away = verdict.evidence.iter().filter(|seen| seen.kind == EvidenceKind::OffCpu);
            for seen in away.filter(|seen| seen.text.contains("off the CPU in ")) {
                let latency = verdict.request.latency().unwrap();
                prop_assert!((seen.end - seen.start).0 * 2 <= latency.0, "{verdict:?}");
            }
        }
    }
}
