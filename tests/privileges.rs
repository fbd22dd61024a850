//! Checks the rights of a running `brokerscope record`: it can only watch, uses no more disk space than allowed, and
//! needs no root to start.
//!
//! Live tests need root and run where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::program::child_with;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use e2e::recorder::Recorder;
use e2e::workload::Workload;
use e2e::{brokerscope, gate, table, traffic};

/// `nobody`.
const USER: u32 = 65534;
/// Capabilities that `doctor` names, by number (include/uapi/linux/capability.h).
const DAC_READ_SEARCH: u64 = 1 << 2;
const NET_RAW: u64 = 1 << 13;
const SYS_PTRACE: u64 = 1 << 19;
const SYSLOG: u64 = 1 << 34;
const PERFMON: u64 = 1 << 38;
const BPF: u64 = 1 << 39;
const KEPT: u64 = DAC_READ_SEARCH | NET_RAW | SYS_PTRACE | SYSLOG | PERFMON | BPF;
/// Capabilities to become the broker's user. The thread that attaches to its JVM needs them, as long as none answers.
const BECOME_ANOTHER: u64 = 1 << 6 | 1 << 7;
const JVM_THREAD: &str = "brokerscope-jvm";
/// The thread that measures BPF programs. The kernel requires this capability for that.
const COST_THREAD: &str = "brokerscope-cos";
const SYS_ADMIN: u64 = 1 << 21;
/// The thread that waits for signals, which needs no rights.
const SIGNAL_THREAD: &str = "signals";
const PATIENCE: Duration = Duration::from_secs(60);

/// The capability sets and flags of one thread.
#[derive(Clone, Debug)]
struct Rights(BTreeMap<String, u64>);

impl Rights {
    /// The rights of every thread of a process, with its name.
    fn of_threads(pid: u32) -> Vec<(String, Self)> {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let read = |path: PathBuf| {
            let status = fs::read_to_string(path.join("status")).ok()?;
            let lines = status.lines().filter_map(|line| line.split_once(":\t"));
            let sets =
                lines.filter(|(name, _)| name.starts_with("Cap") || ["NoNewPrivs", "Seccomp"].contains(name));
            let numbers = sets.map(|(name, set)| (name.to_owned(), u64::from_str_radix(set, 16).unwrap()));
            let name = fs::read_to_string(path.join("comm")).ok()?;
            Some((name.trim().to_owned(), Self(numbers.collect())))
        };
        threads.filter_map(|thread| read(thread.unwrap().path())).collect()
    }

    fn set(&self, name: &str) -> u64 {
        self.0[name]
    }

    /// Whether only the rights for watching are left, and none can be gained.
    fn are_dropped(&self, thread: &str) -> bool {
        let within = |name: &str| self.set(name) & !allowed_capabilities(thread) == 0;
        let none = |name: &str| self.set(name) == 0;
        within("CapEff")
            && within("CapPrm")
            // Without root it cannot be reduced; nothing can be gained by it.
            && self.set("CapBnd") & !(allowed_capabilities(thread) | KEPT) == 0
            && none("CapInh")
            && none("CapAmb")
            && self.set("NoNewPrivs") == 1
    }
}

fn allowed_capabilities(thread: &str) -> u64 {
    match thread {
        JVM_THREAD => KEPT | BECOME_ANOTHER,
        COST_THREAD => SYS_ADMIN,
        SIGNAL_THREAD => 0,
        _ => KEPT,
    }
}

/// The threads' rights once all have dropped what they do not need.
fn dropped(recorder: &Recorder) -> Vec<(String, Rights)> {
    let end = Instant::now() + PATIENCE;
    loop {
        let threads = Rights::of_threads(recorder.pid());
        if threads.iter().all(|(name, rights)| rights.are_dropped(name)) {
            return threads;
        }
        assert!(Instant::now() < end, "{threads:#x?}");
        sleep(Duration::from_millis(20));
    }
}

fn workload(directory: &Path) -> Workload {
    let log_dir = directory.join("data");
    fs::create_dir_all(log_dir.join("topicA-0")).unwrap();
    Workload::start(&log_dir)
}

/// `brokerscope` as another user with only these capabilities. Their names are as for `setpriv`.
fn unprivileged(capabilities: &str) -> Command {
    let only = |option: &str| [option.to_owned(), format!("-all,{capabilities}")];
    // The remedy that `doctor` names if tracefs is not mounted, for this command only.
    let mounted = "mount -t tracefs tracefs /sys/kernel/tracing; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", mounted, "sh", "setpriv"]);
    command.args(["--reuid", &USER.to_string(), "--regid", &USER.to_string(), "--clear-groups"]);
    command.args(only("--inh-caps")).args(only("--ambient-caps")).args(only("--bounding-set"));
    command.arg(brokerscope::binary().unwrap());
    command
}

/// A directory for that user's recording.
fn open_directory(name: &str) -> PathBuf {
    let directory = traffic::directory(name);
    chown(&directory, Some(USER), Some(USER)).unwrap();
    directory
}

#[test]
fn recorder_as_root_drops_unneeded_capabilities() {
    let Some(_alone) = gate::live("the privileges of a running recorder") else { return };
    let directory = traffic::directory("privileges");
    let mut workload = workload(&directory);
    let recording = directory.join("recording");
    let recorder = Recorder::start(&recording, workload.pid());
    let threads = dropped(&recorder);
    let names: Vec<&str> = threads.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.len() >= 4, "every source has a thread: {names:?}");
    for (name, rights) in &threads {
        let allowed = allowed_capabilities(name);
        assert_eq!((rights.set("CapEff"), rights.set("CapPrm")), (allowed, allowed), "{name}: {rights:#x?}");
    }
    let parser = child_with(recorder.pid(), "parse-packets").expect("nothing parses packets");
    for (name, rights) in Rights::of_threads(parser) {
        for set in ["CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"] {
            assert_eq!(rights.set(set), 0, "{name}: {rights:#x?}");
        }
        // SECCOMP_MODE_FILTER (include/uapi/linux/seccomp.h)
        assert_eq!((rights.set("NoNewPrivs"), rights.set("Seccomp")), (1, 2), "{name}: {rights:#x?}");
    }
    // It still observes later operations.
    workload.order("open s topicA-0/00000000000000000000.log create");
    workload.order("write s 1000");
    recorder.stop();
    assert!(wrote_a_thousand(&recording));
}

#[test]
fn a_user_with_the_named_capabilities_records_everything() {
    let Some(_alone) = gate::live("a recorder without root") else { return };
    let directory = open_directory("unprivileged");
    let mut workload = workload(&directory);
    let recording = directory.join("recording");
    let brokerscope = unprivileged("+bpf,+perfmon,+net_raw,+sys_ptrace,+dac_read_search,+syslog");
    let recorder = Recorder::start_by(brokerscope, &recording, workload.pid());
    for (name, rights) in
        dropped(&recorder).iter().filter(|(name, _)| ![COST_THREAD, SIGNAL_THREAD].contains(&name.as_str()))
    {
        assert_eq!(rights.set("CapEff"), KEPT, "{name}: {rights:#x?}");
    }
    workload.order("open s topicA-0/00000000000000000000.log create");
    workload.order("write s 1000");
    recorder.stop();
    assert!(wrote_a_thousand(&recording));
    // Lockdown forbids even root to hook functions, a kernel without CONFIG_KALLSYMS_ALL does not allow reading CPU
    // times, and the workload is not a broker: it runs no JVM and has no metadata log.
    let of_others = |what: &String| {
        what.ends_with("-functions")
            || ["thread-names", "lock-waits", "monitor-waits", "replicas", "cpu-gaps"]
                .contains(&what.as_str())
    };
    let missing = not_seen(&recording);
    assert!(missing.iter().all(of_others), "{missing:#?}");
}

/// The purposes that a recording's plan reports as missing.
fn not_seen(recording: &Path) -> Vec<String> {
    let manifest = fs::read(recording.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let plan = manifest["plan"].as_array().unwrap();
    let missing = plan.iter().filter(|line| !line[1].as_str().unwrap().starts_with("seen: "));
    missing.map(|line| line[0].as_str().unwrap().to_owned()).collect()
}

#[test]
fn four_capabilities_are_enough_to_record() {
    let Some(_alone) = gate::live("a recorder with four capabilities") else { return };
    let directory = open_directory("four-capabilities");
    let workload = workload(&directory);
    let recording = directory.join("recording");
    let brokerscope = unprivileged("+bpf,+perfmon,+net_raw,+sys_ptrace");
    let recorder = Recorder::start_by(brokerscope, &recording, workload.pid());
    for (name, rights) in
        dropped(&recorder).iter().filter(|(name, _)| ![COST_THREAD, SIGNAL_THREAD].contains(&name.as_str()))
    {
        assert_eq!(rights.set("CapEff"), NET_RAW | SYS_PTRACE | PERFMON | BPF, "{name}: {rights:#x?}");
    }
    recorder.stop();
    let missing = not_seen(&recording);
    for source in ["requests", "block-io", "host-samples"] {
        assert!(!missing.iter().any(|what| what == source), "{missing:?}");
    }
}

/// A small file system in memory.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mounted(on: PathBuf) -> Self {
        fs::create_dir(&on).unwrap();
        mount("tmpfs", &on, "tmpfs", MountFlags::empty(), Some(c"size=64m")).unwrap();
        Self(on)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        unmount(&self.0, UnmountFlags::DETACH).unwrap();
    }
}

#[test]
fn recording_ends_when_others_fill_the_disk() {
    const MIN_FREE: [&str; 2] = ["--min-free", "50%"];
    let Some(_alone) = gate::live("a recorder on a disk that others fill") else { return };
    let directory = traffic::directory("full-disk");
    let workload = workload(&directory);
    let disk = Tmpfs::mounted(directory.join("disk"));
    let recording = disk.0.join("recording");
    let recorder = Recorder::start_with(&recording, workload.pid(), &MIN_FREE);
    fs::write(disk.0.join("filler"), vec![1; 40 << 20]).unwrap();
    let log = recorder.end();
    assert!(log.contains("less of its file system is free than --min-free says: it ends"), "{log}");
    let info = brokerscope::command().args(["explain".as_ref(), recording.as_os_str()]).output().unwrap();
    let notes = String::from_utf8_lossy(&info.stderr).into_owned() + &String::from_utf8_lossy(&info.stdout);
    assert!(info.status.success() && notes.contains("--min-free"), "{notes}");
    let mut again = brokerscope::command();
    again.arg("record").arg("-o").arg(disk.0.join("again")).args(["--pid", &workload.pid().to_string()]);
    let refused = again.args(MIN_FREE).output().unwrap();
    let why = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && why.contains("less than --min-free 50.0%"), "{why}");
}

fn wrote_a_thousand(recording: &Path) -> bool {
    let writes = table::rows(recording, "file_ops");
    writes.iter().any(|row| row.text("op") == "write" && row.number("bytes") == Some(1000.0))
}
