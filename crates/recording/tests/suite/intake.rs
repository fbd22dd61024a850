//! The intake of a recording for threads that must not wait for a disk: their events are there, in each thread's order,
//! and a thread learns at once that an event has no room.

use std::thread::ScopedJoinHandle;
use std::time::Instant;

use model::{Event, Loss, LossKind, Nanos};
use recording::{Manifest, Table, Writer, WriterOptions};

use crate::samples::{numbered, off_cpu, only, read};

const MANY: usize = 1 << 30;

#[test]
fn threads_add_events_while_the_writer_flushes() {
    const EACH: u64 = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("recording");
    let options = WriterOptions { rotate_rows: 7_000, ..WriterOptions::default() };
    let mut writer = Writer::create(&dir, &Manifest::default(), options).unwrap();
    let intake = writer.intake(MANY);
    let give = |of: fn(u64) -> Event| {
        for first in (0..EACH).step_by(8) {
            let mut guard = intake.open();
            (first..first + 8).for_each(|n| assert!(guard.take(&of(n))));
        }
    };
    std::thread::scope(|scope| {
        let threads = [numbered, off_cpu].map(|of| scope.spawn(move || give(of)));
        while !threads.iter().all(ScopedJoinHandle::is_finished) {
            writer.tick(Instant::now()).unwrap();
        }
    });
    let rows = writer.rows();
    writer.finish(&Manifest { ended_ns: Some(1), ..Manifest::default() }).unwrap();
    let events = read(&dir);
    for of in [numbered, off_cpu] {
        let table = Table::of(&of(0));
        assert_eq!(rows.get(table.as_str()), Some(&EACH));
        let expected: Vec<Event> = (0..EACH).map(of).collect();
        assert!(only(table, &events) == expected, "{}", table.as_str());
    }
}

#[test]
fn full_intake_refuses_events_but_accepts_losses_until_flushed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("recording");
    let mut writer = Writer::create(&dir, &Manifest::default(), WriterOptions::default()).unwrap();
    let intake = writer.intake(10_000);
    let mut taken = (0..1_000).filter(|&n| intake.open().take(&off_cpu(n))).collect::<Vec<u64>>();
    assert!((10..900).contains(&taken.len()), "{} of 1,000 in 10,000 bytes", taken.len());
    let loss = Event::Loss(Loss {
        start: Nanos(1),
        end: Nanos(2),
        kind: LossKind::EventsDropped,
        count: 3,
        detail: "full".into(),
    });
    assert!(intake.open().take(&loss));
    assert!(!intake.open().take(&off_cpu(2_000)), "it is still full");
    writer.flush().unwrap();
    assert!(intake.open().take(&off_cpu(2_001)));
    taken.push(2_001);
    writer.finish(&Manifest { ended_ns: Some(1), ..Manifest::default() }).unwrap();
    let events = read(&dir);
    assert_eq!(only(Table::Losses, &events), [loss]);
    assert_eq!(only(Table::OffCpu, &events), taken.into_iter().map(off_cpu).collect::<Vec<_>>());
}
