//! Tests `explain --save`: verdicts as a table of the recording, the same as printed. Needs no privilege.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use parquet::file::reader::SerializedFileReader;
use parquet::record::{Field, Row};
use serde_json::{Map, Value};

fn copied(to: &Path) -> PathBuf {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
            let to = to.join(entry.file_name());
            if entry.path().is_dir() { copy(&entry.path(), &to) } else { drop(fs::copy(entry.path(), &to)) }
        }
    }
    let to = to.join("recording");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/journal-stall"), &to);
    to
}

fn explain(input: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_brokerscope"));
    command
        .arg("explain")
        .arg(input)
        .args(["--format", "json"])
        .args(more)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn lines(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The saved rows as JSON.
fn saved_rows(recording: &Path) -> Vec<Value> {
    let file = fs::File::open(recording.join("verdicts/part-00001.parquet")).unwrap();
    let rows = SerializedFileReader::new(file).unwrap().into_iter();
    rows.map(|row| object(&row.unwrap())).collect()
}

fn object(row: &Row) -> Value {
    row.get_column_iter().map(|(name, cell)| (name.clone(), json(cell))).collect::<Map<_, _>>().into()
}

fn json(cell: &Field) -> Value {
    match cell {
        Field::Null => Value::Null,
        Field::Str(text) => text.as_str().into(),
        Field::Byte(number) => (*number).into(),
        Field::Short(number) => (*number).into(),
        Field::Int(number) => (*number).into(),
        Field::Long(number) => (*number).into(),
        Field::UInt(number) => (*number).into(),
        Field::ListInternal(list) => list.elements().iter().map(json).collect(),
        Field::Group(row) => object(row),
        other => panic!("a cell of no such column: {other}"),
    }
}

#[test]
fn saved_verdicts_match_the_printed_ones() {
    let dir = tempfile::tempdir().unwrap();
    let recording = copied(dir.path());
    let before = lines(&explain(&recording, &[]));
    let printed_lines = lines(&explain(&recording, &["--save", "--why-not"]));
    let (_, verdicts) = printed_lines.split_last().unwrap();
    let rows = saved_rows(&recording);
    assert!(rows.len() >= 6 && rows.len() == verdicts.len(), "{}", rows.len());
    for (row, verdict) in rows.iter().zip(verdicts) {
        for name in ["cause", "chain", "root", "confidence", "partition", "evidence", "advice", "losses"] {
            assert_eq!(row[name], verdict[name], "{name}");
        }
        assert_eq!(row["stage_spans"], verdict["stage_spans"]);
        for (stage, length) in verdict["stages"].as_object().unwrap() {
            assert_eq!(&row[format!("stage_{stage}_ns")], length, "{stage}");
        }
        for name in
            ["arrival_ns", "end_ns", "latency_ns", "api", "correlation_id", "client_id", "client", "broker"]
        {
            assert_eq!(row[name], verdict["request"][name], "{name}");
        }
        let doubts = verdict["why_not"].as_array().map_or(0, Vec::len);
        assert_eq!(row["why_not"].as_array().unwrap().len(), doubts);
    }
    // Saved verdicts are not input for `explain`.
    assert_eq!(lines(&explain(&recording, &[])), before);
    // Later verdicts replace them.
    let fewer = lines(&explain(&recording, &["--save", "--slower-than", "10s"]));
    assert_eq!((fewer.len(), saved_rows(&recording).len()), (1, 0));
}

#[test]
fn failure_to_save_verdicts_is_one_line_before_any_output() {
    let dir = tempfile::tempdir().unwrap();
    let recording = copied(dir.path());
    fs::write(recording.join("verdicts"), "somebody's").unwrap();
    let output = explain(&recording, &["--save"]);
    let messages = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{messages}");
    assert!(
        messages.contains("cannot save") && messages.contains("--save") && messages.lines().count() == 1,
        "{messages}"
    );
    assert!(output.stdout.is_empty(), "said before any output");
    assert_eq!(fs::read(recording.join("verdicts")).unwrap(), b"somebody's");
    for (input, more) in [
        (Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/sample.pcap"), &["--save"][..]),
        (PathBuf::from("live"), &["--save"]),
        (recording, &["--save", "--topic", "orders"]),
    ] {
        assert_eq!(explain(&input, more).status.code(), Some(2), "{input:?} {more:?}");
    }
}
