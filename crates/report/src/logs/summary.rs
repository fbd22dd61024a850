//! Logs summed up, in bounded memory: what happened how often, by kind, partition and API. Does not print.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{KafkaTimes, LogEntry, LogKind, Nanos, TopicPartition};

use super::tier::{Cleanup, Migrations};
use crate::distribution::Distribution;
use crate::slowest::Slowest;

/// A kind of entry, with the name of the user's pattern if it is one.
pub(super) type Kind = (LogKind, Option<Arc<str>>);

/// Partitions that are told apart; those that come later are only in the totals.
const MAX_PARTITIONS: usize = 100_000;
/// Entries about the whole broker that are kept.
const MAX_EVENTS: usize = 10_000;
/// Kafka has fewer than a hundred APIs; a log has what somebody wrote into it.
const MAX_APIS: usize = 256;

/// All entries of one kind, or of one of the user's patterns.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// How many.
    pub count: u64,
    /// How long they took, those that say so.
    pub lengths: Distribution,
    /// When the first and the last were written.
    pub span: Option<(Nanos, Nanos)>,
}

/// All entries and requests summed up.
#[derive(Default)]
pub struct LogSummary {
    pub(super) groups: BTreeMap<Kind, Group>,
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
    pub(super) slowest: Slowest<LogEntry>,
}

impl LogSummary {
    /// An empty one that keeps so many of the slowest entries.
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

    /// How many entries and requests.
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
    /// Replicas were taken out.
    pub shrinks: u64,
    /// Replicas were taken in, which Kafka up to 2.7 says.
    pub expansions: u64,
    /// The controller's answers, which Kafka from 2.7 on says: after each shrinking or expansion.
    pub changes: u64,
    /// When the first and the last were.
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

    /// Whole times.
    pub fn total(&self) -> &Distribution {
        let [total, ..] = &self.0;
        total
    }
}
