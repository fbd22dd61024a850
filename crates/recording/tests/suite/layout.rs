//! The files as another program sees them: folders, parts, columns.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::Path;

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use recording::{Error, Manifest, Recording, Table, Writer, WriterOptions};

use crate::samples::{numbered, request};

fn columns(dir: &Path, table: &str) -> String {
    let file = File::open(dir.join(table).join("part-00001.parquet")).unwrap();
    let schema = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().schema().clone();
    schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(" ")
}

#[test]
fn column_names_match_json_field_names() {
    let dir = tempfile::tempdir().unwrap();
    let writer = Writer::create(dir.path(), &Manifest::default(), WriterOptions::default()).unwrap();
    writer.finish(&Manifest::default()).unwrap();
    for (table, expected) in [
        (
            "requests",
            "arrival_ns arrival_end_ns response_ns end_ns latency_ns head_of_line_ns data_ns api_key api api_version \
             correlation_id client_id client broker request_bytes response_bytes sequence response_sequence acks transactional_id \
             group_id min_bytes max_wait_ms throttle_ms error_code error seen_by read_ns read_end_ns queue_ns local_ns remote_ns partitions",
        ),
        (
            "file_ops",
            "start_ns end_ns latency_ns op pid tid thread bytes errno disk_bytes readahead_bytes offset \
             file renamed_to topic partition kind device device_major device_minor inode fs base_offset \
             batch_bytes batch_magic batch_crc producer_id base_sequence records journal_transaction",
        ),
        (
            "off_cpu",
            "start_ns end_ns latency_ns woken_ns pid tid thread preempted stack woken_by_tid woken_by_thread \
             woken_by_stack",
        ),
        (
            "journal_commits",
            "start_ns end_ns latency_ns device device_major device_minor transaction wait_ns running_ns \
             locked_ns flushing_ns logging_ns handles blocks blocks_logged",
        ),
        (
            "block_ios",
            "queued_ns start_ns end_ns latency_ns device device_major device_minor direction sector bytes \
             tid thread flags inode file",
        ),
        ("dirty_throttles", "start_ns end_ns latency_ns tid dirty_pages limit_pages"),
        ("reclaims", "start_ns end_ns pid tid thread memcg pages"),
        (
            "kernel_spans",
            "start_ns end_ns latency_ns function device device_major device_minor tid thread seen_by",
        ),
        (
            "socket_ops",
            "start_ns end_ns latency_ns op pid tid thread local remote bytes errno sequence sequence_end \
             peer_window",
        ),
        ("tcp_events", "at_ns kind local remote count"),
        ("host_samples", "start_ns end_ns scope name metric value"),
        ("cpu_samples", "at_ns period_ns pid tid thread stack"),
        ("broker_changes", "at_ns pid state"),
        ("losses", "start_ns end_ns kind count detail"),
    ] {
        assert_eq!(columns(dir.path(), table), expected, "{table}");
    }
}

#[test]
fn finished_recording_has_only_parquet_parts() {
    let dir = tempfile::tempdir().unwrap();
    let options = WriterOptions { rotate_rows: 10, ..WriterOptions::default() };
    let mut writer = Writer::create(dir.path(), &Manifest::default(), options).unwrap();
    for n in 0..25 {
        writer.write(&numbered(n)).unwrap();
        writer.write(&request(n)).unwrap();
        writer.flush().unwrap();
    }
    writer.finish(&Manifest::default()).unwrap();
    for table in Table::ALL {
        let folder = dir.path().join(table.as_str());
        let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        let parts = if matches!(table, Table::Losses | Table::Requests) { 3 } else { 1 };
        let expected: Vec<_> = (1..=parts).map(|n| OsString::from(format!("part-{n:05}.parquet"))).collect();
        assert_eq!(names, expected, "{table:?}");
    }
}

#[test]
fn refuses_an_occupied_directory() {
    let dir = tempfile::tempdir().unwrap();
    let create = |path: &Path| Writer::create(path, &Manifest::default(), WriterOptions::default()).map(drop);
    let nested = dir.path().join("a/new/one");
    create(&nested).unwrap();
    assert!(matches!(create(&nested), Err(Error::Exists { path }) if path == nested));
    assert!(matches!(create(dir.path()), Err(Error::Occupied { path }) if path == dir.path()));
    let file = dir.path().join("file");
    fs::write(&file, "text").unwrap();
    assert!(matches!(create(&file), Err(Error::Io { path, .. }) if path == file));
    assert_eq!(fs::read(&file).unwrap(), b"text");
}

#[test]
fn invalid_recordings_give_a_one_line_error() {
    let dir = tempfile::tempdir().unwrap();
    let message = |path: &Path| Recording::open(path).map(drop).unwrap_err().to_string();
    assert!(message(dir.path()).contains("is not a recording"), "{}", message(dir.path()));
    let absent = dir.path().join("absent");
    assert!(message(&absent).starts_with("cannot read"), "{}", message(&absent));
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(message(&file).contains("is not a recording"), "{}", message(&file));
    for (manifest, expected) in [
        ("", "is damaged"),
        ("{}", "is damaged"),
        ("[1", "is damaged"),
        (r#"{"format":"other","version":2}"#, "its format is \"other\""),
        (
            r#"{"format":"brokerscope-recording","version":1}"#,
            "has recording format 1, this brokerscope reads format 2: use an older",
        ),
        (r#"{"format":"brokerscope-recording","version":7}"#, "has recording format 7"),
        (r#"{"format":"brokerscope-recording","version":7,"host":3}"#, "use a newer brokerscope"),
        (r#"{"format":"brokerscope-recording","version":2,"host":3}"#, "is damaged"),
    ] {
        fs::write(dir.path().join("manifest.json"), manifest).unwrap();
        let message = message(dir.path());
        assert!(message.contains(expected) && !message.contains('\n'), "{manifest}: {message}");
    }
    fs::write(
        dir.path().join("manifest.json"),
        r#"{"format":"brokerscope-recording","version":2,"later":1}"#,
    )
    .unwrap();
    let manifest = Recording::open(dir.path()).unwrap();
    let manifest = manifest.manifest();
    assert!(manifest.ended_ns.is_none());
    assert_eq!(manifest.written_by, "", "nobody says who wrote it");
}
