//! Recordings that were cut or changed: what can be read is read, the rest is noted, nothing panics.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray, UInt32Array, UInt64Array};
use model::Event;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use recording::{Error, Manifest, Recording, Table, Writer, WriterOptions};

use crate::samples::{numbered, off_cpu, read, request};

/// An unfinished recording of these events, a batch each.
fn unfinished(events: &[Event]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path(), &Manifest::default(), WriterOptions::default()).unwrap();
    for event in events {
        writer.write(event).unwrap();
        writer.flush().unwrap();
    }
    drop(writer);
    dir
}

/// Three events each of two tables, with the table's folder: the smallest rows and the most nested ones (ten times as
/// many bytes). The last number is the step between the bytes to try.
fn samples() -> [(&'static str, Vec<Event>, usize); 2] {
    [("losses", (0..3).map(numbered).collect(), 3), ("requests", (0..3).map(request).collect(), 61)]
}

/// All events that can be read, and the errors.
fn salvage(dir: &Path) -> (Vec<Event>, Vec<Error>) {
    let (mut events, mut errors) = (Vec::new(), Vec::new());
    for item in Recording::open(dir).unwrap().events() {
        match item {
            Ok(event) => events.push(event),
            Err(error) => errors.push(error),
        }
    }
    (events, errors)
}

fn stream(dir: &Path, table: &str) -> PathBuf {
    dir.join(table).join("part-00001.arrows")
}

#[test]
fn truncated_stream_returns_the_rows_before_the_cut() {
    for (table, events, step) in samples() {
        let dir = unfinished(&events);
        let whole = fs::read(stream(dir.path(), table)).unwrap();
        let mut known = 0;
        for length in (0..whole.len()).step_by(step).chain([whole.len()]) {
            fs::write(stream(dir.path(), table), &whole[..length]).unwrap();
            let read = read(dir.path());
            assert_eq!(read, events[..read.len()], "{table} cut at {length}");
            assert!(read.len() >= known, "{table} cut at {length}: fewer rows than with less of the file");
            known = read.len();
        }
        assert_eq!(known, events.len());
    }
}

#[test]
fn truncated_stream_adds_a_note() {
    let dir = unfinished(&[request(1), request(2)]);
    let whole = fs::read(stream(dir.path(), "requests")).unwrap();
    fs::write(stream(dir.path(), "requests"), &whole[..whole.len() - 3]).unwrap();
    let recording = Recording::open(dir.path()).unwrap();
    assert_eq!(recording.events().count(), 1);
    let notes = recording.notes();
    assert!(notes.iter().any(|note| note.starts_with("requests/part-00001.arrows ends within")), "{notes:?}");
}

#[test]
fn stream_with_trailing_zero_blocks_is_read_up_to_them() {
    let dir = unfinished(&[request(1), request(2)]);
    let mut bytes = fs::read(stream(dir.path(), "requests")).unwrap();
    bytes.extend([0; 4096]);
    fs::write(stream(dir.path(), "requests"), bytes).unwrap();
    assert_eq!(read(dir.path()), [request(1), request(2)]);
}

#[test]
fn a_changed_byte_in_a_stream_never_panics() {
    for (table, events, step) in samples() {
        let dir = unfinished(&events);
        let whole = fs::read(stream(dir.path(), table)).unwrap();
        let mut errors_met = 0;
        for at in (0..whole.len()).step_by(step) {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            fs::write(stream(dir.path(), table), &bytes).unwrap();
            let (read, errors) = salvage(dir.path());
            assert!(read.len() <= events.len() && errors.len() <= 1);
            errors_met += errors.len();
        }
        assert!(errors_met > 0);
    }
}

/// A finished recording of two parts of off-CPU intervals and one of losses.
fn finished() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let options = WriterOptions { rotate_rows: 40, ..WriterOptions::default() };
    let mut writer = Writer::create(dir.path(), &Manifest::default(), options).unwrap();
    for n in 0..80 {
        writer.write(&off_cpu(n)).unwrap();
        if n == 39 {
            writer.flush().unwrap();
        }
    }
    writer.write(&numbered(5)).unwrap();
    writer.finish(&Manifest { ended_ns: Some(100), ..Manifest::default() }).unwrap();
    dir
}

#[test]
fn error_names_a_damaged_parquet_part_and_other_parts_are_read() {
    let dir = finished();
    let part = dir.path().join("off_cpu/part-00001.parquet");
    let whole = fs::read(&part).unwrap();
    for damaged in [&b""[..], b"PAR1", &whole[..whole.len() - 1], &whole[4..]] {
        fs::write(&part, damaged).unwrap();
        let (events, errors) = salvage(dir.path());
        assert_eq!(events.len(), 41);
        let [error] = &errors[..] else { panic!("{errors:?}") };
        let message = error.to_string();
        assert!(message.contains("off_cpu/part-00001.parquet is damaged"), "{message}");
        assert!(message.contains("move it away") && !message.contains('\n'), "{message}");
    }
}

#[test]
fn a_changed_byte_in_a_parquet_part_never_panics() {
    let dir = finished();
    let part = dir.path().join("off_cpu/part-00001.parquet");
    let whole = fs::read(&part).unwrap();
    let mut errors_met = 0;
    for at in (0..whole.len()).step_by(5) {
        let mut bytes = whole.clone();
        bytes[at] ^= if at % 2 == 0 { 1 << (at % 8) } else { 0xff };
        fs::write(&part, &bytes).unwrap();
        let (events, errors) = salvage(dir.path());
        assert!(events.len() >= 41, "changed at {at}: the other parts must be read");
        errors_met += errors.len();
    }
    assert!(errors_met > 0);
}

#[test]
fn parquet_takes_precedence_over_its_stream_unless_damaged() {
    let events = [request(1), request(2)];
    let dir = unfinished(&events);
    let kept = fs::read(stream(dir.path(), "requests")).unwrap();
    let other = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(other.path(), &Manifest::default(), WriterOptions::default()).unwrap();
    writer.write(&request(77)).unwrap();
    writer.finish(&Manifest::default()).unwrap();
    let parquet = dir.path().join("requests/part-00001.parquet");
    fs::copy(other.path().join("requests/part-00001.parquet"), &parquet).unwrap();
    assert_eq!(read(dir.path()), [request(77)]);
    fs::write(&parquet, vec![0; 512]).unwrap();
    assert_eq!(read(dir.path()), events);
    assert_eq!(fs::read(stream(dir.path(), "requests")).unwrap(), kept);
}

#[test]
fn ignores_leftover_files_of_a_kill() {
    let dir = finished();
    fs::write(dir.path().join("off_cpu/part-00003.parquet.tmp"), "half a file").unwrap();
    fs::write(dir.path().join("off_cpu/notes.txt"), "somebody's").unwrap();
    fs::write(dir.path().join("manifest.json.tmp"), "{").unwrap();
    assert_eq!(read(dir.path()).len(), 81);
    fs::remove_dir_all(dir.path().join("off_cpu")).unwrap();
    assert_eq!(read(dir.path()), [numbered(5)]);
}

/// Replaces the losses with rows that our writer does not write.
fn plant(dir: &Path, columns: Vec<(&str, ArrayRef)>) {
    plant_in(dir, "losses", columns);
}

fn plant_in(dir: &Path, table: &str, columns: Vec<(&str, ArrayRef)>) {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = File::create(dir.join(table).join("part-00001.parquet")).unwrap();
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()));
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties.build())).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

fn times(n: usize) -> ArrayRef {
    Arc::new(Int64Array::from(vec![3; n]))
}

#[test]
fn invalid_rows_are_skipped_and_counted() {
    let dir = finished();
    let kinds = vec![Some("packets-dropped"), Some("unheard-of"), None, Some("events-dropped"), Some("odd")];
    plant(
        dir.path(),
        vec![
            ("start_ns", times(5)),
            ("end_ns", times(5)),
            ("kind", Arc::new(StringArray::from(kinds))),
            ("count", Arc::new(UInt64Array::from(vec![Some(1), Some(1), Some(1), None, Some(1)]))),
            ("detail", Arc::new(StringArray::from(vec![""; 5]))),
        ],
    );
    let recording = Recording::open(dir.path()).unwrap();
    for _ in 0..2 {
        assert_eq!(recording.events().filter(|e| matches!(e, Ok(Event::Loss(_)))).count(), 1);
        assert_eq!(
            recording.notes(),
            [
                "losses/part-00001.parquet: 1 row left out (count: no value)",
                "losses/part-00001.parquet: 1 row left out (kind: no value)",
                "losses/part-00001.parquet: 2 rows left out (kind: unknown value)",
            ]
        );
    }
}

#[test]
fn refuses_a_part_whose_pages_unpack_to_too_much() {
    let detail = |bytes| -> ArrayRef { Arc::new(StringArray::from(vec!["x".repeat(bytes)])) };
    for (megabytes, is_read) in [(60, true), (70, false)] {
        let dir = finished();
        let columns = vec![
            ("start_ns", times(1)),
            ("end_ns", times(1)),
            ("kind", Arc::new(StringArray::from(vec!["events-dropped"])) as ArrayRef),
            ("count", Arc::new(UInt64Array::from(vec![1])) as ArrayRef),
            ("detail", detail(megabytes << 20)),
        ];
        plant(dir.path(), columns);
        let (events, errors) = salvage(dir.path());
        assert_eq!(events.len(), if is_read { 81 } else { 80 }, "{megabytes}: {errors:?}");
        let refused = "unpacks to more than any recorder writes";
        assert_eq!(errors.iter().any(|error| error.to_string().contains(refused)), !is_read, "{errors:?}");
    }
}

#[test]
fn reports_a_part_with_missing_columns() {
    let dir = finished();
    plant(dir.path(), vec![("start_ns", times(1)), ("end_ns", times(1)), ("count", times(1))]);
    let (events, errors) = salvage(dir.path());
    assert_eq!((events.len(), errors.len()), (80, 1));
    assert!(errors[0].to_string().contains("it has no column kind"), "{}", errors[0]);
}

#[test]
fn incomplete_waker_is_dropped_without_the_row() {
    let texts = |texts: Vec<Option<&str>>| -> ArrayRef { Arc::new(StringArray::from(texts)) };
    let numbers = |numbers: Vec<Option<u32>>| -> ArrayRef { Arc::new(UInt32Array::from(numbers)) };
    let whole = || vec![Some(""); 3];
    for woken_by_thread in [Some(vec![Some("kworker"), None, None]), None] {
        let dir = finished();
        let mut columns = vec![
            ("start_ns", times(3)),
            ("end_ns", times(3)),
            ("pid", numbers(vec![Some(1); 3])),
            ("tid", numbers(vec![Some(2); 3])),
            ("thread", texts(whole())),
            ("preempted", Arc::new(BooleanArray::from(vec![false; 3])) as ArrayRef),
            ("stack", texts(whole())),
            ("woken_by_tid", numbers(vec![Some(7), Some(7), None])),
            ("woken_by_stack", texts(whole())),
        ];
        let wakers = woken_by_thread.iter().flatten().flatten().count();
        columns.extend(woken_by_thread.map(|threads| ("woken_by_thread", texts(threads))));
        plant_in(dir.path(), "off_cpu", columns);
        fs::remove_file(dir.path().join("off_cpu/part-00002.parquet")).unwrap();
        let recording = Recording::open(dir.path()).unwrap();
        let read = recording.events_of(&[Table::OffCpu]).map(Result::unwrap).collect::<Vec<_>>();
        let has_waker = |event: &&Event| matches!(event, Event::OffCpu(off) if off.waker.is_some());
        assert_eq!((read.len(), read.iter().filter(has_waker).count()), (3, wakers));
        assert!(recording.notes().iter().all(|note| !note.contains("left out")), "{:?}", recording.notes());
    }
}
