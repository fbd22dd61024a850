//! Parses broker messages of Kafka 2.0 to 4.1. Does not know the layout of the lines around them.
//!
//! Kafka's own, from its sources (`core/src/main/scala/kafka/` up to 3.x, from 4.0 on also `storage/src/main/java/`):
//! ```text
//! [Log partition=t-0, dir=/d] Rolled new log segment at offset 5 in 3 ms.          log/Log.scala 2.0 to 2.8; the prefix is
//!   LocalLog from 3.0 (log/LocalLog.scala, LocalLog.java) and UnifiedLog or MergedLog elsewhere
//! [ProducerStateManager partition=t-0] Wrote producer snapshot at offset 5 with 9 producer ids in 0 ms.    3.0 on;
//!   "Writing producer snapshot at offset 5" before (log/ProducerStateManager.scala), without a time
//! [Partition t-0 broker=1] Shrinking ISR from 1,2 to 1. Leader: (…). Out of sync replicas: (…).   cluster/Partition.scala, all;
//!   "Expanding ISR from 1 to 1,2" up to 2.7, "ISR updated to 1,2 and version updated to 7" from 2.7 on
//! [Partition t-0 broker=1] t-0 starts at leader epoch 3 from offset 5 …             same, 2.0 ("Leader Epoch") to 2.5;
//!   "Leader t-0 [with topic id Some(…)] starts at leader epoch 3 from offset 5 …", "Follower t-0 starts at …" from 2.6 on
//! Completed load of log with 1 segments, log start offset 0 and log end offset 5 in 12 ms     log/Log.scala 2.x
//! Completed load of Log(dir=/d/t-0, …, topic=t, partition=0, …) with 1 segments[, …] in 12ms (1/50 loaded in /d)   2.8 on
//! Logs loading complete in 123 ms.     log/LogManager.scala up to 2.4; "Loaded 50 logs in 123ms." from 2.5 on
//! Recovering unflushed segment 5[. 1/2 recovered for t-0.]                          log/Log.scala, LogLoader.scala
//! Attempting recovery for all logs in /d since no clean shutdown file was found     log/LogManager.scala 2.5 on
//! Producer state recovery took 1ms for snapshot load and 2ms for segment recovery from offset 5      UnifiedLog 2.6 on
//! Finished loading offsets and group metadata from __consumer_offsets-3 in 12 milliseconds[ …]      GroupMetadataManager
//! Finished loading of metadata from __consumer_offsets-3 with epoch 2 in 12ms where 1ms was …       CoordinatorRuntime 3.7 on
//! Finished LeaderAndIsr request in 12ms correlationId 3 from controller 1 for 50 partitions         ReplicaManager 2.8 to 3.9
//! [RaftManager id=1] Completed transition to Leader(…) from Candidate(…)            raft QuorumState.java
//! Partition t-0 completed preferred replica leader election. New leader is 2        controller/KafkaController.scala
//! [KafkaServer id=1] Controlled shutdown request returned successfully after 12ms   server/KafkaServer.scala, and others on it
//! [BrokerServer id=1] shutting down … [BrokerServer id=1] shut down completed       server/BrokerServer.scala, KafkaServer.scala
//! Unable to send a heartbeat because the RPC got timed out before it could be sent. server/BrokerLifecycleManager.scala
//! Cancelled in-flight FETCH request with correlation id 3 due to node 2 being disconnected (elapsed time since creation:
//!   30006ms, …)                                                                     clients NetworkClient.java 3.0 on
//! Exceptionally slow controller event writeNoOpRecord took 2012 ms.                 EventPerformanceMonitor.java 4.0 on
//! fsync-ing the write ahead log in SyncThread:0 took 1456ms which will adversely effect operation latency  ZooKeeper
//! ```
//! Confluent's tiered storage, as operators have published its lines:
//! ```text
//! 12 segments removed by cleanup from tier partition state file for topicIdPartition ID:t-0, state file size changed from 9 to 5
//! tier partition state file format migration complete for topicIdPartition ID:t-0, state file size changed from 5 to 9
//! ```

use aho_corasick::packed::{self, Searcher};
use aho_corasick::{AhoCorasick, Input, MatchKind, Span as Range};
use model::{LogEntry, LogKind, Nanos, TopicPartition, beginning};

use super::TEXT_BYTES;
use super::time::{last_number, length, length_after, number, number_after};
use crate::path::partition;

/// The broker's message when it has stopped.
pub(super) const STOPPED: &str = "shut down completed";

/// Bytes of a message searched after its needle: the rest of the line may be long.
const AFTER_BYTES: usize = 4 * TEXT_BYTES;

/// A text that identifies a kind of line, and the rule that parses such a line.
pub(super) struct Needle {
    pub(super) text: &'static str,
    rule: fn(SplitLine<'_>) -> Option<LogEntry>,
}

/// A line, split at its needle.
#[derive(Clone, Copy)]
pub(super) struct SplitLine<'a> {
    pub(super) before: &'a str,
    pub(super) after: &'a str,
}

/// A line by its kind.
pub(super) enum Read<'a> {
    /// A line of the request log, from its request on.
    Request(&'a str),
    /// Any other line.
    Message(LogEntry),
}

const REQUEST: &str = "Completed request:";

/// The texts searched for.
/// The first needle whose rule parses the line wins; at the same position, the first in this list.
pub(super) static NEEDLES: [Needle; 28] = [
    Needle { text: REQUEST, rule: |_| None },
    Needle { text: "Rolled new log segment", rule: roll },
    Needle { text: "producer snapshot at offset ", rule: snapshot },
    Needle { text: "state file size changed from ", rule: tier },
    Needle { text: "Shrinking ISR from ", rule: |line| isr(LogKind::IsrShrink, line) },
    Needle { text: "Expanding ISR from ", rule: |line| isr(LogKind::IsrExpand, line) },
    Needle { text: "ISR updated to ", rule: |line| Some(of(LogKind::IsrChange, line)) },
    Needle { text: "Completed load of ", rule: load },
    Needle { text: "logs in ", rule: loads },
    Needle {
        text: "Logs loading complete in ",
        rule: |line| entry_with_length(LogKind::LogsLoad, length(line.after)),
    },
    Needle { text: "Recovering unflushed segment ", rule: segment_recovery },
    Needle { text: "clean shutdown file was found", rule: recovery },
    Needle { text: "Producer state recovery took ", rule: producer_state },
    Needle { text: "ontrolled shutdown", rule: controlled_shutdown },
    Needle { text: STOPPED, rule: |line| Some(of(LogKind::Shutdown, line)) },
    Needle { text: "] shutting down", rule: stopping },
    Needle { text: " starts at leader epoch ", rule: election },
    Needle { text: " starts at Leader Epoch ", rule: election },
    Needle { text: "completed preferred replica leader election", rule: election },
    Needle { text: "Completed transition to ", rule: |line| Some(of(LogKind::Quorum, line)) },
    Needle { text: "Finished loading ", rule: coordinator },
    Needle { text: "Finished LeaderAndIsr request in ", rule: leader_and_isr },
    Needle { text: "Unable to send a heartbeat because ", rule: |line| Some(of(LogKind::Heartbeat, line)) },
    Needle {
        text: "Cancelled in-flight ",
        rule: |line| entry_with_length(LogKind::RequestTimeout, length_after(line.after, "since creation: ")),
    },
    Needle { text: " took ", rule: slow_operation },
    Needle { text: " Pause ", rule: collection },
    // `Safepoint "G1PauseRemark", …, Total: 32660156 ns`: runtime/safepoint.cpp, JDK 13 on.
    Needle {
        text: "Safepoint \"",
        rule: |line| entry_with_length(LogKind::Safepoint, length_after(line.after, "Total: ")),
    },
    Needle { text: "application threads were stopped: ", rule: application_stop },
];

/// Parses a line, if it contains a message.
/// A needle that turns out to be part of another text does not hide the next.
pub(super) fn read<'a>(line: &'a str, finder: &Finder) -> Option<Read<'a>> {
    let mut from = 0;
    while let Some(found) = finder.find(line.as_bytes(), from) {
        let needle = NEEDLES.get(found.nth)?;
        let (before, after) = (line.get(..found.start)?, line.get(found.end..)?);
        if needle.text == REQUEST {
            return Some(Read::Request(after));
        }
        if let Some(message) = (needle.rule)(SplitLine { before, after: beginning(after, AFTER_BYTES) }) {
            return Some(Read::Message(message));
        }
        from = found.start + 1;
    }
    None
}

/// A message of this kind, about the partition named in its line.
fn of(kind: LogKind, line: SplitLine<'_>) -> LogEntry {
    let topic_partition = partition_in_prefix(line.before).or_else(|| fields(line.after));
    LogEntry { topic_partition, ..LogEntry::new(kind) }
}

/// A message of this kind with its duration.
fn entry_with_length(kind: LogKind, length: Option<Nanos>) -> Option<LogEntry> {
    Some(LogEntry { length: Some(length?), ..LogEntry::new(kind) })
}

/// Parses the partition in Kafka's message prefixes: `[Log partition=t-0, dir=/d] `, `[Partition t-0 broker=1] `.
fn partition_in_prefix(before: &str) -> Option<TopicPartition> {
    let open = before.rfind('[')?;
    let inside = before.get(open + 1..)?;
    let name = inside.split_once(" partition=").map(|(_, rest)| rest);
    let name = name.or_else(|| inside.strip_prefix("Partition "))?;
    partition(name.split([',', ' ', ']']).next()?)
}

/// Parses `topic=t, partition=0`, as a log prints itself.
fn fields(text: &str) -> Option<TopicPartition> {
    let topic = text.split_once("topic=")?.1.split([',', ')']).next()?;
    let partition = number(text.split_once("partition=")?.1)?.0.try_into().ok()?;
    (!topic.is_empty()).then(|| TopicPartition { topic: topic.into(), partition })
}

fn roll(line: SplitLine<'_>) -> Option<LogEntry> {
    let length = length_after(line.after, " in ")?;
    let offset = offset(line.after, " at offset ");
    Some(LogEntry { length: Some(length), offset, ..of(LogKind::SegmentRoll, line) })
}

fn offset(text: &str, mark: &str) -> Option<i64> {
    i64::try_from(number_after(text, mark)?).ok()
}

fn snapshot(line: SplitLine<'_>) -> Option<LogEntry> {
    let wrote = line.before.ends_with("Wrote ");
    (wrote || line.before.ends_with("Writing ")).then_some(())?;
    let (offset, rest) = number(line.after)?;
    Some(LogEntry {
        offset: i64::try_from(offset).ok(),
        count: number_after(rest, " with "),
        length: length_after(rest, " in "),
        ..of(LogKind::ProducerSnapshot, line)
    })
}

/// Both lines of tiered storage have the same ending.
fn tier(line: SplitLine<'_>) -> Option<LogEntry> {
    let (before_bytes, rest) = number(line.after)?;
    let (after_bytes, _) = number(rest.strip_prefix(" to ")?)?;
    let (about, id) = line.before.rsplit_once("topicIdPartition ")?;
    let id = id.split([',', ' ']).next()?;
    let removed = about.split_once(" segments removed by cleanup").and_then(|(count, _)| last_number(count));
    let kind = match removed {
        Some(_) => LogKind::TierCleanup,
        None if about.contains("migration complete") => LogKind::TierMigration,
        None => return None,
    };
    Some(LogEntry {
        topic_partition: partition(id.split_once(':').map_or(id, |(_, name)| name)),
        count: removed,
        before_bytes: Some(before_bytes),
        after_bytes: Some(after_bytes),
        ..LogEntry::new(kind)
    })
}

fn isr(kind: LogKind, line: SplitLine<'_>) -> Option<LogEntry> {
    let (from, rest) = line.after.split_once(" to ")?;
    let replicas = |list: &str| list.split(',').filter(|id| number(id.trim()).is_some()).count();
    let to = rest.split(['.', ' ']).next()?;
    let changed = replicas(from).abs_diff(replicas(to)) as u64;
    Some(LogEntry { count: Some(changed), ..of(kind, line) })
}

fn load(line: SplitLine<'_>) -> Option<LogEntry> {
    let length = length_after(line.after, " in ")?;
    let topic_partition = line.after.strip_prefix("log ").and_then(|rest| partition(rest.split(' ').next()?));
    let message = of(LogKind::LogLoad, line);
    Some(LogEntry {
        length: Some(length),
        count: number_after(line.after, " with "),
        topic_partition: topic_partition.or(message.topic_partition),
        ..message
    })
}

/// Parses `Loaded 50 logs in 123ms.`
fn loads(line: SplitLine<'_>) -> Option<LogEntry> {
    let mut words = line.before.trim_end().rsplit(' ');
    let (count, verb) = (words.next()?.parse().ok()?, words.next()?);
    verb.ends_with("Loaded").then_some(())?;
    Some(LogEntry {
        length: Some(length(line.after)?),
        count: Some(count),
        ..LogEntry::new(LogKind::LogsLoad)
    })
}

fn segment_recovery(line: SplitLine<'_>) -> Option<LogEntry> {
    let (offset, rest) = number(line.after)?;
    let topic_partition = rest.split_once(" recovered for ").and_then(|(_, name)| {
        let name = name.split(' ').next()?;
        partition(name.strip_suffix('.').unwrap_or(name))
    });
    let message = of(LogKind::SegmentRecovery, line);
    Some(LogEntry {
        offset: i64::try_from(offset).ok(),
        topic_partition: topic_partition.or(message.topic_partition),
        ..message
    })
}

/// A clean shutdown is not reported.
fn recovery(line: SplitLine<'_>) -> Option<LogEntry> {
    line.before.ends_with("no ").then(|| LogEntry::new(LogKind::Recovery))
}

fn producer_state(line: SplitLine<'_>) -> Option<LogEntry> {
    let load = length(line.after)?;
    let segments = length_after(line.after, " and ").unwrap_or(Nanos::ZERO);
    let offset = offset(line.after, " offset ");
    Some(LogEntry { length: Some(load + segments), offset, ..of(LogKind::ProducerState, line) })
}

fn controlled_shutdown(line: SplitLine<'_>) -> Option<LogEntry> {
    line.before.ends_with(['C', 'c']).then_some(())?;
    let length = length_after(line.after, " after ");
    Some(LogEntry { length, ..LogEntry::new(LogKind::ControlledShutdown) })
}

/// The broker's parts log the same messages one after the other; only the broker's own start and end count.
fn stopping(line: SplitLine<'_>) -> Option<LogEntry> {
    let (_, who) = line.before.rsplit_once('[')?;
    let is_broker = who.starts_with("BrokerServer ") || who.starts_with("KafkaServer ");
    is_broker.then(|| LogEntry::new(LogKind::Shutdown))
}

/// Parses a leader change: the partition's name comes right before, perhaps with the topic's id.
fn election(line: SplitLine<'_>) -> Option<LogEntry> {
    let before = line.before.trim_end();
    let before = before.rsplit_once(" with topic id ").map_or(before, |(name, _)| name);
    let topic_partition = partition(before.rsplit(' ').next()?)?;
    Some(LogEntry { topic_partition: Some(topic_partition), ..LogEntry::new(LogKind::LeaderElection) })
}

fn coordinator(line: SplitLine<'_>) -> Option<LogEntry> {
    let length = length_after(line.after, " in ")?;
    let from = line.after.split_once(" from ")?.1;
    Some(LogEntry {
        topic_partition: partition(from.split(' ').next()?),
        length: Some(length),
        ..LogEntry::new(LogKind::CoordinatorLoad)
    })
}

fn leader_and_isr(line: SplitLine<'_>) -> Option<LogEntry> {
    Some(LogEntry {
        length: Some(length(line.after)?),
        count: number_after(line.after, " for "),
        ..LogEntry::new(LogKind::LeaderAndIsr)
    })
}

/// Any other line with a duration.
fn slow_operation(line: SplitLine<'_>) -> Option<LogEntry> {
    let length = length(line.after)?;
    Some(LogEntry { length: Some(length), ..of(slow_operation_kind(line.before), line) })
}

/// The kind of a slow operation: a disk sync or any other.
fn slow_operation_kind(before: &str) -> LogKind {
    let message = before.as_bytes();
    let near = message.get(message.len().saturating_sub(200)..).unwrap_or_default().to_ascii_lowercase();
    let has = |word: &[u8]| memchr::memmem::find(&near, word).is_some();
    if has(b"fsync") || has(b"flush") { LogKind::Fsync } else { LogKind::SlowOperation }
}

// Lines of the JVM among the broker's, as when both go to a container's output: collections and safepoints. Only their
// durations; `jvm::gc_log` reads the rest of such a log.

/// Parses a line of the JVM's log about a GC pause.
/// Example: `[…][gc] GC(12) Pause Young (Normal) (G1 Evacuation Pause) 123M->45M(512M) 12.345ms`
/// (gc/shared/gcTraceTime.cpp).
fn collection(line: SplitLine<'_>) -> Option<LogEntry> {
    let word = line.before.rsplit(' ').find(|word| !word.is_empty() && !word.ends_with(':'))?;
    (word.contains("GC(") && word.ends_with(')')).then_some(())?;
    entry_with_length(LogKind::GcPause, length(line.after.trim_end().rsplit(' ').next()?))
}

/// Parses `Total time for which application threads were stopped: 0.0123 seconds, …`: up to JDK 12.
fn application_stop(line: SplitLine<'_>) -> Option<LogEntry> {
    line.before.ends_with("Total time for which ").then_some(())?;
    entry_with_length(LogKind::Safepoint, length(line.after))
}

// Finds the first of a few texts in a block, many bytes at a time. Does not know what they mean.

/// Searches for all texts at once: with vector instructions if the CPU has them, else with an automaton.
#[derive(Clone, Debug)]
pub(super) struct Finder {
    vectors: Option<Searcher>,
    automaton: Option<AhoCorasick>,
}

/// A match of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Match {
    /// Its index in the list of texts.
    pub(super) nth: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Finder {
    /// If several texts match at one position, the first in the list wins.
    pub(super) fn new(texts: impl Iterator<Item = &'static str> + Clone) -> Self {
        let vectors = packed::Config::new().builder().extend(texts.clone()).build();
        // A few hundred states: this cannot run out of space.
        let automaton = || AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(texts).ok();
        let automaton = if vectors.is_none() { automaton() } else { None };
        Self { vectors, automaton }
    }

    /// The first text that starts at `from` or later.
    pub(super) fn find(&self, block: &[u8], from: usize) -> Option<Match> {
        let range = Range { start: from.min(block.len()), end: block.len() };
        let found = match (&self.vectors, &self.automaton) {
            (Some(vectors), _) => vectors.find_in(block, range),
            (None, Some(automaton)) => automaton.find(Input::new(block).span(range)),
            (None, None) => None,
        }?;
        Some(Match { nth: found.pattern().as_usize(), start: found.start(), end: found.end() })
    }
}
