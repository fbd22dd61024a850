//! Every file operation on a fresh ext4: each is reported once, with its bytes, its offset and its file, also after
//! renames and if an inode number is reused; bytes from the disk; faults on mapped files; children. Needs root, BPF and
//! `BROKERSCOPE_LIVE_TESTS=1`; without that it says loudly that it did not run, and with it anything that is missing is
//! a failure.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "live/calls.rs"]
mod calls;
#[path = "live/gate.rs"]
mod gate;
#[allow(dead_code, reason = "the other live test uses the rest")]
#[path = "live/scene.rs"]
mod scene;

use std::ffi::CString;
use std::fs::{self, File, create_dir_all};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::Command;
use std::time::{Duration, Instant};

use model::FileOpKind;
use probes::{Event, Facts, FileOp, Options, Plan, Probes, Purpose, Target};
use scene::FileSystem;

const GIVE_UP: Duration = Duration::from_secs(120);
const PAGE: u64 = 4096;
const DIRECTORY: &str = "kafka/disk 1/data/topicA-0";

#[test]
fn every_file_operation_is_reported_once() {
    if !gate::is_open() {
        return;
    }
    let file_system = FileSystem::new();
    create_dir_all(file_system.path().join(DIRECTORY)).unwrap();
    let mut watch = Watch::new();
    check_calls(&file_system, &mut watch);
    check_renames(&file_system, &mut watch);
    check_exchange(&file_system, &mut watch);
    check_reused_inode(&file_system, &mut watch);
    check_disk_reads(&file_system, &mut watch);
    check_mmap_fault(&file_system, &mut watch);
    check_shared_slot(&file_system, &mut watch);
    check_child(&file_system, &mut watch);
    let losses = watch.probes.losses();
    assert!(!losses.has_lost_events() && losses.heads_unread == 0, "{losses:?}");
    watch.print_costs();
}

/// Probes on this very process and the file operations they have reported so far.
struct Watch {
    probes: Probes,
    plan: Plan,
    ops: Vec<FileOp>,
}

impl Watch {
    fn new() -> Self {
        let plan = Plan::choose(&Facts::survey());
        for purpose in [Purpose::DiskReads, Purpose::MmapFaults, Purpose::ChildProcesses] {
            assert!(plan.uses(purpose), "{purpose:?} is missing: {:#?}", plan.hooks);
        }
        let target = Target { pid: std::process::id(), stacks: true };
        let options = Options { measure: true, ..Options::default() };
        Self { probes: Probes::attach_with(&plan, &target, &options).unwrap(), plan, ops: Vec::new() }
    }

    /// Reads until an operation matches, and returns the first one.
    fn until(&mut self, what: &str, matches: impl Fn(&FileOp) -> bool) -> FileOp {
        let end = Instant::now() + GIVE_UP;
        loop {
            if let Some(found) = self.ops.iter().find(|op| matches(op)) {
                return found.clone();
            }
            assert!(Instant::now() < end, "no {what}; {:?}", self.probes.losses());
            let ops = &mut self.ops;
            let mut take = |event| {
                if let Event::FileOp(op) = event {
                    ops.push(op);
                }
            };
            self.probes.poll(Duration::from_millis(50), &mut take).unwrap();
        }
    }

    /// Returns one thread's operations on a file system, in order. They end with a removal that marks the end.
    ///
    /// Drops all others.
    fn during(&mut self, file_system: &FileSystem, what: impl FnOnce()) -> Vec<FileOp> {
        self.ops.clear();
        what();
        let mark = file_system.path().join("mark");
        let _ = fs::remove_file(&mark);
        let name = mark.to_str().unwrap().to_owned();
        self.until("mark", |op| path_argument(op) == Some(&name));
        let root = file_system.path().to_str().unwrap();
        let mut ops = std::mem::take(&mut self.ops);
        ops.retain(|op| op.tid == scene::current_tid() && path_argument(op) != Some(&name));
        ops.retain(|op| match &op.path_arguments {
            None => op.device == file_system.device(),
            Some(given) => match &given.from.start {
                None => given.from.text.as_ref().is_some_and(|text| text.starts_with(root)),
                Some(start) => start.device == file_system.device(),
            },
        });
        ops
    }

    fn print_costs(&self) {
        for cost in self.probes.overhead().iter().filter(|cost| cost.run_count > 0) {
            eprintln!(
                "{:20} {:>9} runs {:>6} ns each",
                cost.program,
                cost.run_count,
                cost.run_time_ns / cost.run_count
            );
        }
    }
}

/// The whole path inside the file system; empty if it was lost.
fn path(op: &FileOp) -> &str {
    op.path.as_ref().filter(|path| path.whole).map_or("", |path| &*path.path)
}

/// The path argument of an operation on a name.
fn path_argument(op: &FileOp) -> Option<&str> {
    op.path_arguments.as_ref()?.from.text.as_deref()
}

fn check_calls(file_system: &FileSystem, watch: &mut Watch) {
    let directory = file_system.path().join(DIRECTORY);
    let mut expected = Vec::new();
    // Linux 5.17.
    let mapped_syncs = watch.plan.uses(Purpose::MappedSyncs);
    assert_eq!(mapped_syncs, Facts::survey().find_vma);
    let ops = watch.during(file_system, || expected = calls::make(&directory, mapped_syncs));
    let describe = |op: &FileOp| {
        format!("{:?} {} at {} of {:?} {:?}", op.op, op.result, op.offset, path(op), path_argument(op))
    };
    for (op, expected) in ops.iter().zip(&expected) {
        assert_eq!(
            (op.op, op.result),
            (expected.op, expected.result),
            "{} is not {expected:?}",
            describe(op)
        );
        assert_eq!(op.offset, expected.offset, "{}", describe(op));
        match &op.path_arguments {
            None => assert_eq!(
                path(op),
                format!("{DIRECTORY}/{}", expected.name).trim_end_matches('/'),
                "{}",
                describe(op)
            ),
            Some(given) => {
                let at =
                    |text: &str| text.strip_prefix(&format!("{}/", directory.display())).map(str::to_owned);
                let name = |path: &probes::event::PathArgument| {
                    let text = path.text.as_deref().unwrap();
                    let Some(start) = &path.start else { return at(text).unwrap() };
                    assert_eq!(&*start.path.as_ref().unwrap().path, DIRECTORY);
                    text.to_owned()
                };
                assert_eq!(name(&given.from), expected.name);
                assert_eq!(given.to.as_ref().map(name), expected.to.map(str::to_owned));
            }
        }
        assert!(op.start_ns < op.end_ns && op.pid == std::process::id(), "{}", describe(op));
        let reads = matches!(op.op, FileOpKind::Read | FileOpKind::Sendfile | FileOpKind::Copy);
        assert!(!reads || op.disk_bytes == Some(0), "what was just written is in memory: {}", describe(op));
    }
    let all: Vec<_> = ops.iter().map(describe).collect();
    assert_eq!(ops.len(), expected.len(), "{all:#?}");
    assert!(ops.windows(2).all(|pair| pair[0].end_ns <= pair[1].start_ns), "{all:#?}");
}

fn write_ops(ops: &[FileOp]) -> Vec<&str> {
    ops.iter().filter(|op| op.op == FileOpKind::Write).map(path).collect()
}

/// Renames a file, and then its directory.
fn check_renames(file_system: &FileSystem, watch: &mut Watch) {
    let root = file_system.path();
    let ops = watch.during(file_system, || {
        create_dir_all(root.join("d/a/b/t-0")).unwrap();
        let mut file = File::create(root.join("d/a/b/t-0/x.log")).unwrap();
        file.write_all(b"1").unwrap();
        fs::rename(root.join("d/a/b/t-0/x.log"), root.join("d/a/b/t-0/x.log.deleted")).unwrap();
        file.write_all(b"2").unwrap();
        fs::rename(root.join("d/a/b/t-0"), root.join("d/a/b/t-0.1f-delete")).unwrap();
        file.write_all(b"3").unwrap();
        fs::rename(root.join("d/a"), root.join("d/z")).unwrap();
        file.write_all(b"4").unwrap();
    });
    let expected = [
        "d/a/b/t-0/x.log",
        "d/a/b/t-0/x.log.deleted",
        "d/a/b/t-0.1f-delete/x.log.deleted",
        "d/z/b/t-0.1f-delete/x.log.deleted",
    ];
    assert_eq!(write_ops(&ops), expected);
    let renames: Vec<_> = ops.iter().filter(|op| op.op == FileOpKind::Rename).collect();
    assert!(renames.len() == 3 && renames.iter().all(|op| op.journal_transaction.is_some()), "{renames:#?}");
}

/// Two files that are exchanged.
fn check_exchange(file_system: &FileSystem, watch: &mut Watch) {
    let [one, other] = ["one.log", "other.log"].map(|name| file_system.path().join(name));
    let ops = watch.during(file_system, || {
        let mut files = [&one, &other].map(|path| File::create(path).unwrap());
        for file in &mut files {
            file.write_all(b"1").unwrap();
        }
        let [from, to] = [&one, &other].map(|path| CString::new(path.as_os_str().as_bytes()).unwrap());
        let (here, exchange) = (libc::AT_FDCWD, libc::RENAME_EXCHANGE);
        // SAFETY: both paths end in a NUL and outlive the call.
        let result = unsafe { libc::renameat2(here, from.as_ptr(), here, to.as_ptr(), exchange) };
        assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        for file in &mut files {
            file.write_all(b"2").unwrap();
        }
    });
    assert_eq!(write_ops(&ops), ["one.log", "other.log", "other.log", "one.log"]);
    let renames: Vec<_> = ops.iter().filter(|op| op.op == FileOpKind::Rename).collect();
    let exchanges =
        |op: &&&FileOp| op.offset == 0 && op.path_arguments.as_ref().is_some_and(|given| given.exchange);
    assert_eq!(renames.iter().filter(exchanges).count(), 1, "{renames:#?}");
}

/// Of two threads that share a slot, both are followed. Threads' entries are in the slots of their ids' last bits
/// (`SLOTS` in bpf/state.h).
fn check_shared_slot(file_system: &FileSystem, watch: &mut Watch) {
    const SLOTS: u32 = 4096;
    watch.ops.clear();
    let file = File::create(file_system.path().join("shared-place.log")).unwrap();
    let write = |number: u64| file.write_all_at(b"1", number * PAGE).unwrap();
    let mine = scene::current_tid();
    write(0);
    // Ids are assigned consecutively: the next thread in that slot comes at most this many later, unless another
    // process gets the id.
    let other = (0..SLOTS * 8).find_map(|_| {
        let thread = || {
            let tid = scene::current_tid();
            let shares = tid % SLOTS == mine % SLOTS;
            shares.then(|| {
                (1..=2).for_each(write);
                tid
            })
        };
        std::thread::scope(|scope| scope.spawn(thread).join().unwrap())
    });
    write(3);
    let other = other.expect("no other thread with that slot");
    for (tid, number) in [(mine, 0), (other, 1), (other, 2), (mine, 3)] {
        let is_it = |op: &FileOp| (op.op, op.tid, op.offset) == (FileOpKind::Write, tid, number * PAGE);
        let write = watch.until("write of a thread that shares its slot", is_it);
        assert_eq!((path(&write), write.result), ("shared-place.log", 1));
    }
}

/// A reused inode number is another file.
fn check_reused_inode(file_system: &FileSystem, watch: &mut Watch) {
    let root = file_system.path();
    let mut inodes = Vec::new();
    let ops = watch.during(file_system, || {
        for name in ["first", "second"] {
            let mut file = File::create(root.join(name)).unwrap();
            file.write_all(b"x").unwrap();
            inodes.push(file.metadata().unwrap().ino());
            drop(file);
            fs::remove_file(root.join(name)).unwrap();
        }
    });
    assert_eq!(inodes[0], inodes[1], "ext4 gives the number of a removed file to the next one");
    assert_eq!(write_ops(&ops), ["first", "second"]);
    let mut generations: Vec<_> = ops.iter().filter(|op| op.inode != 0).map(|op| op.generation).collect();
    generations.dedup();
    assert_eq!(generations.len(), 2);
}

/// A file whose pages are only on the disk.
fn cold_file(path: &std::path::Path, pages: u64) -> File {
    fs::write(path, vec![7; (pages * PAGE) as usize]).unwrap();
    let file = File::options().read(true).write(true).open(path).unwrap();
    cool(&file);
    file
}

fn cool(file: &File) {
    file.sync_all().unwrap();
    // SAFETY: numbers only.
    let result = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    assert_eq!(result, 0);
}

fn check_disk_reads(file_system: &FileSystem, watch: &mut Watch) {
    let root = file_system.path();
    let ops = watch.during(file_system, || {
        let file = cold_file(&root.join("cold"), 64);
        let mut bytes = vec![0; 2 * PAGE as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        file.read_exact_at(&mut bytes, 0).unwrap();
        cool(&file);
        calls::send(&file, 40 * PAGE, 8 * PAGE);
        calls::send(&file, 44 * PAGE, 8 * PAGE);
    });
    let read = |op: &&FileOp| matches!(op.op, FileOpKind::Read | FileOpKind::Sendfile);
    let reads: Vec<_> = ops.iter().filter(read).collect();
    let disk: Vec<_> = reads.iter().map(|op| op.disk_bytes.unwrap()).collect();
    assert_eq!(disk[..3], [2 * PAGE, 0, 8 * PAGE], "{reads:#?}");
    assert!(disk[3] <= 4 * PAGE && disk[3] + reads[2].readahead_bytes.unwrap() >= 4 * PAGE, "{reads:#?}");
    assert!(reads[0].readahead_bytes > Some(0) && reads[1].readahead_bytes == Some(0), "{reads:#?}");
}

/// Loads from a mapped page that is only on the disk, outside of any call.
///
/// The disk may be too fast to cause a wait: the page is dropped and loaded until it does.
fn check_mmap_fault(file_system: &FileSystem, watch: &mut Watch) {
    let file = cold_file(&file_system.path().join("index"), 64);
    let inode = file.metadata().unwrap().ino();
    let is_fault = |op: &FileOp| op.op == FileOpKind::MmapFault && op.inode == inode;
    watch.ops.clear();
    let fault = (0..100).find_map(|_| {
        cool(&file);
        let tid = load_twice(&file);
        let mark = File::open(file_system.path().join("index")).unwrap();
        watch.until("mark", |op| op.op == FileOpKind::Open && op.fd == mark.as_raw_fd() && op.tid != tid);
        let faults: Vec<_> = watch.ops.drain(..).filter(is_fault).collect();
        assert!(faults.len() <= 1, "its page was there for the second load: {faults:#?}");
        faults.into_iter().next().inspect(|fault| assert_eq!(fault.tid, tid))
    });
    let fault = fault.expect("no load of a hundred waited for the disk");
    assert_eq!((fault.device, fault.pid), (file_system.device(), std::process::id()));
    assert_eq!((fault.result, fault.disk_bytes), (PAGE as i64, Some(PAGE)));
    // Before Linux 6.12 a fault is recognised by the first page that it reads.
    let knows_page =
        watch.plan.used().any(|hook| hook.purpose == Purpose::MmapFaults && !hook.points.is_empty());
    let first_page = fault.offset <= 20 * PAGE && fault.offset + fault.readahead_bytes.unwrap() >= 20 * PAGE;
    assert!(fault.offset == 20 * PAGE || !knows_page && first_page, "{fault:?}");
    assert!(fault.start_ns < fault.end_ns);
}

/// Loads in another thread; returns its id.
fn load_twice(file: &File) -> u32 {
    let load = |offset| calls::load_mapped(file, 64 * PAGE, offset);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            load(20 * PAGE + 5);
            load(20 * PAGE + 7);
            scene::current_tid()
        });
        thread.join().unwrap()
    })
}

fn check_child(file_system: &FileSystem, watch: &mut Watch) {
    let at = file_system.path().join("by a child");
    let mut child = Command::new("sh").args(["-c", "echo five > \"$0\""]).arg(&at).spawn().unwrap();
    assert!(child.wait().unwrap().success());
    let write = watch.until("write of a child", |op| op.op == FileOpKind::Write && path(op) == "by a child");
    assert_eq!((write.pid, write.result, write.head()), (child.id(), 5, &b"five\n"[..]));
    assert_eq!(write.inode, fs::metadata(&at).unwrap().ino());
}
