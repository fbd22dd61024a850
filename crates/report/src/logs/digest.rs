//! What the entries of logs come to, in bounded memory. Does not print.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{KafkaTimes, LogEntry, LogKind, Nanos, TopicPartition};

use super::isr::IsrChanges;
use super::requests::ApiTimes;
use super::tier::{Cleanup, Migrations};
use crate::distribution::Distribution;
use crate::slowest::Slowest;

/// Partitions that are told apart; those that come later are only in the totals.
const MOST_PARTITIONS: usize = 100_000;
/// Entries about the whole broker that are kept.
const MOST_EVENTS: usize = 10_000;
/// Kafka has fewer than a hundred APIs; a log has what somebody wrote into it.
const MOST_APIS: usize = 256;

/// All entries of one kind, or of one of the user's patterns.
#[derive(Clone, Debug)]
pub struct Group {
    /// How many.
    pub count: u64,
    /// How long they took, those that say so.
    pub lengths: Distribution,
    /// When the first and the last were written.
    pub span: Option<(Nanos, Nanos)>,
}

/// What was told in all.
pub struct LogSummary {
    pub(super) groups: BTreeMap<(LogKind, Option<Arc<str>>), Group>,
    pub(super) cleanups: BTreeMap<TopicPartition, Cleanup>,
    /// Of all partitions, also those there was no room for.
    pub(super) all_cleanups: Cleanup,
    pub(super) migrations: Migrations,
    pub(super) in_sync: BTreeMap<TopicPartition, IsrChanges>,
    pub(super) apis: BTreeMap<Arc<str>, ApiTimes>,
    pub(super) events: Vec<LogEntry>,
    pub(super) more_events: u64,
    /// Partitions and APIs there was no room for.
    pub(super) without_room: u64,
    pub(super) span: Option<(Nanos, Nanos)>,
    slowest: Slowest<LogEntry>,
}

impl LogSummary {
    /// An empty one that keeps so many of the slowest entries.
    pub fn new(most_slowest: usize) -> Self {
        Self {
            groups: BTreeMap::new(),
            cleanups: BTreeMap::new(),
            all_cleanups: Cleanup::default(),
            migrations: Migrations::default(),
            in_sync: BTreeMap::new(),
            apis: BTreeMap::new(),
            events: Vec::new(),
            more_events: 0,
            without_room: 0,
            span: None,
            slowest: Slowest::new(most_slowest),
        }
    }

    /// Counts an entry.
    pub fn entry(&mut self, entry: &LogEntry) {
        let group = self.groups.entry((entry.kind, entry.pattern.clone())).or_insert_with(Group::new);
        group.add(entry.at, entry.length);
        extend(&mut self.span, entry.at);
        if let Some(length) = entry.length {
            self.slowest.offer(length, || entry.clone());
        }
        match entry.kind {
            LogKind::TierCleanup => self.cleanup(entry),
            LogKind::TierMigration => self.migrations.add(entry),
            LogKind::IsrShrink | LogKind::IsrExpand | LogKind::IsrChange => self.in_sync(entry),
            kind if is_event(kind) => self.event(entry),
            _ => {}
        }
    }

    /// Counts a request of Kafka's request log.
    pub fn request(&mut self, at: Option<Nanos>, api: &str, times: &KafkaTimes) {
        extend(&mut self.span, at);
        let group = self.groups.entry((LogKind::Request, None)).or_insert_with(Group::new);
        group.add(at, Some(times.total));
        if let Some(known) = self.apis.get_mut(api) {
            return known.add(times);
        }
        if self.apis.len() >= MOST_APIS {
            self.without_room += 1;
            return;
        }
        self.apis.entry(api.into()).or_insert_with(ApiTimes::new).add(times);
    }

    /// How many entries and requests.
    pub fn count(&self) -> u64 {
        self.groups.values().map(|group| group.count).sum()
    }

    fn cleanup(&mut self, entry: &LogEntry) {
        self.all_cleanups.add(entry);
        if let Some(cleanup) = of_partition(&mut self.cleanups, entry) {
            cleanup.add(entry);
        } else {
            self.without_room += 1;
        }
    }

    fn in_sync(&mut self, entry: &LogEntry) {
        if let Some(in_sync) = of_partition(&mut self.in_sync, entry) {
            in_sync.add(entry);
        } else {
            self.without_room += 1;
        }
    }

    fn event(&mut self, entry: &LogEntry) {
        if self.events.len() < MOST_EVENTS { self.events.push(entry.clone()) } else { self.more_events += 1 }
    }

    /// The slowest, slowest first.
    pub(super) fn slowest(&self) -> Vec<&LogEntry> {
        self.slowest.sorted()
    }
}

impl Group {
    fn new() -> Self {
        Self { count: 0, lengths: Distribution::of_latencies(), span: None }
    }

    fn add(&mut self, at: Option<Nanos>, length: Option<Nanos>) {
        self.count += 1;
        extend(&mut self.span, at);
        if let Some(length) = length {
            self.lengths.add(u64::try_from(length.0).unwrap_or(0));
        }
    }
}

/// Whether it is about the whole broker, and rare.
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

/// What is known of the entry's partition; none where there is no room for it or it names none.
fn of_partition<'a, V: Default>(
    known: &'a mut BTreeMap<TopicPartition, V>,
    entry: &LogEntry,
) -> Option<&'a mut V> {
    let partition = entry.topic_partition.as_ref()?;
    if known.len() >= MOST_PARTITIONS && !known.contains_key(partition) {
        return None;
    }
    Some(known.entry(partition.clone()).or_default())
}

pub(super) fn extend(span: &mut Option<(Nanos, Nanos)>, at: Option<Nanos>) {
    let Some(at) = at else { return };
    *span = Some(span.map_or((at, at), |(first, last)| (first.min(at), last.max(at))));
}
