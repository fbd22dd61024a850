//! The parts of an operation add up to it, and each instant goes to the right part.

use std::sync::Arc;

use model::{
    BlockIo, Device, Direction, DirtyThrottle, Event, FileKind, FileOp, FileOpKind, Loss, LossKind, Nanos,
    OffCpu, Reclaim, Row, Waker,
};
use proptest::prelude::*;

use super::{Reason, Reasons};

const JOURNAL: &str = "vfs_write;ext4_dirty_inode;jbd2__journal_start;wait_transaction_locked;schedule";
const READ: &str = "filemap_read;filemap_get_pages;folio_wait_bit_common;io_schedule;schedule";
const MUTEX: &str = "ext4_create;__mutex_lock.constprop.0;schedule";
const TID: u32 = 7;

fn device() -> Device {
    Device { major: 7, minor: 0, name: "loop0".into() }
}

fn op(start: i64, end: i64) -> FileOp {
    FileOp {
        start: Nanos(start),
        end: Nanos(end),
        op: FileOpKind::Write,
        pid: 1,
        tid: TID,
        thread: "t".into(),
        bytes: Some(1),
        offset: 0,
        file: "f".into(),
        kind: FileKind::Log,
        device: device(),
        inode: 12,
        fs: "ext4".into(),
        ..Row::empty()
    }
}

fn interval(start: i64, end: i64, stack: &str) -> OffCpu {
    OffCpu {
        start: Nanos(start),
        end: Nanos(end),
        pid: 1,
        tid: TID,
        thread: "t".into(),
        preempted: false,
        stack: stack.into(),
        ..Row::empty()
    }
}

fn off(interval: OffCpu) -> Event {
    Event::OffCpu(Box::new(interval))
}

fn reclaim(start: i64, end: i64) -> Event {
    Event::Reclaim(Box::new(Reclaim {
        start: Nanos(start),
        end: Nanos(end),
        pid: 1,
        tid: TID,
        thread: "t".into(),
        memcg: true,
        pages: 32,
    }))
}

fn pause(start: i64, end: i64) -> Event {
    Event::DirtyThrottle(DirtyThrottle {
        start: Nanos(start),
        end: Nanos(end),
        tid: TID,
        dirty_pages: 2,
        limit_pages: 1,
    })
}

fn io(queued: Option<i64>, start: i64, end: i64, inode: Option<u64>) -> Event {
    Event::BlockIo(Box::new(BlockIo {
        queued: queued.map(Nanos),
        start: Nanos(start),
        end: Nanos(end),
        device: device(),
        direction: Direction::Read,
        sector: 8,
        bytes: 4_096,
        tid: 9,
        thread: "kworker".into(),
        flags: "R".into(),
        inode,
        ..Row::empty()
    }))
}

fn split(reasons: &mut Reasons, op: &FileOp) -> Vec<(&'static str, i64)> {
    reasons.of(op).into_iter().map(|reason| (reason.name, reason.time.0)).collect()
}

fn after(events: impl IntoIterator<Item = Event>) -> Reasons {
    let mut reasons = Reasons::default();
    events.into_iter().for_each(|event| reasons.event(&event));
    reasons
}

#[test]
fn wait_ends_at_the_wakeup_and_the_rest_is_cpu_or_run_queue() {
    let mut wait = interval(10, 70, JOURNAL);
    wait.woken = Some(Nanos(60));
    let preempted = OffCpu { preempted: true, ..interval(80, 85, JOURNAL) };
    let elsewhere = OffCpu { tid: 8, ..interval(0, 100, JOURNAL) };
    let mut reasons = after([off(wait), off(preempted), off(elsewhere)]);
    let of = op(0, 100);
    assert_eq!(split(&mut reasons, &of), [("journal-commit", 50), ("cpu", 35), ("run-queue", 15)]);
    assert_eq!(split(&mut reasons, &of), [("cpu", 100)], "an interval belongs to one operation");
}

#[test]
fn reclaim_counts_on_and_off_cpu_but_not_while_runnable() {
    let mut inside = interval(30, 50, JOURNAL);
    inside.woken = Some(Nanos(44));
    let mut reasons = after([off(inside), reclaim(20, 70), off(interval(80, 90, MUTEX))]);
    let split = split(&mut reasons, &op(0, 100));
    assert_eq!(split, [("memory-reclaim", 44), ("cpu", 40), ("other", 10), ("run-queue", 6)]);
}

#[test]
fn page_fault_within_an_operation_does_not_consume_its_waits() {
    let mut reasons = after([off(interval(20, 40, READ))]);
    let fault = FileOp { op: FileOpKind::MmapFault, ..op(15, 45) };
    assert_eq!(split(&mut reasons, &fault), [("device", 20), ("cpu", 10)]);
    assert_eq!(split(&mut reasons, &op(0, 100)), [("cpu", 80), ("device", 20)]);
    assert_eq!(split(&mut reasons, &op(10, 100)), [("cpu", 90)]);
}

#[test]
fn unwatched_or_lost_time_is_unobserved_not_cpu() {
    let mut unwatched = Reasons::new(false);
    unwatched.event(&pause(10, 40));
    assert_eq!(split(&mut unwatched, &op(0, 100)), [("unobserved", 70), ("dirty-throttling", 30)]);
    let loss = |kind| {
        Event::Loss(Loss { start: Nanos(90), end: Nanos(200), kind, count: 1, detail: Arc::default() })
    };
    let mut lossy = after([loss(LossKind::ProbeEventsDropped)]);
    assert_eq!(split(&mut lossy, &op(0, 100)), [("unobserved", 100)]);
    assert_eq!(split(&mut lossy, &op(0, 90)), [("cpu", 90)]);
    let mut packets = after([loss(LossKind::PacketsDropped)]);
    assert_eq!(split(&mut packets, &op(0, 100)), [("cpu", 100)]);
}

#[test]
fn dropped_intervals_leave_their_time_unobserved() {
    let many = (0..3_000).map(|at| off(interval(at * 10, at * 10 + 5, MUTEX)));
    let mut reasons = after(many);
    let split = split(&mut reasons, &op(0, 30_000));
    // The last 1,024 intervals are left; the time before them is unknown.
    assert_eq!(split, [("unobserved", 19_755), ("cpu", 5_125), ("other", 5_120)]);
}

#[test]
fn device_wait_is_split_at_the_hand_over_of_its_block_request() {
    let us = |n: i64| n * 1_000;
    let wait = || {
        let mut wait = interval(us(100), us(1_010), READ);
        wait.woken = Some(Nanos(us(1_001)));
        off(wait)
    };
    let of = op(0, us(2_000));
    let queued = |events: Vec<Event>| {
        let split = split(&mut after(events.into_iter().chain([wait()])), &of);
        split.iter().find(|(name, _)| *name == "device-queue").map_or(0, |&(_, time)| time / 1_000)
    };
    assert_eq!(queued(vec![io(Some(us(90)), us(400), us(1_000), None)]), 300);
    assert_eq!(queued(vec![io(None, us(50), us(1_000), None)]), 0, "handed over before the wait");
    assert_eq!(queued(vec![io(None, us(400), us(700), None)]), 0, "done long before the wake-up");
    let both = || vec![io(None, us(400), us(990), Some(5)), io(None, us(600), us(1_000), Some(12))];
    assert_eq!(queued(both()), 500, "the operation's own file");
    let neither = || vec![io(None, us(400), us(990), None), io(None, us(600), us(1_000), Some(5))];
    assert_eq!(queued(neither()), 300, "one of two, of which the device had none before");
    let parts = || vec![io(None, us(600), us(990), Some(12)), io(None, us(500), us(1_000), Some(12))];
    assert_eq!(queued(parts()), 400, "several of the operation's own file");
    let flush = |event| match event {
        Event::BlockIo(io) => Event::BlockIo(Box::new(BlockIo { flags: "FF".into(), ..*io })),
        other => other,
    };
    let alone = || flush(io(None, us(400), us(1_000), None));
    assert_eq!(queued(vec![alone()]), 300);
    let second = vec![flush(io(None, us(150), us(390), None)), alone()];
    assert_eq!(queued(second), 0, "the flush before it was the device's work");
    let elsewhere = vec![io(None, us(400), us(1_000), None)].into_iter().map(|event| match event {
        Event::BlockIo(mut io) => {
            io.device.minor = 1;
            Event::BlockIo(io)
        }
        other => other,
    });
    assert_eq!(queued(elsewhere.collect()), 0);
}

#[test]
fn reason_names_its_function_and_the_waker() {
    let waker = |tid, stack: &str| Some(Waker { tid, thread: "jbd2/loop0-8".into(), stack: stack.into() });
    let describe = |stack: &str, waker: Option<Waker>| {
        let mut wait = interval(10, 60, stack);
        wait.waker = waker;
        let Reason { function, woken_by, .. } = after([off(wait)]).of(&op(0, 61)).swap_remove(0);
        (function.unwrap_or_default().to_string(), woken_by.map(|waker| waker.tid))
    };
    let commit = "kjournald2;jbd2_journal_commit_transaction;__wake_up;autoremove_wake_function";
    assert_eq!(describe(JOURNAL, waker(44, commit)), ("wait_transaction_locked".to_owned(), Some(44)));
    assert_eq!(describe(MUTEX, waker(44, "ext4_create;mutex_unlock")), ("ext4_create".to_owned(), Some(44)));
    assert_eq!(describe(MUTEX, waker(44, "asm_common_interrupt;common_interrupt;wake_up")).1, None);
    assert_eq!(describe(MUTEX, waker(0, "cpu_startup_entry;wake_up")).1, None);
    assert_eq!(describe(MUTEX, waker(44, "")).1, None, "what it was doing is not known");
    assert_eq!(describe(READ, waker(44, "kthread;blk_update_request;wake_up")).1, None);
}

/// Any event, plausible or not.
fn anything() -> impl Strategy<Value = Event> {
    let time = -50_i64..300;
    let stack = prop_oneof![Just(JOURNAL), Just(READ), Just(MUTEX), Just("")];
    let off_cpu = (time.clone(), time.clone(), proptest::option::of(time.clone()), any::<bool>(), stack)
        .prop_map(|(start, end, woken, preempted, stack)| {
            let woken = woken.map(Nanos);
            off(OffCpu { woken, preempted, ..interval(start, end, stack) })
        });
    prop_oneof![
        4 => off_cpu,
        1 => (time.clone(), time.clone()).prop_map(|(start, end)| reclaim(start, end)),
        1 => (time.clone(), time.clone()).prop_map(|(start, end)| pause(start, end)),
        1 => (time.clone(), time, proptest::option::of(11_u64..13)).prop_map(|(start, end, inode)| io(None, start, end, inode)),
    ]
}

proptest! {
    #[test]
    fn parts_add_up_to_the_operation_latency(
        events in proptest::collection::vec(anything(), 0..40),
        start in 0_i64..100,
        length in 0_i64..150,
        watched in any::<bool>(),
    ) {
        let mut reasons = Reasons::new(watched);
        for event in &events {
            reasons.event(event);
        }
        let op = op(start, start + length);
        let parts = reasons.of(&op);
        prop_assert_eq!(parts.iter().map(|part| part.time).sum::<Nanos>(), op.latency());
        prop_assert!(parts.iter().all(|part| part.time > Nanos::ZERO));
        prop_assert!(parts.windows(2).all(|two| two[0].time >= two[1].time));
        let mut names = parts.iter().map(|part| part.name).collect::<Vec<_>>();
        names.sort_unstable();
        names.dedup();
        prop_assert_eq!(names.len(), parts.len());
    }

    /// Compares with a model that examines every nanosecond.
    #[test]
    fn run_queue_and_reclaim_times_match_a_per_instant_model(
        events in proptest::collection::vec(anything(), 0..12),
        start in 0_i64..60,
        length in 1_i64..80,
    ) {
        let mut reasons = Reasons::default();
        for event in &events {
            reasons.event(event);
        }
        let time_of = |name: &str, parts: &[Reason]| {
            parts.iter().filter(|part| part.name == name).map(|part| part.time.0).sum::<i64>()
        };
        let parts = reasons.of(&op(start, start + length));
        let within = |from: Nanos, to: Nanos, at: i64| from.0 <= at && at < to.0;
        let at = |at: i64| {
            let runnable = events.iter().any(|event| match event {
                Event::OffCpu(off) => {
                    let woken = off.woken.unwrap_or(off.end).clamp(off.start, off.end.max(off.start));
                    within(if off.preempted { off.start } else { woken }, off.end, at)
                }
                _ => false,
            });
            let reclaiming = events.iter().any(|event| match event {
                Event::Reclaim(reclaim) => within(reclaim.start, reclaim.end, at),
                _ => false,
            });
            (runnable, reclaiming)
        };
        let instants = (start..start + length).map(at).collect::<Vec<_>>();
        let runnable = instants.iter().filter(|(runnable, _)| *runnable).count() as i64;
        let reclaiming = instants.iter().filter(|(runnable, reclaiming)| !runnable && *reclaiming).count() as i64;
        prop_assert_eq!(time_of("run-queue", &parts), runnable);
        prop_assert_eq!(time_of("memory-reclaim", &parts), reclaiming);
    }
}
