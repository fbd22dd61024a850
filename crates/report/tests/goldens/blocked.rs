//! Locks of thread dumps against their golden files.

use model::{Lock, LockHolder, LockKind};
use report::Writer;
use report::blocked::{BlockedRow, BlockedThreads, ThreadDumpCount};

use crate::{CSV, JSON, golden, table};

fn count(name: &str, tid: Option<u32>, dumps: u64) -> ThreadDumpCount {
    ThreadDumpCount { thread: LockHolder { tid, thread: name.into() }, dumps }
}

fn rows() -> [BlockedRow; 3] {
    let handler = |number: u32, dumps| {
        count(&format!("data-plane-kafka-request-handler-{number}"), Some(4462 + number), dumps)
    };
    [
        BlockedRow {
            lock: Lock { kind: LockKind::Monitor, class: "java.lang.Object".into(), address: 0xe0a2_4848 },
            method: "kafka.log.Log.append".into(),
            owners: vec![handler(1, 3)],
            threads: vec![handler(0, 3), handler(2, 2), handler(7, 1), count("kafka-scheduler-0", None, 1)],
            dumps: 3,
            of_dumps: 5,
            waits: 7,
        },
        BlockedRow {
            lock: Lock {
                kind: LockKind::Park,
                class: "java.util.concurrent.locks.ReentrantLock$NonfairSync".into(),
                address: 0xe110_0008,
            },
            method: "a\x1b[31m.b".into(),
            owners: vec![handler(1, 1), handler(2, 1)],
            threads: (0..40).map(|number| handler(number, 1)).collect(),
            dumps: 2,
            of_dumps: 5,
            waits: 40,
        },
        BlockedRow {
            lock: Lock { kind: LockKind::Monitor, class: "kafka.Queue".into(), address: 0 },
            method: "".into(),
            owners: Vec::new(),
            threads: vec![count("Thread-0", None, 1), count("Thread-0", Some(7), 1)],
            dumps: 1,
            of_dumps: 5,
            waits: 2,
        },
    ]
}

#[test]
fn locks_of_thread_dumps_in_every_format() {
    for (name, format) in [
        ("blocked.txt", table(false)),
        ("blocked-wide.txt", table(true)),
        ("blocked.jsonl", JSON),
        ("blocked.csv", CSV),
    ] {
        golden(name, |out| Writer::new(out, &BlockedThreads, &format).write_all(&rows()).unwrap());
    }
    golden("blocked-nothing.txt", |out| {
        Writer::new(out, &BlockedThreads, &table(false)).write_all(&[]).unwrap();
    });
}
