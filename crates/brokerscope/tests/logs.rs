//! Tests `logs` as a user runs it: on logs that are plain, compressed, truncated, piped in, and being written.

// clippy.toml allows these in test functions only; this whole crate is tests.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

/// The lines of case 3, and other lines of a broker.
const LOG: &str = "\
[2024-05-19 15:04:46,000] INFO [UnifiedLog partition=orders-0, dir=/d] Incremented log start offset to 5 due to segment deletion (kafka.log.UnifiedLog)
[2024-05-19 15:04:47,458] INFO 1292021 segments removed by cleanup from tier partition state file for topicIdPartition 7XWCdjQqTIyy9OgycPxg2A:retriever-mutation-0, state file size changed from 147891612 to 601218 (kafka.tier.state.FileTierPartitionState)
[2024-05-19 15:04:48,000] INFO 6089448 segments removed by cleanup from tier partition state file for topicIdPartition 7XWCdjQqTIyy9OgycPxg2A:retriever-mutation-7, state file size changed from 698481072 to 4284000 (kafka.tier.state.FileTierPartitionState)
[2024-05-19 15:05:00,000] INFO [LocalLog partition=orders-0, dir=/d] Rolled new log segment at offset 5 in 3 ms. (kafka.log.LocalLog)
[2024-05-19 15:05:01,000] INFO [LocalLog partition=orders-1, dir=/d] Rolled new log segment at offset 9 in 1204 ms. (kafka.log.LocalLog)
[2024-05-22 00:32:29,962] INFO tier partition state file format migration complete for topicIdPartition flE-6I70RCyT2gK2Qc3YBw:retriever-mutation-10, state file size changed from 508509470 to 591531390 (kafka.tier.state.FileTierPartitionState)
";
const ROLL: &str = "[2024-05-19 15:06:00,000] INFO [LocalLog partition=late-0, dir=/d] Rolled new log segment at offset 7 in 8 ms. (kafka.log.LocalLog)\n";

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_brokerscope"));
    command.arg("logs").args(arguments).env("TZ", "UTC").stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = command(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn objects(text: &str, of: &str) -> Vec<Value> {
    let objects = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    objects.filter(|object| object["type"] == of).collect()
}

fn log(dir: &Path, name: &str, bytes: &[u8]) -> String {
    let path: PathBuf = dir.join(name);
    fs::write(&path, bytes).unwrap();
    path.to_str().unwrap().to_owned()
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text).unwrap();
    gzip.finish().unwrap()
}

#[test]
fn tier_state_cleanup_is_summed_by_partition_and_in_total() {
    let dir = tempfile::tempdir().unwrap();
    let path = log(dir.path(), "server.log", LOG.as_bytes());
    let (status, stdout, stderr) = run(&[&path]);
    assert_eq!((status, stderr.as_str()), (0, "5 of 6 lines matched\n"));
    let row = |start: &str| {
        let row = stdout
            .lines()
            .find(|line| line.trim_start().starts_with(start))
            .unwrap_or_else(|| panic!("{stdout}"));
        row.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let cells =
        ["retriever-mutation", "7", "1", "6,089,448", "698,481,072", "4,284,000", "-694,197,072", "-99.39"];
    assert_eq!(row("retriever-mutation  7"), cells);
    let cells = ["total", "2", "7,381,469", "846,372,684", "4,885,218", "-841,487,466", "-99.42"];
    assert_eq!(row("total"), cells);
    assert!(stdout.contains("Tier state migration: 1 file"), "{stdout}");
}

#[test]
fn compressed_and_piped_logs_give_the_same_output() {
    let dir = tempfile::tempdir().unwrap();
    let plain = log(dir.path(), "server.log", LOG.as_bytes());
    let json = |path: &str| run(&[path, "--format", "json"]).1.replace(path, "FILE");
    let expected = json(&plain);
    assert_eq!(objects(&expected, "log-entry").len(), 5);
    for packed in [gzip(LOG.as_bytes()), zstd::encode_all(LOG.as_bytes(), 3).unwrap()] {
        assert_eq!(json(&log(dir.path(), "packed", &packed)), expected);
    }
    let mut piped =
        command(&["-", "--format", "json"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    piped.stdin.take().unwrap().write_all(LOG.as_bytes()).unwrap();
    let output = piped.wait_with_output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(stdout.replace("\"-\"", "\"FILE\""), expected);
}

#[test]
fn filters_select_entries() {
    let dir = tempfile::tempdir().unwrap();
    let path = log(dir.path(), "server.log", LOG.as_bytes());
    let kinds = |arguments: &[&str]| {
        let (status, stdout, stderr) = run(&[&[path.as_str(), "--format", "json"], arguments].concat());
        assert_eq!(status, 0, "{stderr}");
        let entries = objects(&stdout, "log-entry");
        entries
            .iter()
            .map(|entry| format!("{}-{}", entry["kind"].as_str().unwrap(), entry["partition"]))
            .collect::<Vec<_>>()
    };
    for (arguments, expected) in [
        (&["--kind", "segment-roll"][..], &["segment-roll-0", "segment-roll-1"][..]),
        (&["--slower-than", "1s"], &["segment-roll-1"]),
        (&["--topic", "orders", "--until", "2024-05-19 15:05:01"], &["segment-roll-0"]),
        (&["--since", "2024-05-20"], &["tier-migration-10"]),
        (&["--since", "2024-05-19T16:05:01+01:00", "--until", "2024-05-20"], &["segment-roll-1"]),
        (
            &["--log-zone", "+01:00", "--since", "2024-05-19T14:05:01Z", "--kind", "segment-roll"],
            &["segment-roll-1"],
        ),
        (&["--since", "1h"], &[]),
        (&["--topic", "none"], &[]),
    ] {
        assert_eq!(kinds(arguments), expected, "{arguments:?}");
    }
}

#[test]
fn list_and_csv_have_a_row_for_each_entry() {
    let dir = tempfile::tempdir().unwrap();
    let path = log(dir.path(), "server.log", LOG.as_bytes());
    let (_, listed, _) = run(&[&path, "--list", "--quiet"]);
    assert_eq!(listed.lines().count(), 6, "{listed}");
    assert!(
        listed.lines().nth(4).unwrap().starts_with("2024-05-19 15:05:01.000    1.2 s  segment-roll"),
        "{listed}"
    );
    let (_, csv, _) = run(&[&path, "--format", "csv", "--kind", "tier-cleanup"]);
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.splitn(12, ',').collect()).collect();
    assert_eq!(rows[0][..6], ["at_ns", "kind", "pattern", "duration_ns", "topic", "partition"]);
    assert_eq!(rows[2][7..11], ["6089448", "", "698481072", "4284000"], "{csv}");
}

#[test]
fn patterns_add_entries_and_bad_patterns_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = log(dir.path(), "server.log", LOG.as_bytes());
    let patterns = log(dir.path(), "patterns", b"# ours\nstart count log start offset to (?<value>\\d+)\n");
    let (status, stdout, _) = run(&[&path, "--format", "json", "--patterns", &patterns]);
    let entries = objects(&stdout, "log-entry");
    assert_eq!((status, entries.len()), (0, 6));
    assert_eq!((entries[0]["pattern"].as_str(), entries[0]["count"].as_u64()), (Some("start"), Some(5)));
    let wrong = log(dir.path(), "wrong", b"start fortnights x\n");
    let (status, _, stderr) = run(&[&path, "--patterns", &wrong]);
    assert_eq!((status, stderr.lines().count()), (1, 1), "{stderr}");
    assert!(stderr.contains("line 1: \"fortnights\" is not a unit"), "{stderr}");
}

#[test]
fn damaged_log_gives_the_readable_entries_and_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let whole = log(dir.path(), "whole.log", LOG.as_bytes());
    let mut packed = gzip(LOG.as_bytes());
    packed.truncate(packed.len() - 9);
    let cut = log(dir.path(), "cut.gz", &packed);
    let (status, stdout, stderr) = run(&[&cut, &whole, "--format", "json"]);
    assert_eq!((status, objects(&stdout, "log-entry").len() >= 5), (1, true), "{stderr}");
    assert!(stderr.contains("cut.gz: it is compressed and truncated"), "{stderr}");
    let (status, stdout, stderr) = run(&[&whole, "nowhere.log"]);
    assert_eq!((status, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.starts_with("brokerscope: nowhere.log: cannot read"), "{stderr}");
}

#[test]
fn wrong_usage_is_one_line_and_status_2() {
    for arguments in [
        &["-", "-"][..],
        &["-", "--follow"],
        &["x.log", "--for", "1s"],
        &["x.log", "--log-zone", "Europe/Nowhere"],
        &["x.log", "--date", "2024-02-30"],
        &["x.log", "--since", "yesterday"],
    ] {
        let (status, stdout, stderr) = run(arguments);
        assert_eq!((status, stdout.as_str(), stderr.lines().count()), (2, "", 1), "{arguments:?}: {stderr}");
    }
}

/// A running `logs --follow`; ended when dropped.
struct Following {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Following {
    fn start(path: &str) -> Self {
        let mut child = command(&[path, "--follow", "--format", "json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The topic of the next entry.
    fn next(&mut self) -> String {
        let line: Value = serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap();
        format!("{} {}", line["topic"].as_str().unwrap(), line["offset"])
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // It may already have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn follows_a_log_through_rotation_and_truncation() {
    let dir = tempfile::tempdir().unwrap();
    let path = log(dir.path(), "server.log", ROLL.as_bytes());
    let roll = |topic: &str, offset: u32| {
        ROLL.replace("late", topic).replace("offset 7", &format!("offset {offset}"))
    };
    let mut following = Following::start(&path);
    assert_eq!(following.next(), "late 7");
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    let (begin, end) = (roll("cut", 8), roll("whole", 9));
    let (begin, rest) = begin.split_at(90);
    file.write_all(begin.as_bytes()).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    file.write_all(format!("{rest}{end}").as_bytes()).unwrap();
    assert_eq!((following.next(), following.next()), ("cut 8".to_owned(), "whole 9".to_owned()));
    fs::rename(&path, dir.path().join("server.log.1")).unwrap();
    file.write_all(roll("old", 10).as_bytes()).unwrap();
    assert_eq!(following.next(), "old 10");
    fs::write(&path, roll("again", 11) + &roll("more", 12)).unwrap();
    assert_eq!((following.next(), following.next()), ("again 11".to_owned(), "more 12".to_owned()));
    fs::write(&path, roll("emptied", 13)).unwrap();
    assert_eq!(following.next(), "emptied 13");
}
