//! Limits of a cgroup of version 2, as the probes see them: a thread that sleeps because its group is over `memory.high`. Runs
//! itself again as what is limited. Needs root, BPF and `BROKERSCOPE_LIVE_TESTS=1`; without that it says loudly that it did not
//! run, and so it does where version 1 has the memory controller: `BROKERSCOPE_CGROUP2=1` says that it must run, which
//! `make vmtest` sets for its guests.

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
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use model::{Event as Row, OffCpu};
use probes::{Event, Facts, Plan, Probes, Purpose, Target};
use tempfile::TempDir;
use watched::Watch;

const GIVE_UP: Duration = Duration::from_secs(60);
/// What the group may have before it is throttled: less than a process has that has just started.
const HIGH_BYTES: u64 = 1 << 20;
/// What the process takes and gives back, again and again.
const TAKEN_BYTES: usize = 1 << 20;
/// The file that the process which is limited appends to.
const LIMITED: &str = "BROKERSCOPE_TEST_LIMITED";

#[test]
fn a_sleep_over_memory_high_is_reported_with_its_stack() {
    if let Some(file) = std::env::var_os(LIMITED) {
        return append_and_take_memory(Path::new(&file));
    }
    if !gate::is_open() {
        return;
    }
    let Some(group) = Group::new() else {
        assert!(std::env::var_os("BROKERSCOPE_CGROUP2").is_none(), "no memory controller of version 2");
        eprintln!("NOT RUN: the memory controller is not one of cgroup version 2 here; make vmtest runs it");
        return;
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    let victim = Victim::start(file.path());
    let mut watched = watch(victim.0.id());
    group.limit(&victim, HIGH_BYTES);
    victim.go_on();
    let is_throttled = |wait: &&OffCpu| wait.stack.contains("mem_cgroup_handle_over_high");
    watched.until("sleep over memory.high", |seen| seen.waits().any(|wait| is_throttled(&wait)));
    let wait = watched.waits().find(is_throttled).unwrap();
    assert_eq!((wait.pid, wait.preempted), (victim.0.id(), false), "{wait:?}");
    let losses = watched.probes.losses();
    assert!(!losses.any_event(), "{losses:?}");
}

/// What is limited: takes memory between two appends, until it is killed.
fn append_and_take_memory(file: &Path) {
    io::stdin().read_line(&mut String::new()).unwrap();
    let mut file = File::options().append(true).open(file).unwrap();
    loop {
        file.write_all(b"broker").unwrap();
        black_box(vec![1_u8; TAKEN_BYTES]);
    }
}

/// What shows it. Each further hook takes time to attach in a guest.
const NEEDED: [Purpose; 3] = [Purpose::FileWrites, Purpose::OffCpu, Purpose::KernelStacks];

fn watch(pid: u32) -> Watch {
    let mut plan = Plan::choose(&Facts::survey());
    plan.hooks.retain(|hook| NEEDED.contains(&hook.purpose));
    for purpose in NEEDED {
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
}

/// This test as another process, which waits for a line; killed when dropped.
struct Victim(Child);

impl Victim {
    fn start(file: &Path) -> Self {
        // A path that was looked up before its mounts were unshared leads nowhere.
        let mut command = Command::new("/proc/self/exe");
        command.args(["a_sleep_over_memory_high_is_reported_with_its_stack", "--exact", "--test-threads=1"]);
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

/// A group of version 2 in a mount of its hierarchy; both go when it is dropped.
struct Group {
    root: TempDir,
}

impl Group {
    /// None where version 1 has the memory controller, or the kernel lacks it.
    fn new() -> Option<Self> {
        scene::unshare_mounts();
        let root = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "cgroup2", "none"]).arg(root.path());
        assert!(mount.status().unwrap().success(), "cannot mount cgroup2");
        let group = Self { root };
        let controllers = fs::read_to_string(group.root.path().join("cgroup.controllers")).unwrap();
        if !controllers.split_whitespace().any(|name| name == "memory") {
            return None;
        }
        fs::write(group.root.path().join("cgroup.subtree_control"), "+memory").unwrap();
        fs::create_dir(group.directory()).unwrap();
        Some(group)
    }

    fn directory(&self) -> PathBuf {
        self.root.path().join("limited")
    }

    fn limit(&self, process: &Victim, bytes: u64) {
        fs::write(self.directory().join("memory.high"), bytes.to_string()).unwrap();
        fs::write(self.directory().join("cgroup.procs"), process.0.id().to_string()).unwrap();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.directory().exists() {
            if let Err(error) = fs::remove_dir(self.directory()) {
                eprintln!("could not remove {}: {error}", self.directory().display());
            }
            let _ = fs::write(self.root.path().join("cgroup.subtree_control"), "-memory");
        }
        let unmounted = Command::new("umount").arg("-l").arg(self.root.path()).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("could not unmount {}", self.root.path().display());
        }
    }
}
