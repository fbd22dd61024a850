//! Requests to group and transaction coordinators, and to KRaft's controller.
//!
//! A coordinator keeps its state in a topic of Kafka's own, with one partition for each group or transactional id,
//! and answers when its record is there (`CoordinatorRuntime`, `TransactionStateManager`). Since Kafka 4.0 threads of
//! the group coordinator append its records; before that request handlers did, as they still do for transactions. The
//! controller does the same with the cluster's metadata, which its raft thread appends and forces to the device
//! before it answers (`QuorumController`, `KafkaRaftClient`).
//!
//! No number on the wire is in the append. The partition follows from the id and from the number of the topic's
//! partitions, which the broker's state shows. Of its appends after the request was read, the last one that ended
//! before the response was for this request or came after its own. So the join is never exact.

use std::sync::Arc;

use model::api_key::{
    ADD_OFFSETS_TO_TXN, ADD_PARTITIONS_TO_TXN, ALLOCATE_PRODUCER_IDS, ALTER_CLIENT_QUOTAS, ALTER_PARTITION,
    BROKER_HEARTBEAT, CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS, END_TXN, ENVELOPE,
    INCREMENTAL_ALTER_CONFIGS, INIT_PRODUCER_ID, OFFSET_COMMIT, SYNC_GROUP, TXN_OFFSET_COMMIT,
};
use model::{FileOp, METADATA_TOPIC, Nanos, Request, RequestSource, TopicPartition};

use crate::joins::AppendJoin;
use crate::locks::holders::is_handed_over;
use crate::logged::is_logged;
use crate::stages;
use crate::stages::Breakdown;
use crate::time::TimeSpan;
use crate::window::Window;
use crate::window::pools::ThreadPool;

/// Where the group coordinators keep offsets and members.
pub(crate) const OFFSETS_TOPIC: &str = "__consumer_offsets";
/// Where the transaction coordinators keep transactions.
pub(crate) const TRANSACTIONS_TOPIC: &str = "__transaction_state";

/// What a request asks a coordinator to write.
struct Record<'r> {
    topic: &'static str,
    key: Key<'r>,
}

/// What a record's partition follows from.
enum Key<'r> {
    /// The id of a group or transaction.
    Id(&'r str),
    /// Nothing: the cluster's metadata have one partition.
    Metadata,
    /// An id that was not seen: an always-on watch reads only the heads of requests.
    Unseen,
}

impl<'r> Record<'r> {
    fn of(request: &'r Request) -> Option<Self> {
        let (topic, id) = match request.api_key {
            OFFSET_COMMIT | TXN_OFFSET_COMMIT | SYNC_GROUP => (OFFSETS_TOPIC, &request.group_id),
            ADD_PARTITIONS_TO_TXN | ADD_OFFSETS_TO_TXN | END_TXN | INIT_PRODUCER_ID => {
                (TRANSACTIONS_TOPIC, &request.transactional_id)
            }
            _ => {
                let is_metadata = is_of_controller(request.api_key);
                return is_metadata.then_some(Self { topic: METADATA_TOPIC, key: Key::Metadata });
            }
        };
        let is_unseen = request.seen_by == Some(RequestSource::SocketCalls)
            // It has an id only if its producer is transactional.
            && request.api_key != INIT_PRODUCER_ID;
        let key = match id {
            Some(id) => Key::Id(id),
            None if is_unseen => Key::Unseen,
            None => return None,
        };
        Some(Self { topic, key })
    }

    /// Its partition, if the topic's number of partitions is known.
    fn partition(&self, window: &Window) -> Option<i32> {
        match self.key {
            Key::Id(id) => window.replicas.partitions(self.topic).and_then(|count| partition_of(id, count)),
            Key::Metadata => Some(0),
            Key::Unseen => None,
        }
    }

    /// Whether the threads of a pool append such records.
    fn is_of_pool(&self, pool: ThreadPool) -> bool {
        match pool {
            ThreadPool::Raft => self.topic == METADATA_TOPIC,
            ThreadPool::GroupCoordinator => self.topic == OFFSETS_TOPIC,
            ThreadPool::Handlers => self.topic != METADATA_TOPIC,
            ThreadPool::Controller => false,
        }
    }
}

/// Whether requests with this key wait for the controller's records.
/// They are answered when the records are in the cluster's metadata. A broker forwards those of clients.
pub(crate) fn is_of_controller(api_key: i16) -> bool {
    matches!(
        api_key,
        CREATE_TOPICS
            | DELETE_TOPICS
            | CREATE_PARTITIONS
            | INCREMENTAL_ALTER_CONFIGS
            | ALTER_CLIENT_QUOTAS
            | ALTER_PARTITION
            | ENVELOPE
            | BROKER_HEARTBEAT
            | ALLOCATE_PRODUCER_IDS
    )
}

/// The append of the record of a request to a coordinator, if it is such a request.
pub(crate) fn join(window: &Window, request: &Request) -> Option<AppendJoin> {
    // When a request of the log was in the broker is not known well enough for the order of events.
    let record = Record::of(request).filter(|_| !request.failed() && !is_logged(request))?;
    let span = stages::served(window, request)?;
    let op = match record.partition(window) {
        Some(partition) => {
            let of = TopicPartition { topic: record.topic.into(), partition };
            last_append(window.partitions.of(&of).ended_by(span.end), &record, span)
        }
        None if matches!(record.key, Key::Unseen) => answered_append(window, &record, span),
        None => only_append(window, &record, span),
    };
    // Members wait for the leader's assignment, which is then written: a late answer waited for something else.
    let follows = |op: &&Arc<FileOp>| is_handed_over(span.end - op.end, op.latency());
    let op = op.filter(|op| request.api_key != SYNC_GROUP || follows(op));
    op.map(|op| AppendJoin { op: Arc::clone(op), key: None })
}

/// The last append that began within a span, by a thread that may have answered. `latest` starts with the latest.
fn last_append<'w>(
    latest: impl Iterator<Item = &'w Arc<FileOp>>,
    record: &Record<'_>,
    span: TimeSpan,
) -> Option<&'w Arc<FileOp>> {
    let mut within = latest.take_while(|op| op.end > span.start).filter(|op| op.start >= span.start);
    within.find(|op| ThreadPool::of_name(&op.thread).is_some_and(|pool| record.is_of_pool(pool)))
}

/// Like `last_append` if the topic's number of partitions is unknown: `None` if several partitions were appended to.
fn only_append<'w>(window: &'w Window, record: &Record<'_>, span: TimeSpan) -> Option<&'w Arc<FileOp>> {
    let found: Vec<&Arc<FileOp>> = last_appends(window, record, span).take(2).collect();
    let [op] = found.as_slice() else { return None };
    Some(op)
}

/// Like `last_append` if the id is unknown: the topic's last append, if the response followed it at once. A response that waits
/// for another append follows this one only by chance, or because the same thread makes both.
fn answered_append<'w>(window: &'w Window, record: &Record<'_>, span: TimeSpan) -> Option<&'w Arc<FileOp>> {
    let last = last_appends(window, record, span).max_by_key(|op| op.end);
    last.filter(|op| is_handed_over(span.end - op.end, op.latency()))
}

/// The last append to each partition of the record's topic.
fn last_appends<'w>(
    window: &'w Window,
    record: &Record<'_>,
    span: TimeSpan,
) -> impl Iterator<Item = &'w Arc<FileOp>> {
    let is_of_topic =
        |op: &&Arc<FileOp>| op.topic_partition.as_ref().is_some_and(|of| &*of.topic == record.topic);
    window.partitions.all().filter_map(move |appends| {
        let latest = appends.ended_by(span.end).take_while(|op| op.end > span.start);
        last_append(latest.take_while(is_of_topic), record, span)
    })
}

/// The partition of an id (`Utils.abs(id.hashCode) % count`): Java hashes a string's UTF-16 units. `None` without
/// partitions.
fn partition_of(id: &str, count: i32) -> Option<i32> {
    let hash = id.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
    // `Utils.abs` of the minimum, which has no positive counterpart, is 0.
    hash.checked_abs().unwrap_or(0).checked_rem(count)
}

impl<'w> Breakdown<'w> {
    /// The append of the record that a coordinator had to write.
    pub(crate) fn coordinators_record(&self) -> Option<&'w FileOp> {
        self.appends.iter().find(|append| append.key.is_none()).map(|append| &*append.op)
    }

    /// The same append, if a thread of the coordinator or controller made it. `None` if a request handler did.
    pub(crate) fn coordinators_append(&self) -> Option<&'w FileOp> {
        let is_coordinators = |op: &&FileOp| ThreadPool::of_name(&op.thread) != Some(ThreadPool::Handlers);
        self.coordinators_record().filter(is_coordinators)
    }
}

/// When a coordinator's thread can have begun with its append.
/// Not before `enqueued_at`, and not before the thread and the partition were free. A partition is handled by one
/// thread at a time (`EventAccumulator`).
pub(crate) fn free_for(window: &Window, append: &FileOp, enqueued_at: Nanos) -> Nanos {
    let own = window.file_ops.of(&append.tid).ended_by(append.start).next();
    let partition = append.topic_partition.as_ref();
    let others = partition.and_then(|of| window.partitions.of(of).ended_by(append.start).next());
    let free = own.into_iter().chain(others).map(|op| op.end).max().unwrap_or(enqueued_at);
    free.max(enqueued_at).min(append.start.max(enqueued_at))
}

/// The end of a request's wait for the threads that had to work on its record; the thread that appended it was free
/// at `free`. The controller decides on a change before its raft thread can append it, and when is not seen.
pub(crate) fn awaited_until(append: &FileOp, free: Nanos) -> Nanos {
    let is_controllers = ThreadPool::of_name(&append.thread) == Some(ThreadPool::Raft);
    if is_controllers { append.start.max(free) } else { free }
}

#[cfg(test)]
mod tests {
    use super::partition_of;

    #[test]
    fn partition_of_an_id_matches_java_hash_code() {
        // jshell: Utils.abs("…".hashCode()) % n
        assert_eq!(
            partition_of("polygenelubricants", 50),
            Some(0),
            "the hash is the least number, whose abs is 0"
        );
        assert_eq!(partition_of("hello", 50), Some(99_162_322 % 50));
        assert_eq!(partition_of("Aa", 50), Some(2112 % 50));
        assert_eq!(partition_of("BB", 50), Some(2112 % 50));
        assert_eq!(partition_of("grüße", 50), Some(98_768_023 % 50));
        assert_eq!(
            partition_of("😀 group", 50),
            Some(1_570_619_006 % 50),
            "of a pair of units, and negative"
        );
        assert_eq!(partition_of("any", 0), None);
    }
}
