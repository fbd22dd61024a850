//! Tests `brokerscope-lab fleet`: the case of mysterious disk reads with real brokers.
//!
//! Live tests need root and run where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

use std::fs;
use std::path::Path;

use e2e::brokerscope;
use e2e::gate;
use e2e::traffic::directory;

/// Brokers, and seconds of each: enough for one to be odd.
const REPLAYED: [&str; 6] = ["--brokers", "4", "--seconds", "3", "--state", "16"];

/// The lab itself fails if a command does not name what was injected; this checks the output for users, and the files.
#[test]
fn lab_fleet_replay_names_the_reads_without_egress() {
    let Some(_alone) = gate::live("brokerscope-lab fleet") else { return };
    let site = directory("fleet-replay");
    let output_dir = site.join("kept");
    let replay = [&["fleet", "--seed", "3", "--keep", output_dir.to_str().unwrap()][..], &REPLAYED].concat();
    let replay = brokerscope::run_lab(replay);
    println!("{}{}", replay.stderr, replay.stdout);
    // Lines are wrapped anywhere.
    let stdout = replay.done().stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for (command, words) in [
        ("fleet", "4 brokers compared, "),
        ("files", "reads without egress: reads "),
        ("logs", "Tier state cleanup: "),
        ("advise", "confluent.tier.partition.state.cleanup.delay.ms: not set (the default) -> 2592000000"),
        ("advise", "ages count from when the cleanup is first on"),
    ] {
        assert!(stdout.contains(&format!("$ brokerscope {command} ")) && stdout.contains(words), "{words}");
    }
    assert!(stdout.contains(" injected: broker ") && !stdout.contains("MISSED"), "{stdout}");
    assert_reduction(&output_dir);
    assert_is_refused_again(&output_dir);
    fs::remove_dir_all(&site).unwrap();
}

/// Checks the broker's own log lines, with a separate reader: each file is smaller by one entry per removed segment.
fn assert_reduction(output_dir: &Path) {
    let log = fs::read_to_string(output_dir.join("server.log")).unwrap();
    let cleanups =
        log.lines().filter(|line| line.contains(" segments removed by cleanup from tier partition"));
    let mut removed = 0;
    for line in cleanups {
        let number = |after: &str| -> u64 {
            let rest = line.split_once(after).unwrap_or_else(|| panic!("{after} in {line}")).1;
            rest.split(' ').next().unwrap().parse().unwrap()
        };
        let (segments, before, now) = (number(" INFO "), number("changed from "), number(" to "));
        assert_eq!(before - now, segments * 114, "{line}");
        assert!(now * 100 < before && line.ends_with("(kafka.tier.state.FileTierPartitionState)"), "{line}");
        removed += segments;
    }
    let path = output_dir.join("server.log");
    let (_, summary) =
        brokerscope::run(["logs", path.to_str().unwrap(), "--format", "json"]).done().objects();
    assert_eq!(summary["tier_cleanup"]["segments"], removed, "{summary}");
    assert_eq!(summary["tier_cleanup"]["partitions"], 6, "{summary}");
}

/// Checks that a second replay into the same directory is refused.
fn assert_is_refused_again(output_dir: &Path) {
    let again = brokerscope::run_lab(["fleet", "--keep", output_dir.to_str().unwrap()]);
    assert_eq!(again.status, Some(1), "{}", again.stderr);
    assert!(again.stderr.contains("is not empty: name another --keep"), "{}", again.stderr);
}
