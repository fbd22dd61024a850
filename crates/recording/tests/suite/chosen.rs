//! Checks that a filtered read returns the rows that a check of each row selects.
//! This includes row groups that are not checked row by row.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use model::row_summary::{FileOpSummary, RowChoice, RowFilter, RowSummary};
use model::{Device, Event, FileKind, FileOp, FileOpKind, Nanos, Row, SocketOp, SocketOpKind};
use recording::{Manifest, Recording, Table, Writer, WriterOptions};

/// More than two row groups.
const ROWS: u64 = 150_000;
/// Nanoseconds from one row to the next.
const APART: i64 = 1_000;

/// Selects rows that overlap a stretch, and writes to logs that overlap another.
struct Stretches {
    all: Vec<(Nanos, Nanos)>,
    written: (Nanos, Nanos),
}

impl RowFilter for Stretches {
    fn choose(&self, row: &RowSummary) -> RowChoice {
        let (start, end, tid, is_write) = match row {
            RowSummary::SocketOp { start, end, tid } => (*start, *end, *tid, false),
            RowSummary::FileOp(op) => (op.start, op.end, op.tid, op.op == FileOpKind::Write),
            other => panic!("{other:?}"),
        };
        let meets = |(from, until): &(Nanos, Nanos)| *from <= end && *until >= start;
        if self.all.iter().any(meets) || (is_write && meets(&self.written)) {
            return RowChoice::Read;
        }
        let gap = self.all.iter().filter(|(from, _)| *from <= end).count() as u32;
        RowChoice::Edge { kind: u64::from(tid) << 1 | u64::from(is_write), gap }
    }
}

fn times(n: u64) -> (Nanos, Nanos) {
    let start = n as i64 * APART;
    (Nanos(start), Nanos(start + 300))
}

/// Thread ids; one thread makes one call in a thousand.
fn tid(n: u64) -> u32 {
    if n % 1_000 == 7 { 9 } else { n as u32 % 3 }
}

fn socket_op(n: u64) -> Event {
    let (start, end) = times(n);
    Event::SocketOp(Box::new(SocketOp {
        start,
        end,
        op: SocketOpKind::Read,
        pid: 1,
        tid: tid(n),
        thread: "data-plane-kafk".into(),
        local: "10.0.0.1:9092".parse().unwrap(),
        remote: "10.0.0.7:40000".parse().unwrap(),
        bytes: Some(1),
        sequence: n as u32,
        sequence_end: n as u32 + 1,
        ..Row::empty()
    }))
}

fn file_op(n: u64) -> Event {
    let (start, end) = times(n);
    Event::FileOp(Box::new(FileOp {
        start,
        end,
        op: if n % 2 == 0 { FileOpKind::Write } else { FileOpKind::Read },
        pid: 1,
        tid: tid(n),
        thread: "data-plane-kafk".into(),
        bytes: Some(1),
        offset: n,
        file: "/data/t-0/00000000000000000000.log".into(),
        kind: FileKind::Log,
        device: Device { major: 7, minor: 0, name: "loop0".into() },
        inode: 1,
        fs: "ext4".into(),
        ..Row::empty()
    }))
}

fn summarize(event: &Event) -> RowSummary {
    match event {
        Event::SocketOp(op) => RowSummary::SocketOp { start: op.start, end: op.end, tid: op.tid },
        Event::FileOp(op) => {
            let (start, end, op, kind, tid) = (op.start, op.end, op.op, op.kind, op.tid);
            RowSummary::FileOp(FileOpSummary { start, end, op, kind, tid })
        }
        other => panic!("{other:?}"),
    }
}

/// The selected rows, and the first and the last row of each kind in each gap.
fn expected(all: &[Event], choose: &dyn RowFilter) -> Vec<Event> {
    let mut selected = vec![false; all.len()];
    let mut last = HashMap::new();
    for (at, event) in all.iter().enumerate() {
        match choose.choose(&summarize(event)) {
            RowChoice::Read => selected[at] = true,
            RowChoice::Edge { kind, gap } => selected[at] = last.insert((kind, gap), at).is_none(),
        }
    }
    for at in last.into_values() {
        selected[at] = true;
    }
    all.iter().zip(selected).filter(|(_, selected)| *selected).map(|(event, _)| event.clone()).collect()
}

#[test]
fn filtered_read_returns_the_rows_of_a_row_by_row_check() {
    for (table, event) in [(Table::SocketOps, socket_op as fn(u64) -> Event), (Table::FileOps, file_op)] {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(dir.path(), &Manifest::default(), WriterOptions::default()).unwrap();
        let all: Vec<Event> = (0..ROWS).map(event).collect();
        for event in &all {
            writer.write(event).unwrap();
        }
        writer.finish(&Manifest { ended_ns: Some(1), ..Manifest::default() }).unwrap();
        let at = |row: u64| times(row).0;
        for stretches in [
            vec![],
            vec![(at(70_000), at(70_100))],
            vec![(at(100), at(200)), (at(65_530), at(65_540))],
            vec![(at(149_000), at(160_000))],
        ] {
            let choose: Arc<dyn RowFilter> =
                Arc::new(Stretches { all: stretches, written: (at(132_000), at(132_010)) });
            let recording = Recording::open(dir.path()).unwrap();
            let read: Vec<Event> = recording.events_selected(&choose).map(|event| event.unwrap()).collect();
            assert!(read == expected(&all, &*choose), "{table:?}: {} events", read.len());
            assert!(read.len() < 2_000, "{table:?}: {} events", read.len());
        }
    }
}

/// A filter that panics.
struct Faulty;

impl RowFilter for Faulty {
    fn choose(&self, _row: &RowSummary) -> RowChoice {
        panic!("a fault of the filter's own")
    }
}

#[test]
fn panics_of_the_caller_are_not_reported_as_damage() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path(), &Manifest::default(), WriterOptions::default()).unwrap();
    (0..10).for_each(|n| writer.write(&file_op(n)).unwrap());
    writer.finish(&Manifest { ended_ns: Some(1), ..Manifest::default() }).unwrap();
    let recording = Recording::open(dir.path()).unwrap();
    let filter: Arc<dyn RowFilter> = Arc::new(Faulty);
    let selected = catch_unwind(AssertUnwindSafe(|| recording.events_selected(&filter).count()));
    assert!(selected.is_err(), "{selected:?}");
    let mut taken = 0;
    let summarized = catch_unwind(AssertUnwindSafe(|| {
        recording.row_summaries(Table::FileOps, Nanos::MIN, &mut |_| {
            taken += 1;
            panic!("a fault of the taker's own")
        })
    }));
    assert!(summarized.is_err() && taken == 1);
}
