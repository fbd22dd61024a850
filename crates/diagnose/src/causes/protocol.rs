//! Kafka's own reasons: `quota`, `down-conversion`, `recompression`, `replication-wait`, `txn-verification`.
//!
//! - Since KIP-219 (Kafka 2.0) the broker answers at once and then reads nothing from a throttled connection.
//! - Message format 2 came with fetch version 4, format 1 with version 2 (KIP-98, KIP-32).
//! - Where only a batch's CRC differs, the broker has set the time of the append in it, which costs nothing.
//! - A fetcher has one request under way at a time (`AbstractFetcherThread.doWork`): a follower has records from the
//!   answer to its fetch before.
//! - A transactional producer has one transaction at a time (KIP-890).

use std::sync::Arc;

use model::api_key::FETCH;
use model::{
    Batch, BatchHead, Cause, Confidence, Evidence, EvidenceKind, FileOp, Nanos, Partition, Request,
    TopicPartition,
};

use crate::causes::candidate::CauseCandidate;
use crate::joins::{AppendJoin, JoinKey};
use crate::stages::response::Remote;
use crate::window::requests::follower;
use crate::window::{CLOCK_SLACK, Window};

/// The part of a stretch, in which a request lay unread, that the connection was muted; and why.
pub(crate) fn quota(
    window: &Window,
    request: &Request,
    start: Nanos,
    end: Nanos,
) -> Option<(Nanos, Nanos, CauseCandidate)> {
    let before = window.before_on_connection(request, start + CLOCK_SLACK)?;
    let throttled = Nanos::from_millis(before.throttle_ms.filter(|ms| *ms > 0)?.into());
    let muted_from = before.response?;
    let (from, until) = (muted_from.max(start), (muted_from + throttled).min(end));
    let client = request.client_id.as_deref().unwrap_or_default();
    (from < until).then(|| {
        let finding = CauseCandidate {
            cause: Cause::Quota,
            chain: vec![Cause::Quota],
            root: Arc::from(format!("{}:{client}:{}", Cause::Quota, request.client.ip())),
            confidence: Confidence::Exact,
            evidence: vec![Evidence {
                kind: EvidenceKind::Request,
                start: muted_from,
                end: muted_from + throttled,
                tid: None,
                thread: None,
                waiter: None,
                text: format!(
                    "the response to request {} ({}) said that its client is throttled for {throttled}",
                    before.correlation_id, before.api
                ),
            }],
            time: until - from,
            partition: None,
        };
        (from, until, finding)
    })
}

/// What a fetch's time was spent on between two moments.
pub(crate) fn down_conversion(
    window: &Window,
    request: &Request,
    (start, end): (Nanos, Nanos),
    mut take: impl FnMut(Nanos, Nanos) -> Nanos,
) -> Option<CauseCandidate> {
    let known = newest_format(request)?;
    let brought = request.partitions.iter().filter(|partition| partition.bytes > 0);
    let named = brought.filter_map(|partition| {
        let topic = Arc::clone(partition.topic.as_ref()?);
        Some(TopicPartition { topic, partition: partition.partition })
    });
    let (partition, written) = named
        .filter_map(|name| {
            let magic = window.partition(&name)?.ended_by(end).find_map(|append| append.batch)?.magic;
            Some((name, magic))
        })
        .find(|(_, magic)| *magic > known)?;
    let time = take(start, end);
    (time > Nanos::ZERO).then(|| CauseCandidate {
        cause: Cause::DownConversion,
        chain: vec![Cause::DownConversion],
        root: Arc::from(format!(
            "down-conversion:{}",
            request.client_id.as_deref().unwrap_or("unnamed clients")
        )),
        confidence: Confidence::Weak,
        evidence: vec![Evidence {
            kind: EvidenceKind::Request,
            start,
            end,
            tid: None,
            thread: None,
            waiter: None,
            text: format!(
                "the client fetches {partition} by version {}, which knows message format {known} at most; it is \
                 written in format {written}",
                request.api_version
            ),
        }],
        time,
        partition: Some(partition),
    })
}

/// The newest message format that a fetch can carry; none where it can carry all.
fn newest_format(request: &Request) -> Option<i8> {
    match (request.api_key, request.api_version) {
        (FETCH, 0..=1) => Some(0),
        (FETCH, 2..=3) => Some(1),
        _ => None,
    }
}

/// What a request's handler did with the batch of an append before it wrote it, between two moments.
pub(crate) fn recompression(
    request: &Request,
    append: &AppendJoin,
    (start, end): (Nanos, Nanos),
    mut take: impl FnMut(Nanos, Nanos) -> Nanos,
) -> Option<CauseCandidate> {
    let op = &append.op;
    let (partition, sent, written) = other_batch(request, op)?;
    let time = if append.key == JoinKey::BaseOffset { take(start, end) } else { Nanos::ZERO };
    (time > Nanos::ZERO).then(|| CauseCandidate {
        cause: Cause::Recompression,
        chain: vec![Cause::Recompression],
        root: Arc::from(format!("recompression:{}", partition.topic.as_deref().unwrap_or_default())),
        confidence: Confidence::Strong,
        evidence: vec![Evidence {
            kind: EvidenceKind::Request,
            start,
            end,
            tid: Some(op.tid),
            thread: Some(Arc::clone(&op.thread)),
            waiter: None,
            text: format!(
                "the broker wrote a batch of {} bytes for the {} bytes that it was sent: the handler compressed or \
                 converted it within {}",
                written.bytes,
                sent.bytes,
                end - start
            ),
        }],
        time,
        partition: op.topic_partition.clone(),
    })
}

/// The partition of a request that an append is of, where it wrote another batch than was sent: what was sent, and what it
/// wrote.
pub(crate) fn other_batch<'r>(
    request: &'r Request,
    op: &FileOp,
) -> Option<(&'r Partition, &'r Batch, BatchHead)> {
    let partition = request.partitions.iter().find(|partition| is_written_by(op, partition))?;
    let (sent, written) = (partition.batches.first()?, op.batch?);
    (sent.crc != written.crc && sent.bytes != written.bytes).then_some((partition, sent, written))
}

fn is_written_by(op: &FileOp, partition: &Partition) -> bool {
    op.topic_partition.as_ref().is_some_and(|named| {
        named.partition == partition.partition && partition.topic.as_ref() == Some(&named.topic)
    })
}

/// Why others took so long; `cause_of` says why this broker's answer to a follower did.
pub(crate) fn replication_wait(
    window: &Window,
    remote: &Remote,
    cause_of: impl FnOnce(&Request) -> Option<CauseCandidate>,
) -> Option<CauseCandidate> {
    let name = follower(&remote.fetch)?;
    let before = window.before_on_connection(&remote.fetch, remote.fetch.arrival_end);
    let time = remote.end - remote.start;
    let here = before.and_then(|before| Some((before.arrival_end, before.response?)));
    let within = |at: Nanos| at.clamp(remote.start, remote.end);
    let ours = here.map(|(asked, answered)| (within(answered) - within(asked)).at_least_zero());
    let is_most = |part: Nanos| part.0.saturating_mul(2) > time.0;
    let finding = CauseCandidate {
        cause: Cause::ReplicationWait,
        chain: vec![Cause::ReplicationWait],
        root: Arc::from(format!("{}:{}", Cause::ReplicationWait, broker(name))),
        confidence: if ours.is_some_and(|ours| !is_most(ours)) {
            Confidence::Exact
        } else {
            Confidence::Strong
        },
        evidence: vec![replication_evidence(remote, name, ours.unwrap_or_default())],
        time,
        partition: Some(remote.partition.clone()),
    };
    let deeper = before.filter(|_| ours.is_some_and(is_most)).and_then(|before| cause_of(before));
    let deeper = deeper.filter(|deeper| is_most(deeper.time));
    (time > Nanos::ZERO).then(|| match deeper {
        Some(deeper) => finding.behind(deeper),
        None => finding,
    })
}

/// `broker-2` of `broker-2-fetcher-0`.
fn broker(name: &str) -> &str {
    name.split("-fetcher").next().unwrap_or(name)
}

fn replication_evidence(remote: &Remote, name: &str, ours: Nanos) -> Evidence {
    let answered = match ours {
        Nanos::ZERO => String::new(),
        time => format!(", {time} of it from when its fetch before was here until it was answered"),
    };
    Evidence {
        kind: EvidenceKind::Request,
        start: remote.start,
        end: remote.end,
        tid: None,
        thread: None,
        waiter: None,
        text: format!(
            "waited {} until {} ({}) had the records of {} and fetched on{answered}",
            remote.end - remote.start,
            broker(name),
            remote.fetch.client.ip(),
            remote.partition
        ),
    }
}

/// What a produce request waited for between two moments.
pub(crate) fn txn_verification(
    window: &Window,
    request: &Request,
    (start, end): (Nanos, Nanos),
    mut take: impl FnMut(Nanos, Nanos) -> Nanos,
) -> Option<CauseCandidate> {
    let id = request.transactional_id.as_ref()?;
    let asked = window.trouble.verification(id, start, end)?;
    let time = take(asked.arrival, asked.last_seen());
    (time > Nanos::ZERO).then(|| CauseCandidate {
        cause: Cause::TxnVerification,
        chain: vec![Cause::TxnVerification],
        root: Arc::from(format!("txn-verification:{}", asked.broker)),
        confidence: Confidence::Strong,
        evidence: vec![Evidence {
            kind: EvidenceKind::Request,
            start: asked.arrival,
            end: asked.last_seen(),
            tid: None,
            thread: None,
            waiter: None,
            text: format!(
                "the coordinator at {} took {} to confirm the transaction's partition",
                asked.broker,
                asked.last_seen() - asked.arrival
            ),
        }],
        time,
        partition: None,
    })
}
