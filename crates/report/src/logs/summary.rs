//! Totals of logs, in bounded memory: entries by kind, partition and API. Does not print.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{KafkaTimes, LogEntry, LogKind, Nanos, TopicPartition};

use super::tier::{Cleanup, Migrations};
use crate::distribution::Distribution;
use crate::slowest::Slowest;

/// A kind of entry, with the name of the user's pattern if it is one.
pub(super) type Kind = (LogKind, Option<Arc<str>>);

/// Limit on partitions with a row; further ones are only in the totals.
const MAX_PARTITIONS: usize = 100_000;
/// Limit on the kept entries about the whole broker.
const MAX_EVENTS: usize = 10_000;
/// Kafka has fewer than a hundred APIs, but a log may contain anything.
const MAX_APIS: usize = 256;

/// All entries of one kind, or of one of the user's patterns.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Number of entries.
    pub count: u64,
    /// Durations of the entries that have one.
    pub lengths: Distribution,
    /// Times of the first and the last entry.
    pub span: Option<(Nanos, Nanos)>,
}

/// Totals of all entries and requests.
#[derive(Default)]
pub struct LogSummary {
    pub(super) groups: BTreeMap<Kind, Group>,
    pub(super) cleanups: BTreeMap<TopicPartition, Cleanup>,
    /// Of all partitions, including those beyond the limit.
    pub(super) all_cleanups: Cleanup,
    pub(super) migrations: Migrations,
    pub(super) in_sync: BTreeMap<TopicPartition, IsrChanges>,
    pub(super) apis: BTreeMap<Arc<str>, ApiTimes>,
    pub(super) events: Vec<LogEntry>,
    pub(super) more_events: u64,
    /// Entries without a partition, and those of partitions and APIs beyond the limit.
    pub(super) without_room: u64,
    pub(super) span: Option<(Nanos, Nanos)>,
    pub(super) slowest: Slowest<LogEntry>,
}

impl LogSummary {
    /// Creates an empty summary that keeps the slowest `max_slowest` entries.
    pub fn new(max_slowest: usize) -> Self {
        Self { slowest: Slowest::new(max_slowest), ..Self::default() }
    }

    /// Counts an entry.
    pub fn entry(&mut self, entry: &LogEntry) {
        let group = self.groups.entry((entry.kind, entry.pattern.clone())).or_default();
        group.add(entry.at, entry.length);
        extend(&mut self.span, entry.at);
        if let Some(length) = entry.length {
            self.slowest.offer(length, || entry.clone());
        }
        let has_room = match entry.kind {
            LogKind::TierCleanup => {
                self.all_cleanups.add(entry);
                of_partition(&mut self.cleanups, entry).map(|cleanup| cleanup.add(entry))
            }
            LogKind::IsrShrink | LogKind::IsrExpand | LogKind::IsrChange => {
                of_partition(&mut self.in_sync, entry).map(|in_sync| in_sync.add(entry))
            }
            LogKind::TierMigration => {
                self.migrations.add(entry);
                Some(())
            }
            kind => {
                let is_event = is_event(kind);
                if is_event && self.events.len() < MAX_EVENTS {
                    self.events.push(entry.clone());
                } else {
                    self.more_events += u64::from(is_event);
                }
                Some(())
            }
        };
        self.without_room += u64::from(has_room.is_none());
    }

    /// Counts a request of Kafka's request log.
    pub fn request(&mut self, at: Option<Nanos>, api: &str, times: &KafkaTimes) {
        extend(&mut self.span, at);
        let group = self.groups.entry((LogKind::Request, None)).or_default();
        group.add(at, Some(times.total));
        if let Some(known) = self.apis.get_mut(api) {
            return known.add(times);
        }
        if self.apis.len() >= MAX_APIS {
            self.without_room += 1;
            return;
        }
        self.apis.entry(api.into()).or_default().add(times);
    }

    /// Number of entries and requests.
    pub fn count(&self) -> u64 {
        self.groups.values().map(|group| group.count).sum()
    }
}

impl Group {
    fn add(&mut self, at: Option<Nanos>, length: Option<Nanos>) {
        self.count += 1;
        extend(&mut self.span, at);
        if let Some(length) = length {
            self.lengths.add_length(length);
        }
    }
}

/// Whether entries of a kind are rare and about the whole broker.
fn is_event(kind: LogKind) -> bool {
    matches!(
        kind,
        LogKind::LogsLoad
            | LogKind::Recovery
            | LogKind::Quorum
            | LogKind::ControlledShutdown
            | LogKind::Shutdown
            | LogKind::Heartbeat
    )
}

/// The value of the entry's partition; `None` beyond the limit or without a partition.
fn of_partition<'a, V: Default>(
    known: &'a mut BTreeMap<TopicPartition, V>,
    entry: &LogEntry,
) -> Option<&'a mut V> {
    let partition = entry.topic_partition.as_ref()?;
    if known.len() >= MAX_PARTITIONS && !known.contains_key(partition) {
        return None;
    }
    Some(known.entry(partition.clone()).or_default())
}

pub(super) fn extend(span: &mut Option<(Nanos, Nanos)>, at: Option<Nanos>) {
    let Some(at) = at else { return };
    *span = Some(span.map_or((at, at), |(first, last)| (first.min(at), last.max(at))));
}

/// The changes of one partition.
#[derive(Clone, Debug, Default)]
pub struct IsrChanges {
    /// Replicas were removed.
    pub shrinks: u64,
    /// Replicas were added, as Kafka up to 2.7 logs it.
    pub expansions: u64,
    /// The controller's answers. Kafka from 2.7 on logs them after each shrink or expansion.
    pub changes: u64,
    /// Times of the first and the last change.
    pub span: Option<(Nanos, Nanos)>,
}

impl IsrChanges {
    pub(super) fn add(&mut self, entry: &LogEntry) {
        extend(&mut self.span, entry.at);
        match entry.kind {
            LogKind::IsrShrink => self.shrinks += 1,
            LogKind::IsrExpand => self.expansions += 1,
            _ => self.changes += 1,
        }
    }
}

/// The times of all requests of an API.
#[derive(Clone, Debug, Default)]
pub struct ApiTimes([Distribution; 7]);

/// One of an API's times.
type Time = fn(&ApiTimes) -> &Distribution;

impl ApiTimes {
    /// The times with their headings, if any, and their names in JSON.
    pub(super) const TIMES: [(&'static str, &'static str, Time); 7] = [
        ("", "total", |times| &times.0[0]),
        ("QUEUE", "queue", |times| &times.0[1]),
        ("LOCAL", "local", |times| &times.0[2]),
        ("REMOTE", "remote", |times| &times.0[3]),
        ("RESPONSE_QUEUE", "response_queue", |times| &times.0[4]),
        ("SEND", "send", |times| &times.0[5]),
        ("THROTTLE", "throttle", |times| &times.0[6]),
    ];

    pub(super) fn add(&mut self, times: &KafkaTimes) {
        let KafkaTimes { queue, local, remote, throttle, response_queue, send, total } = *times;
        let lengths = [total, queue, local, remote, response_queue, send, throttle];
        self.0.iter_mut().zip(lengths).for_each(|(times, length)| times.add_length(length));
    }

    /// Total times.
    pub fn total(&self) -> &Distribution {
        let [total, ..] = &self.0;
        total
    }
}
