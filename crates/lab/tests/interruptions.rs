//! Experiments that are interrupted or killed: nothing of them stays, and the same command continues.
//!
//! Runs only with `BROKERSCOPE_LIVE_TESTS=1`; part of `make test-long`. Arguments that are not flags select cases by
//! name.

#![expect(clippy::unwrap_used, reason = "a test, though clippy takes it for a program")]

#[path = "live/machine.rs"]
mod machine;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use machine::{Cache, DEMO, Machine};

const CASES: &[(&str, fn())] = &[
    ("a_killed_demo_is_cleaned_away", a_killed_demo_is_cleaned_away),
    (
        "an_interrupted_experiment_leaves_nothing_and_goes_on",
        an_interrupted_experiment_leaves_nothing_and_goes_on,
    ),
    ("an_interrupted_fleet_leaves_nothing", an_interrupted_fleet_leaves_nothing),
];

fn main() -> ExitCode {
    machine::run(CASES)
}

fn a_killed_demo_is_cleaned_away() {
    let cache = Cache::new();
    let before = Machine::now();
    let mut demo = cache.recording(&DEMO);
    // A living lab is left alone.
    assert!(cache.lab(&["clean"]).status().unwrap().success());
    assert!(demo.try_wait().unwrap().is_none());
    demo.kill().unwrap();
    demo.wait().unwrap();
    assert_ne!(before, Machine::now(), "a killed lab leaves its mounts");
    assert!(cache.lab(&["clean"]).status().unwrap().success());
    before.assert_unchanged();
    cache.assert_no_sites();
}

/// Two configurations, interrupted in the middle of the second; then the same command does that one alone and compares.
fn an_interrupted_experiment_leaves_nothing_and_goes_on() {
    let cache = Cache::new();
    let (before, sysctls) = (Machine::now(), dirty_settings());
    let second = cache.path().join("second-records");
    // Records until it is asked to stop, and creates a file when it records the second one.
    let stand_in = cache.stand_in(&format!(
        "case $1 in record) trap 'exit 0' INT; mkdir \"$3\"; [ -e kept/ext4/1 ] && touch {}; \
         touch \"$3\"/manifest.json; while :; do sleep 0.1; done;; \
         compare) shift; echo \"compared $@\";; esac",
        second.display()
    ));
    let experiment = || {
        let mut command = cache.lab(&["fs", "--only", "ext4,ext4-no-journal", "--repetitions", "1"]);
        command.args(["--seconds", "2", "--keep", "kept", "-o", "page.html", "--brokerscope"]).arg(&stand_in);
        command.current_dir(cache.path());
        command
    };
    let mut first = experiment().stdout(Stdio::null()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(120);
    while !second.exists() {
        assert!(first.try_wait().unwrap().is_none(), "it ended before its second configuration");
        assert!(Instant::now() < end, "it does not come to its second configuration");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_ne!(dirty_settings(), sysctls, "what is compared can see an experiment");
    assert!(Command::new("kill").args(["-INT", &first.id().to_string()]).status().unwrap().success());
    assert!(!first.wait().unwrap().success());
    before.assert_unchanged();
    assert_eq!(dirty_settings(), sysctls);
    cache.assert_no_sites();

    let output = experiment().output().unwrap();
    let (stderr, stdout) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("2 runs, 1 of them done") && stderr.contains("run 2 of 2"), "{stderr}");
    assert!(!stderr.contains("run 1 of 2"), "{stderr}");
    assert!(stdout.contains("ext4 without journal"), "{stdout}");
    let compared = stdout.lines().last().unwrap();
    assert!(
        compared.contains("kept/ext4-no-journal --slo 65ms --md ") && compared.ends_with("-o page.html"),
        "{stdout}"
    );
    before.assert_unchanged();
    assert_eq!(dirty_settings(), sysctls);
    cache.assert_no_sites();
}

/// Interrupted while the first of its brokers is recorded: all brokers end, with their devices.
fn an_interrupted_fleet_leaves_nothing() {
    let cache = Cache::new();
    let before = Machine::now();
    let mut fleet = cache.recording(&["fleet", "--brokers", "4", "--state", "8"]);
    let devices = Machine::now().loops.lines().count() - before.loops.lines().count();
    assert_eq!(devices, 4, "what is compared can see a fleet");
    assert!(Command::new("kill").args(["-INT", &fleet.id().to_string()]).status().unwrap().success());
    assert!(!fleet.wait().unwrap().success());
    before.assert_unchanged();
    cache.assert_no_sites();
}

/// The kernel settings that experiments change.
fn dirty_settings() -> Vec<String> {
    let read = |name| fs::read_to_string(Path::new("/proc/sys/vm").join(name)).unwrap();
    ["dirty_expire_centisecs", "dirty_writeback_centisecs"].map(read).to_vec()
}
