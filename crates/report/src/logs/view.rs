//! What logs tell as programs read it; times are UTC nanoseconds.

use model::{LogEntry, LogKind, TopicPartition};
use serde_json::{Value, json};

use super::digest::{Group, LogSummary};
use super::requests::ApiTimes;
use super::tier::{Cleanup, Migration, Queue, change, percent};
use super::{IsrChanges, LogRow, LogStats};
use crate::distribution::Distribution;
use crate::fields::Fields;

/// An entry's fields.
pub(super) fn entry(LogRow { entry, file }: LogRow<'_>) -> Fields {
    let [topic, partition] = whose(entry.topic_partition.as_ref());
    Fields(vec![
        ("type", "log-entry".into()),
        ("at_ns", entry.at.map(|at| at.0).into()),
        ("kind", entry.kind.as_str().into()),
        ("pattern", entry.pattern.as_deref().into()),
        ("duration_ns", entry.length.map(|length| length.0).into()),
        topic,
        partition,
        ("level", entry.level.into()),
        ("count", entry.count.into()),
        ("offset", entry.offset.into()),
        ("before_bytes", entry.before_bytes.into()),
        ("after_bytes", entry.after_bytes.into()),
        ("message", (*entry.text).into()),
        ("file", file.into()),
    ])
}

/// The fields of no entry in particular, for their names.
pub(super) fn names() -> Fields {
    let none = LogEntry {
        at: None,
        kind: LogKind::SlowOperation,
        pattern: None,
        level: None,
        topic_partition: None,
        length: None,
        count: None,
        offset: None,
        before_bytes: None,
        after_bytes: None,
        text: "".into(),
    };
    entry(LogRow { entry: &none, file: "" })
}

fn whose(partition: Option<&TopicPartition>) -> [(&'static str, Value); 2] {
    [("topic", partition.map(|of| &*of.topic).into()), ("partition", partition.map(|of| of.partition).into())]
}

/// All entries of a kind.
pub(super) fn group(kind: LogKind, pattern: Option<&str>, group: &Group) -> Fields {
    let lengths = &group.lengths;
    Fields(vec![
        ("type", "log-kind".into()),
        ("kind", kind.as_str().into()),
        ("pattern", pattern.into()),
        ("count", group.count.into()),
        ("timed", lengths.count().into()),
        ("median_ns", lengths.quantile(0.5).into()),
        ("p99_ns", lengths.quantile(0.99).into()),
        ("max_ns", lengths.max().into()),
        ("total_ns", total_ns(lengths).into()),
        ("first_ns", group.span.map(|(first, _)| first.0).into()),
        ("last_ns", group.span.map(|(_, last)| last.0).into()),
    ])
}

pub(super) fn total_ns(lengths: &Distribution) -> u64 {
    u64::try_from(lengths.sum()).unwrap_or(u64::MAX)
}

/// The cleanups of a partition.
pub(super) fn cleanup(partition: &TopicPartition, cleanup: &Cleanup) -> Fields {
    let [topic, number] = whose(Some(partition));
    let mut fields = vec![("type", "tier-cleanup".into()), topic, number];
    fields.extend(of_cleanup(cleanup));
    Fields(fields)
}

fn of_cleanup(cleanup: &Cleanup) -> [(&'static str, Value); 6] {
    [
        ("cleanups", cleanup.cleanups.into()),
        ("segments", cleanup.segments.into()),
        ("before_bytes", cleanup.before_bytes.into()),
        ("after_bytes", cleanup.after_bytes.into()),
        ("change_bytes", cleanup.change_bytes().into()),
        ("change_percent", cleanup.change_percent().into()),
    ]
}

/// A migration in its queue.
pub(super) fn migration(queue: usize, migration: &Migration, gap: Option<model::Nanos>) -> Fields {
    let [topic, partition] = whose(migration.topic_partition.as_ref());
    let (before, after) = (migration.before_bytes, migration.after_bytes);
    Fields(vec![
        ("type", "tier-migration".into()),
        ("queue", queue.into()),
        ("end_ns", migration.end.0.into()),
        ("since_before_ns", gap.map(|gap| gap.0).into()),
        topic,
        partition,
        ("before_bytes", before.into()),
        ("after_bytes", after.into()),
        ("change_bytes", change(before, after).into()),
        ("change_percent", percent(before, after).into()),
    ])
}

/// Changes of a partition's in-sync set.
pub(super) fn in_sync(partition: &TopicPartition, changes: &IsrChanges) -> Fields {
    let [topic, number] = whose(Some(partition));
    Fields(vec![
        ("type", "isr".into()),
        topic,
        number,
        ("shrinks", changes.shrinks.into()),
        ("expansions", changes.expansions.into()),
        ("changes", changes.changes.into()),
        ("first_ns", changes.span.map(|(first, _)| first.0).into()),
        ("last_ns", changes.span.map(|(_, last)| last.0).into()),
    ])
}

/// The requests of an API.
pub(super) fn api(name: &str, times: &ApiTimes) -> Fields {
    let mut fields =
        vec![("type", "log-requests".into()), ("api", name.into()), ("count", times.total().count().into())];
    fields.extend(times.times.iter().map(|(name, spread)| (*name, percentiles(spread))));
    Fields(fields)
}

fn percentiles(spread: &Distribution) -> Value {
    json!({
        "median_ns": spread.quantile(0.5),
        "p99_ns": spread.quantile(0.99),
        "p999_ns": spread.quantile(0.999),
        "max_ns": spread.max(),
        "total_ns": total_ns(spread),
    })
}

/// What it all comes to.
pub(super) fn summary(digest: &LogSummary, read: &LogStats, queues: &[Queue]) -> Fields {
    let cleanups = &digest.all_cleanups;
    let mut of_tier: serde_json::Map<String, Value> =
        of_cleanup(cleanups).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    of_tier.insert("partitions".to_owned(), digest.cleanups.len().into());
    let queues: Vec<Value> = queues
        .iter()
        .map(|queue| {
            json!({
                "files": queue.migrations.len(),
                "first_end_ns": queue.span().map(|(first, _)| first.0),
                "last_end_ns": queue.span().map(|(_, last)| last.0),
                "one_after_the_other": queue.is_serial(),
                "rank_correlation": queue.correlation(),
            })
        })
        .collect();
    Fields(vec![
        ("type", "summary".into()),
        ("files", read.files.into()),
        ("bytes", read.bytes.into()),
        ("lines", read.lines.into()),
        ("cut_lines", read.cut_lines.into()),
        ("unreadable_requests", read.unreadable_requests.into()),
        ("told", digest.count().into()),
        ("first_ns", digest.span.map(|(first, _)| first.0).into()),
        ("last_ns", digest.span.map(|(_, last)| last.0).into()),
        ("tier_cleanup", of_tier.into()),
        ("tier_migration", queues.into()),
        ("without_room", digest.without_room.into()),
    ])
}
