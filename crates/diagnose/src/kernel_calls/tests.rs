//! A stall like that of the first case, and what could be mistaken for one.

use std::sync::Arc;

use model::CommitPhases;
use model::{
    Device, Event, FileKind, FileOp, FileOpKind, JournalCommit, KernelSpan, Nanos, OffCpu, Reclaim, Row,
    SpanSource,
};

use super::{Call, Calls, Detail, naming_function};
use crate::tests::off_cpu;

const DIRTY_INODE: &str =
    "vfs_write;ext4_file_write_iter;ext4_dirty_inode;jbd2__journal_start;wait_transaction_locked";
const BEGIN: &str = "vfs_write;ext4_file_write_iter;ext4_da_write_begin;__wait_on_buffer;io_schedule";

fn ms(n: i64) -> Nanos {
    Nanos::from_millis(n)
}

fn device() -> Device {
    Device { major: 7, minor: 0, name: "loop0".into() }
}

fn op(tid: u32, start: i64, end: i64, file: &str) -> Event {
    Event::FileOp(Box::new(FileOp {
        start: ms(start),
        end: ms(end),
        op: FileOpKind::Write,
        pid: 1,
        tid,
        thread: "data-plane-kafk".into(),
        bytes: Some(1),
        offset: 0,
        file: file.into(),
        kind: FileKind::Log,
        device: device(),
        inode: 1,
        fs: "ext4".into(),
        ..Row::empty()
    }))
}

fn commit(start: i64, end: i64) -> Event {
    Event::JournalCommit(Box::new(JournalCommit {
        start: ms(start),
        end: ms(end),
        device: device(),
        transaction: 7,
        phases: Some(CommitPhases::default()),
    }))
}

fn span(tid: u32, start: i64, end: i64, function: &str, seen_by: SpanSource) -> Event {
    Event::KernelSpan(Box::new(KernelSpan {
        start: ms(start),
        end: ms(end),
        function: function.into(),
        tid,
        thread: "data-plane-kafk".into(),
        seen_by,
        ..Row::empty()
    }))
}

fn calls(slower_than: Nanos, events: impl IntoIterator<Item = Event>) -> Vec<Call> {
    let mut calls = Calls::new(slower_than, ms(10_000));
    let mut found = Vec::new();
    for event in events {
        calls.event(&event);
        found.extend(std::iter::from_fn(|| calls.take(false)));
    }
    found.extend(std::iter::from_fn(|| calls.take(true)));
    found
}

fn summarize(calls: &[Call]) -> Vec<(i64, i64, &str)> {
    let row = |call: &'_ Call| (call.start.0 / 1_000_000, call.end.0 / 1_000_000);
    calls.iter().map(|call| (row(call).0, row(call).1, &*call.function)).collect()
}

#[test]
fn commit_and_calls_behind_it_are_ordered_by_start() {
    let found = calls(
        ms(1),
        [
            off_cpu(1, ms(477), ms(1_757), DIRTY_INODE),
            op(1, 476, 1_758, "topicA-0/0.log"),
            off_cpu(2, ms(487), ms(1_757), DIRTY_INODE),
            op(2, 480, 1_759, "topicB-0/0.log"),
            commit(475, 1_808),
        ],
    );
    assert_eq!(
        summarize(&found),
        [
            (475, 1_808, "jbd2_journal_commit_transaction"),
            (477, 1_757, "ext4_dirty_inode"),
            (487, 1_757, "ext4_dirty_inode")
        ]
    );
    let first = &found[1];
    assert_eq!((first.file.as_deref(), first.device.as_ref()), (Some("topicA-0/0.log"), Some(&device())));
    assert_eq!(first.detail, Detail::Wait("journal-commit", Arc::from("wait_transaction_locked")));
    assert_eq!(first.seen_by, SpanSource::OffCpu);
}

#[test]
fn merges_adjacent_stretches_of_one_call_but_not_of_two_operations() {
    let us = |n: i64| Nanos(n * 1_000);
    let found = calls(
        Nanos::ZERO,
        [
            off_cpu(1, us(10_000), us(20_000), DIRTY_INODE),
            off_cpu(1, us(20_100), us(50_000), DIRTY_INODE),
            off_cpu(1, us(50_100), us(60_000), BEGIN),
            off_cpu(1, us(60_100), us(70_000), DIRTY_INODE),
            op(1, 9, 71, "f"),
            off_cpu(1, us(71_100), us(80_000), DIRTY_INODE),
            off_cpu(2, us(80_100), us(81_000), DIRTY_INODE),
            off_cpu(1, us(90_000), us(91_000), DIRTY_INODE),
        ],
    );
    let found = summarize(&found);
    assert_eq!(
        found,
        [
            (10, 50, "ext4_dirty_inode"),
            (50, 60, "ext4_da_write_begin"),
            (60, 70, "ext4_dirty_inode"),
            (71, 80, "ext4_dirty_inode"),
            (80, 81, "ext4_dirty_inode"),
            (90, 91, "ext4_dirty_inode"),
        ]
    );
}

#[test]
fn traced_call_replaces_the_off_cpu_stretch_inside_it() {
    for seen_by in [SpanSource::Function, SpanSource::Tracepoints] {
        let found = calls(
            ms(1),
            [
                off_cpu(1, ms(10), ms(40), DIRTY_INODE),
                off_cpu(2, ms(10), ms(40), DIRTY_INODE),
                span(1, 9, 41, "jbd2__journal_start", seen_by),
                op(1, 8, 42, "f"),
            ],
        );
        assert_eq!(summarize(&found), [(9, 41, "jbd2__journal_start"), (10, 40, "ext4_dirty_inode")]);
        assert_eq!((found[0].file.as_deref(), found[0].seen_by), (Some("f"), seen_by));
        assert_eq!(found[0].detail, Detail::Wait("journal-commit", Arc::from("wait_transaction_locked")));
    }
}

#[test]
fn wait_mostly_after_the_wakeup_or_preempted_is_run_queue() {
    let Event::OffCpu(mut interval) = off_cpu(1, ms(10), ms(40), DIRTY_INODE) else { unreachable!() };
    let detail =
        |interval: &OffCpu| match &calls(ms(1), [Event::OffCpu(Box::new(interval.clone()))])[0].detail {
            Detail::Wait(name, _) => *name,
            _ => unreachable!(),
        };
    interval.woken = Some(ms(30));
    assert_eq!(detail(&interval), "journal-commit");
    interval.woken = Some(ms(20));
    assert_eq!(detail(&interval), "run-queue");
    interval.woken = None;
    interval.preempted = true;
    assert_eq!(detail(&interval), "run-queue");
}

#[test]
fn call_not_on_the_stack_replaces_no_stretch() {
    // XFS's log buffer was submitted by this thread; its wait meanwhile belongs to it.
    let found = calls(
        ms(1),
        [off_cpu(1, ms(10), ms(40), DIRTY_INODE), span(1, 9, 41, "xlog_sync", SpanSource::Tracepoints)],
    );
    assert_eq!(summarize(&found), [(9, 41, "xlog_sync"), (10, 40, "ext4_dirty_inode")]);
}

#[test]
fn omits_quick_calls_and_calls_outside_file_systems() {
    let found = calls(
        ms(50),
        [
            off_cpu(1, ms(10), ms(40), DIRTY_INODE),
            off_cpu(1, ms(100), ms(400), "do_sendfile;tcp_sendmsg;sk_stream_wait_memory"),
            commit(0, 49),
        ],
    );
    assert_eq!(found, []);
}

#[test]
fn reclaim_is_listed_as_a_call() {
    let found = calls(
        ms(1),
        [Event::Reclaim(Box::new(Reclaim {
            start: ms(5),
            end: ms(9),
            pid: 1,
            tid: 1,
            thread: "t".into(),
            memcg: true,
            pages: 32,
        }))],
    );
    assert_eq!(summarize(&found), [(5, 9, "try_to_free_mem_cgroup_pages")]);
    assert_eq!(found[0].detail, Detail::Reclaim { pages: 32, memcg: true });
}

#[test]
fn calls_are_released_continuously_and_memory_stays_bounded() {
    let mut calls = Calls::new(Nanos::ZERO, ms(1_000));
    let mut found = 0_i64;
    let mut last = Nanos::MIN;
    for at in 0..20_000 {
        calls.event(&off_cpu(1, ms(at * 10), ms(at * 10 + 5), DIRTY_INODE));
        while let Some(call) = calls.take(false) {
            assert!(call.start >= last);
            last = call.start;
            found += 1;
        }
    }
    assert!(found > 19_800, "{found}");
    assert!(calls.pending.len() < 200 && calls.threads[&1].unnamed.len() <= super::MAX_CALLS_WITHOUT_FILE);
}

#[test]
fn outermost_informative_function_names_the_call() {
    for (stack, function) in [
        (
            "ksys_write;vfs_write;ext4_file_write_iter;ext4_buffered_write_iter;file_update_time;ext4_dirty_inode;__ext4_mark_inode_dirty;jbd2_journal_get_write_access;do_get_write_access",
            Some("ext4_dirty_inode"),
        ),
        (
            "vfs_write;xfs_file_write_iter;xfs_file_buffered_write;xfs_ilock;down_write;rwsem_down_write_slowpath",
            Some("xfs_file_write_iter"),
        ),
        ("do_fsync;vfs_fsync_range;ext4_sync_file;jbd2_log_wait_commit", Some("ext4_sync_file")),
        (
            "ext4_file_write_iter;ext4_buffered_write_iter;generic_perform_write;balance_dirty_pages_ratelimited_flags;balance_dirty_pages;schedule",
            Some("balance_dirty_pages"),
        ),
        (
            "do_sendfile;ext4_file_splice_read;filemap_splice_read;folio_wait_bit_common",
            Some("ext4_file_splice_read"),
        ),
        ("do_sendfile;tcp_sendmsg;sk_stream_wait_memory;schedule", None),
        ("", None),
    ] {
        assert_eq!(naming_function(stack), function, "{stack}");
    }
}
