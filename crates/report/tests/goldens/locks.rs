//! Waits for locks and JVM pauses against their golden files: those of the tail-latency case, an inferred one, and names
//! that would steer a terminal.

use diagnose::{Config, LockRow, Locks};
use model::{
    BatchHead, CpuState, Event, FileOp, JvmPause, JvmPauseKind, Lock, LockHolder, LockKind, LockSource,
    LockWait, Nanos, OffCpu, Row, TopicPartition,
};
use page::flame_graph::FoldedStacks;
use report::locks::{LockSummary, LockWaits, stack_time};
use report::pauses::Pauses;
use report::{Format, Sink, Writer};

use super::{CSV, JSON, golden, json_lines, sample, table};

const APPEND: &str = "kafka.server.KafkaRequestHandler.run;kafka.server.KafkaApis.handleProduceRequest;\
                      kafka.log.UnifiedLog.append;kafka.log.UnifiedLog.$anonfun$append$2";
const HOSTILE: &str = "\x1b[2J<b>\u{202e}";
/// The sample's 12:11:36.521.
const START: Nanos = Nanos(1_718_971_896_521_000_000);
const WAITERS: [(u32, i64); 3] = [(4484, 119), (4499, 119), (4467, 114)];

fn after(us: i64) -> Nanos {
    START + Nanos::from_micros(us)
}

fn handler(tid: u32) -> std::sync::Arc<str> {
    format!("data-plane-kafka-request-handler-{}", tid.saturating_sub(4460)).into()
}

fn append(tid: u32, start: Nanos, end: Nanos) -> Event {
    let (write, _) = sample::file_ops().swap_remove(0);
    Event::FileOp(Box::new(FileOp {
        start,
        end,
        tid,
        thread: handler(tid),
        bytes: Some(498),
        file: "topicF-6/00000000000000000000.log".into(),
        topic_partition: Some(TopicPartition { topic: "topicF".into(), partition: 6 }),
        batch: write.batch.map(|head| BatchHead { base_offset: i64::from(tid), ..head }),
        ..write
    }))
}

fn wait(tid: u32, start: Nanos, end: Nanos, owner: u32) -> LockWait {
    LockWait {
        start,
        end,
        pid: 4400,
        tid,
        thread: handler(tid),
        lock: Lock { kind: LockKind::Monitor, class: "java.lang.Object".into(), address: 0x7f2c_5400_1c10 },
        holder: Some(LockHolder { tid: Some(owner), thread: handler(owner) }),
        stack: APPEND.into(),
        source: LockSource::Jfr,
    }
}

/// Four requests to one partition: one write of 126 ms, and three requests that waited for the lock meanwhile.
fn rows() -> Vec<LockRow> {
    let mut locks = Locks::new(Config::replay(Nanos::ZERO), true);
    locks.push(Event::OffCpu(Box::new(OffCpu {
        start: after(900),
        end: after(125_900),
        pid: 4400,
        tid: 4462,
        thread: handler(4462),
        preempted: false,
        stack: "vfs_write;ext4_dirty_inode;jbd2__journal_start;wait_transaction_locked;schedule".into(),
        ..Row::empty()
    })));
    locks.push(append(4462, after(0), after(126_000)));
    let mut owner = 4462;
    for (i, (tid, waited)) in WAITERS.into_iter().enumerate() {
        let got = after(126_050 + 100 * i as i64);
        locks.push(Event::LockWait(Box::new(wait(tid, got - Nanos::from_millis(waited), got, owner))));
        locks.push(append(tid, got + Nanos(20_000), got + Nanos(80_000)));
        owner = tid;
    }
    let parked = Lock { kind: LockKind::Park, class: format!("ReentrantLock{HOSTILE}").into(), address: 0 };
    let unnamed = LockWait {
        thread: HOSTILE.into(),
        lock: parked,
        holder: None,
        stack: format!("a.B.{HOSTILE}").into(),
        source: LockSource::ThreadDump,
        ..wait(9, after(200_000), after(200_000), 0)
    };
    locks.push(Event::LockWait(Box::new(unnamed)));
    std::iter::from_fn(|| locks.take(true)).collect()
}

fn waits(mut to: impl Sink<LockWaits>) {
    for row in rows() {
        to.row(&row).unwrap();
    }
    to.finish().unwrap();
}

fn pauses(out: impl std::io::Write, format: &Format) {
    let mut to = Writer::new(out, &Pauses, format);
    let collection = JvmPause {
        start: after(0),
        end: after(45_300),
        pid: 4400,
        kind: JvmPauseKind::Gc,
        operation: "G1New".into(),
        cause: "G1 Evacuation Pause".into(),
        gc_id: Some(41),
        ..Row::empty()
    };
    let safepoint = JvmPause {
        end: after(310_000),
        pid: 0,
        kind: JvmPauseKind::Safepoint,
        operation: HOSTILE.into(),
        cause: "".into(),
        gc_id: None,
        time_to_safepoint: Some(Nanos::from_millis(300)),
        ..collection.clone()
    };
    to.row(&collection).unwrap();
    to.row(&safepoint).unwrap();
    to.finish().unwrap();
}

#[test]
fn lock_table_names_holder_and_write_of_each_wait() {
    golden("locks.txt", |out| waits(Writer::new(out, &LockWaits, &table(false))));
    let mut out = Vec::new();
    waits(Writer::new(&mut out, &LockWaits, &table(false)));
    let shown = String::from_utf8(out).unwrap();
    for (tid, waited) in WAITERS {
        let row = shown.lines().find(|line| line.contains(&format!("  {tid} "))).unwrap();
        for part in [
            &format!("  {waited} ms  "),
            "log lock",
            "data-plane-kafka-request-handler-2 4462",
            "write 498 bytes 126 ms: journal-commit 125 ms",
            "topicF",
        ] {
            assert!(row.contains(part), "{part} is not in {row}");
        }
    }
}

#[test]
fn waits_and_pauses_in_every_format() {
    golden("locks-wide.txt", |out| waits(Writer::new(out, &LockWaits, &table(true))));
    golden("locks.jsonl", |out| waits(Writer::new(out, &LockWaits, &JSON)));
    golden("locks.csv", |out| waits(Writer::new(out, &LockWaits, &CSV)));
    golden("locks-summary.txt", |out| waits(LockSummary::new(out, table(false))));
    golden("locks-summary.jsonl", |out| waits(LockSummary::new(out, JSON)));
    golden("locks-summary.csv", |out| waits(LockSummary::new(out, CSV)));
    golden("locks.folded", |out| {
        let mut fold = FoldedStacks::default();
        for row in rows() {
            fold.add(&stack_time(&row));
        }
        fold.write_folded(out, &[CpuState::Off]).unwrap();
    });
    golden("pauses.txt", |out| pauses(out, &table(false)));
    golden("pauses-wide.txt", |out| pauses(out, &table(true)));
    golden("pauses.jsonl", |out| pauses(out, &JSON));
    golden("pauses.csv", |out| pauses(out, &CSV));
}

#[test]
fn wait_object_has_every_documented_field() {
    let mut out = Vec::new();
    waits(Writer::new(&mut out, &LockWaits, &JSON));
    for line in json_lines(&out) {
        assert_eq!(line["type"], "lock-wait");
        for field in [
            "start_ns",
            "end_ns",
            "latency_ns",
            "tid",
            "thread",
            "lock",
            "holder",
            "holder_tid",
            "holder_op",
            "topic",
            "partition",
            "stack",
            "seen_by",
        ] {
            assert!(line.get(field).is_some(), "{field} is missing in {line}");
        }
        for field in ["kind", "class", "name", "address"] {
            assert!(line["lock"].get(field).is_some(), "{field} is missing in {line}");
        }
        if line["seen_by"] == "jfr" {
            let op = &line["holder_op"];
            assert_eq!(
                (&op["type"], &op["op"], &op["tid"]),
                (&"file-op".into(), &"write".into(), &4462.into())
            );
            assert_eq!(op["reasons"]["journal-commit"], 125_000_000);
        }
    }
}
