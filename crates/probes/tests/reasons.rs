//! Why operations take long, as the probes see it on this kernel: memory that must be freed, and the commits of
//! file systems beside jbd2's. Needs root, BPF and `BROKERSCOPE_LIVE_TESTS=1`; without that it says loudly that it
//! did not run, and with it whatever is missing is a failure.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "shared with the other live tests")]
#[path = "live/scene.rs"]
mod scene;

#[path = "reasons/cgroup.rs"]
mod cgroup;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use model::SpanSource;
use probes::{Event, Facts, KernelSpan, Options, Plan, Probes, Purpose, Target};
use scene::{FileSystem, Frozen};

const GIVE_UP: Duration = Duration::from_secs(30);

/// One test: what it plants is the whole host's or this process's, so nothing else may run beside it.
#[test]
fn planted_reasons_are_reported() {
    if std::env::var_os("BROKERSCOPE_LIVE_TESTS").is_none_or(|value| value != "1") {
        eprintln!("NOT RUN: needs root, BPF and BROKERSCOPE_LIVE_TESTS=1");
        return;
    }
    check_waker();
    check_memcg_reclaim();
    check_fast_commits();
    check_xfs_log();
    check_btrfs_commits();
}

/// Probes on this very process and everything they have reported.
struct Watched {
    probes: Probes,
    events: Vec<Event>,
}

impl Watched {
    /// File systems bring their tracepoints with them: mount them first.
    fn new(needed: &[Purpose]) -> Self {
        let plan = Plan::choose(&Facts::survey());
        for &purpose in needed {
            assert!(plan.uses(purpose), "{purpose:?} is missing: {:#?}", plan.hooks);
        }
        let target = Target { pid: std::process::id(), stacks: true };
        let probes = Probes::attach_with(&plan, &target, &Options::default()).unwrap();
        Self { probes, events: Vec::new() }
    }

    /// Reads until what has been reported satisfies the caller.
    fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let end = Instant::now() + GIVE_UP;
        while !done(self) {
            assert!(Instant::now() < end, "no {what}; {:?}", self.probes.losses());
            let events = &mut self.events;
            self.probes.poll(Duration::from_millis(100), &mut |event| events.push(event)).unwrap();
        }
    }

    fn spans<'a>(&'a self, function: &'a str, device: (u32, u32)) -> Vec<&'a KernelSpan> {
        let spans = self.events.iter().filter_map(|event| match event {
            Event::KernelSpan(span) => Some(span),
            _ => None,
        });
        spans.filter(|span| &*span.function == function && span.device == Some(device)).collect()
    }
}

/// A write to a frozen file system waits until this thread thaws it.
fn check_waker() {
    let file_system = FileSystem::new();
    let mut watched = Watched::new(&[Purpose::OffCpu, Purpose::Wakeups, Purpose::KernelStacks]);
    let file = File::create(file_system.path().join("frozen")).unwrap();
    let frozen = Frozen::new(&file_system);
    let (tell, told) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        tell.send(scene::current_tid()).unwrap();
        (&file).write_all(b"waits").unwrap();
    });
    let tid = told.recv().unwrap();
    scene::wait_until_blocked(tid);
    // Wakers' stacks are taken from a millisecond on.
    std::thread::sleep(Duration::from_millis(5));
    drop(frozen);
    writer.join().unwrap();
    let long = |event: &Event| matches!(event, Event::OffCpu(away) if away.tid == tid && !away.preempted);
    watched.until("wait", |seen| seen.events.iter().any(long));
    let Some(Event::OffCpu(wait)) = watched.events.iter().find(|event| long(event)) else { unreachable!() };
    let waker = wait.waker.as_ref().expect("nobody was seen waking it");
    assert_eq!(waker.tid, scene::current_tid(), "{waker:?}");
    assert!(waker.stack.contains("thaw") && waker.stack.ends_with(";try_to_wake_up"), "{waker:?}");
    let woken = wait.woken_ns.unwrap();
    assert!(wait.start_ns + 5_000_000 <= woken && woken <= wait.end_ns, "{wait:?}");
}

/// A thread that writes more than its memory cgroup may hold frees pages itself.
fn check_memcg_reclaim() {
    let directory = tempfile::tempdir().unwrap();
    let mut watched = Watched::new(&[Purpose::DirectReclaim, Purpose::MemcgReclaim]);
    cgroup::in_small_memory(16 << 20, || write_much(&directory.path().join("much"), 64 << 20));
    let tid = scene::current_tid();
    let is_it = |event: &Event| matches!(event, Event::Reclaim(reclaim) if reclaim.tid == tid);
    watched.until("reclaim", |seen| seen.events.iter().any(is_it));
    let mut freed = 0;
    for event in &watched.events {
        let Event::Reclaim(reclaim) = event else { continue };
        assert_eq!(reclaim.pid, std::process::id());
        assert_eq!(reclaim.tid, tid, "no other thread uses memory: {reclaim:?}");
        assert!(reclaim.memcg && reclaim.start_ns < reclaim.end_ns, "{reclaim:?}");
        assert!(!reclaim.comm.is_empty());
        freed += reclaim.pages;
    }
    assert!(freed > 0, "it freed nothing in {} reclaims", watched.events.len());
}

fn write_much(path: &Path, bytes: usize) {
    let mut file = File::create(path).unwrap();
    let chunk = vec![0x5a; 1 << 20];
    for _ in 0..bytes / chunk.len() {
        file.write_all(&chunk).unwrap();
    }
}

const SYNCS: usize = 5;

/// Appends a little and waits for it to be on the disk, some times.
fn append_and_sync(file_system: &FileSystem) {
    let path = file_system.path().join("segment");
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    for _ in 0..SYNCS {
        file.write_all(&[7; 5000]).unwrap();
        file.sync_all().unwrap();
    }
}

/// Every fsync of a file system with fast commits tries one.
fn check_fast_commits() {
    let arguments = ["-q", "-F", "-O", "has_journal,fast_commit"];
    let file_system = FileSystem::made_by("ext4", &arguments, 64 << 20, "loop");
    let mut watched = Watched::new(&[Purpose::FastCommits]);
    append_and_sync(&file_system);
    let device = file_system.device();
    watched.until("fast commits", |seen| seen.spans("ext4_fc_commit", device).len() >= SYNCS);
    for span in watched.spans("ext4_fc_commit", device) {
        assert_eq!((span.tid, span.seen_by), (scene::current_tid(), SpanSource::Tracepoints));
        assert!(span.start_ns < span.end_ns, "{span:?}");
    }
}

/// Every fsync that changed something writes XFS's log.
fn check_xfs_log() {
    let file_system = FileSystem::made_by("xfs", &["-q"], 320 << 20, "loop");
    let mut watched = Watched::new(&[Purpose::XfsLogGrants, Purpose::XfsLogWrites]);
    append_and_sync(&file_system);
    let device = file_system.device();
    watched.until("writes of the log", |seen| seen.spans("xlog_sync", device).len() >= SYNCS);
    for span in watched.spans("xlog_sync", device) {
        assert!(span.start_ns < span.end_ns && span.seen_by == SpanSource::Tracepoints, "{span:?}");
        assert!(span.tid != 0 && !span.comm.is_empty(), "{span:?}");
    }
}

/// Without its log tree, btrfs commits a transaction for every fsync, in which the thread waits for the disk.
fn check_btrfs_commits() {
    let file_system = FileSystem::made_by("btrfs", &["-q"], 128 << 20, "loop,notreelog");
    let mut watched = Watched::new(&[Purpose::BtrfsCommits]);
    append_and_sync(&file_system);
    let commits = |seen: &Watched| {
        let spans = seen.events.iter().filter_map(|event| match event {
            Event::KernelSpan(span) if &*span.function == "btrfs_commit_transaction" => Some(span.clone()),
            _ => None,
        });
        spans.filter(|span| span.tid == scene::current_tid()).collect::<Vec<_>>()
    };
    watched.until("commits", |seen| !commits(seen).is_empty());
    for span in commits(&watched) {
        assert!(span.start_ns < span.end_ns && span.seen_by == SpanSource::OffCpu, "{span:?}");
        assert!(span.device.is_some(), "{span:?}");
    }
}
