//! Probes in and across pid namespaces: targets and records name processes by the ids in the `/proc` of the probes'
//! user. Runs itself again below `unshare`. Needs root, BPF and `BROKERSCOPE_LIVE_TESTS=1`; without that it says loudly
//! that it did not run.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "live/gate.rs"]
mod gate;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::FileOpKind;
use probes::facts::PidNamespace;
use probes::profile::Sampler;
use probes::{Error, Event, Facts, Plan, Probes, Purpose, Target};

const INSIDE: &str = "BROKERSCOPE_TEST_INSIDE";
const GIVE_UP: Duration = Duration::from_secs(60);
const OWN_PROC: [&str; 3] = ["--pid", "--fork", "--mount-proc"];
const PROC_OF_ABOVE: [&str; 2] = ["--pid", "--fork"];

/// Runs the test again in a nested namespace, unless it already is in one.
fn is_inside(test: &str, unshare: &[&str]) -> bool {
    if !gate::is_open() {
        return false;
    }
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let status = Command::new("unshare")
        .args(unshare)
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
    false
}

/// A shell that appends to a file until it is killed; a prefix command starts it.
struct Writer {
    child: Child,
    file: tempfile::NamedTempFile,
}

impl Writer {
    fn start(starter: &[&str]) -> Self {
        let file = tempfile::NamedTempFile::new().unwrap();
        let script = "while :; do echo broker >> \"$0\"; sleep 0.05; done";
        let words: Vec<&str> = starter.iter().copied().chain(["sh", "-c", script]).collect();
        let child = Command::new(words[0]).args(&words[1..]).arg(file.path()).spawn().unwrap();
        Self { child, file }
    }

    /// The shell that `unshare --fork` has started.
    fn forked_pid(&self) -> u32 {
        let end = Instant::now() + GIVE_UP;
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        loop {
            let found = fs::read_to_string(&children).unwrap_or_default();
            if let Some(pid) = found.split_whitespace().next() {
                return pid.parse().unwrap();
            }
            assert!(Instant::now() < end, "unshare has forked nothing");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn inode(&self) -> u64 {
        self.file.as_file().metadata().unwrap().ino()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // `unshare --kill-child` kills its child too.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Uses tracepoints: ids are the same with any hook, and functions take long to hook in a virtual machine.
fn plan() -> Plan {
    let mut facts = Facts::survey();
    facts.functions.refused = Some("not wanted".to_owned());
    Plan::choose(&facts)
}

/// The process and the thread of the first write to that file.
fn first_write(pid: u32, inode: u64) -> (u32, u32) {
    let plan = plan();
    for purpose in [Purpose::FileWrites, Purpose::OffCpu, Purpose::ChildProcesses] {
        assert!(plan.uses(purpose), "{purpose:?} is missing: {:#?}", plan.hooks);
    }
    let mut probes = Probes::attach(&plan, &Target { pid, stacks: true }).unwrap();
    let mut found = None;
    let end = Instant::now() + GIVE_UP;
    while found.is_none() {
        assert!(Instant::now() < end, "no write of {pid}; {:?}", probes.losses());
        let mut look = |event: Event| match event {
            Event::FileOp(op) if op.op == FileOpKind::Write && op.inode == inode => {
                found = found.or(Some((op.pid, op.tid)));
            }
            _ => {}
        };
        probes.poll(Duration::from_millis(50), &mut look).unwrap();
    }
    found.unwrap()
}

#[test]
fn ids_inside_a_pid_namespace_are_its_own() {
    if !is_inside("ids_inside_a_pid_namespace_are_its_own", &OWN_PROC) {
        return;
    }
    assert_eq!(Facts::survey().pid_namespace, PidNamespace::Below(1));
    check_processes();
    check_namespace_below();
    check_profile();
    check_outside();
}

/// A process, and a child of another one.
fn check_processes() {
    let writer = Writer::start(&["env"]);
    let pid = writer.child.id();
    assert!(pid < 1000, "{pid} is a number of the host's");
    assert_eq!(first_write(pid, writer.inode()), (pid, pid));
    let above = Writer::start(&["sh", "-c", "\"$@\" & wait", "sh"]);
    let below = above.forked_pid();
    assert_eq!(first_write(above.child.id(), above.inode()), (below, below));
    let _ = Command::new("kill").arg(below.to_string()).status();
}

/// A process in a further nested namespace.
fn check_namespace_below() {
    let writer = Writer::start(&["unshare", "--pid", "--fork", "--kill-child"]);
    let pid = writer.forked_pid();
    assert_ne!(pid, 1);
    assert_eq!(first_write(pid, writer.inode()), (pid, pid));
}

fn check_profile() {
    let pid = std::process::id();
    let mut sampler = Sampler::attach(pid, 499, model::ClockOffset::from_ns(0)).unwrap();
    let mut taken = Vec::new();
    let end = Instant::now() + GIVE_UP;
    while taken.len() < 5 {
        assert!(Instant::now() < end, "no samples");
        let spin = Instant::now() + Duration::from_millis(50);
        while Instant::now() < spin {}
        sampler.poll(&mut |sample| taken.push(sample)).unwrap();
    }
    // SAFETY: the call takes nothing and cannot fail.
    let own = unsafe { libc::gettid() as u32 };
    assert!(taken.iter().all(|sample| sample.tid == own && sample.pid == pid), "{taken:?}");
}

/// An id that no process of this namespace has.
fn check_outside() {
    let refused = Probes::attach(&plan(), &Target { pid: 100_000, stacks: false });
    assert!(matches!(refused.err(), Some(Error::OtherPidNamespace { pid: 100_000 })));
}

#[test]
fn host_reports_a_pid_namespace_with_host_ids() {
    if !gate::is_open() {
        return;
    }
    let writer = Writer::start(&["unshare", "--pid", "--fork", "--kill-child"]);
    let pid = writer.forked_pid();
    assert_eq!(first_write(pid, writer.inode()), (pid, pid));
}

#[test]
fn proc_mount_decides_which_namespace_ids_are_used() {
    if !is_inside("proc_mount_decides_which_namespace_ids_are_used", &PROC_OF_ABOVE) {
        return;
    }
    assert_eq!(Facts::survey().pid_namespace, PidNamespace::Root);
    let own = fs::read_link("/proc/self").unwrap().to_str().unwrap().parse().unwrap();
    assert_ne!(own, std::process::id());
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let inode = file.as_file().metadata().unwrap().ino();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                file.write_all(b"broker").unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let _end = End(&done);
        assert_eq!(first_write(own, inode).0, own);
    });
}

/// Sets the flag on drop, even after a failure.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
