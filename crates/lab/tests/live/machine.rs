//! The cases of a live test, one at a time, and the machine before and after each.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use lab::Kafka;

const GATE: &str = "BROKERSCOPE_LIVE_TESTS";

/// A demo that records until it is asked to stop.
pub(crate) const DEMO: [&str; 3] = ["demo", "--seconds", "600"];

/// Runs the cases that the arguments select: those whose names contain one of the words.
pub(crate) fn run(cases: &[(&str, fn())]) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if std::env::var_os(GATE).is_none_or(|value| value != "1") {
        eprintln!("NOT RUN: needs root, FUSE, loop devices, a JDK, Maven and {GATE}=1");
        return ExitCode::SUCCESS;
    }
    let words: Vec<&String> = arguments.iter().filter(|word| !word.starts_with('-')).collect();
    for (name, case) in cases {
        if words.is_empty() || words.iter().any(|word| name.contains(word.as_str())) {
            let started = Instant::now();
            case();
            eprintln!("ok: {name} ({:.1} s)", started.elapsed().as_secs_f64());
        }
    }
    ExitCode::SUCCESS
}

/// What an experiment could leave behind on this machine. The site's own files do not count.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Machine {
    mounts: String,
    pub(crate) loops: String,
    /// Processes that carry the lab's mark.
    marked: BTreeSet<u32>,
}

impl Machine {
    pub(crate) fn now() -> Self {
        let loops = Command::new("losetup").arg("--all").output().unwrap();
        assert!(loops.status.success());
        let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let entry = entry.ok()?;
            let environment = fs::read(entry.path().join("environ")).ok()?;
            let mark = b"BROKERSCOPE_LAB_SITE=";
            let marked = environment.split(|byte| *byte == 0).any(|value| value.starts_with(mark));
            marked.then(|| entry.file_name().to_str()?.parse().ok()).flatten()
        });
        Self {
            mounts: fs::read_to_string("/proc/mounts").unwrap(),
            loops: String::from_utf8_lossy(&loops.stdout).into_owned(),
            marked: pids.collect(),
        }
    }

    /// Waits, because udev may still use a loop device for a moment.
    pub(crate) fn assert_unchanged(&self) {
        let end = Instant::now() + Duration::from_secs(30);
        while *self != Self::now() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(*self, Self::now(), "something stayed behind");
    }
}

/// A separate cache directory, with the jars of the real one.
pub(crate) struct Cache(tempfile::TempDir);

impl Cache {
    pub(crate) fn new() -> Self {
        let kafka = Kafka::prepare(lab::kafka::DEFAULT_VERSION).unwrap();
        let directory = tempfile::tempdir().unwrap();
        symlink(&kafka.jars, directory.path().join(kafka.jars.file_name().unwrap())).unwrap();
        Self(directory)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn lab(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_brokerscope-lab"));
        command.args(arguments).env("BROKERSCOPE_LAB_CACHE", self.path());
        command
    }

    /// A program that stands in for `brokerscope`.
    pub(crate) fn stand_in(&self, script: &str) -> PathBuf {
        let path = self.path().join("stand-in");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        path
    }

    /// A lab that has set everything up and is recording.
    pub(crate) fn recording(&self, arguments: &[&str]) -> Child {
        let recording = self.path().join("recording-now");
        let stand_in = self.stand_in(&format!("touch {}; exec sleep 600", recording.display()));
        let mut command = self.lab(arguments);
        let mut lab = command.arg("--brokerscope").arg(stand_in).stdout(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(120);
        while !recording.exists() {
            assert!(lab.try_wait().unwrap().is_none(), "it ended before it recorded: {arguments:?}");
            assert!(Instant::now() < end, "it does not come to record: {arguments:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
        lab
    }

    pub(crate) fn assert_no_sites(&self) {
        let sites: Vec<_> = fs::read_dir(self.path().join("sites")).unwrap().map(Result::unwrap).collect();
        assert!(sites.iter().all(|entry| entry.file_name() == "lock"), "{sites:?}");
    }
}
