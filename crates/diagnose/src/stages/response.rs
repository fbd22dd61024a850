//! Stages after the work on this broker: `remote`, `respond`, `network_out`.
//!
//! With acks=all the broker answers when the high watermark has passed what was written (`DelayedProduce`): when the
//! last in-sync follower has fetched the offset after it. A fetch's response is written in pieces, each partition's
//! records by `sendfile` (`MultiRecordsSend`): files that are read within those calls belong to `respond`, not to the
//! network. Over TLS the network thread reads the records into a buffer and encrypts them
//! (`SslTransportLayer.transferFrom`): then its reads of the request's partitions do.

use std::sync::Arc;

use model::{FileOp, FileOpKind, Nanos, Partition, Request, SocketOpKind, Stage, TopicPartition};

use crate::stages::{Breakdown, ends_with_write};
use crate::time::TimeSpan;
use crate::window::replicas::FollowerState;
use crate::window::requests::FollowerFetch;
use crate::window::sockets::SocketCall;
use crate::window::{CLOCK_SLACK, Window, connection_of};
use crate::{joins, waits};

/// Maximum time of the work from an append to its written response.
/// The work is a handler's computation until the response is queued, and the network thread's until it is written. It
/// takes longer only on an overloaded machine. If not all of a request was seen, a longer time may be something else.
const WORK: Nanos = Nanos::from_millis(3);

/// A wait for a follower.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    /// Until the follower's fetch had arrived at the broker.
    pub(crate) span: TimeSpan,
    /// The fetch that ended it.
    pub(crate) fetch: Arc<Request>,
    pub(crate) partition: TopicPartition,
}

/// A request's possible wait for followers whose fetches are not seen.
#[derive(Clone, Debug)]
pub(crate) struct UnseenFollowers {
    /// From the last append to the response.
    pub(crate) span: TimeSpan,
    /// The partition, if its topic's name is known.
    pub(crate) partition: Option<TopicPartition>,
    /// Its number of replicas, if known.
    pub(crate) replicas: Option<u32>,
}

impl UnseenFollowers {
    /// The part of it in a stretch.
    pub(crate) fn within(&self, stretch: TimeSpan) -> Self {
        let TimeSpan { start, end } = self.span.within(stretch);
        Self { span: TimeSpan::new(start, end.max(start)), ..self.clone() }
    }
}

impl Breakdown<'_> {
    /// From the last append to the response.
    pub(super) fn after_local(&mut self, local_end: Nanos) {
        let (window, request) = (self.window, self.request);
        if let Some(record) = self.coordinators_record() {
            return self.after_record(record, local_end);
        }
        let written = || request.partitions.iter().filter(|of| joins::is_written(of.error_code, of.bytes));
        let for_all = request.acks == Some(-1);
        if for_all {
            let span = TimeSpan::new(local_end, self.answered);
            let waits = written().filter_map(|partition| follower_wait(window, partition, span));
            self.remote = waits.max_by_key(|remote| remote.span.end);
        }
        if let Some(TimeSpan { end, .. }) = self.remote.as_ref().map(|remote| remote.span) {
            self.take(Stage::Remote, local_end, end);
            return self.respond(end);
        }
        if self.answered - local_end <= WORK {
            return self.respond(local_end);
        }
        // An append that was not seen may have come later, or a follower's fetch, some of which are never seen.
        let whole = written().count() == self.appends.len();
        // The client's acks are not always seen.
        let may_be_for_all = request.acks.is_none_or(|acks| acks == -1);
        let mut followed =
            written().filter(|_| may_be_for_all).map(|partition| follower_state(window, partition));
        let followed = followed.find(|(_, followed)| *followed != FollowerState::Alone);
        match followed {
            Some((partition, FollowerState::Unseen(replicas))) => {
                let span = TimeSpan::new(local_end, self.answered);
                self.unseen_followers = Some(UnseenFollowers { span, partition, replicas });
            }
            None if whole => self.respond(local_end),
            _ => {}
        }
    }

    /// A coordinator answers when all in-sync replicas have its record.
    fn after_record(&mut self, record: &FileOp, local_end: Nanos) {
        let span = TimeSpan::new(local_end, self.answered);
        let Some(partition) = &record.topic_partition else { return };
        let followed = self.window.follower_state(partition);
        let counted = record.batch.filter(|batch| batch.records > 0);
        let next = counted.map(|batch| batch.base_offset.saturating_add(batch.records.into()));
        self.remote = next.and_then(|next| wait_to_reach(self.window, partition, next, span));
        let end = self.remote.as_ref().map_or(local_end, |remote| remote.span.end);
        self.take(Stage::Remote, local_end, end);
        match followed {
            FollowerState::Unseen(replicas) if span.length() > WORK => {
                let partition = Some(partition.clone());
                self.unseen_followers = Some(UnseenFollowers { span, partition, replicas });
            }
            _ => self.respond(end),
        }
    }

    /// From the first byte of the response to its end.
    pub(super) fn leave(&mut self) {
        let sent = std::mem::take(&mut self.sent);
        for op in &sent {
            self.take(Stage::Respond, op.start.max(self.answered), op.end.min(self.end));
        }
        self.sent = sent;
        self.take(Stage::NetworkOut, self.answered, self.end);
    }

    /// From the end of the work to the first byte of the response.
    fn respond(&mut self, from: Nanos) {
        if self.answer.is_some() {
            self.take(Stage::Respond, from, self.answered);
        }
    }
}

/// The partition with its topic's name, if that is known.
pub(crate) fn named(partition: &Partition) -> Option<TopicPartition> {
    Some(TopicPartition { topic: Arc::clone(partition.topic.as_ref()?), partition: partition.partition })
}

/// The followers of a written partition; unknown without a topic name.
fn follower_state(window: &Window, partition: &Partition) -> (Option<TopicPartition>, FollowerState) {
    let name = named(partition);
    let followed = name.as_ref().map_or(FollowerState::Unseen(None), |name| window.follower_state(name));
    (name, followed)
}

/// The wait for followers to fetch a partition of a request, if any did.
fn follower_wait(window: &Window, partition: &Partition, span: TimeSpan) -> Option<Remote> {
    let records = i64::from(partition.records.or_else(|| records_of(partition))?);
    let next = partition.base_offset.filter(|offset| *offset >= 0)? + records;
    wait_to_reach(window, &named(partition)?, next, span)
}

/// The wait for followers to fetch a partition up to an offset, if any did.
fn wait_to_reach(window: &Window, partition: &TopicPartition, next: i64, span: TimeSpan) -> Option<Remote> {
    let FollowerFetch { at, fetch } =
        window.followers.last_to_reach(partition, next, span.end + CLOCK_SLACK)?;
    let end = (*at).clamp(span.start, span.end.max(span.start));
    let span = TimeSpan::new(span.start, end);
    Some(Remote { span, fetch: Arc::clone(fetch), partition: partition.clone() })
}

/// The number of records in its batches; `None` without batches or if one does not have it.
fn records_of(partition: &Partition) -> Option<u32> {
    let each = || partition.batches.iter().map(|batch| batch.records);
    (each().next().is_some() && each().all(|records| records > 0)).then(|| each().sum())
}

/// File reads that went into a response: the file's side of its thread's calls.
pub(crate) fn files_sent<'w>(
    window: &'w Window,
    request: &Request,
    answer: Option<SocketCall>,
) -> Vec<&'w FileOp> {
    let (Some(answer), Some(end)) = (answer, request.end) else { return Vec::new() };
    if ends_with_write(request) {
        let of_request =
            |op: &&FileOp| request.partitions.iter().any(|partition| named(partition) == op.topic_partition);
        let ops = window.file_ops.of(&answer.tid).overlapping(TimeSpan::new(answer.start, end));
        let reads = ops.map(|op| &**op).filter(|op| is_read(op.op) && op.topic_partition.is_some());
        return reads.filter(of_request).filter(|op| from_disk(window, op)).collect();
    }
    let calls: Vec<SocketCall> = window
        .sockets
        .writes_within(connection_of(request), answer, end)
        .filter(|call| call.kind == SocketOpKind::Sendfile)
        .copied()
        .collect();
    let (Some(first), Some(last)) = (calls.first(), calls.last()) else { return Vec::new() };
    let of_a_call =
        |op: &&FileOp| calls.iter().any(|call| op.start <= call.end && op.end >= call.start - CLOCK_SLACK);
    let around = TimeSpan::new(first.start - CLOCK_SLACK, last.end + CLOCK_SLACK);
    let ops = window.file_ops.of(&answer.tid).overlapping(around).map(|op| &**op);
    ops.filter(|op| is_read(op.op)).filter(of_a_call).filter(|op| from_disk(window, op)).collect()
}

/// Whether an operation reads a file or sends it.
pub(crate) fn is_read(op: FileOpKind) -> bool {
    matches!(op, FileOpKind::Sendfile | FileOpKind::Splice | FileOpKind::Read)
}

/// Whether some of what was read came from the device. It was not in the page cache, or still on its way there.
fn from_disk(window: &Window, op: &FileOp) -> bool {
    op.disk_bytes.is_some_and(|bytes| bytes > 0) || waits::device_read(window, op).is_some()
}
