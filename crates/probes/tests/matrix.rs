//! Every plan that this kernel allows, on ext4 and on XFS: a known workload, and the events that it must cause. An
//! attached program proves nothing: kernels change which functions a call reaches. Runs on the host, and under other
//! kernels with `make vmtest`. Needs root, BPF and `BROKERSCOPE_LIVE_TESTS=1`; without that it says loudly that it did
//! not run. `BROKERSCOPE_PLANS` names the plans that must be possible (`functions`, `tracepoints`).

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
#[path = "live/stops.rs"]
mod stops;
#[path = "live/watched.rs"]
mod watched;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::{Duration, Instant};

use model::{Event as Row, FileOpKind, KernelSpan, Nanos, OffCpu, ProcessStop, SpanSource, StopKind};
use probes::{Event, Facts, FileOp, Mechanism, Plan, Probes, Purpose, Target};
use scene::{FileSystem, Freeze, Making};
use watched::Watch;

/// 300 MiB is the minimum of `mkfs.xfs`.
const XFS: Making<'static> =
    Making { kind: "xfs", arguments: &["-q", "-f"], bytes: 320 << 20, options: "loop" };
const GIVE_UP: Duration = Duration::from_secs(60);
/// Purposes that every plan must serve, on every kernel since 5.10. ext4 and XFS must be mounted.
const ALWAYS: [Purpose; 20] = [
    Purpose::FileWrites,
    Purpose::FileReads,
    Purpose::FileTransfers,
    Purpose::FileSyncs,
    Purpose::FileSizes,
    Purpose::FileNames,
    Purpose::FileOpens,
    Purpose::OffCpu,
    Purpose::Wakeups,
    Purpose::KernelStacks,
    Purpose::FutexWaits,
    Purpose::JournalCommits,
    Purpose::CommitPhases,
    Purpose::JournalHandles,
    Purpose::BlockIo,
    Purpose::BlockQueue,
    Purpose::XfsLogGrants,
    Purpose::Ext4Fsyncs,
    Purpose::FsFreezes,
    Purpose::ProcessStops,
];

#[test]
fn every_plan_reports_the_workload() {
    if !gate::is_open() {
        return;
    }
    let ext4 = FileSystem::new();
    let xfs = FileSystem::make(XFS);
    let facts = Facts::survey();
    let mut tried = Vec::new();
    for (name, plan) in plans(&facts) {
        eprintln!("plan of {name} on Linux {}", facts.kernel_release);
        let mut watch = Watch::new(&plan);
        check_file_system(&mut watch, &ext4, "ext4");
        check_file_system(&mut watch, &xfs, "xfs");
        check_fsyncs(&mut watch, &ext4);
        check_freeze(&mut watch, &ext4);
        check_freeze(&mut watch, &xfs);
        check_stops(&mut watch);
        let losses = watch.probes.losses();
        assert!(!losses.has_lost_events(), "{losses:?}");
        tried.push(name);
    }
    let must = std::env::var("BROKERSCOPE_PLANS").unwrap_or_else(|_| "tracepoints".to_owned());
    for plan in must.split_whitespace() {
        assert!(tried.contains(&plan), "no plan of {plan}: {:?}", facts.functions.refused);
    }
}

/// The plans that the facts allow: the chosen one, and the one without kernel functions.
fn plans(facts: &Facts) -> Vec<(&'static str, Plan)> {
    let mut plans = Vec::new();
    if facts.functions.refused.is_none() {
        let plan = Plan::choose(facts);
        let writes = plan.used().find(|hook| hook.purpose == Purpose::FileWrites).expect("no writes");
        assert_eq!(writes.mechanism, Mechanism::Functions);
        for purpose in [Purpose::Ext4Functions, Purpose::XfsFunctions] {
            assert!(plan.uses(purpose), "{:#?}", plan.hooks);
        }
        plans.push(("functions", plan));
    }
    let mut without = facts.clone();
    without.functions.refused = Some("this test does without".to_owned());
    plans.push(("tracepoints", Plan::choose(&without)));
    plans
}

impl Watch {
    /// Attaches every hook of the plan: none may be refused.
    fn new(plan: &Plan) -> Self {
        for purpose in ALWAYS {
            assert!(plan.uses(purpose), "{purpose:?} is missing: {:#?}", plan.hooks);
        }
        let began = Instant::now();
        let probes = Probes::attach(plan, &Target { pid: std::process::id(), stacks: true }).unwrap();
        eprintln!("attached {} hooks in {:?}", plan.used().count(), began.elapsed());
        let refused: Vec<_> = probes.plan().hooks.iter().zip(&plan.hooks).filter(|(a, b)| a != b).collect();
        assert!(refused.is_empty(), "the kernel refused something: {refused:#?}");
        Self::by(probes, GIVE_UP)
    }

    fn ops(&self, kind: FileOpKind, wanted: impl Fn(&FileOp) -> bool) -> Vec<&FileOp> {
        let ops = self.events.iter().filter_map(|event| match event {
            Event::FileOp(op) if op.op == kind && wanted(op) => Some(op),
            _ => None,
        });
        ops.collect()
    }

    fn spans(&self, function: &str, within: &FileOp) -> Vec<&KernelSpan> {
        let spans = self.events.iter().filter_map(|event| match event {
            Event::Row(Row::KernelSpan(span)) if &*span.function == function && span.tid == within.tid => {
                Some(&**span)
            }
            _ => None,
        });
        spans
            .filter(|span| within.start_ns <= span.start.0 as u64 && span.end.0 as u64 <= within.end_ns)
            .collect()
    }

    fn waits(&self, within: &FileOp) -> Vec<&OffCpu> {
        let waits = self.events.iter().filter_map(|event| match event {
            Event::Row(Row::OffCpu(wait)) if wait.tid == within.tid && !wait.preempted => Some(&**wait),
            _ => None,
        });
        waits
            .filter(|wait| within.start_ns <= wait.start.0 as u64 && wait.end.0 as u64 <= within.end_ns)
            .collect()
    }

    fn freezes(&self, device: (u32, u32)) -> Vec<&KernelSpan> {
        self.calls(device, "freeze_super").collect()
    }

    fn fsyncs(&self, device: (u32, u32)) -> Vec<&KernelSpan> {
        let by_others = |span: &&KernelSpan| span.seen_by == SpanSource::Tracepoints;
        self.calls(device, "ext4_sync_file").filter(by_others).collect()
    }

    fn calls(&self, device: (u32, u32), function: &'static str) -> impl Iterator<Item = &KernelSpan> {
        let calls = self.events.iter().filter_map(move |event| match event {
            Event::Row(Row::KernelSpan(span)) if &*span.function == function => Some(&**span),
            _ => None,
        });
        calls.filter(move |span| {
            span.device.as_ref().is_some_and(|found| (found.major, found.minor) == device)
        })
    }

    fn stops(&self, kind: StopKind) -> Vec<&ProcessStop> {
        let stops = self.events.iter().filter_map(|event| match event {
            Event::Row(Row::ProcessStop(stop)) if stop.kind == kind => Some(&**stop),
            _ => None,
        });
        stops.collect()
    }

    /// The next stop of a kind; checks its length.
    fn next_stop(&mut self, kind: StopKind) -> ProcessStop {
        let before = self.stops(kind).len();
        self.until("stop", |watch| watch.stops(kind).len() > before);
        let stops = self.stops(kind);
        assert_eq!(stops.len(), before + 1, "{stops:#?}");
        let stop = stops[before].clone();
        assert!(stop.length().0 >= stops::STOP.as_nanos() as i64 / 2, "{stop:?}");
        assert_eq!(stop.pid, std::process::id());
        stop
    }

    fn commits(&self, device: (u32, u32)) -> usize {
        let of_device = |event: &&Event| matches!(event, Event::Row(Row::JournalCommit(it)) if (it.device.major, it.device.minor) == device);
        self.events.iter().filter(of_device).count()
    }

    fn block_writes(&self, device: (u32, u32)) -> usize {
        let of_device = |event: &&Event| matches!(event, Event::BlockIo(it) if it.device == device && it.rwbs.contains('W'));
        self.events.iter().filter(of_device).count()
    }
}

/// Three appends, an fsync, a rename, another append, a read, a removal.
fn check_file_system(watch: &mut Watch, file_system: &FileSystem, kind: &str) {
    let directory = file_system.path().join("data/kafka/topicA-0");
    fs::create_dir_all(&directory).unwrap();
    let (first, second) = (directory.join("0.tmp"), directory.join("0.log"));
    let mut file = File::options().create_new(true).read(true).write(true).open(&first).unwrap();
    let (device, inode) = (file_system.device(), file.metadata().unwrap().ino());
    for length in [100, 200, 300] {
        file.write_all(&vec![0x61; length]).unwrap();
    }
    file.sync_all().unwrap();
    fs::rename(&first, &second).unwrap();
    file.write_all(&[0x62; 50]).unwrap();
    file.read_exact_at(&mut [0; 600], 0).unwrap();
    fs::remove_file(&second).unwrap();

    let of_file = move |op: &FileOp| op.device == device && op.inode == inode;
    let names_second = |op: &FileOp| {
        let given = op.path_arguments.as_ref().and_then(|given| given.from.text.clone());
        given.is_some_and(|text| *text == *second.to_str().unwrap())
    };
    watch.until("removal", |watch| {
        !watch.ops(FileOpKind::Unlink, names_second).is_empty() && watch.block_writes(device) > 0
    });
    check_ops(watch, of_file, kind);
    let renames = watch.ops(FileOpKind::Rename, |op| {
        let to = op.path_arguments.as_ref().and_then(|given| given.to.clone()).and_then(|to| to.text);
        to.is_some_and(|text| *text == *second.to_str().unwrap())
    });
    assert_eq!((renames.len(), renames[0].result), (1, 0), "{renames:#?}");
    let fsync = watch.ops(FileOpKind::Fsync, of_file)[0].clone();
    let stacks: Vec<_> = watch.waits(&fsync).iter().map(|wait| wait.stack.to_string()).collect();
    let function = if kind == "ext4" { "ext4_sync_file" } else { "xfs_file_fsync" };
    assert!(stacks.iter().any(|stack| stack.contains(function)), "{kind}: {stacks:#?}");
    if kind == "ext4" {
        assert!(watch.commits(device) > 0, "no commit of ext4's journal");
    }
    if watch.probes.plan().uses(Purpose::Ext4Functions) {
        check_functions(watch, of_file, kind);
    }
}

/// Another process's fsync is one call if it took long; fsyncs of this process are not among them.
fn check_fsyncs(watch: &mut Watch, file_system: &FileSystem) {
    let file = file_system.path().join("neighbour");
    let (device, began) = (file_system.device(), scene::monotonic_ns());
    // One that takes less than a millisecond is not reported, and the image may be in memory.
    for _ in 0..50 {
        let mut writer = std::process::Command::new("dd");
        writer.arg("if=/dev/zero").arg(format!("of={}", file.display()));
        writer.args(["bs=8M", "count=1", "conv=fsync", "status=none"]);
        assert!(writer.status().unwrap().success());
        watch.poll();
        if !watch.fsyncs(device).is_empty() {
            break;
        }
    }
    watch.until("fsync", |watch| !watch.fsyncs(device).is_empty());
    for fsync in watch.fsyncs(device) {
        assert_eq!((&*fsync.thread, fsync.seen_by), ("dd", SpanSource::Tracepoints), "{fsync:?}");
        assert!(fsync.latency() >= Nanos::from_millis(1) && fsync.start.0 as u64 > began, "{fsync:?}");
    }
    fs::remove_file(file).unwrap();
}

/// A freeze is one call by the freezing thread; a refused freeze is none. The call lasts from its entry to the thaw's
/// return.
fn check_freeze(watch: &mut Watch, file_system: &FileSystem) {
    let device = file_system.device();
    let frozen = Freeze::new(file_system);
    let refused = Freeze::attempt(file_system).err().expect("frozen twice");
    assert_eq!(refused.raw_os_error(), Some(libc::EBUSY));
    let frozen_ns = scene::monotonic_ns();
    std::thread::sleep(Duration::from_millis(20));
    let thawed_ns = scene::monotonic_ns();
    drop(frozen);
    watch.until("thaw", |watch| watch.freezes(device).len() == 1);
    let freeze = watch.freezes(device)[0];
    assert_eq!(freeze.tid, scene::current_tid(), "{freeze:?}");
    assert!((freeze.start.0 as u64) < frozen_ns && freeze.end.0 as u64 >= thawed_ns, "{freeze:?}");
}

/// Stops this process in every way: each is one stop, with the thread that caused it.
fn check_stops(watch: &mut Watch) {
    stops::by_signal();
    let stop = watch.next_stop(StopKind::Signal);
    assert_eq!((&*stop.by, stop.threads as usize), ("sh", stops::threads().len()), "{stop:?}");
    stops::by_freezer();
    assert_eq!(&*watch.next_stop(StopKind::Freezer).by, "sh");
    if stops::by_old_freezer() {
        // It ends when the last thread was thawed, a STOP after the first; it starts when a thread was seen to freeze,
        // which takes a while.
        let stop = watch.next_stop(StopKind::Freezer);
        assert_eq!(&*stop.by, "sh");
        assert!(stop.length().0 * 2 >= 3 * stops::STOP.as_nanos() as i64, "{stop:?}");
    } else {
        eprintln!("this kernel has no freezer of version 1");
    }
    // Halts single threads, like strace.
    stops::by_tracer(&[scene::current_tid() as i32]);
    stops::by_tracer(&stops::threads());
    let stop = watch.next_stop(StopKind::Tracer);
    assert!(stop.by_tid.is_some_and(|tid| tid != std::process::id()) && !stop.by.is_empty(), "{stop:?}");
    assert_eq!(stop.threads as usize, stops::threads().len());
}

fn check_ops(watch: &Watch, of_file: impl Fn(&FileOp) -> bool + Copy, kind: &str) {
    let writes = watch.ops(FileOpKind::Write, of_file);
    let observed: Vec<_> = writes.iter().map(|op| (op.offset, op.result, &*op.fs)).collect();
    assert_eq!(observed, [(0, 100, kind), (100, 200, kind), (300, 300, kind), (600, 50, kind)]);
    let paths: Vec<_> =
        writes.iter().filter_map(|op| op.path.as_ref()).map(|it| (&*it.path, it.whole)).collect();
    let (before, after) = (("data/kafka/topicA-0/0.tmp", true), ("data/kafka/topicA-0/0.log", true));
    assert_eq!(paths, [before, before, before, after]);
    // Not every write needs the journal: a file's time is changed once a tick.
    assert_eq!(writes.iter().any(|op| op.journal_transaction.is_some()), kind == "ext4", "{observed:?}");
    assert!(writes.iter().all(|op| op.tid == scene::current_tid() && op.start_ns < op.end_ns));
    for (op, expected) in [(FileOpKind::Open, 1), (FileOpKind::Fsync, 1), (FileOpKind::Read, 1)] {
        assert_eq!(watch.ops(op, of_file).len(), expected, "{op:?} on {kind}");
    }
    assert_eq!(watch.ops(FileOpKind::Read, of_file)[0].result, 600);
}

/// Each call of the file system's functions is within the system call that made it.
fn check_functions(watch: &Watch, of_file: impl Fn(&FileOp) -> bool + Copy, kind: &str) {
    let (write, fsync) = match kind {
        "ext4" => ("ext4_file_write_iter", "ext4_sync_file"),
        _ => ("xfs_file_write_iter", "xfs_file_fsync"),
    };
    for (function, op) in [(write, FileOpKind::Write), (fsync, FileOpKind::Fsync)] {
        for op in watch.ops(op, of_file) {
            let spans = watch.spans(function, op);
            assert_eq!(spans.len(), 1, "{function} within {op:#?}");
            let device = spans[0].device.as_ref().map(|device| (device.major, device.minor));
            assert_eq!(device, Some(op.device), "{:?}", spans[0]);
        }
    }
}
