//! Tests `segment` and `io --message-id` on intact, damaged and truncated segments. Another implementation of Kafka's
//! format wrote them.

// clippy.toml allows these in test functions only; this whole crate is tests.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use kafka_protocol::protocol::StrBytes;
use kafka_protocol::records::{Compression, Record, RecordBatchEncoder, RecordEncodeOptions, TimestampType};
use model::{Device, Event, FileKind, FileOp, FileOpKind, Nanos, OffCpu, Row, TopicPartition};
use recording::{Broker, Manifest, Writer, WriterOptions};
use serde_json::{Value, json};

const NAME: &str = "topicA-0/00000000000000000000.log";

fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_brokerscope"))
        .args(arguments)
        .env("TZ", "UTC")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn record(offset: i64, id: &str) -> Record {
    let name = |text: &'static str| StrBytes::from_static_str(text);
    Record {
        transactional: false,
        control: false,
        delete_horizon: false,
        partition_leader_epoch: 3,
        producer_id: 4_000,
        producer_epoch: 5,
        timestamp_type: TimestampType::Creation,
        offset,
        sequence: offset as i32,
        timestamp: 1_718_971_896_521 + offset,
        key: Some(b"key".to_vec().into()),
        value: (id != "tombstone").then(|| vec![b'v'; 100].into()),
        headers: [(name("other"), None), (name("id"), Some(id.as_bytes().to_vec().into()))]
            .into_iter()
            .collect(),
    }
}

/// Three batches: a plain one, a compressed one with a tombstone, and another plain one.
fn batches() -> [Vec<u8>; 3] {
    let batch = |from: i64, ids: &[&str], compression| {
        let records = (from..).zip(ids).map(|(offset, id)| record(offset, id)).collect::<Vec<_>>();
        let mut bytes = Vec::new();
        let options = RecordEncodeOptions { version: 2, compression };
        RecordBatchEncoder::encode(&mut bytes, &records, &options).unwrap();
        bytes
    };
    [
        batch(0, &["a", "b"], Compression::None),
        batch(2, &["c", "tombstone"], Compression::Zstd),
        batch(4, &["\x1b[31me"], Compression::None),
    ]
}

/// A log dir with one segment of these bytes.
struct LogDir {
    dir: tempfile::TempDir,
}

impl LogDir {
    fn with(bytes: &[u8]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("topicA-0")).unwrap();
        std::fs::write(dir.path().join(NAME), bytes).unwrap();
        Self { dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Runs `segment` on it.
    fn segment(&self, arguments: &[&str]) -> (i32, String, String) {
        let file = self.path().join(NAME);
        run(&[&["segment", file.to_str().unwrap()], arguments].concat())
    }

    fn json(&self, arguments: &[&str]) -> (Vec<Value>, String) {
        let (status, stdout, stderr) = self.segment(&[arguments, &["--format", "json"]].concat());
        assert_eq!(status, 0, "{stderr}");
        (objects(&stdout), stderr)
    }
}

#[test]
fn batches_match_the_segment_as_written() {
    let batches = batches();
    let log_dir = LogDir::with(&batches.concat());
    let (found, stderr) = log_dir.json(&["--message-id", "id"]);
    let mut position = 0;
    for (i, (batch, row)) in batches.iter().zip(&found).enumerate() {
        assert_eq!(
            [&row["type"], &row["position"], &row["bytes"], &row["crc_ok"], &row["magic"]],
            [&json!("batch"), &json!(position), &json!(batch.len()), &json!(true), &json!(2)],
            "{row}"
        );
        assert_eq!(row["base_offset"], i as i64 * 2);
        assert_eq!(row["producer_id"], 4_000);
        let crc = u32::from_be_bytes(batch[17..21].try_into().unwrap());
        assert_eq!(row["crc"], crc, "the CRC is bytes 17 to 20 of a batch of magic 2");
        position += batch.len();
    }
    let field = |name: &str| found.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    assert_eq!(field("codec"), ["none", "zstd", "none"]);
    assert_eq!(field("records"), [2, 2, 1]);
    assert_eq!(field("last_offset"), [1, 3, 4]);
    assert_eq!(field("timestamp_ms")[0], 1_718_971_896_522_i64, "the newest of its records");
    assert_eq!(field("message_ids"), [json!(["a", "b"]), json!(["c", "tombstone"]), json!(["\x1b[31me"])]);
    assert_eq!(stderr, "3 batches with 5 records\n");
}

#[test]
fn table_has_the_expected_columns_and_escapes_control_characters() {
    let log_dir = LogDir::with(&batches().concat());
    let (status, stdout, _) = log_dir.segment(&["--message-id", "id", "--quiet"]);
    assert_eq!(status, 0);
    let headings = stdout.lines().next().unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(headings[..6], ["MESSAGE_ID", "FILE", "TOPIC", "PARTITION", "BYTES", "OFF_KB"]);
    let cells = stdout.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(cells[..4], ["a", NAME, "topicA", "0"]);
    assert_eq!(stdout.lines().count(), 6, "one row a message id:\n{stdout}");
    assert!(!stdout.contains('\x1b') && stdout.contains("\\x1b[31me"), "{stdout}");
}

#[test]
fn records_are_listed_without_their_contents() {
    let log_dir = LogDir::with(&batches().concat());
    let (found, _) = log_dir.json(&["--records", "--message-id", "id"]);
    let records = found.iter().filter(|row| row["type"] == "record").collect::<Vec<_>>();
    let ids = ["a", "b", "c", "tombstone", "\x1b[31me"];
    assert_eq!(records.len(), ids.len());
    for (offset, (row, id)) in records.iter().zip(ids).enumerate() {
        let value = if id == "tombstone" { Value::Null } else { json!(100) };
        assert_eq!(
            **row,
            json!({"type": "record", "offset": offset, "timestamp_ms": 1_718_971_896_521_i64 + offset as i64,
                   "key_bytes": 3, "value_bytes": value, "message_id": id})
        );
    }
    let (_, stdout, _) = log_dir.segment(&["--records"]);
    assert!(!stdout.contains("vvv"), "{stdout}");
    let (_, csv, _) = log_dir.segment(&["--records", "--format", "csv"]);
    assert_eq!(csv.lines().count(), 1 + ids.len(), "{csv}");
}

#[test]
fn byte_range_gives_the_batches_of_one_write() {
    let batches = batches();
    let log_dir = LogDir::with(&batches.concat());
    let (first, second) = (batches[0].len(), batches[1].len());
    let range = |offset: usize, bytes: usize| {
        log_dir.json(&["--offset", &offset.to_string(), "--bytes", &bytes.to_string(), "--message-id", "id"])
    };
    let (found, stderr) = range(first, second);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["message_ids"], json!(["c", "tombstone"]));
    assert_eq!(stderr, "1 batch with 2 records\n");
    // A write that starts one byte off is reported to start with no batch.
    let (found, stderr) = range(first + 1, second + 10);
    assert_eq!(found.iter().map(|row| row["base_offset"].clone()).collect::<Vec<_>>(), [4]);
    assert!(stderr.contains(&format!("no valid record batch at byte {}", first + 1)), "{stderr}");
}

#[test]
fn flipped_byte_is_a_wrong_crc_of_one_batch() {
    let batches = batches();
    let mut bytes = batches.concat();
    // In the value of the first batch's last record, at most 100 bytes before its end.
    bytes[batches[0].len() - 30] ^= 0x20;
    let (found, stderr) = LogDir::with(&bytes).json(&[]);
    assert_eq!(
        found.iter().map(|row| row["crc_ok"].clone()).collect::<Vec<_>>(),
        [false, true, true],
        "{found:?}"
    );
    assert!(stderr.contains("1 batch with a wrong CRC"), "{stderr}");
}

#[test]
fn truncated_segment_gives_whole_batches_and_the_end_position() {
    let batches = batches();
    let (whole, third) = (batches.concat(), batches[0].len() + batches[1].len());
    // Fewer bytes would all be zero, like the rest of a segment that is not full yet.
    for length in [third + 8, third + 60, whole.len() - 1] {
        let (found, stderr) = LogDir::with(&whole[..length]).json(&["--records"]);
        let rows = |kind: &str| found.iter().filter(|row| row["type"] == kind).count();
        assert_eq!((rows("batch"), rows("record")), (2, 4), "{length}: {found:?}");
        assert!(stderr.contains(&format!("no valid record batch at byte {third} ")), "{length}: {stderr}");
    }
    let (status, stdout, stderr) = LogDir::with(b"").segment(&[]);
    assert_eq!((status, stdout.lines().count(), stderr.as_str()), (0, 1, "0 batches with 0 records\n"));
}

fn write(file: &str, offset: usize, bytes: usize, tid: u32) -> FileOp {
    let start = Nanos(1_718_971_896_521_000_000);
    FileOp {
        start,
        end: start + Nanos::from_millis(158),
        op: FileOpKind::Write,
        pid: 1,
        tid,
        thread: "data-plane-kafk".into(),
        bytes: Some(bytes as u64),
        offset: offset as u64,
        file: file.into(),
        topic_partition: Some(TopicPartition { topic: "topicA".into(), partition: 0 }),
        kind: FileKind::Log,
        device: Device { major: 7, minor: 0, name: "loop0".into() },
        inode: 12,
        fs: "ext4".into(),
        ..Row::empty()
    }
}

/// A recording of some writes. The first one waited for the journal nearly all the time.
fn recording(dir: &Path, log_dirs: Vec<PathBuf>, ops: &[FileOp]) {
    let broker = Some(Broker { log_dirs, ..Broker::default() });
    let plan = vec![("off-cpu".to_owned(), "seen: sched_switch".to_owned())];
    let manifest = Manifest { broker, plan, ended_ns: Some(1), ..Manifest::default() };
    let mut writer = Writer::create(dir, &manifest, WriterOptions::default()).unwrap();
    for (i, op) in ops.iter().enumerate() {
        let wait = OffCpu {
            start: op.start + Nanos::from_millis(2),
            end: op.start + Nanos::from_millis(157),
            woken: Some(op.start + Nanos::from_millis(153)),
            pid: 1,
            tid: op.tid,
            thread: Arc::clone(&op.thread),
            preempted: false,
            stack: "ext4_dirty_inode;jbd2__journal_start;start_this_handle;wait_transaction_locked".into(),
            ..Row::empty()
        };
        if i == 0 {
            writer.write(&Event::OffCpu(Box::new(wait))).unwrap();
        }
        writer.write(&Event::FileOp(Box::new(op.clone()))).unwrap();
    }
    writer.finish(&manifest).unwrap();
}

#[test]
fn write_has_message_ids_of_its_segment_and_reasons_of_its_thread() {
    let batches = batches();
    let log_dir = LogDir::with(&batches.concat());
    let second = write(NAME, batches[0].len(), batches[1].len(), 4_478);
    let gone = write("topicA-0/00000000000000000007.log", 0, 100, 4_479);
    // A recording may come from anyone: it must not make us read other files.
    let outside = write(log_dir.path().join(NAME).to_str().unwrap(), 0, batches[0].len(), 4_480);
    let above = write(&format!("x/../{NAME}"), 0, batches[0].len(), 4_481);
    let recorded = log_dir.path().join("recorded");
    recording(&recorded, vec![log_dir.path().to_owned()], &[second, gone, outside, above]);
    let from = ["io", "--from", recorded.to_str().unwrap(), "--message-id", "id"];
    let (status, stdout, stderr) = run(&[&from[..], &["--format", "json"]].concat());
    assert_eq!(status, 0, "{stderr}");
    let found = objects(&stdout);
    let ids = found.iter().map(|row| row["message_ids"].clone()).collect::<Vec<_>>();
    assert_eq!(ids, [json!(["c", "tombstone"]), json!([]), json!([]), json!([])]);
    assert_eq!(
        found[0]["reasons"],
        json!({"journal-commit": 151_000_000, "run-queue": 4_000_000, "cpu": 3_000_000})
    );
    assert_eq!(found[1]["reasons"], json!({"cpu": 158_000_000}), "another thread's wait is not its own");

    let (_, stdout, _) = run(&from);
    let lines = stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect::<Vec<_>>();
    assert_eq!(
        lines[0].join(" "),
        "START TIME END TIME LATENCY MESSAGE_ID FILE TOPIC PARTITION BYTES OFF_KB OP REASON"
    );
    let expected = format!(
        "12:11:36.521 12:11:36.679 158 ms c {NAME} topicA 0 {} {} write journal-commit 151 ms",
        batches[1].len(),
        batches[0].len() / 1024
    );
    assert_eq!(lines[1].join(" "), expected);
    assert_eq!(lines[2][4..6], ["tombstone", NAME]);
    assert_eq!(lines[3][4], "-");
    // If the log dirs have moved, the user names their new place.
    let empty = tempfile::tempdir().unwrap();
    let moved = [&from[..], &["--format", "json", "--log-dir", empty.path().to_str().unwrap()]].concat();
    assert_eq!(objects(&run(&moved).1)[0]["message_ids"], json!([]));
}
