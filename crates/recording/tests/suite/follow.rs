//! Reading a recording while it is written: every event comes once, in time order and without a long delay.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use model::Event;
use proptest::collection::vec;
use proptest::prelude::*;
use recording::{Error, Manifest, Recording, Table, Tail, Writer, WriterOptions};

use crate::samples::{event, numbered, off_cpu, only, read, request};

const SECOND: u64 = 1_000_000_000;

fn start(dir: &Path) -> Tail {
    Tail::start(&Recording::open(dir).unwrap())
}

/// The events that are ready now; errors as text.
fn take(follow: &mut Tail) -> Vec<Result<Event, String>> {
    let mut items = Vec::new();
    while let Some(item) = follow.next_event().map_err(|error| error.to_string()).transpose() {
        items.push(item);
    }
    items
}

fn events(follow: &mut Tail) -> Vec<Event> {
    take(follow).into_iter().map(Result::unwrap).collect()
}

fn ended() -> Manifest {
    Manifest { ended_ns: Some(1), ..Manifest::default() }
}

fn writer(dir: &Path, rotate_rows: u64) -> Writer {
    let options = WriterOptions { rotate_rows, ..WriterOptions::default() };
    Writer::create(dir, &Manifest::default(), options).unwrap()
}

/// The events of a quarter of a second, in two tables.
fn quarter(n: u64) -> [Event; 2] {
    [request(n * SECOND / 4), off_cpu(n * SECOND / 4 + 1)]
}

#[test]
fn tail_returns_events_in_order_and_without_long_delay() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path(), 7);
    let mut follow = start(dir.path());
    let mut followed = Vec::new();
    for n in 0..100 {
        for event in quarter(n) {
            writer.write(&event).unwrap();
        }
        writer.flush().unwrap();
        followed.extend(events(&mut follow));
        // Events of the last second and a half could still come.
        let certain = 2 * (n + 1).saturating_sub(6);
        assert!((certain..=certain + 2).contains(&(followed.len() as u64)), "{n}: {}", followed.len());
        assert!(!follow.is_finished());
    }
    writer.finish(&ended()).unwrap();
    followed.extend(events(&mut follow));
    assert!(follow.is_finished());
    assert!(followed == (0..100).flat_map(quarter).collect::<Vec<_>>());
}

/// A table may be written later than another, within a recorder's bounds.
#[test]
fn tail_sorts_late_events_of_another_table() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path(), 1_000);
    let mut follow = start(dir.path());
    let mut followed = Vec::new();
    let late = 4;
    for n in 0..40 + late {
        if n < 40 {
            writer.write(&quarter(n)[0]).unwrap();
        }
        if n >= late {
            writer.write(&quarter(n - late)[1]).unwrap();
        }
        writer.flush().unwrap();
        followed.extend(events(&mut follow));
    }
    writer.finish(&ended()).unwrap();
    followed.extend(events(&mut follow));
    assert!(followed == (0..40).flat_map(quarter).collect::<Vec<_>>());
}

#[test]
fn tail_started_later_returns_the_same_events() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path(), 9);
    let (first, last) = (0..60, 60..100);
    first.clone().flat_map(quarter).for_each(|event| writer.write(&event).unwrap());
    writer.flush().unwrap();
    let mut follow = start(dir.path());
    let mut followed = events(&mut follow);
    assert!(followed.len() >= 100);
    last.clone().flat_map(quarter).for_each(|event| writer.write(&event).unwrap());
    writer.finish(&ended()).unwrap();
    followed.extend(events(&mut follow));
    assert!(followed == first.chain(last).flat_map(quarter).collect::<Vec<_>>());
    // A finished recording returns everything at once.
    let mut after = start(dir.path());
    assert!(events(&mut after) == followed);
    assert!(after.is_finished());
}

#[test]
fn tail_of_a_killed_recorder_does_not_finish() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path(), 1_000);
    (0..8).flat_map(quarter).for_each(|event| writer.write(&event).unwrap());
    drop(writer);
    let mut follow = start(dir.path());
    let followed = events(&mut follow).len();
    assert!(followed < 16 && !follow.is_finished(), "{followed}");
    assert_eq!(events(&mut follow), []);
}

#[test]
fn tail_reads_a_partial_message_once_it_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path(), 1_000_000);
    (0..40).flat_map(quarter).for_each(|event| writer.write(&event).unwrap());
    drop(writer);
    let stream = dir.path().join("off_cpu/part-00001.arrows");
    let whole = fs::read(&stream).unwrap();
    fs::write(&stream, "").unwrap();
    let mut follow = start(dir.path());
    let mut followed = Vec::new();
    for piece in whole.chunks(whole.len() / 7) {
        OpenOptions::new().append(true).open(&stream).unwrap().write_all(piece).unwrap();
        followed.extend(events(&mut follow));
    }
    assert_eq!(only(Table::OffCpu, &followed).len(), 34);
}

#[test]
fn tail_reports_damage_once_and_continues() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path(), 10);
    for n in 0..40 {
        for event in quarter(n) {
            writer.write(&event).unwrap();
        }
        writer.flush().unwrap();
    }
    writer.finish(&ended()).unwrap();
    let damaged = dir.path().join("off_cpu/part-00002.parquet");
    OpenOptions::new().write(true).open(&damaged).unwrap().set_len(100).unwrap();
    let mut follow = start(dir.path());
    let items = take(&mut follow);
    assert!(follow.is_finished());
    let errors: Vec<_> = items.iter().filter_map(|item| item.as_ref().err()).collect();
    assert!(errors.len() == 1 && errors[0].contains("part-00002.parquet"), "{errors:?}");
    assert_eq!(items.len() - 1, 70);
}

#[test]
fn tail_continues_without_a_manifest() {
    let dir = tempfile::tempdir().unwrap();
    let writer = writer(dir.path(), 10);
    let mut follow = start(dir.path());
    fs::remove_file(dir.path().join("manifest.json")).unwrap();
    assert_eq!(events(&mut follow), []);
    assert!(!follow.is_finished());
    assert!(matches!(Recording::open(dir.path()).map(drop), Err(Error::NotARecording { .. })));
    drop(writer);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn tail_returns_every_event(events in vec(event(), 0..80), rotate_rows in 1_u64..20, look_after in 1_usize..20) {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = writer(dir.path(), rotate_rows);
        let mut follow = start(dir.path());
        let mut followed = Vec::new();
        for (n, event) in events.iter().enumerate() {
            writer.write(event).unwrap();
            if n % look_after == 0 {
                writer.flush().unwrap();
                followed.extend(self::events(&mut follow));
            }
        }
        writer.finish(&ended()).unwrap();
        followed.extend(self::events(&mut follow));
        prop_assert!(follow.is_finished());
        let all = read(dir.path());
        prop_assert_eq!(followed.len(), all.len());
        for table in Table::ALL {
            // Rows of a table whose times are not in order are returned in time order, as far as they had been written.
            let sorted = |events: &[Event]| {
                let mut described: Vec<_> = only(table, events).iter().map(|event| format!("{event:?}")).collect();
                described.sort();
                described
            };
            prop_assert_eq!(sorted(&followed), sorted(&all));
        }
    }
}

#[test]
fn tail_returns_losses_in_time_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = writer(dir.path(), 10);
    writer.write(&numbered(9)).unwrap();
    writer.write(&off_cpu(1)).unwrap();
    writer.finish(&ended()).unwrap();
    assert_eq!(events(&mut start(dir.path())), [off_cpu(1), numbered(9)]);
}
