//! `verdicts/` as another program sees it: its columns and cells, and the fate of an earlier table.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;

use model::{
    Cause, Confidence, Doubt, Event, Evidence, EvidenceKind, KafkaTimes, Nanos, Request, Stage, StageSpan,
    Stages, TopicPartition, Verdict, Waiter,
};
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use recording::{Error, Manifest, Recording, VerdictWriter, Writer, WriterOptions};

use crate::samples::{self, numbered, request};

fn recording() -> (tempfile::TempDir, Recording) {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path(), &Manifest::default(), WriterOptions::default()).unwrap();
    writer.write(&numbered(1)).unwrap();
    writer.finish(&Manifest { ended_ns: Some(1), ..Manifest::default() }).unwrap();
    let recording = Recording::open(dir.path()).unwrap();
    (dir, recording)
}

fn a_request(n: u64) -> Request {
    match request(n) {
        Event::Request(request) => *request,
        other => panic!("{other:?}"),
    }
}

/// A verdict with something in every field.
fn verdict(n: u64) -> Verdict {
    let mut stages = Stages::default();
    for (i, stage) in Stage::ALL.into_iter().enumerate() {
        stages.add(stage, Nanos(i as i64 + 1));
    }
    Verdict {
        request: a_request(n),
        stages,
        stage_spans: vec![StageSpan { stage: Stage::Lock, start: Nanos(3), end: Nanos(4) }],
        cause: Cause::JournalCommit,
        chain: vec![Cause::LogLock, Cause::JournalCommit],
        root: "journal-commit:loop0:2285".into(),
        confidence: Confidence::Exact,
        evidence: vec![
            Evidence {
                kind: EvidenceKind::LockWait,
                start: Nanos(5),
                end: Nanos(6),
                tid: Some(7),
                thread: Some("data-plane-kafka-request-handler-24".into()),
                waiter: Some(Waiter { tid: 13, thread: "the waiter".into() }),
                text: "waited \"long\"".into(),
            },
            Evidence {
                kind: EvidenceKind::Kernel,
                start: Nanos(8),
                end: Nanos(9),
                tid: None,
                thread: None,
                waiter: None,
                text: "a commit".into(),
            },
        ],
        partition: Some(TopicPartition { topic: "topicF".into(), partition: 6 }),
        advice: vec!["XFS", "fast_commit"],
        losses: vec!["3 events".into()],
        kafka: Some(KafkaTimes {
            queue: Nanos(1),
            local: Nanos(2),
            remote: Nanos(3),
            throttle: Nanos(4),
            response_queue: Nanos(5),
            send: Nanos(6),
            total: Nanos(7),
        }),
        doubts: vec![Doubt { stage: Stage::Queue, time: Nanos(2), what: "who".into(), tells: "JFR".into() }],
    }
}

fn bare(n: u64) -> Verdict {
    Verdict {
        stage_spans: Vec::new(),
        chain: Vec::new(),
        evidence: Vec::new(),
        partition: None,
        advice: Vec::new(),
        losses: Vec::new(),
        kafka: None,
        doubts: Vec::new(),
        ..verdict(n)
    }
}

fn save(recording: &Recording, verdicts: &[Verdict]) {
    let mut writer = VerdictWriter::create(recording, Nanos::from_millis(100)).unwrap();
    for verdict in verdicts {
        writer.write(verdict).unwrap();
    }
    assert_eq!(writer.finish().unwrap(), verdicts.len() as u64);
}

fn file(dir: &Path) -> SerializedFileReader<File> {
    SerializedFileReader::new(File::open(dir.join("verdicts/part-00001.parquet")).unwrap()).unwrap()
}

/// The rows: the name and the cell of each column.
fn rows(dir: &Path) -> Vec<Vec<(String, Field)>> {
    let rows = file(dir).into_iter().map(Result::unwrap);
    rows.map(|row| row.get_column_iter().map(|(name, cell)| (name.clone(), cell.clone())).collect()).collect()
}

fn cell(row: &[(String, Field)], name: &str) -> String {
    row.iter().find(|(column, _)| column == name).unwrap_or_else(|| panic!("{name}")).1.to_string()
}

#[test]
fn every_field_is_in_its_column() {
    let (dir, recording) = recording();
    save(&recording, &[verdict(1), bare(2)]);
    let rows = rows(dir.path());
    assert_eq!(rows.len(), 2);
    for (column, cells) in [
        ("cause", ["\"journal-commit\"", "\"journal-commit\""]),
        ("chain", ["[\"log-lock\", \"journal-commit\"]", "[]"]),
        ("root", ["\"journal-commit:loop0:2285\"", "\"journal-commit:loop0:2285\""]),
        ("confidence", ["\"exact\"", "\"exact\""]),
        ("partition", ["\"topicF-6\"", "null"]),
        ("stage_spans", ["[{stage: \"lock\", start_ns: 3, end_ns: 4}]", "[]"]),
        ("advice", ["[\"XFS\", \"fast_commit\"]", "[]"]),
        ("losses", ["[\"3 events\"]", "[]"]),
        ("why_not", ["[{stage: \"queue\", time_ns: 2, what: \"who\", tells: \"JFR\"}]", "[]"]),
        ("kafka_queue_ns", ["1", "null"]),
        ("kafka_local_ns", ["2", "null"]),
        ("kafka_remote_ns", ["3", "null"]),
        ("kafka_throttle_ns", ["4", "null"]),
        ("kafka_response_queue_ns", ["5", "null"]),
        ("kafka_send_ns", ["6", "null"]),
        ("kafka_total_ns", ["7", "null"]),
        ("correlation_id", ["1", "2"]),
        ("client", ["\"[fe80::1%3]:40000\"", "\"[fe80::1%3]:40000\""]),
        ("latency_ns", ["3", "3"]),
    ] {
        assert_eq!(rows.iter().map(|row| cell(row, column)).collect::<Vec<_>>(), cells, "{column}");
    }
    let evidence = cell(&rows[0], "evidence");
    for part in [
        "kind: \"lock-wait\"",
        "tid: 7",
        "waiter_tid: 13",
        "waiter: \"the waiter\"",
        "request-handler-24",
        "waited \"long\"",
        "tid: null",
        "end_ns: 9",
    ] {
        assert!(evidence.contains(part), "{part}: {evidence}");
    }
    for (i, stage) in Stage::ALL.into_iter().enumerate() {
        assert_eq!(cell(&rows[0], &format!("stage_{}_ns", stage.as_str())), (i + 1).to_string());
    }
}

#[test]
fn column_names_are_unique_and_include_all_request_columns() {
    let (dir, recording) = recording();
    save(&recording, &[]);
    let columns = |table: &str| -> Vec<String> {
        let file = File::open(dir.path().join(table).join("part-00001.parquet")).unwrap();
        let schema = SerializedFileReader::new(file).unwrap().metadata().file_metadata().schema().clone();
        schema.get_fields().iter().map(|field| field.name().to_owned()).collect()
    };
    let verdicts = columns("verdicts");
    assert_eq!(verdicts.iter().collect::<BTreeSet<_>>().len(), verdicts.len(), "{verdicts:?}");
    assert!(verdicts.ends_with(&columns("requests")), "{verdicts:?}");
    let metadata = file(dir.path()).metadata().file_metadata().key_value_metadata().cloned().unwrap();
    let slower_than = metadata.iter().find(|pair| pair.key == "brokerscope.slower_than_ns").unwrap();
    assert_eq!(slower_than.value.as_deref(), Some("100000000"));
}

#[test]
fn replaces_the_verdict_table_atomically() {
    let (dir, recording) = recording();
    let many: Vec<_> = (0..3_000).map(verdict).collect();
    save(&recording, &many);
    assert_eq!(rows(dir.path()).len(), 3_000);
    let mut half = VerdictWriter::create(&recording, Nanos::ZERO).unwrap();
    (0..2_000).for_each(|n| half.write(&bare(n)).unwrap());
    drop(half);
    assert_eq!(rows(dir.path()).len(), 3_000);
    save(&recording, &[bare(9)]);
    assert_eq!(rows(dir.path()).len(), 1);
    let names: Vec<_> =
        fs::read_dir(dir.path().join("verdicts")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["part-00001.parquet"]);
    // Verdicts are not events.
    assert_eq!(samples::read(dir.path()), [numbered(1)]);
}

#[test]
fn does_not_write_through_symlinks() {
    let (dir, recording) = recording();
    let elsewhere = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), dir.path().join("verdicts")).unwrap();
    let refused = VerdictWriter::create(&recording, Nanos::ZERO).map(drop).unwrap_err();
    assert!(matches!(&refused, Error::NoFolder { path } if path.ends_with("verdicts")), "{refused}");
    assert!(fs::read_dir(elsewhere.path()).unwrap().next().is_none());
    fs::remove_file(dir.path().join("verdicts")).unwrap();
    save(&recording, &[bare(1)]);
    // A link with the name of the file that is written first.
    let target = elsewhere.path().join("target");
    fs::write(&target, "mine").unwrap();
    let temporary = format!("verdicts/part-00001.parquet.{}.tmp", std::process::id());
    std::os::unix::fs::symlink(&target, dir.path().join(temporary)).unwrap();
    save(&recording, &[bare(1)]);
    assert_eq!(fs::read(&target).unwrap(), b"mine");
}
