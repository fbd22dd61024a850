//! The probes need no root: this test runs again as an unprivileged user with exactly the capabilities that `doctor`
//! names, and the probes attach and report. Needs root to become that user, and `BROKERSCOPE_LIVE_TESTS=1`; without
//! that it says loudly that it did not run.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "live/gate.rs"]
mod gate;

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use model::FileOpKind;
use probes::{Event, Facts, Plan, Probes, Purpose, Target};

const CAPABILITIES: &str = "+bpf,+perfmon,+dac_read_search,+syslog";
/// `nobody`.
const USER: &str = "65534";
const INSIDE: &str = "BROKERSCOPE_TEST_INSIDE";
const GIVE_UP: Duration = Duration::from_secs(60);

#[test]
fn probes_attach_without_root() {
    if !gate::is_open() {
        return;
    }
    if std::env::var_os(INSIDE).is_some() {
        watch_own_write();
        return;
    }
    mount_tracefs();
    let status = Command::new("setpriv")
        .args(["--reuid", USER, "--regid", USER, "--clear-groups", "--no-new-privs"])
        .args([
            "--inh-caps",
            &format!("-all,{CAPABILITIES}"),
            "--ambient-caps",
            &format!("-all,{CAPABILITIES}"),
        ])
        .args(["--bounding-set", &format!("-all,{CAPABILITIES}")])
        .arg(std::env::current_exe().unwrap())
        .args(["probes_attach_without_root", "--exact", "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(status.success(), "{status}");
}

/// The remedy that `doctor` names if tracefs is not mounted, for this thread and its children only.
fn mount_tracefs() {
    if Path::new("/sys/kernel/tracing/events").is_dir() {
        return;
    }
    // SAFETY: the call takes a number only.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0, "{}", io::Error::last_os_error());
    for arguments in [["--make-rprivate", "/", "", ""], ["-t", "tracefs", "tracefs", "/sys/kernel/tracing"]] {
        let arguments = arguments.iter().filter(|argument| !argument.is_empty());
        let status = Command::new("mount").args(arguments).status().unwrap();
        assert!(status.success(), "{status}");
    }
}

fn watch_own_write() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap().trim();
    // CAP_DAC_READ_SEARCH 2, CAP_SYSLOG 34, CAP_PERFMON 38, CAP_BPF 39.
    assert_eq!(effective, "000000c400000004", "other capabilities than asked for");
    let plan = Plan::choose(&Facts::survey());
    for purpose in [Purpose::FileWrites, Purpose::OffCpu, Purpose::KernelStacks, Purpose::BlockIo] {
        assert!(plan.uses(purpose), "{purpose:?} is missing: {:#?}", plan.hooks);
    }
    let mut probes = Probes::attach(&plan, &Target { pid: std::process::id(), stacks: true }).unwrap();
    let refused: Vec<_> = probes.plan().hooks.iter().zip(&plan.hooks).filter(|(a, b)| a != b).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    let mut file: File = tempfile::tempfile().unwrap();
    file.write_all(b"without root").unwrap();
    let inode = file.metadata().unwrap().ino();
    let mut writes = 0;
    let end = Instant::now() + GIVE_UP;
    while writes == 0 {
        assert!(Instant::now() < end, "no write; {:?}", probes.losses());
        let mut count = |event: Event| match event {
            Event::FileOp(op) if op.op == FileOpKind::Write && op.inode == inode => {
                assert_eq!(op.head(), b"without root");
                writes += 1;
            }
            _ => {}
        };
        probes.poll(Duration::from_millis(50), &mut count).unwrap();
    }
    assert_eq!(writes, 1);
}
