//! Why operations take long, as the probes see it on this kernel: wake-ups, memory that must be freed, a device that
//! delays requests, and the commits of file systems other than jbd2's. Needs root, BPF and `BROKERSCOPE_LIVE_TESTS=1`;
//! without that it says loudly that it did not run, and with it anything that is missing is a failure.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "live/gate.rs"]
mod gate;
#[allow(dead_code, reason = "shared with the other live tests")]
#[path = "live/scene.rs"]
mod scene;
#[path = "live/watched.rs"]
mod watched;

#[path = "reasons/cgroup.rs"]
mod cgroup;
#[path = "reasons/direct.rs"]
mod direct;

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use model::{Event as Row, KernelSpan, OffCpu, SpanSource};
use probes::{BlockIo, Event, Facts, Losses, Options, Plan, Probes, Purpose, Target};
use scene::{EXT4, FileSystem, Freeze, Making};
use watched::Watch;

const GIVE_UP: Duration = Duration::from_secs(120);
/// How long injected delays last.
const HELD: Duration = Duration::from_millis(200);

/// A single test: what it injects affects the whole host or process, so nothing else may run at the same time.
#[test]
fn injected_reasons_are_reported() {
    if !gate::is_open() {
        return;
    }
    let stage = Stage::new();
    let mut watch = Watch::new();
    check_waker(&stage, &mut watch);
    check_futex_wait(&mut watch);
    check_memcg_reclaim(&mut watch);
    check_file_of_a_request(&stage, &mut watch);
    check_held_requests(&stage, &mut watch);
    check_fast_commits(&stage, &mut watch);
    check_xfs_log(&stage, &mut watch);
    check_btrfs_commits(&stage, &mut watch);
    check_commit_of_a_kernel_thread(&stage, &mut watch);
    check_every_interval(&stage, &mut watch);
    // Except those that it has checked itself.
    let losses = Losses { switches_unseen: 0, ..watch.probes.losses() };
    assert!(!losses.has_lost_events(), "{losses:?}");
}

/// Dropped from the top, so inner file systems come first.
struct Stage {
    /// On a file of `outer`, like `slow`.
    btrfs: FileSystem,
    slow: FileSystem,
    fast_commits: FileSystem,
    xfs: FileSystem,
    outer: FileSystem,
}

impl Stage {
    fn new() -> Self {
        let outer = FileSystem::make(Making { bytes: 256 << 20, ..EXT4 });
        let fast_commits = ["-q", "-F", "-O", "has_journal,fast_commit"];
        Self {
            btrfs: outer.inside(Making {
                kind: "btrfs",
                arguments: &["-q"],
                bytes: 128 << 20,
                // Without its log tree, btrfs commits a transaction for every fsync.
                options: "loop,notreelog",
            }),
            slow: outer.inside(Making { bytes: 32 << 20, ..EXT4 }),
            fast_commits: FileSystem::make(Making { arguments: &fast_commits, ..EXT4 }),
            xfs: FileSystem::make(Making {
                kind: "xfs",
                arguments: &["-q"],
                bytes: 320 << 20,
                options: "loop",
            }),
            outer,
        }
    }
}

impl Watch {
    /// Mounts the file systems first. Their tracepoints come with their modules.
    fn new() -> Self {
        let plan = Plan::choose(&Facts::survey());
        for purpose in [
            Purpose::Wakeups,
            Purpose::KernelStacks,
            Purpose::DirectReclaim,
            Purpose::MemcgReclaim,
            Purpose::BlockIo,
            Purpose::BlockQueue,
            Purpose::FastCommits,
            Purpose::XfsLogGrants,
            Purpose::XfsLogWrites,
            Purpose::BtrfsCommits,
            Purpose::FutexWaits,
            Purpose::KernelThreads,
        ] {
            assert!(plan.uses(purpose), "{purpose:?} is missing: {:#?}", plan.hooks);
        }
        let target = Target { pid: std::process::id(), stacks: true };
        let probes = Probes::attach_with(&plan, &target, &Options::default()).unwrap();
        Self::by(probes, GIVE_UP)
    }

    fn spans(&self, function: &str) -> Vec<&KernelSpan> {
        let spans = self.events.iter().filter_map(|event| match event {
            Event::Row(Row::KernelSpan(span)) => Some(&**span),
            _ => None,
        });
        spans.filter(|span| &*span.function == function).collect()
    }

    fn spans_on(&self, function: &str, device: (u32, u32)) -> Vec<&KernelSpan> {
        self.spans(function)
            .into_iter()
            .filter(|span| span.device.as_ref().is_some_and(|it| (it.major, it.minor) == device))
            .collect()
    }

    /// Writes to a device that reached it at that time or later.
    fn writes_to(&self, device: (u32, u32), since_ns: u64) -> Vec<&BlockIo> {
        let requests = self.events.iter().filter_map(|event| match event {
            Event::BlockIo(io) => Some(io),
            _ => None,
        });
        let ours = |io: &&BlockIo| io.device == device && io.end_ns >= since_ns && io.rwbs.contains('W');
        requests.filter(ours).collect()
    }
}

/// A write to a frozen file system waits until this thread thaws it.
fn check_waker(stage: &Stage, watch: &mut Watch) {
    let file = File::create(stage.xfs.path().join("frozen")).unwrap();
    let frozen = Freeze::new(&stage.xfs);
    let (sender, receiver) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        sender.send(scene::current_tid()).unwrap();
        (&file).write_all(b"waits").unwrap();
    });
    let tid = receiver.recv().unwrap();
    scene::wait_until_blocked(tid);
    // Wakers' stacks are taken from a millisecond on.
    std::thread::sleep(Duration::from_millis(5));
    drop(frozen);
    writer.join().unwrap();
    let long =
        |event: &Event| matches!(event, Event::Row(Row::OffCpu(away)) if away.tid == tid && !away.preempted);
    watch.until("wait", |watch| watch.events.iter().any(long));
    let Some(Event::Row(Row::OffCpu(wait))) = watch.events.iter().find(|event| long(event)) else {
        unreachable!()
    };
    let waker = wait.waker.as_ref().expect("nobody was seen waking it");
    assert_eq!(waker.tid, scene::current_tid(), "{waker:?}");
    assert!(waker.stack.contains("thaw") && waker.stack.ends_with(";try_to_wake_up"), "{waker:?}");
    let woken = wait.woken.unwrap();
    assert!(wait.start.0 + 5_000_000 <= woken.0 && woken <= wait.end, "{wait:?}");
}

/// A request handler that waits for a lock names its holder; waits of another thread, short ones and those that a
/// network thread ended are left out.
fn check_futex_wait(watch: &mut Watch) {
    let wait = |name: &str, held: Duration| {
        let lock = std::sync::Arc::new(std::sync::Mutex::new(()));
        let (held_lock, (sender, receiver)) = (lock.lock().unwrap(), std::sync::mpsc::channel());
        let waiter = std::thread::Builder::new().name(name.to_owned()).spawn({
            let lock = std::sync::Arc::clone(&lock);
            move || {
                // Threads that have not been in a call on a file are not followed.
                tempfile::tempfile().unwrap().write_all(b"append").unwrap();
                sender.send(scene::current_tid()).unwrap();
                drop(lock.lock().unwrap());
            }
        });
        let tid = receiver.recv().unwrap();
        std::thread::sleep(held);
        drop(held_lock);
        waiter.unwrap().join().unwrap();
        tid
    };
    let handed_on = std::thread::scope(|scope| {
        let network_thread = scope.spawn(|| {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            client.write_all(b"response").unwrap();
            wait("data-plane-kafka-request-handler-2", HELD)
        });
        network_thread.join().unwrap()
    });
    let short = wait("data-plane-kafka-request-handler-1", Duration::from_millis(2));
    let other = wait("kafka-log-cleaner-thread-0", HELD);
    let tid = wait("data-plane-kafka-request-handler-0", HELD);
    let is_futex = |away: &OffCpu| away.stack.contains("futex");
    let of = |tid| move |event: &Event| matches!(event, Event::Row(Row::OffCpu(away)) if away.tid == tid && is_futex(away));
    watch.until("wait for the lock", |watch| watch.events.iter().any(of(tid)));
    let Some(Event::Row(Row::OffCpu(wait))) = watch.events.iter().find(|event| of(tid)(event)) else {
        unreachable!()
    };
    let waker = wait.waker.as_ref().expect("nobody was seen waking it");
    assert_eq!(waker.tid, scene::current_tid(), "{waker:?}");
    assert!(waker.stack.contains("futex_wake"), "{waker:?}");
    assert!(wait.length().0 > 150_000_000 && !wait.preempted, "{wait:?}");
    assert!(!watch.events.iter().any(of(short)), "it waited for two milliseconds");
    assert!(!watch.events.iter().any(of(other)), "it serves no requests");
    assert!(!watch.events.iter().any(of(handed_on)), "it got work");
}

/// A thread that exceeds its memory cgroup's limit frees pages itself.
fn check_memcg_reclaim(watch: &mut Watch) {
    let directory = tempfile::tempdir().unwrap();
    cgroup::in_small_memory(16 << 20, || write_much(&directory.path().join("much"), 64 << 20));
    let tid = scene::current_tid();
    let is_it = |event: &Event| matches!(event, Event::Row(Row::Reclaim(reclaim)) if reclaim.tid == tid);
    watch.until("reclaim", |watch| watch.events.iter().any(is_it));
    let mut freed = 0;
    for event in &watch.events {
        let Event::Row(Row::Reclaim(reclaim)) = event else { continue };
        assert_eq!((reclaim.pid, reclaim.tid), (std::process::id(), tid), "no other thread uses memory");
        assert!(reclaim.memcg && reclaim.start < reclaim.end, "{reclaim:?}");
        assert!(!reclaim.thread.is_empty());
        freed += reclaim.pages;
    }
    assert!(freed > 0, "it freed nothing");
}

fn write_much(path: &Path, bytes: usize) {
    let mut file = File::create(path).unwrap();
    let chunk = vec![0x5a; 1 << 20];
    for _ in 0..bytes / chunk.len() {
        file.write_all(&chunk).unwrap();
    }
}

/// Number of threads that sync files, and for how long.
const SYNCING_THREADS: usize = 8;
const SYNCING: Duration = Duration::from_secs(6);

/// At most one interval in this many may lack its end; each such loss is counted. Threads that the host hides cause it.
const MIN_INTERVALS_PER_LOSS: u64 = 10_000;

/// Every off-CPU interval of a thread is reported once. It does not matter which thread had the CPU before, even one
/// that the host hides from all tracepoints, as a Firecracker guest did. An unreported interval is a loss.
fn check_every_interval(stage: &Stage, watch: &mut Watch) {
    watch.events.clear();
    let end = Instant::now() + SYNCING;
    std::thread::scope(|scope| {
        for number in 0..SYNCING_THREADS {
            let mut file = File::create(stage.outer.path().join(format!("synced-{number}"))).unwrap();
            scope.spawn(move || {
                while Instant::now() < end {
                    file.write_all(b"broker").unwrap();
                    file.sync_all().unwrap();
                    std::thread::sleep(Duration::from_micros(500));
                }
            });
        }
        while Instant::now() < end {
            watch.poll();
        }
    });
    watch.poll();
    let mut last: HashMap<u32, &OffCpu> = HashMap::new();
    for event in &watch.events {
        let Event::Row(Row::OffCpu(away)) = event else { continue };
        let before = last.insert(away.tid, away);
        assert!(away.start < away.end, "{away:?}");
        assert!(before.is_none_or(|before| before.end <= away.start), "{before:?}; {away:?}");
    }
    assert!(last.len() >= SYNCING_THREADS, "threads that sync wait for the device: {}", last.len());
    let intervals = watch.events.iter().filter(|event| matches!(event, Event::Row(Row::OffCpu(_)))).count();
    let unseen = watch.probes.losses().switches_unseen;
    assert!(unseen * MIN_INTERVALS_PER_LOSS <= intervals as u64, "{unseen} of {intervals}");
}

/// A block request that writes a file's pages back names the file.
fn check_file_of_a_request(stage: &Stage, watch: &mut Watch) {
    let path = stage.fast_commits.path().join("topicA-0.log");
    let mut file = File::create(&path).unwrap();
    file.write_all(&vec![7; 20_000]).unwrap();
    file.sync_all().unwrap();
    let (device, inode) = (stage.fast_commits.device(), file.metadata().unwrap().ino());
    let of_file = |io: &&&BlockIo| io.file.as_ref().is_some_and(|file| file.inode == inode);
    watch.until("write of the file", |watch| watch.writes_to(device, 0).iter().any(|io| of_file(&io)));
    let writes = watch.writes_to(device, 0);
    let written: u32 = writes.iter().filter(of_file).map(|io| io.bytes).sum();
    assert_eq!(written, 20_480, "{writes:#?}");
    for io in writes.iter().filter(of_file) {
        let file = io.file.as_ref().unwrap();
        let name = file.path.as_ref().expect("the write reported its path");
        assert_eq!((file.device, &*name.path), (device, "topicA-0.log"), "{io:?}");
        assert!(io.queued_ns.is_some_and(|queued| queued <= io.start_ns), "{io:?}");
    }
    assert!(writes.iter().any(|io| io.file.is_none()), "the journal is no file: {writes:#?}");
}

/// Twice as many writes as a device takes at once, all delayed: half of them in the device, half before it.
fn check_held_requests(stage: &Stage, watch: &mut Watch) {
    let threads = direct::Writers::new(&stage.slow, 2 * direct::DEPTH);
    let device = stage.slow.device();
    let frozen = Freeze::new(&stage.outer);
    let started_ns = scene::monotonic_ns();
    let running = threads.start();
    std::thread::sleep(HELD);
    drop(frozen);
    let longest = running.join();
    let data = |io: &&BlockIo| io.bytes == direct::BYTES && io.queued_ns.is_some_and(|at| at >= started_ns);
    let all = |watch: &Watch| {
        watch.writes_to(device, started_ns).into_iter().filter(data).cloned().collect::<Vec<_>>()
    };
    watch.until("writes", |watch| all(watch).len() >= 2 * direct::DEPTH);
    let writes = all(watch);
    assert_eq!(writes.len(), 2 * direct::DEPTH, "{writes:#?}");
    let (least, most) = (HELD.as_nanos() as u64 * 9 / 10, longest.as_nanos() as u64);
    let queue_ns = |io: &&BlockIo| io.start_ns - io.queued_ns.unwrap();
    let in_queue = writes.iter().filter(|io| queue_ns(io) >= least).count();
    let in_device = writes.iter().filter(|io| io.end_ns - io.start_ns >= least).count();
    assert_eq!(in_queue + in_device, 2 * direct::DEPTH, "{writes:#?}");
    // A commit of the journal may occupy one of the device's requests.
    assert!((1..=direct::DEPTH).contains(&in_device), "{in_device} of {}: {writes:#?}", direct::DEPTH);
    for io in &writes {
        let whole = io.end_ns - io.queued_ns.unwrap();
        assert!((least..=most).contains(&whole), "{whole} ns of {most} ns: {io:?}");
    }
}

const SYNCS: usize = 5;

/// Appends a little and syncs it, several times.
fn append_and_sync(file_system: &FileSystem) {
    let path = file_system.path().join("segment");
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    for _ in 0..SYNCS {
        file.write_all(&[7; 5000]).unwrap();
        file.sync_all().unwrap();
    }
}

/// Every fsync of a file system with fast commits tries one.
fn check_fast_commits(stage: &Stage, watch: &mut Watch) {
    append_and_sync(&stage.fast_commits);
    let device = stage.fast_commits.device();
    watch.until("fast commits", |watch| watch.spans_on("ext4_fc_commit", device).len() >= SYNCS);
    for span in watch.spans_on("ext4_fc_commit", device) {
        assert_eq!((span.tid, span.seen_by), (scene::current_tid(), SpanSource::Tracepoints));
        assert!(span.start < span.end, "{span:?}");
    }
}

/// Every fsync that changed something writes XFS's log.
fn check_xfs_log(stage: &Stage, watch: &mut Watch) {
    append_and_sync(&stage.xfs);
    let device = stage.xfs.device();
    watch.until("writes of the log", |watch| watch.spans_on("xlog_sync", device).len() >= SYNCS);
    for span in watch.spans_on("xlog_sync", device) {
        assert!(span.start < span.end && span.seen_by == SpanSource::Tracepoints, "{span:?}");
        assert!(span.tid != 0 && !span.thread.is_empty(), "{span:?}");
    }
}

const COMMIT: &str = "btrfs_commit_transaction";

/// Each fsync commits a transaction; the thread waits for the disk inside it.
fn check_btrfs_commits(stage: &Stage, watch: &mut Watch) {
    append_and_sync(&stage.btrfs);
    let tid = scene::current_tid();
    let ours = |span: &&KernelSpan| span.tid == tid;
    watch.until("commits", |watch| watch.spans(COMMIT).into_iter().filter(ours).count() >= SYNCS);
    for span in watch.spans(COMMIT).into_iter().filter(ours) {
        assert!(span.start < span.end && span.seen_by == SpanSource::OffCpu, "{span:?}");
        assert!(span.device.is_some(), "{span:?}");
    }
}

/// btrfs's own thread commits on request, on a device that delays it.
fn check_commit_of_a_kernel_thread(stage: &Stage, watch: &mut Watch) {
    std::fs::write(stage.btrfs.path().join("changed"), "something to commit").unwrap();
    let frozen = Freeze::new(&stage.outer);
    direct::ask_for_commit(&stage.btrfs);
    std::thread::sleep(HELD);
    drop(frozen);
    let own = |span: &&KernelSpan| span.thread.starts_with("btrfs-transacti");
    watch
        .until("commit by the kernel thread", |watch| watch.spans(COMMIT).into_iter().any(|span| own(&span)));
    let commit = watch.spans(COMMIT).into_iter().find(own).unwrap();
    assert!(commit.latency().0 as u64 >= HELD.as_nanos() as u64 / 2, "{commit:?}");
}
