//! Events are read back as they were written, from Parquet and from streams.

use std::time::{Duration, Instant};

use model::{Event, Nanos};
use proptest::collection::vec;
use proptest::prelude::*;
use recording::{Manifest, Recording, Table, Writer, WriterOptions};

use crate::samples::{self, event, numbered, off_cpu, only, read, request};

fn options(rotate_rows: u64) -> WriterOptions {
    WriterOptions { rotate_rows, ..WriterOptions::default() }
}

fn assert_same(written: &[Event], read: &[Event]) {
    assert_eq!(written.len(), read.len());
    for table in Table::ALL {
        assert_eq!(only(table, written), only(table, read), "{table:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_event_round_trips(events in vec(event(), 0..60), rotate_rows in 1_u64..40, flush_after in 1_usize..30, finish: bool) {
        let dir = tempfile::tempdir().unwrap();
        let manifest = Manifest { ended_ns: finish.then_some(1), ..Manifest::default() };
        let mut writer = Writer::create(dir.path(), &Manifest::default(), options(rotate_rows)).unwrap();
        for (n, event) in events.iter().enumerate() {
            writer.write(event).unwrap();
            if n % flush_after == 0 {
                writer.flush().unwrap();
            }
        }
        let rows = writer.rows();
        prop_assert_eq!(rows.values().sum::<u64>(), events.len() as u64);
        for (table, rows) in rows {
            let of_table = |event: &&Event| Table::of(event).as_str() == table;
            prop_assert_eq!(rows, events.iter().filter(of_table).count() as u64);
        }
        if finish { writer.finish(&manifest).unwrap() } else { drop(writer) }
        assert_same(&events, &read(dir.path()));
        let recording = Recording::open(dir.path()).unwrap();
        prop_assert_eq!(recording.manifest().ended_ns.is_none(), !finish);
        prop_assert_eq!(recording.manifest(), &manifest);
    }
}

#[test]
fn tables_are_merged_by_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path(), &Manifest::default(), options(7)).unwrap();
    for n in 0..100 {
        writer.write(&request(10 * n)).unwrap();
        writer.write(&off_cpu(7 * n)).unwrap();
        writer.write(&numbered(3 * n)).unwrap();
    }
    writer.finish(&Manifest::default()).unwrap();
    let times: Vec<Nanos> = read(dir.path()).iter().map(Event::time).collect();
    assert_eq!(times.len(), 300);
    assert!(times.is_sorted());
}

#[test]
fn round_trips_more_than_65536_distinct_stacks() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path(), &Manifest::default(), WriterOptions::default()).unwrap();
    let events: Vec<_> = (0..70_000).map(off_cpu).collect();
    for event in &events {
        writer.write(event).unwrap();
    }
    writer.finish(&Manifest::default()).unwrap();
    assert_same(&events, &read(dir.path()));
}

#[test]
fn tick_flushes_after_500_ms_and_not_earlier() {
    let dir = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let late = WriterOptions { flush_every: Duration::from_secs(3600), ..WriterOptions::default() };
    let mut writer = Writer::create(dir.path(), &Manifest::default(), late).unwrap();
    writer.tick(start).unwrap();
    writer.write(&numbered(1)).unwrap();
    writer.tick(start + Duration::from_millis(499)).unwrap();
    assert_eq!(read(dir.path()), []);
    writer.tick(start + Duration::from_millis(500)).unwrap();
    assert_eq!(read(dir.path()), [numbered(1)]);
}

#[test]
fn buffers_flush_at_row_and_byte_limits_without_a_tick() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path(), &Manifest::default(), WriterOptions::default()).unwrap();
    for n in 0..8192 {
        writer.write(&numbered(n)).unwrap();
    }
    assert_eq!(read(dir.path()).len(), 8192);
    let Event::OffCpu(mut long) = off_cpu(9000) else { unreachable!() };
    long.stack = "f".repeat(1 << 20).into();
    writer.write(&Event::OffCpu(long)).unwrap();
    assert_eq!(read(dir.path()).len(), 8193);
}

#[test]
fn reads_one_table_while_the_recording_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path(), &Manifest::default(), options(10)).unwrap();
    for n in 0..25 {
        writer.write(&numbered(n)).unwrap();
        writer.write(&request(n)).unwrap();
        writer.flush().unwrap();
        let recording = Recording::open(dir.path()).unwrap();
        let losses: Vec<_> = recording.events_of(&[Table::Losses]).map(Result::unwrap).collect();
        assert_eq!(losses, (0..=n).map(numbered).collect::<Vec<_>>());
    }
}

#[test]
fn manifest_round_trips() {
    let dir = tempfile::tempdir().unwrap();
    let mut manifest = Manifest {
        started_ns: 1,
        plan: vec![("file writes".to_owned(), "tracepoints".to_owned())],
        ..Manifest::default()
    };
    manifest.host.kernel = "6.18".to_owned();
    manifest.broker = Some(recording::Broker { pid: 7, node_id: Some(1), ..Default::default() });
    manifest.clock.pairs.push(model::clock::ClockPair { monotonic_ns: 5, realtime_ns: 6 });
    manifest.losses.insert("packets-dropped".to_owned(), 3);
    let (last_event_ns, down_since_ns, down) = (Some(7), Some(8), Some("no such interface".to_owned()));
    let packets = recording::SourceHealth { last_event_ns, down_since_ns, down };
    manifest.sources.insert("requests".to_owned(), packets);
    let mut writer = Writer::create(dir.path(), &manifest, WriterOptions::default()).unwrap();
    assert_eq!(Recording::open(dir.path()).unwrap().manifest(), &manifest);
    manifest.settings.insert("slower_than".to_owned(), "100ms".to_owned());
    writer.update(&manifest).unwrap();
    assert_eq!(Recording::open(dir.path()).unwrap().manifest(), &manifest);
    manifest.ended_ns = Some(9);
    writer.finish(&manifest).unwrap();
    let recording = Recording::open(dir.path()).unwrap();
    assert_eq!(recording.manifest(), &manifest);
    assert_eq!(recording.notes(), Vec::<String>::new());
    assert_eq!(samples::read(dir.path()), []);
}
