//! Every cause on injected events: it is named where its evidence joins, and not for events of another thread,
//! device, file or time.

use model::{
    BlockIo, Cause, Confidence, Device, Direction, DirtyThrottle, Event, FileKind, FileOp, FileOpKind,
    HostSample, HostScope, JvmPause, JvmPauseKind, KernelSpan, Nanos, OffCpu, Reclaim, Request,
    RequestSource, Row, SocketOp, SocketOpKind, SpanSource, Stage, TcpEvent, TcpEventKind, Verdict, Waker,
};

use super::stages::{NETWORK, numbered, read, us};
use super::{JOURNAL_STACK, append, commit, device, io, ms, off_cpu, op, request, request_event, run};

const RECLAIM: &str = "ext4_da_write_begin;try_to_free_mem_cgroup_pages;shrink_node;schedule";
const OVER_HIGH: &str =
    "exit_to_user_mode_prepare;mem_cgroup_handle_over_high;schedule_timeout_killable;schedule_timeout";
const OVER_SHARE: &str =
    "blk_mq_submit_bio;__rq_qos_throttle;blkcg_iolatency_throttle;rq_qos_wait;io_schedule;schedule";
const NFS: &str = "vfs_write;nfs_file_write;nfs_wb_folio;nfs_wait_on_request;wait_on_bit_io;schedule";
const FAST_COMMIT: &str = "ext4_sync_file;ext4_fc_commit;jbd2_fc_begin_commit;schedule";
const BARRIER: &str = "ext4_dirty_inode;jbd2__journal_start;start_this_handle;schedule";
const LOG_SPACE: &str =
    "xfs_file_buffered_write;xfs_trans_alloc;xfs_log_reserve;xlog_grant_head_wait;schedule";
const XFS_INODE: &str =
    "vfs_write;xfs_file_buffered_write;xfs_ilock;down_write;rwsem_down_write_slowpath;schedule";
const STABLE: &str = "generic_perform_write;ext4_da_write_begin;folio_wait_stable;io_schedule;schedule";
const PAGE: &str = "ext4_da_write_begin;__filemap_get_folio;__folio_lock;io_schedule;schedule";
const READ: &str = "ext4_da_write_begin;ext4_block_write_begin;__wait_on_buffer;bit_wait_io;io_schedule";
const DIRTY: &str = "generic_perform_write;balance_dirty_pages;io_schedule_timeout;schedule";

/// A request from 1,000 to 1,151 ms whose append waited with this stack.
/// The append by thread 7 took from 1,001 to 1,150 and the wait from 1,002 to 1,149.
fn waited(stack: &str) -> Vec<Event> {
    vec![
        off_cpu(7, ms(1_002), ms(1_149), stack),
        op(append(7, 0, ms(1_001), ms(1_150), 1)),
        request_event(request(1, 0, 1_000, 1_151, 1)),
    ]
}

fn with(mut events: Vec<Event>, more: impl IntoIterator<Item = Event>) -> Vec<Event> {
    events.extend(more);
    events
}

fn first(events: Vec<Event>) -> Verdict {
    run(events).0.remove(0)
}

fn found(events: Vec<Event>) -> (Cause, Confidence) {
    let verdict = first(events);
    assert_eq!(Some(verdict.stages.total()), verdict.request.latency());
    (verdict.cause, verdict.confidence)
}

fn elsewhere() -> Device {
    Device { minor: 1, name: "loop1".into(), ..device() }
}

fn span(function: &str, tid: u32, device: Device, start: i64, end: i64) -> Event {
    Event::KernelSpan(Box::new(KernelSpan {
        start: ms(start),
        end: ms(end),
        function: function.into(),
        device: Some(device),
        tid,
        thread: "t".into(),
        seen_by: SpanSource::Tracepoints,
    }))
}

fn reclaim(tid: u32, memcg: bool, start: i64, end: i64) -> Event {
    Event::Reclaim(Box::new(Reclaim {
        start: ms(start),
        end: ms(end),
        pid: 1,
        tid,
        thread: "data-plane-kafk".into(),
        memcg,
        pages: 32,
    }))
}

fn block(direction: Direction, inode: u64, start: i64, end: i64) -> Event {
    let Event::BlockIo(mut io) = io(start, end) else { unreachable!() };
    io.direction = direction;
    io.inode = Some(inode);
    Event::BlockIo(io)
}

#[test]
fn a_fast_commit_is_joined_by_its_thread_or_by_its_device() {
    let with_commit =
        |tid, device| found(with(waited(FAST_COMMIT), [span("ext4_fc_commit", tid, device, 1_001, 1_149)]));
    assert_eq!(with_commit(7, device()), (Cause::FastCommit, Confidence::Exact));
    assert_eq!(with_commit(8, device()), (Cause::FastCommit, Confidence::Strong));
    assert_eq!(with_commit(8, elsewhere()), (Cause::FastCommit, Confidence::Weak));
    let without_wait = with(waited("x;schedule"), [span("ext4_fc_commit", 8, device(), 1_001, 1_149)]);
    assert_eq!(found(without_wait).0, Cause::KernelWait);
}

#[test]
fn journal_barrier_wait_needs_an_overlapping_fast_commit() {
    let with_commit =
        |device, start, end| found(with(waited(BARRIER), [span("ext4_fc_commit", 8, device, start, end)]));
    assert_eq!(with_commit(device(), 1_001, 1_149), (Cause::FastCommit, Confidence::Strong));
    assert_eq!(with_commit(elsewhere(), 1_001, 1_149).0, Cause::KernelWait);
    assert_eq!(with_commit(device(), 1_001, 1_050).0, Cause::KernelWait);
    assert_eq!(found(waited(BARRIER)).0, Cause::KernelWait);
}

/// Waits for a frozen file system: of an append, and of the store into a mapped index right after it.
const FROZEN: &str = "ksys_write;vfs_write;__percpu_down_read;percpu_rwsem_wait;schedule";
const FROZEN_INDEX: &str = "asm_exc_page_fault;do_page_mkwrite;ext4_page_mkwrite;percpu_rwsem_wait;schedule";

fn freeze(device: Device, start: i64, end: i64) -> Event {
    let Event::KernelSpan(mut freeze) = span("freeze_super", 4711, device, start, end) else {
        unreachable!()
    };
    freeze.thread = "fsfreeze".into();
    Event::KernelSpan(freeze)
}

#[test]
fn frozen_file_system_wait_names_the_thread_that_froze_it() {
    let with_freeze = |freeze| found(with(waited(FROZEN), [freeze]));
    assert_eq!(with_freeze(freeze(device(), 1_001, 1_149)), (Cause::FsFrozen, Confidence::Exact));
    assert_eq!(with_freeze(freeze(elsewhere(), 1_001, 1_149)), (Cause::FsFrozen, Confidence::Strong));
    assert_eq!(with_freeze(freeze(device(), 1_001, 1_040)), (Cause::FsFrozen, Confidence::Strong));
    assert_eq!(found(waited(FROZEN)), (Cause::FsFrozen, Confidence::Strong));
    let verdict = first(with(waited(FROZEN), [freeze(device(), 1_001, 1_149)]));
    let expected = "the file system on loop0 was frozen by fsfreeze (4711) for 148 ms";
    assert!(verdict.evidence.iter().any(|seen| &*seen.text == expected), "{:#?}", verdict.evidence);
    let other = first(with(waited(FROZEN), [freeze(elsewhere(), 1_001, 1_149)]));
    assert!(!other.evidence.iter().any(|seen| seen.text.contains("fsfreeze")), "{:#?}", other.evidence);
    // A request that it did not delay is not slow because of it.
    let elsewhere = found(with(waited(JOURNAL_STACK), [freeze(device(), 1_001, 1_149)]));
    assert_eq!(elsewhere.0, Cause::JournalCommit);
}

#[test]
fn cgroup_throttles_and_nfs_waits_are_recognized_by_the_stack() {
    for (stack, cause) in
        [(OVER_HIGH, Cause::MemoryThrottled), (OVER_SHARE, Cause::IoThrottled), (NFS, Cause::NfsWait)]
    {
        assert_eq!(found(waited(stack)), (cause, Confidence::Exact), "{stack}");
        // Right after the write, still holding the log.
        let after = vec![
            off_cpu(7, ms(1_003), ms(1_149), stack),
            op(append(7, 0, ms(1_001), ms(1_002), 1)),
            request_event(request(1, 0, 1_000, 1_151, 1)),
        ];
        assert_eq!(found(after), (cause, Confidence::Strong), "{stack}");
    }
    // Freeing memory for the same limit is a reclaim.
    let freeing = "mem_cgroup_handle_over_high;reclaim_high;try_to_free_mem_cgroup_pages;schedule_timeout";
    assert_eq!(found(waited(freeing)).0, Cause::MemoryReclaim);
}

/// A limit of the broker's cgroup on a device, sampled once a second.
fn io_limit(device: &str, metric: &str, start: i64, end: i64) -> Event {
    let Event::HostSample(mut sample) = throttled(16_384.0, start, end) else { unreachable!() };
    (sample.scope, sample.name, sample.metric) = (HostScope::Device, device.into(), metric.into());
    Event::HostSample(sample)
}

/// A read of the file that [`waited`] writes to, held back by a limit.
/// The limit released it into the device's queue at `queued`.
fn throttled_read(queued: i64, inode: u64) -> Event {
    let Event::BlockIo(mut io) = block(Direction::Read, inode, queued, 1_149) else { unreachable!() };
    (io.queued, io.start) = (Some(ms(queued)), io.end - Nanos(150_000));
    Event::BlockIo(io)
}

#[test]
fn block_request_held_back_by_an_io_limit_is_io_throttled() {
    let limit = || io_limit("loop0", "read_limit_bytes_per_second", 100, 1_100);
    let with_io = |io: Event, limit: Event| found(with(waited(READ), [io, limit]));
    let inode = append(7, 0, ms(1_001), ms(1_150), 1).inode;
    assert_eq!(with_io(throttled_read(1_140, inode), limit()), (Cause::IoThrottled, Confidence::Strong));
    let earlier = io_limit("loop0", "read_limit_per_second", -400, 600);
    assert_eq!(with_io(throttled_read(1_140, inode), earlier), (Cause::IoThrottled, Confidence::Strong));
    // Not without a limit, nor with one on another device, on writes, or long ago.
    let no_limits = [
        throttled(0.0, 100, 1_100),
        io_limit("loop1", "read_limit_bytes_per_second", 100, 1_100),
        io_limit("loop0", "write_limit_bytes_per_second", 100, 1_100),
        io_limit("loop0", "read_limit_bytes_per_second", -2_000, -1_000),
    ];
    for other in no_limits {
        assert_eq!(with_io(throttled_read(1_140, inode), other.clone()).0, Cause::KernelWait, "{other:?}");
    }
    // Nor for a block request that was in the queue for most of the wait: that is the device's time.
    assert_eq!(with_io(block(Direction::Read, inode, 1_010, 1_149), limit()).0, Cause::SlowDevice);
    assert_eq!(with_io(throttled_read(1_010, inode), limit()).0, Cause::KernelWait);
    assert_eq!(with_io(throttled_read(1_140, inode + 1), limit()).0, Cause::KernelWait, "another file's");
    let lock = first(with(waited(PAGE), [throttled_read(1_140, inode), limit()]));
    assert_eq!(lock.chain, [Cause::PageLock, Cause::IoThrottled]);
}

#[test]
fn cgroup_throttling_of_a_handler_before_the_append_is_named() {
    let of = |stack: &str| {
        first(vec![
            op(append(7, 0, ms(990), ms(991), 9)),
            off_cpu(7, ms(1_002), ms(1_140), stack),
            op(append(7, 0, ms(1_148), ms(1_150), 1)),
            request_event(request(1, 0, 1_000, 1_151, 1)),
        ])
    };
    for (stack, cause) in [(OVER_HIGH, Cause::MemoryThrottled), (OVER_SHARE, Cause::IoThrottled)] {
        let verdict = of(stack);
        assert_eq!((verdict.cause, verdict.confidence), (cause, Confidence::Strong), "{verdict:#?}");
    }
    assert_eq!(of("x;schedule").cause, Cause::Unobserved);
}

#[test]
fn threads_throttled_by_one_limit_have_one_root() {
    let of = |tid: u32| {
        let at = 1_000 + i64::from(tid) * 10;
        [
            off_cpu(tid, ms(at + 2), ms(1_453), OVER_HIGH),
            op(append(tid, tid as i32, ms(at + 1), ms(1_453), tid)),
            request_event(request(tid as i32, tid as i32, at, 1_454, tid)),
        ]
    };
    let (verdicts, summary) = run((1..=5).flat_map(of));
    assert!(verdicts.iter().all(|verdict| verdict.cause == Cause::MemoryThrottled), "{verdicts:#?}");
    assert_eq!((verdicts.len(), summary.by_root.len()), (5, 1));
}

#[test]
fn page_wait_on_nfs_is_a_wait_for_the_server() {
    const FAULT: &str = "asm_exc_page_fault;filemap_fault;folio_wait_bit_common;io_schedule;schedule";
    let on = |fs: &str| {
        let written = FileOp { fs: fs.into(), ..append(7, 0, ms(1_001), ms(1_150), 1) };
        let wait = off_cpu(7, ms(1_002), ms(1_149), FAULT);
        found(vec![wait, op(written), request_event(request(1, 0, 1_000, 1_151, 1))])
    };
    assert_eq!(on("nfs4"), (Cause::NfsWait, Confidence::Exact));
    assert_eq!(on("nfs"), (Cause::NfsWait, Confidence::Exact));
    assert_eq!(on("ext4").0, Cause::KernelWait);
}

#[test]
fn commit_names_an_earlier_fsync_of_another_process() {
    let waited_by = |more: Vec<Event>| {
        let verdict = first(with(with(waited(JOURNAL_STACK), [commit(41, 1_000, 1_149)]), more));
        assert_eq!(verdict.cause, Cause::JournalCommit);
        let evidence = verdict.evidence.into_iter().filter(|seen| seen.text.contains("another process"));
        evidence.map(|seen| (seen.tid, seen.text)).next()
    };
    let fsync = |tid, device, start, end| span("ext4_sync_file", tid, device, start, end);
    let text = "another process waited for it: an fsync by t (4711) began before the commit and took 160 ms";
    assert_eq!(waited_by(vec![fsync(4711, device(), 990, 1_150)]), Some((Some(4711), text.to_owned())));
    // The first of several.
    let both = vec![fsync(4711, device(), 990, 1_150), fsync(4712, device(), 995, 1_150)];
    assert_eq!(waited_by(both).unwrap().0, Some(4711));
    // On another file system; for the next commit; over before; by the broker's own thread, as reported by its
    // functions.
    assert_eq!(waited_by(vec![fsync(4711, elsewhere(), 990, 1_150)]), None);
    assert_eq!(waited_by(vec![fsync(4711, device(), 1_010, 1_300)]), None);
    assert_eq!(waited_by(vec![fsync(4711, device(), 990, 1_100)]), None);
    let Event::KernelSpan(mut own) = fsync(7, device(), 990, 1_150) else { unreachable!() };
    own.seen_by = SpanSource::Function;
    assert_eq!(waited_by(vec![Event::KernelSpan(own)]), None);
    // The broker's own fsync was first.
    let own = FileOp { op: FileOpKind::Fsync, ..append(9, 1, ms(985), ms(1_150), 9) };
    assert_eq!(waited_by(vec![fsync(4711, device(), 990, 1_150), op(own)]), None);
}

#[test]
fn journal_barrier_wait_during_a_freeze_is_fs_frozen() {
    let with_freeze = |device| found(with(waited(BARRIER), [freeze(device, 1_001, 1_149)]));
    assert_eq!(with_freeze(device()), (Cause::FsFrozen, Confidence::Strong));
    assert_eq!(with_freeze(elsewhere()).0, Cause::KernelWait);
}

/// Five producers, each delayed in its append or right after it.
fn five_frozen() -> Vec<Event> {
    let of = |tid: u32| {
        let at = 1_000 + i64::from(tid) * 10;
        let (stack, end) = if tid == 5 { (FROZEN_INDEX, at + 2) } else { (FROZEN, 1_453) };
        [
            off_cpu(tid, ms(at + 2), ms(1_453), stack),
            op(append(tid, tid as i32, ms(at + 1), ms(end), tid)),
            request_event(request(tid as i32, tid as i32, at, 1_454, tid)),
        ]
    };
    (1..=5).flat_map(of).collect()
}

#[test]
fn one_freeze_is_one_root_observed_or_not() {
    let (verdicts, summary) = run(with(five_frozen(), [freeze(device(), 1_000, 1_453)]));
    assert!(verdicts.iter().all(|verdict| verdict.cause == Cause::FsFrozen), "{verdicts:#?}");
    let exact = verdicts.iter().filter(|verdict| verdict.confidence == Confidence::Exact);
    assert_eq!((verdicts.len(), exact.count(), summary.by_root.len()), (5, 4, 1));
    let (verdicts, summary) = run(five_frozen());
    assert!(verdicts.iter().all(|verdict| verdict.cause == Cause::FsFrozen), "{verdicts:#?}");
    assert_eq!((verdicts.len(), summary.by_root.len()), (5, 1));
}

#[test]
fn unobserved_freeze_names_the_thread_that_thawed() {
    let thawed_by = |stack: &str| {
        let Event::OffCpu(mut wait) = off_cpu(7, ms(1_002), ms(1_149), FROZEN) else { unreachable!() };
        let waker = Waker { tid: 4711, thread: "lvcreate".into(), stack: stack.into() };
        (wait.woken, wait.waker) = (Some(ms(1_148)), Some(waker));
        let mut events = waited(FROZEN);
        events[0] = Event::OffCpu(wait);
        first(events).evidence.iter().any(|seen| &*seen.text == "thawed by lvcreate (4711)")
    };
    assert!(thawed_by("dev_suspend;thaw_bdev;thaw_super;percpu_up_write;try_to_wake_up"));
    assert!(!thawed_by("do_exit;percpu_up_write;try_to_wake_up"));
}

#[test]
fn one_fast_commit_is_one_root() {
    let other = [
        off_cpu(8, ms(1_010), ms(1_149), FAST_COMMIT),
        op(append(8, 1, ms(1_009), ms(1_150), 2)),
        request_event(request(2, 1, 1_008, 1_151, 2)),
        span("ext4_fc_commit", 7, device(), 1_001, 1_149),
    ];
    assert_eq!(run(with(waited(FAST_COMMIT), other)).1.by_root.len(), 1);
}

#[test]
fn xfs_log_space_is_exact_only_for_the_sleeping_thread() {
    let slept = |tid, device| {
        found(with(waited(LOG_SPACE), [span("xlog_grant_head_wait", tid, device, 1_002, 1_149)]))
    };
    assert_eq!(slept(7, device()), (Cause::XfsLogSpace, Confidence::Exact));
    assert_eq!(slept(8, device()), (Cause::XfsLogSpace, Confidence::Strong));
    assert_eq!(
        found(with(waited("x;schedule"), [span("xlog_grant_head_wait", 8, device(), 1_002, 1_149)])).0,
        Cause::KernelWait
    );
    // Two writers on one full log, one after the other.
    let (_, summary) = run(with(
        waited(LOG_SPACE),
        [
            span("xlog_grant_head_wait", 7, device(), 1_002, 1_149),
            span("xlog_grant_head_wait", 8, device(), 1_200, 1_349),
            off_cpu(8, ms(1_200), ms(1_349), LOG_SPACE),
            op(append(8, 1, ms(1_199), ms(1_350), 2)),
            request_event(request(2, 1, 1_199, 1_351, 2)),
        ],
    ));
    assert_eq!(summary.by_root.len(), 1);
}

fn reader(tid: u32, inode: u64, start: i64, end: i64) -> FileOp {
    FileOp { op: FileOpKind::Sendfile, batch: None, inode, ..append(tid, 0, ms(start), ms(end), 0) }
}

#[test]
fn inode_lock_wait_names_the_holder_and_its_own_wait() {
    assert_eq!(found(waited(XFS_INODE)), (Cause::XfsInodeLock, Confidence::Weak), "nobody was seen");
    let held = |reader: FileOp| first(with(waited(XFS_INODE), [op(reader)]));
    let ours = held(reader(9, 12, 990, 1_149));
    assert_eq!((ours.cause, ours.confidence), (Cause::XfsInodeLock, Confidence::Strong));
    assert!(ours.evidence.iter().any(|seen| seen.text.starts_with("meanwhile sendfile of topicF-0/")));
    for other in [
        reader(9, 13, 990, 1_149),
        reader(7, 12, 990, 1_000),
        reader(9, 12, 1_100, 1_149),
        FileOp { device: elsewhere(), ..reader(9, 12, 990, 1_149) },
        FileOp { op: FileOpKind::Fsync, ..reader(9, 12, 990, 1_149) },
    ] {
        assert_eq!(held(other.clone()).confidence, Confidence::Weak, "{other:?}");
    }
    let slow = first(with(
        waited(XFS_INODE),
        [op(reader(9, 12, 990, 1_149)), off_cpu(9, ms(992), ms(1_148), READ), io(992, 1_148)],
    ));
    assert_eq!(slow.chain, [Cause::XfsInodeLock, Cause::SlowDevice]);
    assert_eq!(slow.confidence, Confidence::Strong);
}

#[test]
fn page_wait_is_strong_and_names_only_block_requests_of_its_file() {
    for (stack, direction, cause) in
        [(STABLE, Direction::Write, Cause::StablePage), (PAGE, Direction::Read, Cause::PageLock)]
    {
        let is_device_named = |io: Event| {
            let verdict = first(with(waited(stack), [io]));
            assert_eq!((verdict.cause, verdict.confidence), (cause, Confidence::Strong));
            verdict.evidence.len() == 3
        };
        assert!(is_device_named(block(direction, 12, 1_002, 1_148)));
        assert!(!is_device_named(block(direction, 13, 1_002, 1_148)), "another file");
        assert!(!is_device_named(block(Direction::Other, 12, 1_002, 1_148)));
        assert!(!is_device_named(block(direction, 12, 1_002, 1_020)), "over long before");
    }
}

#[test]
fn reclaim_counts_per_thread_and_one_shortage_is_one_root() {
    let on_cpu =
        || vec![op(append(7, 0, ms(1_001), ms(1_150), 1)), request_event(request(1, 0, 1_000, 1_151, 1))];
    let ours = first(with(on_cpu(), [reclaim(7, true, 1_005, 1_145)]));
    assert_eq!((ours.cause, ours.confidence), (Cause::MemoryReclaim, Confidence::Exact));
    assert!(ours.evidence.iter().any(|seen| seen.text.contains("its memory cgroup was at its limit")));
    assert_eq!(found(with(on_cpu(), [reclaim(8, true, 1_005, 1_145)])).0, Cause::Unobserved);
    assert_eq!(found(with(on_cpu(), [reclaim(7, true, 800, 1_000)])).0, Cause::Unobserved);
    assert_eq!(found(waited(RECLAIM)), (Cause::MemoryReclaim, Confidence::Strong), "by the stack alone");
    let other = [
        reclaim(8, true, 1_300, 1_440),
        op(append(8, 1, ms(1_299), ms(1_441), 2)),
        request_event(request(2, 1, 1_298, 1_442, 2)),
    ];
    let both = with(with(on_cpu(), [reclaim(7, true, 1_005, 1_145)]), other);
    let (_, summary) = run(both);
    assert_eq!((summary.by_root.len(), summary.by_root[0].requests), (1, 2));
    assert_eq!(&*summary.by_root[0].root, "memory-reclaim:cgroup:1005000000");
}

#[test]
fn longest_cause_is_named_and_the_shorter_one_is_evidence() {
    let events = |unknown_until| {
        vec![
            off_cpu(7, ms(1_002), ms(1_062), JOURNAL_STACK),
            reclaim(7, false, 1_065, 1_115),
            op(append(7, 0, ms(1_001), ms(unknown_until), 1)),
            request_event(request(1, 0, 1_000, unknown_until + 1, 1)),
            commit(2285, 1_000, 1_063),
        ]
    };
    let verdict = first(events(1_120));
    assert_eq!((verdict.cause, verdict.confidence), (Cause::JournalCommit, Confidence::Exact));
    let last = verdict.evidence.last().unwrap();
    assert_eq!(last.text, "besides, 50 ms in direct reclaim (memory-reclaim)");
    // The unexplained time outweighs each of them.
    assert_eq!(found(events(1_180)).0, Cause::Unobserved);
}

#[test]
fn reclaim_outside_file_operations_is_a_cause() {
    let before_the_append = |tid| {
        vec![
            reclaim(tid, true, 1_010, 1_140),
            op(append(7, 0, ms(1_141), ms(1_142), 1)),
            request_event(request(1, 0, 1_000, 1_151, 1)),
        ]
    };
    assert_eq!(found(before_the_append(7)), (Cause::MemoryReclaim, Confidence::Strong));
    assert_eq!(
        found(before_the_append(8)),
        (Cause::MemoryReclaim, Confidence::Weak),
        "one it may have waited for"
    );
    let with_another = |thread: &str, until| {
        let Event::Reclaim(mut other) = reclaim(8, true, 1_010, until) else { unreachable!() };
        other.thread = thread.into();
        found(with(before_the_append(7).split_off(1), [Event::Reclaim(other)])).0
    };
    assert_eq!(with_another("data-plane-kafk", 1_140), Cause::MemoryReclaim);
    assert_eq!(with_another("data-plane-kafk", 1_060), Cause::Unobserved, "not for most of it");
    assert_eq!(with_another("C2 CompilerThre", 1_140), Cause::Unobserved, "nobody waits for it");
}

#[test]
fn page_lock_by_write_back_leads_to_the_device_of_its_write() {
    let page_wait = |tid, stack: &str| {
        let mut wait = off_cpu(7, ms(1_001), ms(1_149), PAGE);
        let Event::OffCpu(interval) = &mut wait else { unreachable!() };
        interval.waker = Some(Waker { tid, thread: "kworker/u8:1".into(), stack: stack.into() });
        wait
    };
    let named = |wait: Event, io: Event| {
        let append = append(7, 0, ms(1_001), ms(1_150), 1);
        let verdict = run([wait, io, op(append), request_event(request(1, 0, 1_000, 1_151, 1))]).0.remove(0);
        (verdict.chain, verdict.evidence.iter().any(|seen| seen.text.contains("to write the page back")))
    };
    let at_device = |tid| {
        let mut io = block(Direction::Write, 99, 1_002, 1_148);
        let Event::BlockIo(seen) = &mut io else { unreachable!() };
        seen.tid = tid;
        io
    };
    let writes = "wb_workfn;do_writepages;iomap_writepages;folio_wake_bit";
    assert_eq!(named(page_wait(44, writes), at_device(44)), (vec![Cause::PageLock, Cause::SlowDevice], true));
    assert_eq!(named(page_wait(44, writes), at_device(45)), (vec![Cause::PageLock], true));
    let reads = "vfs_read;filemap_read;folio_unlock";
    assert_eq!(named(page_wait(44, reads), at_device(44)), (vec![Cause::PageLock], false));
    let interrupted = "do_writepages;asm_sysvec_apic_timer_interrupt;folio_unlock";
    assert_eq!(named(page_wait(44, interrupted), at_device(44)), (vec![Cause::PageLock], false));
}

pub(super) fn starved(tid: u32, start: i64, end: i64) -> Event {
    Event::OffCpu(Box::new(OffCpu {
        start: ms(start),
        end: ms(end),
        pid: 1,
        tid,
        thread: "data-plane-kafk".into(),
        preempted: true,
        stack: "".into(),
        ..Row::empty()
    }))
}

fn throttled(ratio: f64, start: i64, end: i64) -> Event {
    Event::HostSample(Box::new(HostSample {
        start: ms(start),
        end: ms(end),
        scope: HostScope::Cgroup,
        name: "/kafka".into(),
        metric: "cpu_throttled_ratio".into(),
        value: ratio,
    }))
}

/// A request whose handler had no CPU from 1,010 to 1,140 ms, before its append.
fn without_cpu(tid: u32) -> Vec<Event> {
    vec![
        starved(tid, 1_010, 1_140),
        op(append(7, 0, ms(1_141), ms(1_142), 1)),
        request_event(request(1, 0, 1_000, 1_151, 1)),
    ]
}

#[test]
fn run_queue_wait_is_strong_for_the_handler_and_weak_for_others() {
    assert_eq!(found(without_cpu(7)), (Cause::RunQueue, Confidence::Strong));
    assert_eq!(found(without_cpu(8)), (Cause::RunQueue, Confidence::Weak), "one that it may have waited for");
    let with_name = |name: &str, start, end| {
        let Event::OffCpu(mut away) = starved(8, start, end) else { unreachable!() };
        away.thread = name.into();
        with(without_cpu(7).split_off(1), [Event::OffCpu(away)])
    };
    assert_eq!(found(with_name("C2 CompilerThre", 1_010, 1_140)).0, Cause::Unobserved, "nobody waits for it");
    assert_eq!(found(with_name("VM Thread", 1_010, 1_140)), (Cause::RunQueue, Confidence::Weak));
    assert_eq!(found(with_name("VM Thread", 1_010, 1_060)).0, Cause::Unobserved, "not for most of it");
    // Within its write it is the thread's own time.
    let inside = vec![
        starved(7, 1_010, 1_140),
        op(append(7, 0, ms(1_001), ms(1_150), 1)),
        request_event(request(1, 0, 1_000, 1_151, 1)),
    ];
    assert_eq!(found(inside), (Cause::RunQueue, Confidence::Exact));
}

#[test]
fn cpu_quota_is_strong_with_a_starved_thread_and_weak_alone() {
    let quota = || throttled(0.6, 500, 1_500);
    let both = first(with(without_cpu(7), [quota()]));
    assert_eq!((both.cause, both.confidence), (Cause::CpuThrottled, Confidence::Strong));
    assert_eq!(&*both.root, "cpu-throttled:/kafka:500000000");
    let unseen = || without_cpu(7).split_off(1);
    let alone = with(unseen(), [quota()]);
    assert_eq!(found(alone), (Cause::CpuThrottled, Confidence::Weak));
    for other in [throttled(0.05, 500, 1_500), throttled(0.9, 0, 1_010), throttled(0.9, 1_140, 1_500)] {
        assert_eq!(found(with(unseen(), [other])).0, Cause::Unobserved);
        // A proven commit is not a quota.
    }
    // Throttling is counted when it ends: the counters rose after the thread had a CPU again.
    let counted = |ratio, start, end| found(with(without_cpu(7), [throttled(ratio, start, end)]));
    assert_eq!(counted(0.9, 1_120, 1_500), (Cause::CpuThrottled, Confidence::Strong));
    assert_eq!(counted(0.1, 1_120, 1_500), (Cause::RunQueue, Confidence::Strong), "by less than it was away");
    assert_eq!(counted(0.9, 0, 1_030), (Cause::RunQueue, Confidence::Strong), "it was away after that too");
    let proven = with(waited(JOURNAL_STACK), [commit(2285, 1_000, 1_150), quota()]);
    assert_eq!(found(proven), (Cause::JournalCommit, Confidence::Exact));
}

#[test]
fn slow_device_episode_is_one_root_and_exact_only_by_file() {
    let own = |io: Event| found(with(waited(READ), [io]));
    assert_eq!(own(block(Direction::Read, 12, 1_002, 1_149)), (Cause::SlowDevice, Confidence::Exact));
    assert_eq!(own(block(Direction::Read, 12, 1_002, 1_140)), (Cause::SlowDevice, Confidence::Strong));
    assert_eq!(own(block(Direction::Read, 13, 1_002, 1_149)), (Cause::SlowDevice, Confidence::Strong));
    let Event::BlockIo(other) = block(Direction::Read, 12, 1_002, 1_149) else { unreachable!() };
    assert_eq!(own(Event::BlockIo(Box::new(BlockIo { device: elsewhere(), ..*other }))).0, Cause::KernelWait);
    let next = [
        block(Direction::Read, 12, 1_002, 1_149),
        block(Direction::Read, 14, 1_500, 1_640),
        off_cpu(8, ms(1_500), ms(1_640), READ),
        op(append(8, 1, ms(1_499), ms(1_641), 2)),
        request_event(request(2, 1, 1_499, 1_642, 2)),
    ];
    let (_, summary) = run(with(waited(READ), next));
    assert_eq!((summary.by_root.len(), summary.by_root[0].requests), (1, 2));
}

#[test]
fn paused_writers_are_one_root_across_threads_and_seconds() {
    let pause = |tid, start, end| {
        Event::DirtyThrottle(DirtyThrottle {
            start: ms(start),
            end: ms(end),
            tid,
            dirty_pages: 9,
            limit_pages: 8,
        })
    };
    let next = [
        pause(7, 1_002, 1_149),
        pause(8, 1_950, 2_090),
        off_cpu(8, ms(1_950), ms(2_090), DIRTY),
        op(append(8, 1, ms(1_949), ms(2_091), 2)),
        request_event(request(2, 1, 1_949, 2_092, 2)),
    ];
    let (_, summary) = run(with(waited(DIRTY), next));
    assert_eq!((summary.by_root.len(), summary.by_root[0].requests), (1, 2));
}

fn moved(tid: u32, thread: &str, kind: FileKind, bytes: u64) -> Event {
    op(FileOp {
        op: FileOpKind::Read,
        thread: thread.into(),
        kind,
        file: format!("topicF-3/{}", kind.as_str()).into(),
        bytes: Some(bytes),
        disk_bytes: Some(bytes),
        batch: None,
        ..append(tid, 3, ms(900), ms(1_010), 0)
    })
}

#[test]
fn device_load_is_weak_and_needs_most_of_the_bytes() {
    let busy = |load: Event| first(with(waited(READ), [block(Direction::Read, 12, 1_002, 1_149), load]));
    let cleaner = busy(moved(40, "kafka-log-clean", FileKind::Log, 8 << 20));
    assert_eq!(cleaner.chain, [Cause::SlowDevice, Cause::LogCleaner]);
    assert_eq!((cleaner.cause, cleaner.confidence), (Cause::LogCleaner, Confidence::Weak));
    let tiers = busy(moved(41, "pool-1", FileKind::TierState, 8 << 20));
    assert_eq!(tiers.chain, [Cause::SlowDevice, Cause::TierStateIo]);
    assert_eq!(
        busy(moved(40, "kafka-log-clean", FileKind::Log, 1_000)).cause,
        Cause::SlowDevice,
        "next to nothing"
    );
    assert_eq!(busy(moved(42, "data-plane-kafk", FileKind::Log, 8 << 20)).cause, Cause::SlowDevice);
    let more = with(
        waited(READ),
        [
            block(Direction::Read, 12, 1_002, 1_149),
            moved(40, "kafka-log-clean", FileKind::Log, 8 << 20),
            moved(42, "data-plane-kafk", FileKind::Log, 9 << 20),
        ],
    );
    assert_eq!(first(more).cause, Cause::SlowDevice, "others read more");
}

/// If the page cache was not watched, reads from the device are unknown.
/// A reader may have kept the device busier than the log cleaner's writes did.
#[test]
fn device_load_is_unknown_if_unwatched_reads_may_exceed_it() {
    let of = |thread: &str, kind, own: FileOp| {
        let Event::FileOp(moved) = moved(40, thread, kind, 8 << 20) else { unreachable!() };
        op(FileOp { op: own.op, disk_bytes: own.disk_bytes, bytes: own.bytes, ..*moved })
    };
    let written = |bytes| {
        let own = FileOp { op: FileOpKind::Write, disk_bytes: None, bytes, ..append(40, 3, ms(0), ms(1), 0) };
        of("kafka-log-clean", FileKind::Log, own)
    };
    let unknown = |kind, bytes| {
        let own = FileOp { op: kind, disk_bytes: None, bytes, ..append(42, 3, ms(0), ms(1), 0) };
        of("data-plane-kafk", FileKind::Log, own)
    };
    let busy = |other: Event| {
        let load = [block(Direction::Read, 12, 1_002, 1_149), written(Some(8 << 20)), other];
        first(with(waited(READ), load)).cause
    };
    assert_eq!(
        busy(unknown(FileOpKind::Read, Some(7 << 20))),
        Cause::LogCleaner,
        "however much of it that was"
    );
    assert_eq!(busy(unknown(FileOpKind::Read, None)), Cause::LogCleaner, "a read that failed");
    for kind in [FileOpKind::Read, FileOpKind::Sendfile, FileOpKind::Splice, FileOpKind::MmapFault] {
        assert_eq!(busy(unknown(kind, Some(9 << 20))), Cause::SlowDevice, "{kind:?}");
    }
}

#[test]
fn index_page_fault_is_followed_to_the_device_or_reclaim() {
    let fault = FileOp {
        op: FileOpKind::MmapFault,
        kind: FileKind::Index,
        file: "topicF-0/00000000000000000000.index".into(),
        batch: None,
        inode: 77,
        ..append(7, 0, ms(1_002), ms(1_139), 0)
    };
    let events = |io| {
        vec![
            op(fault.clone()),
            io,
            op(append(7, 0, ms(1_140), ms(1_141), 1)),
            request_event(request(1, 0, 1_000, 1_142, 1)),
        ]
    };
    let own = first(events(block(Direction::Read, 77, 1_003, 1_139)));
    assert_eq!(own.chain, [Cause::IndexPageFault, Cause::SlowDevice]);
    assert_eq!(own.confidence, Confidence::Exact);
    assert!(own.advice.iter().any(|advice| advice.contains("KAFKA-6432")), "{:?}", own.advice);
    assert_eq!(first(events(block(Direction::Read, 77, 1_003, 1_020))).chain, [Cause::IndexPageFault]);
    // Its thread had to free memory for the page first.
    let freed = first(events(reclaim(7, true, 1_003, 1_139)));
    assert_eq!(freed.chain, [Cause::IndexPageFault, Cause::MemoryReclaim]);
    assert_eq!(first(events(reclaim(7, true, 1_003, 1_020))).chain, [Cause::IndexPageFault]);
}

/// A request whose response of 200,000 bytes left from 1,010 to 1,150 ms.
/// The broker had written all of it by `handed`.
fn leaving(handed: i64) -> (Request, Vec<Event>) {
    let ours = Request {
        response: Some(ms(1_010)),
        sequence: Some(100),
        response_sequence: Some(5_000),
        response_bytes: Some(200_000),
        ..request(1, 0, 1_000, 1_150, 1)
    };
    let written = SocketOp {
        start: ms(1_010),
        end: ms(handed),
        op: SocketOpKind::Write,
        pid: 1,
        tid: 3,
        thread: "data-plane-kafk".into(),
        local: ours.broker,
        remote: ours.client,
        bytes: Some(200_004),
        sequence: 5_000,
        sequence_end: 205_004,
        peer_window: Some(65_535),
        ..Row::empty()
    };
    let events = vec![
        op(append(7, 0, ms(1_001), ms(1_002), 1)),
        Event::SocketOp(Box::new(written)),
        request_event(ours.clone()),
    ];
    (ours, events)
}

fn trouble(request: &Request, kind: TcpEventKind, at: i64) -> Event {
    Event::TcpEvent(Box::new(TcpEvent {
        at: ms(at),
        kind,
        local: Some(request.broker),
        remote: Some(request.client),
        count: 1,
    }))
}

#[test]
fn slow_client_needs_a_written_response_or_tcp_trouble() {
    assert_eq!(found(leaving(1_011).1), (Cause::SlowClient, Confidence::Exact));
    let (ours, late) = leaving(1_149);
    assert_eq!(found(late.clone()).0, Cause::Unobserved, "the network thread may have been elsewhere");
    for kind in [TcpEventKind::ZeroWindow, TcpEventKind::Retransmit] {
        let closed = first(with(late.clone(), [trouble(&ours, kind, 1_050)]));
        assert_eq!((closed.cause, closed.confidence), (Cause::SlowClient, Confidence::Strong));
        assert_eq!(found(with(late.clone(), [trouble(&ours, kind, 900)])).0, Cause::Unobserved);
        let others = Request { client: "10.0.0.9:1".parse().unwrap(), ..ours.clone() };
        assert_eq!(found(with(late.clone(), [trouble(&others, kind, 1_050)])).0, Cause::Unobserved);
    }
    let unscaled = first(with(leaving(1_011).1, [trouble(&ours, TcpEventKind::NoWindowScaling, 10)]));
    assert!(unscaled.evidence.iter().any(|seen| seen.text.contains("no window scaling")));
}

/// The same response in two writes: half of it at once, the rest at 1,149 ms, when the client had room for `room`
/// bytes.
fn in_two_writes(room: u32) -> (Request, Vec<Event>) {
    let (ours, mut events) = leaving(1_011);
    let Some(Event::SocketOp(whole)) = events.get(1).cloned() else { unreachable!() };
    let half = SocketOp { end: ms(1_011), sequence_end: 105_000, bytes: Some(100_000), ..*whole.clone() };
    let rest =
        SocketOp { start: ms(1_149), end: ms(1_150), sequence: 105_000, peer_window: Some(room), ..*whole };
    events.splice(1..2, [half, rest].map(|call| Event::SocketOp(Box::new(call))));
    (ours, events)
}

#[test]
fn full_client_window_is_slow_client_unless_the_writer_was_busy() {
    assert_eq!(found(in_two_writes(20_000).1), (Cause::SlowClient, Confidence::Strong));
    assert_eq!(found(in_two_writes(200_000).1).0, Cause::Unobserved, "there was room");
    assert_eq!(found(with(in_two_writes(20_000).1, [starved(3, 1_020, 1_140)])).0, Cause::Unobserved);
    let stopped = found(with(in_two_writes(20_000).1, [stop(1_020, 1_140, None, 1)]));
    assert_eq!(stopped.0, Cause::Unobserved);
    let (ours, events) = in_two_writes(20_000);
    let Some(Event::SocketOp(own)) = events.get(1).cloned() else { unreachable!() };
    let other = Request { client: "10.0.0.9:1".parse().unwrap(), ..ours };
    let elsewhere = SocketOp { remote: other.client, start: ms(1_020), end: ms(1_140), ..*own };
    let reading = FileOp { op: FileOpKind::Read, ..append(3, 9, ms(1_020), ms(1_140), 0) };
    assert_eq!(found(with(events.clone(), [op(reading)])).0, Cause::Unobserved, "at work on a file");
    assert_eq!(found(with(events, [Event::SocketOp(Box::new(elsewhere))])).0, Cause::Unobserved);
}

/// With TLS the sequence numbers of a response are unknown. Those of the calls that wrote it are known.
#[test]
fn full_client_window_is_slow_client_over_tls_too() {
    let with_room = |room| found(over_tls(in_two_writes(room)));
    assert_eq!(with_room(20_000), (Cause::SlowClient, Confidence::Strong));
    assert_eq!(with_room(200_000).0, Cause::Unobserved, "there was room");
}

/// The request ends with the broker's call that wrote the response: that call's time after the last write is not the
/// client's.
#[test]
fn time_after_the_last_tls_write_is_not_slow_client() {
    assert_eq!(found(leaving(1_011).1), (Cause::SlowClient, Confidence::Exact));
    assert_eq!(found(over_tls(leaving(1_011))).0, Cause::Unobserved);
}

/// The end of a TLS request is that of the broker's call: a stop or a lack of a CPU before it delays the request.
#[test]
fn stop_while_a_tls_response_is_written_delays_the_request() {
    let with = |meanwhile: Event| found(with(over_tls(leaving(1_011)), [meanwhile]));
    assert_eq!(with(stop(1_012, 1_148, None, 1)).0, Cause::GcPause);
    assert_eq!(with(starved(3, 1_012, 1_148)).0, Cause::RunQueue);
    assert_eq!(with(reclaim(3, true, 1_012, 1_148)).0, Cause::MemoryReclaim);
    assert_eq!(with(starved(4, 1_012, 1_148)).0, Cause::Unobserved, "another thread");
    let by_packets = [stop(1_012, 1_148, None, 1), starved(3, 1_012, 1_148)];
    assert_eq!(found([leaving(1_011).1, by_packets.into()].concat()).0, Cause::SlowClient);
}

/// The same request, as the agent in the broker's JVM sees it.
fn over_tls((ours, mut events): (Request, Vec<Event>)) -> Vec<Event> {
    events.retain(|event| !matches!(event, Event::Request(_)));
    let seen_by = Some(RequestSource::TlsAgent);
    events.push(request_event(Request { seen_by, sequence: None, response_sequence: None, ..ours }));
    events
}

#[test]
fn lossy_link_and_slow_disk_are_not_confused() {
    let (ours, _) = leaving(1_149);
    let lossy = with(
        waited(JOURNAL_STACK),
        [commit(2285, 1_000, 1_150), trouble(&ours, TcpEventKind::Retransmit, 1_050)],
    );
    assert_eq!(found(lossy), (Cause::JournalCommit, Confidence::Exact));
    let mut trickled = request(1, 0, 1_000, 1_151, 1);
    trickled.arrival_end = ms(1_140);
    let beside = vec![
        off_cpu(7, ms(1_142), ms(1_149), JOURNAL_STACK),
        op(append(7, 0, ms(1_141), ms(1_150), 1)),
        request_event(trickled),
        commit(2285, 1_000, 1_150),
    ];
    assert_eq!(found(beside), (Cause::SlowClient, Confidence::Exact));
}

#[test]
fn large_request_during_a_jvm_pause_is_not_slow_client() {
    let mut large = request(1, 0, 1_000, 1_151, 1);
    (large.arrival_end, large.request_bytes) = (ms(1_140), 1 << 20);
    let events = || vec![op(append(7, 0, ms(1_141), ms(1_150), 1)), request_event(large.clone())];
    assert_eq!(found(events()), (Cause::SlowClient, Confidence::Strong));
    assert_eq!(found(with(events(), [stop(1_010, 1_135, None, 1)])).0, Cause::Unobserved);
}

/// With TLS the arrival of bytes is unknown, only when the broker read them: between two calls it may itself have
/// been delayed.
#[test]
fn late_read_by_a_delayed_network_thread_is_not_slow_client() {
    let ours = Request { arrival_end: ms(1_200), ..numbered(request(1, 0, 1_000, 1_205, 1)) };
    let with = |meanwhile: Vec<Event>| {
        let reads = [ms(1_000), us(1_199_800)].map(|start| read(&ours, start, start + us(100)));
        let append = op(append(7, 0, ms(1_203), ms(1_204), 1));
        let by_agent = Some(RequestSource::TlsAgent);
        let ours = Request { seen_by: by_agent, sequence: None, response_sequence: None, ..ours.clone() };
        found([meanwhile, reads.into(), vec![append, request_event(ours)]].concat())
    };
    assert_eq!(with(Vec::new()), (Cause::SlowClient, Confidence::Strong));
    assert_eq!(with(vec![stop(1_010, 1_190, None, 1)]), (Cause::GcPause, Confidence::Strong));
    assert_eq!(with(vec![stop(1_010, 1_060, None, 1)]).0, Cause::SlowClient, "longer than the pause");
    assert_eq!(with(vec![starved(NETWORK, 1_010, 1_190)]).0, Cause::RunQueue);
    assert_eq!(with(vec![starved(NETWORK + 1, 1_010, 1_190)]).0, Cause::SlowClient, "another thread");
    assert_eq!(with(vec![reclaim(NETWORK, true, 1_010, 1_190)]).0, Cause::MemoryReclaim);
    let reading = FileOp { op: FileOpKind::Read, ..append(NETWORK, 9, ms(1_010), ms(1_190), 0) };
    assert_eq!(with(vec![op(reading)]).0, Cause::Unobserved, "a file for another");
    let other = Request { client: "10.0.0.9:1".parse().unwrap(), ..ours.clone() };
    assert_eq!(with(vec![read(&other, ms(1_010), ms(1_190))]).0, Cause::Unobserved, "elsewhere");
}

fn stop(start: i64, end: i64, gc_id: Option<u32>, pid: u32) -> Event {
    Event::JvmPause(Box::new(JvmPause {
        start: ms(start),
        end: ms(end),
        pid,
        kind: JvmPauseKind::Gc,
        operation: "G1New".into(),
        cause: "".into(),
        gc_id,
        ..Row::empty()
    }))
}

#[test]
fn pause_reported_by_two_sources_is_one_root() {
    let hurt = |number, at: i64| {
        [
            op(append(7, number, ms(at), ms(at + 1), number as u32)),
            request_event(request(number, number, at - 140, at + 2, number as u32)),
        ]
    };
    // One request saw all of it, the other its end; the probes know no number, Flight Recorder no process.
    let events = hurt(1, 1_140).into_iter().chain(hurt(2, 1_145));
    let reports = [stop(1_002, 1_138, Some(41), 0), stop(1_001, 1_139, None, 1)];
    for reports in [reports.to_vec(), vec![reports[1].clone(), reports[0].clone()]] {
        let (verdicts, summary) = run(events.clone().chain(reports));
        assert_eq!((summary.by_root.len(), &*summary.by_root[0].root), (1, "gc-pause:1:41"));
        assert!(verdicts.iter().all(|verdict| verdict.cause == Cause::GcPause));
    }
}

#[test]
fn safepoint_delayed_by_a_starved_thread_is_run_queue() {
    let late = |away: Event| {
        let Event::JvmPause(mut stop) = stop(1_005, 1_139, None, 1) else { unreachable!() };
        (stop.kind, stop.time_to_safepoint) = (JvmPauseKind::Safepoint, Some(ms(130)));
        let ours = [op(append(7, 0, ms(1_140), ms(1_141), 1)), request_event(request(1, 0, 1_000, 1_142, 1))];
        let verdict = first(ours.into_iter().chain([Event::JvmPause(stop), away]).collect());
        (verdict.chain, verdict.confidence)
    };
    let both = (vec![Cause::Safepoint, Cause::RunQueue], Confidence::Strong);
    assert_eq!(late(starved(9, 1_010, 1_135)), both);
    let nobody = (vec![Cause::Safepoint], Confidence::Strong);
    assert_eq!(late(starved(9, 1_010, 1_100)), nobody, "it ran long before");
    assert_eq!(late(starved(9, 1_120, 1_135)), nobody, "not for most of it");
}

/// A completely observed request: read at 1,001 ms, written from 1,140, answered at 1,151.
fn rewritten(bytes: u32, crc: u32) -> Vec<Event> {
    let ours =
        Request { sequence: Some(100), response_sequence: Some(5_000), ..request(1, 0, 1_000, 1_151, 1) };
    let mut written = append(7, 0, ms(1_140), ms(1_150), 1);
    written.batch = written.batch.map(|head| model::BatchHead { bytes, crc, ..head });
    let call = |kind, sequence: u32, bytes: u32, at: i64| SocketOp {
        start: ms(at),
        end: ms(at),
        op: kind,
        pid: 1,
        tid: 3,
        thread: "data-plane-kafk".into(),
        local: ours.broker,
        remote: ours.client,
        bytes: Some(bytes.into()),
        sequence,
        sequence_end: sequence + bytes,
        ..Row::empty()
    };
    vec![
        Event::SocketOp(Box::new(call(SocketOpKind::Read, 100, 604, 1_001))),
        op(append(7, 1, ms(1_001), ms(1_002), 9)),
        op(written),
        Event::SocketOp(Box::new(call(SocketOpKind::Write, 5_000, 64, 1_151))),
        request_event(ours),
    ]
}

#[test]
fn recompression_is_recognized_by_the_batch_size() {
    let verdict = first(rewritten(400, 77));
    assert_eq!((verdict.cause, verdict.confidence), (Cause::Recompression, Confidence::Strong));
    assert_eq!(verdict.stages.longest(), Stage::Handler);
    assert_eq!(found(rewritten(498, 77)).0, Cause::Unobserved, "the append's time was set in it");
    assert_eq!(found(rewritten(498, 1)).0, Cause::Unobserved);
    // A handler that had hardly any CPU was not compressing; one that shared it was.
    assert_eq!(found(with(rewritten(400, 77), [starved(7, 1_003, 1_139)])).0, Cause::RunQueue);
    assert_eq!(found(with(rewritten(400, 77), [starved(7, 1_010, 1_100)])).0, Cause::Recompression);
}

#[test]
fn txn_verification_is_joined_by_the_transactional_id() {
    let verified = |id: &str, start, end| {
        let ours = Request { transactional_id: Some("payments".into()), ..request(1, 0, 1_000, 1_151, 1) };
        let asked_of = Request {
            api: "ADD_PARTITIONS_TO_TXN",
            api_key: 24,
            transactional_id: Some(id.into()),
            partitions: Vec::new(),
            ..request(2, 0, start, end, 2)
        };
        let events =
            vec![op(append(7, 0, ms(1_140), ms(1_150), 1)), request_event(asked_of), request_event(ours)];
        let verdicts = run(events).0;
        verdicts.into_iter().find(|verdict| verdict.request.api_key == 0).unwrap()
    };
    let ours = verified("payments", 1_002, 1_139);
    assert_eq!((ours.cause, ours.confidence), (Cause::TxnVerification, Confidence::Strong));
    assert_eq!(verified("orders", 1_002, 1_139).cause, Cause::Unobserved);
    assert_eq!(verified("payments", 800, 1_001).cause, Cause::Unobserved);
}

#[test]
fn down_conversion_needs_an_old_client_and_newer_records() {
    let fetched = |version, magic| {
        let mut written = append(7, 0, ms(10), ms(11), 1);
        written.batch = written.batch.map(|head| model::BatchHead { magic, ..head });
        let fetch = Request {
            api: "FETCH",
            api_key: 1,
            api_version: version,
            data: Some(ms(10)),
            min_bytes: Some(1),
            max_wait_ms: Some(500),
            acks: None,
            ..request(1, 0, 1_000, 1_151, 9)
        };
        let (verdicts, _) = run([op(written), request_event(fetch)]);
        verdicts.first().map(|verdict| (verdict.cause, verdict.confidence))
    };
    assert_eq!(fetched(3, 2), Some((Cause::DownConversion, Confidence::Weak)));
    assert_eq!(fetched(1, 1), Some((Cause::DownConversion, Confidence::Weak)));
    for (version, magic) in [(4, 2), (12, 2), (3, 1), (1, 0)] {
        assert_eq!(fetched(version, magic), Some((Cause::Unobserved, Confidence::Weak)), "{version} {magic}");
    }
}

#[test]
fn small_cause_is_not_named_if_most_time_is_unknown() {
    // The append took 140 ms on the CPU or in something unknown, after a short wait for the log.
    let (verdicts, _) = run([
        op(append(8, 0, ms(1_000), ms(1_005), 2)),
        op(append(7, 0, Nanos(ms(1_005).0 + 100_000), ms(1_150), 1)),
        request_event(request(1, 0, 1_000, 1_151, 1)),
    ]);
    assert_eq!(verdicts[0].cause, Cause::Unobserved);
    assert!(verdicts[0].stages.of(Stage::Append) > ms(140));
}

/// An event of any of these threads: for properties that always hold.
pub(super) fn anything_of(tid: u32, start: Nanos, end: Nanos) -> Event {
    const STACKS: [&str; 9] =
        [RECLAIM, FAST_COMMIT, LOG_SPACE, XFS_INODE, STABLE, PAGE, READ, DIRTY, "futex_wait;schedule"];
    let Event::OffCpu(mut away) = off_cpu(tid, start, end, "") else { unreachable!() };
    let chosen = (start.0 / 1_000_000) as usize % STACKS.len();
    away.stack = STACKS.get(chosen).copied().unwrap_or_default().into();
    away.preempted = start.0 % 2_000_000 == 0;
    away.woken = (end.0 % 3_000_000 == 0).then_some(Nanos((start.0 + end.0) / 2));
    Event::OffCpu(away)
}

/// Any event that is no thread's wait.
pub(super) fn trouble_of_some_kind(kind: usize, tid: u32, start: Nanos, end: Nanos) -> Event {
    let (from, until) = (start.0 / 1_000_000, end.0 / 1_000_000);
    let ours = request(1, 6, from, until, 1);
    match kind {
        0 => reclaim(tid, until % 2 == 0, from, until),
        1 => span("ext4_fc_commit", tid, device(), from, until),
        2 => span("xlog_grant_head_wait", tid, device(), from, until),
        3 => throttled(0.5, from, until),
        4 => trouble(&ours, TcpEventKind::Retransmit, from),
        5 => block(Direction::Write, 12, from, until),
        _ => Event::SocketOp(Box::new(SocketOp {
            start,
            end,
            op: if from % 2 == 0 { SocketOpKind::Read } else { SocketOpKind::Write },
            pid: 1,
            tid,
            thread: "data-plane-kafk".into(),
            local: ours.broker,
            remote: ours.client,
            bytes: Some(64),
            sequence: if from % 2 == 0 { 100 } else { 5_000 },
            sequence_end: if from % 2 == 0 { 704 } else { 5_064 },
            peer_window: Some(0),
            ..Row::empty()
        })),
    }
}
