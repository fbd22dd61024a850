//! The probes on this kernel: known writes, an injected wait, a journal commit and a pause for dirty pages, on a fresh
//! ext4. Needs root, BPF and `BROKERSCOPE_LIVE_TESTS=1`; without that it says loudly that it did not run, and with it
//! anything that is missing is a failure.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "live/gate.rs"]
mod gate;
#[allow(dead_code, reason = "shared with the other live tests")]
#[path = "live/scene.rs"]
mod scene;
#[path = "live/watched.rs"]
mod watched;

use std::fs::{File, OpenOptions, create_dir_all, rename};
use std::io::{IoSlice, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use model::{Event as Row, FileOpKind, JournalCommit, OffCpu};
use probes::{Event, Facts, FileOp, Options, Plan, Probes, Purpose, Target};
use scene::{FileSystem, Freeze};
use watched::Watch;

const HEAD: usize = 61;
const GIVE_UP: Duration = Duration::from_secs(120);
const SEGMENT: &str = "data/topicA-0/00000000000000000000.log";

#[test]
fn known_operations_are_reported_exactly_once() {
    if !gate::is_open() {
        return;
    }
    let file_system = FileSystem::new();
    let mut watch = Watch::new();
    let expected = write_a_segment(&file_system, &mut watch);
    check_writes(&watch, &expected);
    check_commit(&watch, &expected);
    check_block_io(&watch, &file_system);
    check_planted_wait(&file_system, &mut watch);
    check_wait_after_write(&file_system, &mut watch);
    check_no_cpu(&file_system, &mut watch);
    check_dirty_throttling(&file_system, &mut watch);
    let losses = watch.probes.losses();
    assert!(!losses.has_lost_events(), "{losses:?}");
    assert_eq!((losses.heads_unread, losses.stacks_missing), (0, 0));
    drop(watch);
    check_full_ring(&file_system);
    check_device_filter(&file_system);
    check_rare_events_wake(&file_system);
}

impl Watch {
    fn new() -> Self {
        Self::with(&Options::default())
    }

    fn with(options: &Options) -> Self {
        let plan = Plan::choose(&Facts::survey());
        // Not every kernel has what these need: functions that can be hooked, and the times of each CPU. matrix.rs and
        // host_pauses.rs test them where available.
        let elsewhere =
            [Purpose::Ext4Functions, Purpose::XfsFunctions, Purpose::BtrfsFunctions, Purpose::CpuGaps];
        for purpose in Purpose::ALL.into_iter().filter(|purpose| !elsewhere.contains(purpose)) {
            assert!(plan.uses(purpose), "{purpose:?} is missing: {:#?}", plan.hooks);
        }
        let target = Target { pid: std::process::id(), stacks: true };
        let probes = Probes::attach_with(&plan, &target, options).unwrap();
        assert!(probes.plan() == &plan, "the kernel refused something: {:#?}", probes.plan().hooks);
        Self::by(probes, GIVE_UP)
    }

    /// Writes to one inode of one file system, in order.
    fn writes(&self, device: (u32, u32), inode: u64) -> Vec<&FileOp> {
        let ops = self.ops(|op| op.op == FileOpKind::Write);
        ops.filter(|write| write.device == device && write.inode == inode).collect()
    }

    fn ops(&self, wanted: impl Fn(&FileOp) -> bool) -> impl Iterator<Item = &FileOp> {
        self.events.iter().filter_map(move |event| match event {
            Event::FileOp(op) if wanted(op) => Some(op),
            _ => None,
        })
    }

    fn commits(&self, device: (u32, u32)) -> impl Iterator<Item = &JournalCommit> {
        self.events.iter().filter_map(move |event| match event {
            Event::Row(Row::JournalCommit(commit))
                if (commit.device.major, commit.device.minor) == device =>
            {
                Some(&**commit)
            }
            _ => None,
        })
    }

    fn off_cpu(&self, tid: u32) -> impl Iterator<Item = &OffCpu> {
        self.events.iter().filter_map(move |event| match event {
            Event::Row(Row::OffCpu(interval)) if interval.tid == tid => Some(&**interval),
            _ => None,
        })
    }
}

/// The whole path inside the file system; empty if it was lost.
fn path(op: &FileOp) -> &str {
    op.path.as_ref().filter(|path| path.whole).map_or("", |path| &*path.path)
}

/// Expected report of a write.
struct Expectation {
    result: i64,
    offset: u64,
    head: Vec<u8>,
}

struct Segment {
    device: (u32, u32),
    inode: u64,
    fd: i32,
    writes: Vec<Expectation>,
}

/// Bytes that distinguish the writes.
fn pattern(tag: u8, length: usize) -> Vec<u8> {
    (0..length).map(|i| tag ^ (i as u8)).collect()
}

/// All kinds of writes, one fsync, then a rename: the reported paths must be those before it.
fn write_a_segment(file_system: &FileSystem, watch: &mut Watch) -> Segment {
    let path = file_system.path().join(SEGMENT);
    create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = OpenOptions::new().create_new(true).write(true).open(&path).unwrap();
    let metadata = file.metadata().unwrap();
    let mut writes = Vec::new();
    let mut expect = |offset, bytes: &[u8], head: usize| {
        writes.push(Expectation { result: bytes.len() as i64, offset, head: bytes[..head].to_vec() });
    };

    let long = pattern(0x10, 300);
    file.write_all(&long).unwrap();
    expect(0, &long, HEAD);
    let short = pattern(0x20, 5);
    file.write_all(&short).unwrap();
    expect(300, &short, 5);
    let placed = pattern(0x30, 100);
    file.write_all_at(&placed, 4096).unwrap();
    expect(4096, &placed, HEAD);
    let gathered = pattern(0x40, 100);
    let parts = [IoSlice::new(&gathered[..40]), IoSlice::new(&gathered[40..])];
    assert_eq!(file.write_vectored(&parts).unwrap(), 100);
    expect(305, &gathered, 40);

    let mut appending = OpenOptions::new().append(true).open(&path).unwrap();
    let appended = pattern(0x50, 70);
    appending.write_all(&appended).unwrap();
    expect(4196, &appended, HEAD);
    let read_only = OpenOptions::new().read(true).custom_flags(libc::O_CLOEXEC).open(&path).unwrap();
    (&read_only).write_all(&pattern(0x60, 80)).unwrap_err();
    writes.push(Expectation { result: -i64::from(libc::EBADF), offset: 0, head: Vec::new() });
    let (socket, _peer) = UnixStream::pair().unwrap();
    // As a file, so that it is written by write(2), not send(2).
    let mut socket = File::from(OwnedFd::from(socket));
    socket.write_all(&pattern(0x70, 100)).unwrap();

    file.sync_all().unwrap();
    rename(&path, path.with_extension("renamed")).unwrap();
    let segment =
        Segment { device: file_system.device(), inode: metadata.ino(), fd: file.as_raw_fd(), writes };
    watch.until("writes and commit", |watch| {
        watch.writes(segment.device, segment.inode).len() >= segment.writes.len()
            && watch.commits(segment.device).next().is_some()
    });
    segment
}

fn check_writes(watch: &Watch, segment: &Segment) {
    let writes = watch.writes(segment.device, segment.inode);
    assert_eq!(writes.len(), segment.writes.len(), "{writes:#?}");
    for (write, expected) in writes.iter().zip(&segment.writes) {
        assert_eq!((write.result, write.offset), (expected.result, expected.offset), "{write:?}");
        assert_eq!(write.head(), expected.head, "{write:?}");
        assert_eq!((path(write), &*write.fs), (SEGMENT, "ext4"));
        assert_eq!(write.pid, std::process::id());
        assert_eq!(write.tid, scene::current_tid());
        assert!(write.start_ns < write.end_ns, "{write:?}");
    }
    assert_eq!(writes[0].fd, segment.fd);
    assert!(writes.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns), "{writes:#?}");
    let socket = pattern(0x70, 100);
    let other = |event: &Event| matches!(event, Event::FileOp(write) if write.head() == &socket[..HEAD]);
    assert!(!watch.events.iter().any(other), "a socket was taken for a file");
}

fn check_commit(watch: &Watch, segment: &Segment) {
    let joined = watch.writes(segment.device, segment.inode)[0].journal_transaction;
    let transaction = joined.expect("the first write started no handle");
    let commits: Vec<_> =
        watch.commits(segment.device).filter(|commit| commit.transaction == transaction).collect();
    assert_eq!(commits.len(), 1, "transaction {transaction}: {:#?}", watch.events);
    assert!(commits[0].start < commits[0].end);
    let phases = commits[0].phases.expect("no phases");
    assert!(phases.handles > 0 && phases.blocks_logged > 0, "{phases:?}");
    // The transaction began after this test did: misinterpreted jiffies would give more.
    assert!(phases.running.0 < 60_000_000_000, "{phases:?}");
}

fn check_block_io(watch: &Watch, file_system: &FileSystem) {
    let mut written = watch.events.iter().filter_map(|event| match event {
        Event::BlockIo(io) if io.device == file_system.device() => Some(io),
        _ => None,
    });
    let data = written.find(|io| io.rwbs.contains('W') && io.bytes > 0).expect("no write to the device");
    assert!(data.start_ns < data.end_ns && data.bytes % 512 == 0, "{data:?}");
    assert!(!data.comm.is_empty());
}

/// A write to a frozen file system waits until it is thawed. The file system is thawed only once the write waits.
fn check_planted_wait(file_system: &FileSystem, watch: &mut Watch) {
    let file = File::create(file_system.path().join("frozen")).unwrap();
    let (device, inode) = (file_system.device(), file.metadata().unwrap().ino());
    let frozen = Freeze::new(file_system);
    let (sender, receiver) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        sender.send(scene::current_tid()).unwrap();
        (&file).write_all(b"waits").unwrap();
    });
    let tid = receiver.recv().unwrap();
    scene::wait_until_blocked(tid);
    drop(frozen);
    writer.join().unwrap();
    watch.until("write that waited", |watch| !watch.writes(device, inode).is_empty());

    let write = watch.writes(device, inode)[0].clone();
    assert_eq!((write.tid, path(&write)), (tid, "frozen"));
    let inside: Vec<_> = watch.off_cpu(tid).filter(|interval| !interval.preempted).collect();
    assert!(!inside.is_empty(), "no off-CPU interval of thread {tid}");
    for interval in &inside {
        let (start_ns, end_ns) = (interval.start.0 as u64, interval.end.0 as u64);
        assert!(write.start_ns <= start_ns && end_ns <= write.end_ns, "{interval:?}");
        let woken = interval.woken.expect("not seen waking");
        assert!(interval.start <= woken && woken <= interval.end, "{interval:?}");
    }
    let stack = &inside[0].stack;
    assert!(stack.contains("vfs_write;") && stack.ends_with(";__schedule"), "{stack}");
}

/// Kafka writes a batch and then stores into the segment's mapped index: a store that waits belongs to the append, but
/// the thread's waits for other threads do not.
fn check_wait_after_write(file_system: &FileSystem, watch: &mut Watch) {
    let mut file = File::create(file_system.path().join("segment")).unwrap();
    let (device, inode) = (file_system.device(), file.metadata().unwrap().ino());
    let mut index = scene::MappedFile::new(&file_system.path().join("index"));
    let (sender, receiver) = std::sync::mpsc::channel();
    let (let_go, allowed) = std::sync::mpsc::channel::<()>();
    let writer = std::thread::spawn(move || {
        file.write_all(b"batch").unwrap();
        sender.send(scene::current_tid()).unwrap();
        allowed.recv().unwrap();
        index.store(7);
    });
    let tid = receiver.recv().unwrap();
    let frozen = Freeze::new(file_system);
    let_go.send(()).unwrap();
    scene::wait_until_blocked(tid);
    // The probes report such waits from a millisecond on.
    std::thread::sleep(Duration::from_millis(5));
    drop(frozen);
    writer.join().unwrap();
    watch.until("wait after a write", |watch| watch.off_cpu(tid).next().is_some());

    let write = watch.writes(device, inode)[0].clone();
    let waits: Vec<_> = watch.off_cpu(tid).filter(|wait| !wait.preempted).collect();
    assert_eq!(waits.len(), 1, "the wait for the other thread is none of it: {waits:?}");
    assert!(waits[0].start.0 as u64 >= write.end_ns && !waits[0].preempted, "{:?}", waits[0]);
    assert!(waits[0].stack.contains("ext4_page_mkwrite;"), "{}", waits[0].stack);
}

/// Between calls a thread is followed only while it is runnable without a CPU. Other threads have the CPUs then.
fn check_no_cpu(file_system: &FileSystem, watch: &mut Watch) {
    const BUSY: Duration = Duration::from_millis(300);
    let mut file = File::create(file_system.path().join("busy")).unwrap();
    let (device, inode) = (file_system.device(), file.metadata().unwrap().ino());
    let spin = |length: Duration| {
        let start = std::time::Instant::now();
        while start.elapsed() < length {
            std::hint::spin_loop();
        }
    };
    let others = 4 * std::thread::available_parallelism().unwrap().get();
    let tid = std::thread::scope(|scope| {
        for _ in 0..others {
            scope.spawn(|| spin(BUSY));
        }
        file.write_all(b"then busy").unwrap();
        spin(BUSY);
        scene::current_tid()
    });
    let least_ns = BUSY.as_nanos() as u64 / 4;
    let without_cpu = |watch: &Watch| -> Vec<OffCpu> {
        let Some(write) = watch.writes(device, inode).first().copied().cloned() else { return Vec::new() };
        watch
            .off_cpu(tid)
            .filter(|away| away.start.0 as u64 >= write.end_ns && away.preempted)
            .cloned()
            .collect()
    };
    let length_ns = |away: &OffCpu| away.length().0 as u64;
    watch.until("thread without a CPU", |watch| {
        without_cpu(watch).iter().map(length_ns).sum::<u64>() >= least_ns
    });
    for away in without_cpu(watch) {
        assert!(length_ns(&away) >= 1_000_000 && away.stack.is_empty(), "{away:?}");
    }
}

/// The kernel pauses a thread that writes more than its device's dirty limit. The limit is one megabyte of dirty pages.
fn check_dirty_throttling(file_system: &FileSystem, watch: &mut Watch) {
    if !file_system.limit_dirty_bytes(1 << 20) {
        eprintln!("NOT CHECKED: dirty throttling needs /sys/class/bdi/*/max_bytes (Linux 6.2)");
        return;
    }
    let mut file = File::create(file_system.path().join("much")).unwrap();
    let chunk = vec![0x5a; 1 << 20];
    for _ in 0..24 {
        file.write_all(&chunk).unwrap();
    }
    let tid = scene::current_tid();
    let of_this_thread =
        |event: &Event| matches!(event, Event::Row(Row::DirtyThrottle(pause)) if pause.tid == tid);
    watch.until("pause for dirty pages", |watch| watch.events.iter().any(of_this_thread));
    for event in &watch.events {
        let Event::Row(Row::DirtyThrottle(pause)) = event else { continue };
        // MAX_PAUSE in mm/page-writeback.c is 200 ms, rounded up to a jiffy.
        let pause_ns = (pause.end - pause.start).0;
        assert!((1_000_000..=210_000_000).contains(&pause_ns), "{pause:?}");
        assert!(pause.limit_pages > 0 && pause.dirty_pages > 0, "{pause:?}");
    }
}

/// A ring buffer of one page holds about twenty writes: the others must be counted, none may vanish.
fn check_full_ring(file_system: &FileSystem) {
    const WRITES: u64 = 100;
    // Requests to other devices would fill the ring before the first write.
    let devices = vec![file_system.device()];
    let options = Options { ring_bytes: 4096, measure: true, devices, ..Options::default() };
    let mut watch = Watch::with(&options);
    let mut file = File::create(file_system.path().join("crowd")).unwrap();
    let inode = file.metadata().unwrap().ino();
    for _ in 0..WRITES {
        file.write_all(&pattern(0x11, 200)).unwrap();
    }
    let lost = watch.probes.losses().ring_full;
    watch.until("write", |watch| !watch.writes(file_system.device(), inode).is_empty());
    let reported = watch.writes(file_system.device(), inode).len() as u64;
    assert!(lost > 0 && reported < WRITES && reported + lost >= WRITES, "{reported} reported, {lost} lost");
    let costs = watch.probes.overhead();
    let returns =
        costs.iter().find(|cost| matches!(cost.program.as_str(), "call_exit" | "write_returned")).unwrap();
    assert!(returns.run_count >= WRITES && returns.run_time_ns > 0, "{returns:?}");
}

/// Only the requested device is reported. The loop device also writes to the disk below it.
fn check_device_filter(file_system: &FileSystem) {
    let options = Options { devices: vec![file_system.device()], ..Options::default() };
    let mut watch = Watch::with(&options);
    let mut file = File::create(file_system.path().join("synced")).unwrap();
    file.write_all(&pattern(0x12, 4096)).unwrap();
    file.sync_all().unwrap();
    file_system.sync_image();
    let is_block_io = |event: &Event| matches!(event, Event::BlockIo(_));
    watch.until("block request", |watch| watch.events.iter().any(is_block_io));
    for event in &watch.events {
        let Event::BlockIo(io) = event else { continue };
        assert_eq!(io.device, file_system.device());
    }
}

/// With a plan of rare events a poll returns as soon as there is one. This holds even with a long timeout.
fn check_rare_events_wake(file_system: &FileSystem) {
    let options = Options { devices: vec![file_system.device()], ..Options::default() };
    let target = Target { pid: std::process::id(), stacks: true };
    let plan = Plan::choose_rare(&Facts::survey());
    let mut probes = Probes::attach_with(&plan, &target, &options).unwrap();
    let (start, device, mut found) = (Instant::now(), file_system.device(), false);
    let path = file_system.path().join("rare");
    let writer = std::thread::spawn(move || {
        let mut file = File::create(path).unwrap();
        file.write_all(&pattern(0x13, 4096)).unwrap();
        file.sync_all().unwrap();
    });
    while !found {
        let mut look =
            |event| found |= matches!(event, Event::BlockIo(io) if io.device == device && io.bytes > 0);
        probes.poll(GIVE_UP, &mut look).unwrap();
        assert!(start.elapsed() < GIVE_UP / 2, "no event woke the reader");
    }
    writer.join().unwrap();
}
