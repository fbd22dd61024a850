//! Kafka's own reasons: `quota`, `down-conversion`, `recompression`, `replication-wait`, `txn-verification`.
//!
//! - Since KIP-219 (Kafka 2.0) the broker answers at once and then reads nothing from a throttled connection.
//! - Message format 2 came with fetch version 4, format 1 with version 2 (KIP-98, KIP-32).
//! - If only a batch's CRC differs, the broker has set the append time in it, which costs nothing.
//! - A fetcher has one request in flight at a time (`AbstractFetcherThread.doWork`): a follower has the records of
//!   the response to its previous fetch.
//! - A transactional producer has one transaction at a time (KIP-890).

use model::api_key::{FETCH, PRODUCE};
use model::{Batch, BatchHead, Cause, Confidence, Evidence, EvidenceKind, FileOp, Nanos, Partition, Request};

use crate::causes::candidate::{CauseCandidate, evidence};
use crate::causes::spec::{Current, Scope, broker, causes, change, change_from};
use crate::joins::{JoinKey, is_append_to};
use crate::stages::Breakdown;
use crate::stages::response::{Remote, named};
use crate::time::{Span, TimeBudget, TimeSpan};
use crate::window::requests::follower;
use crate::window::{CLOCK_SLACK, Window};

causes! {
    ReplicationWait: Root in Brokers, changed in Broker {
        event: "slow follower{s}",
        needs: "the fetch with which the last follower confirmed the records, by partition and offset",
        root_evidence: &[EvidenceKind::Request, EvidenceKind::Host],
        advice: &[
            "with acks=all a request waits until all in-sync replicas have it: look at the follower that is named, its disk, its CPU and the network to it",
            "if followers are merely behind under load: num.replica.fetchers, replica.fetch.max.bytes",
        ],
        source: "Kafka's documentation, monitoring: RemoteTimeMs; broker configuration: num.replica.fetchers",
        look_at: ", and the stage remote",
        changes: &[
            change(
                "the follower that `explain` names",
                "slow",
                "its own disk, CPU and network: run brokerscope there",
            ),
            change_from(
                "num.replica.fetchers (of the follower)",
                Current::Broker("num.replica.fetchers", "1"),
                "twice that, where it is merely behind",
            ),
        ],
        risk: "more fetchers are more connections and requests to every leader",
    }

    TxnVerification: Root in Records, changed in Broker {
        event: "slow transaction coordinator{s}",
        needs: "an AddPartitionsToTxn request of the same transactional id between the produce request and its append; never exact",
        root_evidence: &[EvidenceKind::Request, EvidenceKind::Host],
        advice: &[
            "an append of a transaction waited until the transaction's coordinator had confirmed the partition (KIP-890): look at that broker and at the disk under its __transaction_state partitions",
            "transaction.partition.verification.enable=false turns it off, and with it the protection from hanging transactions (KAFKA-14904)",
        ],
        source: "KAFKA-14904; KIP-890: the partition is confirmed with the coordinator before the append",
        changes: &[
            change(
                "the transaction's coordinator (another broker)",
                "slow",
                "the disk under its __transaction_state partitions: run brokerscope there",
            ),
            broker("transaction.partition.verification.enable", "true", "false, as a last resort").on(
                Scope::Broker,
                "transaction.partition.verification.enable",
                "false",
            ),
        ],
        risk: "without the verification a transaction may hang and keep consumers of committed records waiting",
    }

    Recompression: Root in Records, changed in Broker {
        event: "recompressed topic{s}",
        needs: "a batch whose CRC and size both differ between the request and the write at its base offset; never exact",
        root_evidence: &[EvidenceKind::Request, EvidenceKind::FileOp],
        advice: &[
            "the broker did not keep the batch as it was sent but compressed it itself: compression.type=producer on the topic keeps what producers chose",
            "message.timestamp.type=LogAppendTime and clients of an old message format make it rewrite batches, too",
        ],
        source: "Kafka's documentation, topic configuration: compression.type=producer retains the codec set by the producer",
        condition: "; if no requests were watched: compression.type of the broker is not producer",
        look_at: ", and the stage handler",
        changes: &[
            change_from(
                "compression.type (of the broker, and of the topics that `explain` names)",
                Current::Broker("compression.type", "producer"),
                "producer",
            )
            .on(Scope::Broker, "compression.type", "producer"),
            change_from(
                "message.timestamp.type",
                Current::Broker("log.message.timestamp.type", "CreateTime"),
                "CreateTime",
            )
            .on(Scope::Broker, "log.message.timestamp.type", "CreateTime"),
        ],
        effect: "",
        risk: "the broker stores what producers chose: those that do not compress take more of the disk and the network",
    }

    DownConversion: Root in Records, changed in Producer {
        event: "client{s} that need down-conversion",
        needs: "a fetch of a version that cannot carry the format in which the partition's batches are written; weak",
        root_evidence: &[EvidenceKind::Request, EvidenceKind::FileOp],
        proof: "stacks --for 10s while requests are slow: where the broker's threads are, on and off the CPU",
        advice: &[
            "a client asked for records in a format older than they are stored in, and the broker converts each batch for it: upgrade the client (Kafka 4.0 refuses such clients, KIP-896)",
        ],
        source: "Kafka's documentation, upgrade notes; KIP-896: Kafka 4.0 refuses such clients",
        changes: &[change(
            "the consumer's version (explain names its client id)",
            "one that knows only an older record format",
            "0.11 or later",
        )],
        effect: "; the broker sends such batches by sendfile again",
        risk: "a client upgrade may change other behaviour",
    }

    Quota: Root in Connection, changed in Producer {
        event: "client{s} over quota",
        needs: "a throttle time in the previous response of the connection, during which the request was not read (exact)",
        root_evidence: &[EvidenceKind::Request, EvidenceKind::Host],
        advice: &[
            "the client used more than its quota and the broker muted its connection for it: raise the quota (producer_byte_rate, consumer_byte_rate, request_percentage), or have the client send less",
        ],
        source: "Kafka's documentation, design: quotas; ClientQuotaManager",
        look_at: ", and throttle_ms of the requests",
        changes: &[change(
            "producer_byte_rate, consumer_byte_rate or request_percentage (kafka-configs, of the client)",
            "not known",
            "more, or none",
        )],
        effect: "; the broker must handle what the client then sends",
        risk: "what the quota protected is no longer protected",
    }
}

/// The part of a stretch in which a quota muted the connection, and the reason. A request lay unread in that stretch.
pub(crate) fn quota(
    window: &Window,
    request: &Request,
    span: TimeSpan,
) -> Option<(TimeSpan, CauseCandidate)> {
    let before = window.before_on_connection(request, span.start + CLOCK_SLACK)?;
    let throttled = Nanos::from_millis(before.throttle_ms.filter(|ms| *ms > 0)?.into());
    let muted_from = before.response?;
    let muted = TimeSpan::new(muted_from, muted_from + throttled);
    let unread = Some(muted.within(span)).filter(|unread| !unread.is_empty())?;
    let text = format!(
        "the response to request {} ({}) throttled its client for {throttled}",
        before.correlation_id, before.api
    );
    let client = request.client_id.as_deref().unwrap_or_default();
    let key = format!("{client}:{}", request.client.ip());
    let candidate = CauseCandidate::new(Cause::Quota, key, Confidence::Exact, unread.length());
    Some((unread, candidate.with([evidence(EvidenceKind::Request, &muted, text)])))
}

/// Down-conversion of a fetch's records in a span.
pub(crate) fn down_conversion(
    breakdown: &Breakdown<'_>,
    span: TimeSpan,
    free: &mut TimeBudget,
) -> Option<CauseCandidate> {
    let request = breakdown.request;
    let known = newest_format(request)?;
    let mut partitions = request.partitions.iter().filter(|partition| partition.bytes > 0).filter_map(named);
    let (partition, written) = partitions.find_map(|name| {
        let mut appends = breakdown.window.partitions.of(&name).ended_by(span.end);
        let magic = appends.find_map(|append| append.batch)?.magic;
        (magic > known).then_some((name, magic))
    })?;
    let time = free.take_any(span)?;
    let text = format!(
        "the client fetches {partition} with fetch version {}, which supports message format {known} at most; the partition \
         is written in format {written}",
        request.api_version
    );
    let client = request.client_id.as_deref().unwrap_or("unnamed clients");
    let candidate = CauseCandidate::new(Cause::DownConversion, client, Confidence::Weak, time);
    Some(candidate.with([evidence(EvidenceKind::Request, &span, text)]).of_partition(Some(partition)))
}

/// The newest message format that a fetch can carry; `None` if it can carry all.
fn newest_format(request: &Request) -> Option<i8> {
    match (request.api_key, request.api_version) {
        (FETCH, 0..=1) => Some(0),
        (FETCH, 2..=3) => Some(1),
        _ => None,
    }
}

/// The handler's work on the batch of a request's first append before the write.
pub(crate) fn recompression(breakdown: &Breakdown<'_>, free: &mut TimeBudget) -> Option<CauseCandidate> {
    let append = breakdown.appends.first().filter(|append| append.key == Some(JoinKey::BaseOffset))?;
    let op = &append.op;
    let span = TimeSpan::new(breakdown.dequeued_at?, op.start.min(breakdown.answered));
    let (partition, sent, written) = other_batch(breakdown.request, op)?;
    let topic = partition.topic.as_deref()?;
    let time = free.take_any(span)?;
    let (bytes, length) = (written.bytes, span.length());
    let text = format!(
        "the broker wrote a batch of {bytes} bytes for the {} bytes that it was sent: the handler compressed or converted \
         it within {length}",
        sent.bytes
    );
    let candidate = CauseCandidate::new(Cause::Recompression, topic, Confidence::Strong, time);
    let seen = evidence(EvidenceKind::Request, &span, text).of_thread(op.tid, &op.thread);
    Some(candidate.with([seen]).of_partition_of(op))
}

/// The partition of a request to which an append wrote another batch than was sent.
/// Returned with the batch that was sent and the batch that was written.
pub(crate) fn other_batch<'r>(
    request: &'r Request,
    op: &FileOp,
) -> Option<(&'r Partition, &'r Batch, BatchHead)> {
    let partition = request.partitions.iter().find(|partition| is_append_to(op, partition))?;
    let (sent, written) = (partition.batches.first()?, op.batch?);
    (sent.crc != written.crc && sent.bytes != written.bytes).then_some((partition, sent, written))
}

/// Why followers took so long; `cause_of` explains why this broker was slow to answer a follower.
pub(crate) fn replication_wait(
    window: &Window,
    remote: &Remote,
    cause_of: impl FnOnce(&Request) -> Option<CauseCandidate>,
) -> Option<CauseCandidate> {
    let name = follower(&remote.fetch)?;
    let span = remote.span;
    let before = window.before_on_connection(&remote.fetch, remote.fetch.arrival_end);
    let here = before.and_then(|before| Some(TimeSpan::new(before.arrival_end, before.response?)));
    let ours = here.map(|here| here.overlap(span));
    let is_ours = ours.is_some_and(|ours| span.is_most(ours));
    let confidence = if ours.is_some() && !is_ours { Confidence::Exact } else { Confidence::Strong };
    let candidate = CauseCandidate::new(Cause::ReplicationWait, broker_name(name), confidence, span.length())
        .with([replication_evidence(remote, name, ours.unwrap_or_default())])
        .of_partition(Some(remote.partition.clone()));
    let deeper = before.filter(|_| is_ours).and_then(|before| cause_of(before));
    let deeper = deeper.filter(|deeper| span.is_most(deeper.time));
    (!span.is_empty()).then(|| candidate.behind_any(deeper))
}

/// `broker-2` of `broker-2-fetcher-0`.
fn broker_name(client_id: &str) -> &str {
    client_id.split("-fetcher").next().unwrap_or(client_id)
}

fn replication_evidence(remote: &Remote, name: &str, ours: Nanos) -> Evidence {
    let answered = match ours {
        Nanos::ZERO => String::new(),
        time => format!(", {time} of it while its previous fetch waited for this broker's response"),
    };
    let text = format!(
        "waited {} until {} ({}) had the records of {} and fetched on{answered}",
        remote.span.length(),
        broker_name(name),
        remote.fetch.client.ip(),
        remote.partition
    );
    evidence(EvidenceKind::Request, &remote.span, text)
}

/// A produce request's wait for a transaction coordinator before its first append.
pub(crate) fn txn_verification(breakdown: &Breakdown<'_>, free: &mut TimeBudget) -> Option<CauseCandidate> {
    let span = TimeSpan::new(breakdown.served_from, breakdown.appends.first()?.op.start);
    let is_produce = breakdown.request.api_key == PRODUCE;
    let id = breakdown.request.transactional_id.as_ref().filter(|_| is_produce)?;
    let verification = breakdown.window.troubles.verification(id, span)?;
    let time = free.take_any(verification.span().within(span))?;
    let (coordinator, length) = (verification.broker, verification.span().length());
    let text =
        format!("the coordinator at {coordinator} took {length} to confirm the transaction's partition");
    let candidate = CauseCandidate::new(Cause::TxnVerification, coordinator, Confidence::Strong, time);
    Some(candidate.with([evidence(EvidenceKind::Request, verification, text)]))
}
