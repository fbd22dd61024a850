//! Limits of version 2 cgroups, as the probes see them: a thread that sleeps because its group is over `memory.high` or
//! has used up its share by `io.cost`, and a request delayed by `io.max`. Runs itself again as the limited process.
//! Needs root, BPF and `BROKERSCOPE_LIVE_TESTS=1`; without that, or if version 1 has the controller, it says loudly
//! that it did not run: `BROKERSCOPE_CGROUP2=1` makes it mandatory, which `make vmtest` sets for its guests. Does not
//! test `io.latency`: Debian's kernels are built without it (`CONFIG_BLK_CGROUP_IOLATENCY`).

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "live/gate.rs"]
mod gate;
#[allow(dead_code, reason = "shared with the other live tests")]
#[path = "live/scene.rs"]
mod scene;
#[path = "live/watched.rs"]
mod watched;

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use model::{Event as Row, OffCpu};
use probes::{BlockIo, Event, Facts, Plan, Probes, Purpose, Target};
use scene::FileSystem;
use tempfile::TempDir;
use watched::Watch;

const GIVE_UP: Duration = Duration::from_secs(60);
/// The group's limit: less memory than a process has right after its start.
const HIGH_BYTES: u64 = 1 << 20;
/// Memory that the process allocates and frees repeatedly.
const TAKEN_BYTES: usize = 1 << 20;
/// Bytes that a process reads at a time, and that the group may read per second.
const PAGE_BYTES: usize = 4 << 10;
const BYTES_PER_SECOND: usize = 2 * PAGE_BYTES;
/// Minimum wait caused by the limit: far more than by the device.
const LONG_NS: i64 = 200_000_000;
/// Environment variable with the file of a limited process.
const LIMITED: &str = "BROKERSCOPE_TEST_LIMITED";

#[test]
fn memory_high_sleep_is_reported_with_its_stack() {
    if let Some(file) = std::env::var_os(LIMITED) {
        return append_and_take_memory(Path::new(&file));
    }
    let Some(group) = Group::with("memory") else { return };
    let file = tempfile::NamedTempFile::new().unwrap();
    let victim = Victim::start("memory_high_sleep_is_reported_with_its_stack", file.path());
    let mut watch = watch(victim.0.id(), &[Purpose::FileWrites]);
    group.set("memory.high", &HIGH_BYTES.to_string());
    group.put(&victim);
    victim.go_on();
    watch.until_asleep_in("mem_cgroup_handle_over_high", &victim);
}

#[test]
fn io_max_delays_queue_entry_until_near_the_end_of_the_wait() {
    if let Some(file) = std::env::var_os(LIMITED) {
        return read_from_the_device(Path::new(&file));
    }
    let Some(group) = Group::with("io") else { return };
    let disk = FileSystem::new();
    let victim =
        Victim::start("io_max_delays_queue_entry_until_near_the_end_of_the_wait", &create_file(&disk));
    let mut watch = watch(victim.0.id(), &[Purpose::FileReads, Purpose::BlockIo, Purpose::BlockQueue]);
    let (major, minor) = disk.device();
    group.set("io.max", &format!("{major}:{minor} rbps={BYTES_PER_SECOND}"));
    group.put(&victim);
    victim.go_on();
    let inode = fs::metadata(create_file(&disk)).unwrap().ino();
    watch.until("read that was held back", |watch| watch.held_back(inode).next().is_some());
    let (wait, io, queued) = watch.held_back(inode).next().unwrap();
    // Half a second each; the device itself takes a few milliseconds.
    assert!((queued - wait.start.0) * 10 > (wait.end - wait.start).0 * 9, "{wait:?}; {io:?}");
    watch.assert_nothing_lost();
}

#[test]
fn io_cost_sleep_is_reported_with_its_stack() {
    if let Some(file) = std::env::var_os(LIMITED) {
        return read_from_the_device(Path::new(&file));
    }
    let Some(group) = Group::with("io") else { return };
    let disk = FileSystem::new();
    let victim = Victim::start("io_cost_sleep_is_reported_with_its_stack", &create_file(&disk));
    let mut watch = watch(victim.0.id(), &[Purpose::FileReads]);
    let (major, minor) = disk.device();
    // The controller assumes a device with this few requests a second, no matter how fast it is.
    let model = "ctrl=user model=linear rbps=65536 rseqiops=4 rrandiops=4 wbps=65536 wseqiops=4 wrandiops=4";
    group.set_of_all("io.cost.model", &format!("{major}:{minor} {model}"));
    group.set_of_all("io.cost.qos", &format!("{major}:{minor} enable=1 ctrl=user min=100.00 max=100.00"));
    group.put(&victim);
    victim.go_on();
    watch.until_asleep_in("ioc_rqos_throttle", &victim);
    group.set_of_all("io.cost.qos", &format!("{major}:{minor} enable=0"));
}

/// The limited process: allocates memory between two appends, until it is killed.
fn append_and_take_memory(file: &Path) {
    io::stdin().read_line(&mut String::new()).unwrap();
    let mut file = File::options().append(true).open(file).unwrap();
    loop {
        file.write_all(b"broker").unwrap();
        black_box(vec![1_u8; TAKEN_BYTES]);
    }
}

/// The limited process: reads pages that are not in the page cache, until it is killed.
fn read_from_the_device(file: &Path) {
    io::stdin().read_line(&mut String::new()).unwrap();
    let file = File::open(file).unwrap();
    let advise = |advice| {
        // SAFETY: the call takes numbers only.
        assert_eq!(unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) }, 0);
    };
    advise(libc::POSIX_FADV_RANDOM);
    loop {
        advise(libc::POSIX_FADV_DONTNEED);
        file.read_exact_at(&mut [0; PAGE_BYTES], 0).unwrap();
    }
}

/// A file of one page, written to the device.
fn create_file(disk: &FileSystem) -> PathBuf {
    let path = disk.path().join("page");
    if !path.exists() {
        fs::write(&path, [1; PAGE_BYTES]).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
    }
    path
}

/// Attaches only the hooks needed: each further hook takes time to attach in a guest.
fn watch(pid: u32, of: &[Purpose]) -> Watch {
    // Only followed threads are seen off the CPU, and the hooks on writes start to follow them.
    let needed =
        [&[Purpose::FileWrites, Purpose::OffCpu, Purpose::Wakeups, Purpose::KernelStacks], of].concat();
    let mut plan = Plan::choose(&Facts::survey());
    plan.hooks.retain(|hook| needed.contains(&hook.purpose));
    for purpose in needed {
        assert!(plan.uses(purpose), "{purpose:?} is missing: {:#?}", plan.hooks);
    }
    Watch::by(Probes::attach(&plan, &Target { pid, stacks: true }).unwrap(), GIVE_UP)
}

impl Watch {
    fn waits(&self) -> impl Iterator<Item = &OffCpu> {
        self.events.iter().filter_map(|event| match event {
            Event::Row(Row::OffCpu(wait)) => Some(&**wait),
            _ => None,
        })
    }

    fn until_asleep_in(&mut self, function: &str, victim: &Victim) {
        let is_it = |wait: &&OffCpu| wait.stack.contains(function);
        self.until(function, |watch| watch.waits().any(|wait| is_it(&wait)));
        let wait = self.waits().find(is_it).unwrap();
        assert_eq!((wait.pid, wait.preempted), (victim.0.id(), false), "{wait:?}");
        self.assert_nothing_lost();
    }

    fn assert_nothing_lost(&self) {
        let losses = self.probes.losses();
        assert!(!losses.has_lost_events(), "{losses:?}");
    }

    /// Long waits, each with the request for a file's page that ended it. Includes the time at which the request
    /// entered the device's queue.
    fn held_back(&self, inode: u64) -> impl Iterator<Item = (&OffCpu, &BlockIo, i64)> {
        let reads = move || {
            self.events.iter().filter_map(move |event| match event {
                Event::BlockIo(io) if io.file.as_ref().is_some_and(|file| file.inode == inode) => Some(io),
                _ => None,
            })
        };
        let long = self.waits().filter(|wait| (wait.end - wait.start).0 >= LONG_NS);
        long.filter_map(move |wait| {
            let ended = |io: &&BlockIo| (wait.start.0..=wait.end.0).contains(&(io.end_ns as i64));
            let io = reads().find(ended)?;
            Some((wait, io, io.queued_ns? as i64))
        })
    }
}

/// This test as another process that waits for a line; killed on drop.
struct Victim(Child);

impl Victim {
    fn start(test: &str, file: &Path) -> Self {
        // A path resolved before its mounts were unshared leads nowhere.
        let mut command = Command::new("/proc/self/exe");
        command.args([test, "--exact", "--test-threads=1"]);
        let command = command.env(LIMITED, file).stdin(Stdio::piped()).stdout(Stdio::null());
        Self(command.spawn().unwrap())
    }

    fn go_on(&self) {
        self.0.stdin.as_ref().unwrap().write_all(b"\n").unwrap();
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A version 2 group in a mount of its hierarchy; both are removed on drop.
struct Group {
    root: TempDir,
    controller: &'static str,
}

impl Group {
    /// A new group with this controller. `None` if live tests do not run, version 1 has the controller, or the kernel
    /// lacks it.
    fn with(controller: &'static str) -> Option<Self> {
        if !gate::is_open() {
            return None;
        }
        scene::unshare_mounts();
        let root = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "cgroup2", "none"]).arg(root.path());
        assert!(mount.status().unwrap().success(), "cannot mount cgroup2");
        let group = Self { root, controller };
        let controllers = fs::read_to_string(group.root.path().join("cgroup.controllers")).unwrap();
        if !controllers.split_whitespace().any(|name| name == controller) {
            assert!(
                std::env::var_os("BROKERSCOPE_CGROUP2").is_none(),
                "no {controller} controller of version 2"
            );
            eprintln!(
                "NOT RUN: the {controller} controller is not one of cgroup version 2 here; make vmtest runs it"
            );
            return None;
        }
        group.set_of_all("cgroup.subtree_control", &format!("+{controller}"));
        fs::create_dir(group.directory()).unwrap();
        Some(group)
    }

    fn directory(&self) -> PathBuf {
        self.root.path().join("limited")
    }

    fn set(&self, file: &str, value: &str) {
        fs::write(self.directory().join(file), value)
            .unwrap_or_else(|error| panic!("{file}: {value}: {error}"));
    }

    /// Writes to a file of the root group.
    fn set_of_all(&self, file: &str, value: &str) {
        let path = self.root.path().join(file);
        fs::write(path, value).unwrap_or_else(|error| panic!("{file}: {value}: {error}"));
    }

    fn put(&self, process: &Victim) {
        self.set("cgroup.procs", &process.0.id().to_string());
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.directory().exists() {
            if let Err(error) = fs::remove_dir(self.directory()) {
                eprintln!("could not remove {}: {error}", self.directory().display());
            }
            let all = self.root.path().join("cgroup.subtree_control");
            let _ = fs::write(all, format!("-{}", self.controller));
        }
        let unmounted = Command::new("umount").arg("-l").arg(self.root.path()).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("could not unmount {}", self.root.path().display());
        }
    }
}
