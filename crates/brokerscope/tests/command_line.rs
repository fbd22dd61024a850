//! Tests the binary as a user runs it: exit statuses, one line for an error, pipes that close, and the output for a
//! recording and for a capture.

// clippy.toml allows these in test functions only; this whole crate is tests.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use model::{
    Batch, BatchHead, Device, Event, FileKind, FileOp, FileOpKind, JournalCommit, Nanos, OffCpu, Partition,
    Request, Row, TopicPartition,
};
use recording::{Manifest, Writer, WriterOptions};
use serde_json::Value;

const START: Nanos = Nanos(1_718_971_896_521_000_000);

fn brokerscope(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_brokerscope"));
    command.args(arguments).env("TZ", "UTC").stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = brokerscope(arguments).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

fn sample_capture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/sample.pcap")
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn output_of(path: &Path) -> String {
    text(path).replace('\x1b', "\\x1b")
}

fn ms(n: i64) -> Nanos {
    Nanos::from_millis(n)
}

/// A write to `topicA-0`.
fn write(n: i64, at: Nanos, length: Nanos, tid: u32) -> FileOp {
    FileOp {
        start: at,
        end: at + length,
        op: FileOpKind::Write,
        pid: 1,
        tid,
        thread: "data-plane-kafk".into(),
        bytes: Some(100),
        offset: n as u64 * 100,
        file: "topicA-0/00000000000000000000.log".into(),
        topic_partition: Some(TopicPartition { topic: "topicA".into(), partition: 0 }),
        kind: FileKind::Log,
        device: Device { major: 7, minor: 0, name: "loop0".into() },
        inode: 12,
        fs: "ext4".into(),
        batch: Some(BatchHead {
            base_offset: n,
            bytes: 100,
            magic: 2,
            crc: n as u32,
            producer_id: -1,
            base_sequence: -1,
            records: 1,
        }),
        journal_transaction: Some(8),
        ..Row::empty()
    }
}

/// The request that caused that write.
fn request(n: i64, at: Nanos, length: Nanos) -> Request {
    let batch = Batch { magic: 2, crc: n as u32, bytes: 100, records: 1, producer_id: -1, base_sequence: -1 };
    Request {
        arrival: at,
        arrival_end: at,
        response: Some(at + length),
        end: Some(at + length),
        head_of_line: Some(Nanos::ZERO),
        api_key: 0,
        api: "PRODUCE",
        api_version: 9,
        correlation_id: n as i32,
        client_id: Some("\x1b[31mred".into()),
        request_bytes: 200,
        response_bytes: Some(50),
        acks: Some(-1),
        partitions: vec![Partition {
            topic: Some("topicA".into()),
            bytes: 100,
            records: Some(1),
            batches: vec![batch],
            base_offset: Some(n),
            error_code: Some(0),
            ..Partition::default()
        }],
        ..Request::new("10.0.0.7:41234".parse().unwrap(), "10.0.0.1:9092".parse().unwrap())
    }
}

/// A recording of `quick` quick requests and a slow one. The write of the slow one waited for the journal.
fn recording(dir: &Path, quick: i64) {
    let manifest = Manifest {
        plan: vec![
            ("file-writes".to_owned(), "seen: tracepoints".to_owned()),
            ("block-io".to_owned(), "missing: no tracepoints; mount tracefs".to_owned()),
        ],
        ended_ns: Some(1),
        ..Manifest::default()
    };
    let mut writer = Writer::create(dir, &manifest, WriterOptions::default()).unwrap();
    for n in 0..quick {
        let at = START + ms(n * 10);
        writer.write(&Event::FileOp(Box::new(write(n, at + ms(1), ms(1), 5)))).unwrap();
        writer.write(&Event::Request(Box::new(request(n, at, ms(3))))).unwrap();
    }
    let at = START + ms(quick * 10);
    let commit = JournalCommit {
        start: at,
        end: at + ms(145),
        device: Device { major: 7, minor: 0, name: "loop0".into() },
        transaction: 7,
        ..Row::empty()
    };
    let wait = OffCpu {
        start: at + ms(3),
        end: at + ms(145),
        pid: 1,
        tid: 6,
        thread: "data-plane-kafk".into(),
        preempted: false,
        stack: "ext4_dirty_inode;__ext4_journal_start_sb;jbd2__journal_start;start_this_handle;wait_transaction_locked"
            .into(),
        ..Row::empty()
    };
    writer.write(&Event::OffCpu(Box::new(wait))).unwrap();
    writer.write(&Event::JournalCommit(Box::new(commit))).unwrap();
    writer.write(&Event::FileOp(Box::new(write(quick, at + ms(2), ms(145), 6)))).unwrap();
    writer.write(&Event::Request(Box::new(request(quick, at, ms(150))))).unwrap();
    writer.finish(&manifest).unwrap();
}

#[test]
fn wrong_usage_exits_with_status_2() {
    let capture = sample_capture();
    for arguments in [
        &[][..],
        &["no-such-command"],
        &["requests"],
        &["requests", text(&capture), "--slower-than", "fast"],
        &["requests", text(&capture), "--slower-than", "100"],
        &["requests", text(&capture), "--format", "xml"],
        &["requests", text(&capture), "--for", "1s"],
        &["requests", text(&capture), "--api", "produec"],
        &["requests", text(&capture), "--top", "0"],
        &["requests", text(&capture), "--top", "5", "--summary"],
        &["segment", "f.log", "--offset", "1"],
        &["record", "-o", "never-made", "--topic", "topicA"],
        &["record", "-o", "never-made", "--api", "produce"],
        &["doctor", "--format", "csv"],
    ] {
        let (status, stdout, stderr) = run(arguments);
        assert_eq!((status, stdout.as_str()), (2, ""), "{arguments:?}: {stderr}");
        assert!(!stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn unreadable_input_is_one_line_and_status_1() {
    let dir = tempfile::tempdir().unwrap();
    let (nothing, empty, words) =
        (dir.path().join("nothing"), dir.path().join("empty"), dir.path().join("words\x1b[31m"));
    std::fs::write(&empty, "").unwrap();
    std::fs::write(&words, "neither a capture nor a recording".repeat(9)).unwrap();
    for path in [&nothing, &empty, &words, dir.path()] {
        for command in ["requests", "explain"] {
            let (status, stdout, stderr) = run(&[command, text(path)]);
            assert_eq!((status, stdout.as_str()), (1, ""), "{command} {}: {stderr}", path.display());
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
            assert!(
                stderr.starts_with(&format!("brokerscope: {}", output_of(path)))
                    && (stderr.contains("; ") || stderr.contains(": name ")),
                "{stderr}"
            );
            assert!(!stderr.contains('\x1b'), "{stderr:?}");
        }
    }
    for arguments in [
        ["segment", text(&nothing)].as_slice(),
        &["segment", text(dir.path())],
        &["io", "--from", text(dir.path())],
        &["record", "-o", text(&dir.path().join("new")), "--pid", "4194305"],
    ] {
        let (status, stdout, stderr) = run(arguments);
        assert_eq!((status, stdout.as_str(), stderr.lines().count()), (1, "", 1), "{arguments:?}: {stderr}");
    }
}

#[test]
fn capture_gives_rows_on_stdout_and_the_summary_on_stderr() {
    let capture = sample_capture();
    let (status, stdout, stderr) = run(&["requests", text(&capture)]);
    assert_eq!(status, 0, "{stderr}");
    assert!(stdout.starts_with("ARRIVAL TIME  END TIME      LATENCY(ms)  MESSAGE_ID"), "{stdout}");
    assert!(stdout.lines().count() > 1, "{stdout}");
    assert!(stderr.contains("packets"), "{stderr}");
    assert_eq!(run(&["requests", text(&capture), "--quiet"]).2, "");

    let (_, json, _) = run(&["requests", text(&capture), "--format", "json"]);
    let objects = json_lines(&json);
    let (summary, rows) = objects.split_last().unwrap();
    assert_eq!(summary["type"], "summary");
    assert_eq!(summary["matched"], rows.len());
    let produce = rows.iter().filter(|row| row["api"] == "PRODUCE").count();
    assert!(produce > 0 && produce < rows.len(), "{json}");
    let (_, json, _) = run(&["requests", text(&capture), "--format", "json", "--api", "produce"]);
    assert_eq!(json_lines(&json).len(), produce + 1);
}

#[test]
fn piped_capture_gives_the_same_rows() {
    let capture = sample_capture();
    let piped = brokerscope(&["requests", "-", "--format", "json"])
        .stdin(std::fs::File::open(&capture).unwrap())
        .output()
        .unwrap();
    let (_, read, _) = run(&["requests", text(&capture), "--format", "json"]);
    assert_eq!(String::from_utf8(piped.stdout).unwrap(), read);
}

#[test]
fn capture_is_explained_without_kernel_events() {
    let capture = sample_capture();
    let (status, stdout, stderr) =
        run(&["explain", text(&capture), "--slower-than", "0", "--format", "json"]);
    assert_eq!(status, 0, "{stderr}");
    let objects = json_lines(&stdout);
    let (summary, verdicts) = objects.split_last().unwrap();
    assert!(!verdicts.is_empty() && verdicts.iter().all(|verdict| verdict["type"] == "verdict"));
    let why = summary["unobservable"][0]["why"].as_str().unwrap();
    assert!(why.contains("no kernel events") && why.contains("brokerscope record"), "{why}");
}

#[test]
fn recording_is_explained_to_its_root_cause() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = dir.path().join("recorded");
    recording(&recorded, 20);
    let (status, stdout, stderr) = run(&["explain", text(&recorded), "--format", "json"]);
    assert_eq!(status, 0, "{stderr}");
    let objects = json_lines(&stdout);
    let (summary, verdicts) = objects.split_last().unwrap();
    assert_eq!(verdicts.len(), 1, "{stdout}");
    assert_eq!(verdicts[0]["cause"], "journal-commit");
    assert_eq!(verdicts[0]["root"], "journal-commit:loop0:7");
    assert_eq!(summary["requests"], 21);
    assert_eq!(summary["joins"]["by_crc"], 21);
    assert_eq!(summary["unobservable"][0]["what"], "block-io");

    let (_, shown, _) = run(&["explain", text(&recorded), "--utc"]);
    let finding = "100 % of slow time: 1 ext4 journal commit on loop0 slowed 1 produce request to ";
    assert!(shown.starts_with(finding), "{shown}");
    assert!(summary["finding"].as_str().unwrap().starts_with(finding), "{summary}");
    for part in
        ["1 of 21 requests took 100 ms or longer", "jbd2 commit 7 on loop0", "wait_transaction_locked", "XFS"]
    {
        assert!(shown.contains(part), "{part} is missing in\n{shown}");
    }
    // The cause is known without that source.
    assert!(!shown.contains("block-io: no tracepoints") && shown.contains("--verbose"), "{shown}");
    let (_, all, _) = run(&["explain", text(&recorded), "--verbose"]);
    assert!(all.contains("block-io: no tracepoints"), "{all}");
    let (_, other, _) = run(&["explain", text(&recorded), "--topic", "other", "--format", "json"]);
    assert_eq!(json_lines(&other).len(), 1, "{other}");
}

#[test]
fn recording_gives_file_operations() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = dir.path().join("recorded");
    recording(&recorded, 3);
    let (status, stdout, _) = run(&["io", "--from", text(&recorded), "--slower-than", "100ms", "--utc"]);
    assert_eq!(status, 0);
    let lines = stdout.lines().collect::<Vec<_>>();
    assert_eq!(lines.len(), 2, "{stdout}");
    assert!(lines[0].starts_with("START TIME    END TIME      LATENCY  TID"), "{stdout}");
    assert!(lines[1].starts_with("12:11:36.553  12:11:36.698  145 ms   6 "), "{stdout}");
    let (_, json, _) = run(&["io", "--from", text(&recorded), "--format", "json"]);
    let objects = json_lines(&json);
    assert_eq!(objects.len(), 4);
    assert!(objects.iter().all(|object| object["type"] == "file-op" && object["topic"] == "topicA"));
    for (least, writes) in [("0", 4), ("100ms", 1)] {
        let from = ["files", "--from", text(&recorded), "--slower-than", least, "--format", "json"];
        assert_eq!(json_lines(&run(&from).1)[0]["writes"], writes, "{least}");
    }
}

#[test]
fn ineffective_flag_is_reported_and_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = dir.path().join("recorded");
    recording(&recorded, 3);
    let (status, stdout, stderr) = run(&["io", "--from", text(&recorded), "--port", "1", "--format", "csv"]);
    assert_eq!((status, stdout.lines().count()), (0, 5), "{stderr}");
    assert!(stderr.contains("--port has no effect on io"), "{stderr}");
}

#[test]
fn reports_a_recording_that_ended_with_its_broker() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [("ended_because".to_owned(), "broker 4400 is gone".to_owned())].into();
    let manifest = Manifest { settings, ended_ns: Some(1), ..Manifest::default() };
    let recorded = dir.path().join("recorded");
    Writer::create(&recorded, &manifest, WriterOptions::default()).unwrap().finish(&manifest).unwrap();
    let (status, stdout, stderr) = run(&["explain", text(&recorded)]);
    assert_eq!(status, 0, "{stderr}");
    assert!(stdout.contains("the recording ended by itself: broker 4400 is gone"), "{stdout}");
}

#[test]
fn closed_output_pipe_ends_quietly() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = dir.path().join("recorded");
    // More than a pipe buffers, so that the writer must notice.
    recording(&recorded, 3_000);
    let mut child = brokerscope(&["io", "--from", text(&recorded), "--format", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    assert_eq!((status.code(), String::from_utf8(stderr).unwrap().as_str()), (Some(0), ""));
    assert!(first.starts_with(r#"{"type":"file-op""#), "{first}");
}

#[test]
fn escape_sequences_do_not_reach_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let recorded = dir.path().join("recorded");
    recording(&recorded, 1);
    for format in ["table", "json", "csv"] {
        let (_, stdout, stderr) = run(&["explain", text(&recorded), "--wide", "--format", format]);
        assert!(!stdout.contains('\x1b') && !stderr.contains('\x1b'), "{format}: {stdout}");
    }
}

#[test]
fn doctor_reports_live_support() {
    let (status, stdout, stderr) = run(&["doctor", "--format", "json"]);
    assert_eq!(status, 0, "{stderr}");
    let found = json_lines(&stdout);
    assert_eq!(found[0]["type"], "doctor");
    assert_eq!(found[0]["live"], cfg!(feature = "live"));
    assert_eq!(run(&["doctor"]).0, 0);
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
