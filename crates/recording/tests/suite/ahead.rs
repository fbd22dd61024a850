//! Reading ahead on threads: the same events, errors and notes in the same order as reading in this thread.

use std::fs;
use std::path::Path;

use model::Event;
use recording::{Manifest, Recording, Table, Writer, WriterOptions};

use crate::samples::{off_cpu, request};

/// Parts of a few rows, some of them whole batches.
fn many(rows: u64) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let options = WriterOptions { rotate_rows: rows / 3, ..WriterOptions::default() };
    let mut writer = Writer::create(dir.path(), &Manifest::default(), options).unwrap();
    for n in 0..rows {
        writer.write(&request(n)).unwrap();
        writer.write(&off_cpu(n)).unwrap();
        if n % 7 == 0 {
            writer.flush().unwrap();
        }
    }
    writer.finish(&Manifest { ended_ns: Some(1), ..Manifest::default() }).unwrap();
    dir
}

/// Every item, errors as text, and the notes.
fn items(dir: &Path, ahead: bool) -> (Vec<Result<Event, String>>, Vec<String>) {
    let recording = Recording::open(dir).unwrap();
    let events =
        if ahead { recording.prefetch_events(&Table::ALL) } else { recording.events_of(&Table::ALL) };
    let items = events.map(|item| item.map_err(|error| error.to_string())).collect();
    (items, recording.notes())
}

#[test]
fn prefetching_returns_the_same_events_in_the_same_order() {
    let dir = many(9_000);
    let here = items(dir.path(), false);
    assert_eq!(here.0.len(), 18_000);
    assert!(items(dir.path(), true) == here);
}

#[test]
fn prefetching_reports_a_damaged_part_in_the_same_position() {
    let dir = many(900);
    let damaged = dir.path().join("off_cpu/part-00002.parquet");
    let length = fs::metadata(&damaged).unwrap().len();
    fs::OpenOptions::new().write(true).open(&damaged).unwrap().set_len(length / 2).unwrap();
    let here = items(dir.path(), false);
    assert_eq!(here.0.iter().filter(|item| item.is_err()).count(), 1);
    assert!(items(dir.path(), true) == here);
}

#[test]
fn dropping_a_prefetching_iterator_early_does_not_hang() {
    let dir = many(9_000);
    let recording = Recording::open(dir.path()).unwrap();
    let first = recording.prefetch_events(&Table::ALL).next().unwrap().unwrap();
    assert_eq!(first, recording.events().next().unwrap().unwrap());
}
