//! Log entries and their totals against their golden files.

use model::{KafkaTimes, LogEntry, LogKind, Nanos, TopicPartition};
use report::logs::{LogOverview, LogRow, LogSink, LogStats, LogSummary, LogWriter};

use crate::{CSV, JSON, golden, json_lines, look, table};

const START: Nanos = Nanos(1_716_131_087_458_000_000);

fn entry(seconds: i64, kind: LogKind, whose: Option<(&str, i32)>, ms: Option<i64>, text: &str) -> LogEntry {
    LogEntry {
        at: Some(START + Nanos::from_millis(seconds * 1_000)),
        kind,
        pattern: None,
        level: Some("INFO"),
        topic_partition: whose.map(|(topic, partition)| TopicPartition { topic: topic.into(), partition }),
        length: ms.map(Nanos::from_millis),
        count: None,
        offset: None,
        before_bytes: None,
        after_bytes: None,
        text: text.into(),
    }
}

fn tier(seconds: i64, kind: LogKind, partition: i32, segments: Option<u64>, bytes: (u64, u64)) -> LogEntry {
    LogEntry {
        count: segments,
        before_bytes: Some(bytes.0),
        after_bytes: Some(bytes.1),
        ..entry(seconds, kind, Some(("retriever-mutation", partition)), None, "state file size changed")
    }
}

fn entries() -> Vec<LogEntry> {
    let roll = |seconds, partition, ms| LogEntry {
        offset: Some(3_053_780),
        ..entry(
            seconds,
            LogKind::SegmentRoll,
            Some(("orders", partition)),
            Some(ms),
            "[LocalLog partition=orders] Rolled new log segment",
        )
    };
    let mut entries = vec![
        roll(0, 0, 3),
        roll(1, 1, 1_204),
        roll(2, 0, 12),
        LogEntry {
            count: Some(9),
            ..entry(1, LogKind::ProducerSnapshot, Some(("orders", 1)), Some(1_190), "Wrote producer snapshot")
        },
        tier(10, LogKind::TierCleanup, 0, Some(1_292_021), (147_891_612, 601_218)),
        tier(11, LogKind::TierCleanup, 7, Some(6_089_448), (698_481_072, 4_284_000)),
        tier(12, LogKind::TierCleanup, 7, Some(12), (4_284_000, 4_282_560)),
        entry(20, LogKind::IsrShrink, Some(("orders", 1)), None, "Shrinking ISR from 1,2 to 1"),
        entry(
            25,
            LogKind::IsrChange,
            Some(("orders", 1)),
            None,
            "ISR updated to 1,2 and version updated to 7",
        ),
        entry(30, LogKind::Shutdown, None, None, "[BrokerServer id=1] shutting down"),
        entry(37, LogKind::Shutdown, None, Some(7_458), "[BrokerServer id=1] shut down completed"),
        entry(
            90,
            LogKind::LogsLoad,
            None,
            Some(41_000),
            "Loaded 50 logs in 41000ms (unclean log dirs = ArrayBuffer(/d))",
        ),
        LogEntry { at: None, ..entry(0, LogKind::Fsync, None, Some(1_456), "\x1b[31mfsync took 1456ms") },
        LogEntry {
            pattern: Some("slow-\u{202e}disk".into()),
            level: None,
            ..entry(40, LogKind::Pattern, Some(("a\x1b[1m", 3)), Some(5), &"long ".repeat(50))
        },
    ];
    let mut end = 1_000;
    for (partition, seconds) in [(3, 0), (1, 26), (4, 4), (0, 2), (9, 31), (2, 7), (5, 1)] {
        end += seconds;
        let size = 20_000_000 * seconds as u64 + 11;
        entries.push(tier(end, LogKind::TierMigration, partition, None, (size, size / 6 * 7)));
    }
    entries.push(tier(90_000, LogKind::TierMigration, 6, None, (508_509_470, 591_531_390)));
    entries
}

fn feed(mut to: impl LogSink) {
    let mut digest = LogSummary::new(4);
    for entry in &entries() {
        digest.entry(entry);
        to.entry(LogRow { entry, file: "logs/server.log\x1b" }).unwrap();
    }
    for n in 0..1_000 {
        let ms = |share: f64| Nanos((share * f64::from(n) * 1e4) as i64);
        let times = KafkaTimes { total: ms(1.0), local: ms(0.9), queue: ms(0.1), ..KafkaTimes::default() };
        digest.request(Some(START), if n % 4 == 0 { "FETCH" } else { "PRODUCE" }, &times);
    }
    let read = LogStats { files: 1, bytes: 123_456, lines: 9_876, cut_lines: 1, unreadable_requests: 2 };
    to.finish(&digest, &read).unwrap();
}

#[test]
fn logs_in_every_format() {
    golden("logs.txt", |out| feed(LogOverview::new(out, &look(false))));
    golden("logs-wide.txt", |out| feed(LogOverview::new(out, &look(true))));
    golden("logs-list.txt", |out| feed(LogWriter::new(out, &table(false))));
    golden("logs-list-wide.txt", |out| feed(LogWriter::new(out, &table(true))));
    golden("logs.jsonl", |out| feed(LogWriter::new(out, &JSON)));
    golden("logs.csv", |out| feed(LogWriter::new(out, &CSV)));
    golden("logs-nothing.txt", |out| {
        LogOverview::new(out, &look(false)).finish(&LogSummary::new(4), &LogStats::default()).unwrap();
    });
}

#[test]
fn sums_match_the_entries() {
    let mut out = Vec::new();
    feed(LogWriter::new(&mut out, &JSON));
    let lines = json_lines(&out);
    let of = |kind: &str| lines.iter().filter(|line| line["type"] == kind).cloned().collect::<Vec<_>>();
    assert_eq!(of("log-entry").len(), entries().len());
    let count: u64 = of("log-kind").iter().map(|line| line["count"].as_u64().unwrap()).sum();
    let summary = lines.last().unwrap();
    assert_eq!((summary["type"].as_str(), summary["event_lines"].as_u64()), (Some("summary"), Some(count)));
    let removed = |line: &serde_json::Value| line["change_bytes"].as_i64().unwrap();
    assert_eq!(of("tier-cleanup").iter().map(removed).sum::<i64>(), removed(&summary["tier_cleanup"]));
    let queues = summary["tier_migration"].as_array().unwrap();
    assert_eq!(queues[0]["one_after_the_other"], true, "{summary}");
    assert_eq!(queues[1]["one_after_the_other"], serde_json::Value::Null);
    assert_eq!(of("tier-migration").len(), 8);
}

#[test]
fn extreme_values_do_not_panic() {
    let huge = |kind| LogEntry {
        at: Some(Nanos::MAX),
        length: Some(Nanos::MAX),
        count: Some(u64::MAX),
        ..tier(0, kind, i32::MAX, Some(u64::MAX), (u64::MAX, 0))
    };
    for look in [look(false), look(true)] {
        let mut digest = LogSummary::new(4);
        for kind in LogKind::ALL {
            digest.entry(&huge(kind));
            digest.entry(&LogEntry { at: Some(Nanos::MIN), length: Some(Nanos::MIN), ..huge(kind) });
        }
        let read = LogStats { files: u64::MAX, lines: u64::MAX, ..LogStats::default() };
        LogOverview::new(Vec::new(), &look).finish(&digest, &read).unwrap();
        LogWriter::new(Vec::new(), &JSON).finish(&digest, &read).unwrap();
    }
}
