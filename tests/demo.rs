//! Runs `brokerscope-lab demo` as README.md describes it: a real broker, an injected stall, and verdicts that name the
//! write, the lock, the commit and the device. Also without permission for BPF.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use e2e::brokerscope::{self, CommandOutput};
use e2e::gate;
use e2e::traffic::directory;
use e2e::views;
use serde_json::Value;

/// Long enough for two commits: ext4 commits every five seconds.
const SECONDS: &str = "16";

fn demo(keep: &Path, more: &[&str]) -> CommandOutput {
    let keep = keep.to_str().unwrap();
    brokerscope::run_lab([&["demo", "--seconds", SECONDS, "--seed", "7", "--keep", keep], more].concat())
        .done()
}

fn explained(recording: &Path) -> (Vec<Value>, Value) {
    let output = brokerscope::run(["explain", recording.to_str().unwrap(), "--format", "json"]).done();
    output.objects()
}

fn chain(verdict: &Value) -> Vec<&str> {
    verdict["chain"].as_array().unwrap().iter().map(|cause| cause.as_str().unwrap()).collect()
}

fn evidence<'v>(verdict: &'v Value, kind: &str) -> Vec<&'v Value> {
    verdict["evidence"].as_array().unwrap().iter().filter(|evidence| evidence["kind"] == kind).collect()
}

fn span(object: &Value) -> (i64, i64) {
    (object["start_ns"].as_i64().unwrap(), object["end_ns"].as_i64().unwrap())
}

fn overlap(one: &Value, other: &Value) -> bool {
    let ((start, end), (other_start, other_end)) = (span(one), span(other));
    start < other_end && other_start < end
}

/// No commit of the demo takes this long.
const MAX_COMMIT_NS: i64 = 1_000_000_000;

/// Whether the commit that it blames had not ended when the recording did: such a commit is not in it.
fn is_of_last_commit(verdict: &Value, ended_ns: i64) -> bool {
    let is_unseen = verdict["root"].as_str().unwrap().contains(":unseen:");
    is_unseen && verdict["request"]["end_ns"].as_i64().unwrap() + MAX_COMMIT_NS > ended_ns
}

/// Checks a verdict that blames a commit.
fn assert_blames_a_commit(verdict: &Value) {
    let commits = evidence(verdict, "kernel");
    // Other waits during the write are reported after it.
    let mut waits = evidence(verdict, "off-cpu");
    waits.retain(|wait| !wait["text"].as_str().unwrap().starts_with("besides, "));
    assert_eq!(commits.len(), 1, "one commit: {verdict}");
    assert_eq!(evidence(verdict, "file-op").len(), 1, "the write it held: {verdict}");
    assert_eq!(waits.len(), 1, "where in the kernel its thread waited: {verdict}");
    assert!(overlap(waits[0], commits[0]), "commit and wait overlap: {verdict}");
    let text = commits[0]["text"].as_str().unwrap();
    assert!(text.starts_with("jbd2 commit ") && text.contains(" on loop"), "{text}");
    assert!(verdict["root"].as_str().unwrap().starts_with("journal-commit:loop"), "{verdict}");
    assert!(!verdict["advice"].as_array().unwrap().is_empty());
}

#[test]
fn demo_explains_requests_by_write_lock_commit_and_device() {
    let Some(_live) = gate::live("brokerscope-lab demo") else { return };
    let site = directory("demo");
    let recording = site.join("recording");
    let demo = demo(&recording, &[]);
    assert!(demo.stdout.contains("jbd2 commit "), "the table names the commit:\n{}", demo.stdout);
    let (verdicts, summary) = explained(&recording);
    assert!(!verdicts.is_empty());
    let manifest = fs::read_to_string(recording.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    let sources = manifest["sources"].as_object().unwrap();
    assert!(!sources.is_empty() && sources.values().all(|source| source["down"].is_null()), "{sources:#?}");
    let ended_ns = manifest["ended_ns"].as_i64().unwrap();
    for verdict in &verdicts {
        let stages = verdict["stages"].as_object().unwrap();
        let total: i64 = stages.values().map(|stage| stage.as_i64().unwrap()).sum();
        assert_eq!(Some(total), verdict["request"]["latency_ns"].as_i64(), "stages add up: {verdict}");
    }
    let (cut, verdicts): (Vec<_>, Vec<_>) =
        verdicts.into_iter().partition(|verdict| is_of_last_commit(verdict, ended_ns));
    assert!(cut.iter().all(|verdict| verdict["confidence"] == "weak"), "{cut:#?}");
    verdicts.iter().filter(|verdict| verdict["cause"] == "journal-commit").for_each(assert_blames_a_commit);
    let of = |wanted: &[&str]| -> Vec<&Value> {
        verdicts.iter().filter(|verdict| chain(verdict) == wanted).collect()
    };
    let own = of(&["journal-commit"]);
    assert!(!own.is_empty(), "requests with their own slow write: {summary}");
    assert!(own.iter().any(|verdict| !evidence(verdict, "block-io").is_empty()), "the device: {}", own[0]);
    assert!(own.iter().any(|verdict| verdict["confidence"] == "exact"), "every link has a key: {}", own[0]);
    let behind = of(&["log-lock", "journal-commit"]);
    assert!(!behind.is_empty(), "requests behind another's write: {summary}");
    for verdict in behind {
        let wait = evidence(verdict, "lock-wait")[0];
        let held = evidence(verdict, "off-cpu")[0];
        assert!(overlap(wait, held), "it waited while the holder did: {verdict}");
        assert_eq!(wait["tid"], held["tid"], "the holder is who waited for the commit: {verdict}");
        assert!(
            wait["waiter_tid"].is_u64() && wait["waiter_tid"] != wait["tid"],
            "who waited for it: {verdict}"
        );
        assert_eq!(verdict["confidence"], "strong", "a lock that was inferred is never exact: {verdict}");
    }
    let joins = &summary["joins"];
    let (by_crc, all) = (
        joins["by_crc"].as_u64().unwrap(),
        ["by_crc", "by_base_offset", "unjoined"].iter().map(|key| joins[key].as_u64().unwrap()).sum::<u64>(),
    );
    assert!(all > 100 && by_crc * 1000 >= all * 999, "joined by batch CRC: {joins}");
    assert_samples_are_recorded(&recording);
    let from = ["--from", recording.to_str().unwrap()];
    let stalled = views::operations(&from).into_iter().filter(|op| views::mostly(op, "journal-commit", 100));
    assert!(stalled.count() >= 2, "the stall is the main reason of the writes that it slowed");
    views::assert_commits_beside_their_victims(&from);
    views::assert_files_add_up(&from);
    fs::remove_dir_all(&site).unwrap();
}

/// Checks the recording's CPU samples of the broker: some in the kernel, most of them not.
fn assert_samples_are_recorded(recording: &Path) {
    let recording = recording.to_str().unwrap();
    let stacks = brokerscope::run(["stacks", "--from", recording, "--on-cpu", "--folded", "-"]).done();
    let threads = stacks.stdout.lines().filter_map(|line| line.split(';').next());
    assert!(
        threads.clone().any(|thread| thread.starts_with("data-plane-kafka-request-handler-")),
        "{}",
        stacks.stdout
    );
    // If the JVM's symbols are stripped, its frames have the library's name.
    let jvm = ["JavaThread::", "[libjvm.so]"].iter().any(|frame| stacks.stdout.contains(frame));
    assert!(stacks.stdout.contains("_[k] ") && jvm, "{}", stacks.stdout);
}

#[test]
fn demo_without_bpf_explains_from_packets_and_lists_missing_sources() {
    let Some(_live) = gate::live("brokerscope-lab demo without BPF") else { return };
    let site = directory("demo-without-bpf");
    // The lab itself needs to mount; only the watching process loses its rights.
    let binary = brokerscope::binary().unwrap();
    let wrapper = site.join("brokerscope-without-bpf");
    let script = format!(
        "#!/bin/sh\nexec setpriv --bounding-set -bpf,-perfmon,-sys_admin --inh-caps -all {} \"$@\"\n",
        binary.display()
    );
    fs::write(&wrapper, script).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    let recording = site.join("recording");
    let demo = demo(&recording, &["--brokerscope", wrapper.to_str().unwrap()]);
    assert!(demo.stdout.contains("file-writes"), "the table says what is missing:\n{}", demo.stdout);
    let (verdicts, summary) = explained(&recording);
    let missing: Vec<_> =
        summary["unobservable"].as_array().unwrap().iter().map(|one| one["what"].as_str().unwrap()).collect();
    assert!(missing.contains(&"file-writes"), "{summary}");
    assert!(!verdicts.is_empty(), "slow requests are still found: {summary}");
    for verdict in &verdicts {
        assert!(
            ["unobserved", "head-of-line", "slow-client"].contains(&verdict["cause"].as_str().unwrap()),
            "nothing is blamed that was not seen: {verdict}"
        );
    }
    fs::remove_dir_all(&site).unwrap();
}
