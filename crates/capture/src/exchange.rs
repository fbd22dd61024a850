//! The requests of one connection waiting for their responses. Kafka answers a connection's requests in
//! order, so a response that is not the first one's tells that the earlier ones' were lost.
//!
//! It does not decode bytes, and knows of TCP only that bytes may be missing.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use model::{Batch, Nanos, Partition, Request, RequestSource, TopicId};
use wire::stream::{
    FetchBody, Partition as WirePartition, ProduceBody, RequestBody, RequestFrame, ResponseBody,
    ResponseFrame, TopicRef,
};
use wire::{ApiKey, BatchHeader};

use crate::context::{Context, add_error, between};
use crate::reassembly::Stamp;

pub(crate) struct Exchange {
    client: SocketAddr,
    broker: SocketAddr,
    pending: VecDeque<PendingRequest>,
    /// Bytes of their rows.
    pending_bytes: usize,
    /// Bounds of the correlation ids in `pending`, so that a search through bytes that are no response
    /// is cheap.
    correlations: (i32, i32),
    /// When the last response seen ended.
    answered: Nanos,
    /// When the last bytes passed that are of a response to a request that was not seen.
    passed_over: Nanos,
    /// Bytes of the broker's answers that were not captured since the last response that was.
    answers_lost: u64,
    client_id: Option<Arc<str>>,
}

struct PendingRequest {
    api_key: ApiKey,
    /// A fetch that sees only what is committed: data may be there long before it may have it.
    read_committed: bool,
    bytes: usize,
    row: Box<Request>,
}

/// How much of a frame was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// As far as its end.
    Whole,
    /// Its end is among bytes that were not captured.
    Lost,
    /// The connection or the capture ended before it did.
    Cut,
}

model::named! {
    /// Why a request gets its row without a response.
    pub(crate) enum NoResponse {
        CaptureEnded = "no response before the capture ended",
        ConnectionEnded = "no response before the connection ended",
        LaterAnswered = "no response was captured, although a later request has one",
        TooLong = "no response before the timeout",
        TooMany = "no response yet, and too many requests are waiting",
        Forgotten = "no response yet, and too many connections are open",
    }
}

impl Exchange {
    pub(crate) fn new(client: SocketAddr, broker: SocketAddr) -> Self {
        Self {
            client,
            broker,
            pending: VecDeque::new(),
            pending_bytes: 0,
            correlations: (i32::MAX, i32::MIN),
            answered: Nanos::MIN,
            passed_over: Nanos::MIN,
            answers_lost: 0,
            client_id: None,
        }
    }

    /// Goes on with another connection, as nothing waits.
    pub(crate) fn restart(&mut self, client: SocketAddr, broker: SocketAddr) {
        let pending = std::mem::take(&mut self.pending);
        *self = Self { pending, ..Self::new(client, broker) };
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// What is kept, in bytes of memory.
    pub(crate) fn kept_bytes(&self) -> usize {
        let client_id = self.client_id.as_ref().map_or(0, |id| id.len());
        self.pending_bytes + self.pending.capacity() * size_of::<PendingRequest>() + client_id
    }

    /// A request was seen.
    pub(crate) fn request(&mut self, frame: &RequestFrame<Stamp>, extent: Extent, cx: &mut Context) {
        if cx.is_full() {
            cx.counters.dropped_requests += 1;
            return;
        }
        let mut row = of_request(frame, (self.client, self.broker), &mut self.client_id, cx);
        match extent {
            Extent::Whole if frame.api_key == ApiKey::PRODUCE => cx.arrivals.produced(&row, &cx.topics),
            Extent::Whole => {}
            Extent::Lost if row.error.is_some() => {}
            Extent::Lost => add_error(&mut row, "the end of the request was not captured"),
            Extent::Cut => row.error = Some("the capture ends inside the request".into()),
        }
        // Nothing is sent back for acks=0 (ProduceRequest, "acks").
        if row.acks == Some(0) {
            cx.emit(row);
            return;
        }
        let bytes = row.memory_bytes();
        self.make_room(bytes, cx);
        let (low, high) = self.correlations;
        self.correlations = (low.min(frame.correlation_id), high.max(frame.correlation_id));
        let read_committed = matches!(&frame.body, RequestBody::Fetch(body) if body.isolation_level != 0);
        self.pending.push_back(PendingRequest { api_key: frame.api_key, read_committed, bytes, row });
        self.pending_bytes += bytes;
    }

    /// What was asked under a correlation id and is not answered yet.
    pub(crate) fn asked(&self, correlation_id: i32) -> Option<(ApiKey, i16)> {
        let (low, high) = self.correlations;
        if correlation_id < low || correlation_id > high {
            return None;
        }
        let asked = self.pending.iter().find(|asked| asked.row.correlation_id == correlation_id)?;
        Some((asked.api_key, asked.row.api_version))
    }

    /// A response was seen.
    pub(crate) fn response(&mut self, frame: &ResponseFrame<Stamp>, extent: Extent, cx: &mut Context) {
        learn(&frame.body, cx);
        let place = self.pending.iter().position(|asked| asked.row.correlation_id == frame.correlation_id);
        let Some(place) = place else {
            cx.counters.unmatched_responses += 1;
            return;
        };
        for _ in 0..place {
            self.give_up_first(NoResponse::LaterAnswered, cx);
        }
        let Some(PendingRequest { api_key, read_committed, mut row, .. }) = self.take_first() else { return };
        self.stamp(&mut row, frame, extent);
        add_response(&mut row, frame, cx);
        match &frame.body {
            ResponseBody::Produce(_) => cx.arrivals.answered(&row, &cx.topics),
            ResponseBody::Fetch(body) if api_key == ApiKey::FETCH && is_whole(&row, extent) => {
                if !read_committed {
                    row.data = cx.arrivals.of_fetched(&row, &body.partitions, &cx.topics);
                }
                cx.arrivals.fetched(&row, &body.partitions);
            }
            _ => {}
        }
        match extent {
            Extent::Whole => {}
            Extent::Lost => add_error(&mut row, "the end of the response was not captured"),
            Extent::Cut => add_error(&mut row, "the capture ends inside the response"),
        }
        self.answers_lost = 0;
        cx.emit(row);
    }

    fn stamp(&mut self, row: &mut Request, frame: &ResponseFrame<Stamp>, extent: Extent) {
        row.response = Some(frame.first.seen);
        if extent == Extent::Whole {
            let end = frame.last.complete;
            row.end = Some(end);
            // What passed with its first byte may be its own.
            let ahead = Some(self.passed_over).filter(|passed| *passed < frame.first.seen);
            let answered = ahead.unwrap_or(Nanos::MIN).max(self.answered);
            row.head_of_line = Some(between(row.arrival_end, answered.min(end)));
            self.answered = end;
        } else {
            self.answered = frame.first.seen;
        }
    }

    /// The broker sent what is no part of a response to a request that was seen.
    pub(crate) fn pass_over(&mut self, at: Nanos) {
        self.passed_over = at;
    }

    /// So many bytes of the broker's responses were not captured.
    pub(crate) fn lose_answers(&mut self, bytes: u64) {
        self.answers_lost = self.answers_lost.saturating_add(bytes);
    }

    /// Gives their rows to requests that have waited too long.
    pub(crate) fn give_up_late(&mut self, now: Nanos, cx: &mut Context) {
        let answer_within = cx.limits.answer_within;
        while self.pending.front().is_some_and(|asked| now - asked.row.arrival_end > answer_within) {
            self.give_up_first(NoResponse::TooLong, cx);
        }
    }

    /// Gives their rows to all that still wait.
    pub(crate) fn give_up_all(&mut self, why: NoResponse, cx: &mut Context) {
        while self.is_waiting() {
            self.give_up_first(why, cx);
        }
    }

    /// Makes room for one more, of so many bytes.
    fn make_room(&mut self, bytes: usize, cx: &mut Context) {
        while self.is_waiting()
            && (self.pending.len() >= cx.limits.pending_per_connection
                || self.pending_bytes + bytes > cx.limits.pending_bytes())
        {
            self.give_up_first(NoResponse::TooMany, cx);
        }
    }

    fn give_up_first(&mut self, why: NoResponse, cx: &mut Context) {
        let Some(PendingRequest { mut row, .. }) = self.take_first() else { return };
        if cx.both_directions && !cx.pool.is_acknowledged {
            cx.counters.dropped_requests += 1;
            return;
        }
        add_error(&mut row, why.as_str());
        if self.answers_lost > 0 {
            add_error(
                &mut row,
                &format!("{} bytes of the broker's responses were not captured", self.answers_lost),
            );
        }
        cx.counters.unanswered += 1;
        cx.emit(row);
    }

    fn take_first(&mut self) -> Option<PendingRequest> {
        let asked = self.pending.pop_front()?;
        self.pending_bytes -= asked.bytes;
        if self.pending.is_empty() {
            self.correlations = (i32::MAX, i32::MIN);
        }
        Some(asked)
    }
}

/// Whether all of a request and its response was read.
fn is_whole(row: &Request, extent: Extent) -> bool {
    extent == Extent::Whole && row.error.is_none()
}

fn learn(body: &ResponseBody, cx: &mut Context) {
    let ResponseBody::Metadata { topics, replicas } = body else { return };
    for (id, name) in topics {
        if let Some(name) = name {
            cx.topics.learn(TopicId(*id), name);
        }
    }
    for (topic, partition, count) in replicas {
        let name = match topics.get(*topic as usize) {
            Some((_, Some(name))) => Some(cx.topics.shared(name)),
            Some((id, None)) => cx.topics.name_of(TopicId(*id)).cloned(),
            None => None,
        };
        if let Some(name) = name {
            cx.replicas.learn(&name, *partition, *count);
        }
    }
}

// A row from a request's frame, and what its response adds. Does not decide which belongs to which.

/// The row of a request without its response. `client_id` is the one last seen on the connection, so
/// that all its rows share one copy.
fn of_request(
    frame: &RequestFrame<Stamp>,
    (client, broker): (SocketAddr, SocketAddr),
    client_id: &mut Option<Arc<str>>,
    cx: &mut Context,
) -> Box<Request> {
    if client_id.as_deref() != frame.client_id.as_deref() {
        *client_id = frame.client_id.as_deref().map(Arc::from);
    }
    let mut row = Box::new(Request {
        arrival: frame.first.seen,
        arrival_end: frame.last.complete,
        api_key: frame.api_key.0,
        api: frame.api_key.name(),
        api_version: frame.api_version,
        correlation_id: frame.correlation_id,
        client_id: client_id.clone(),
        request_bytes: frame.size,
        sequence: cx.sequence(frame.stream_start),
        error: frame.error.map(|error| Arc::from(error.to_string())),
        seen_by: Some(if cx.is_plaintext { RequestSource::TlsAgent } else { RequestSource::Packets }),
        ..Request::new(client, broker)
    });
    match &frame.body {
        RequestBody::Produce(body) => add_produce(&mut row, body, cx),
        RequestBody::Fetch(body) => add_fetch(&mut row, body, cx),
        RequestBody::Ids(body) => {
            row.transactional_id = body.transactional_id.as_deref().map(Arc::from);
            row.group_id = body.group_id.as_deref().map(Arc::from);
        }
        RequestBody::Other => {}
    }
    row
}

/// The partitions asked for; the answer says what was fetched of them.
fn add_fetch(row: &mut Request, body: &FetchBody, cx: &mut Context) {
    row.group_id = body.group_id.as_deref().map(Arc::from);
    (row.min_bytes, row.max_wait_ms) = (body.min_bytes, body.max_wait_ms);
    row.partitions.reserve_exact(body.partitions.len());
    for asked in &body.partitions {
        let (topic, topic_id) = topic(&asked.topic, cx);
        row.partitions.push(Partition {
            topic,
            topic_id,
            partition: asked.partition,
            fetch_offset: asked.fetch_offset,
            ..Partition::default()
        });
    }
}

/// A topic's name and id, as far as the wire says.
fn topic(topic: &TopicRef, cx: &mut Context) -> (Option<Arc<str>>, Option<TopicId>) {
    match topic {
        TopicRef::Name(name) => (Some(cx.topics.shared(name)), None),
        TopicRef::Id(id) => (None, Some(TopicId(*id))),
    }
}

fn add_produce(row: &mut Request, body: &ProduceBody, cx: &mut Context) {
    row.acks = body.acks;
    row.transactional_id = body.transactional_id.as_deref().map(Arc::from);
    row.partitions.reserve_exact(body.partitions.len());
    for produced in &body.partitions {
        let partition = partition(produced, cx);
        if let Some(error) = produced.error {
            add_error(row, &format!("partition {}: {error}", produced.partition));
        }
        if produced.batches_omitted > 0 {
            let omitted = produced.batches_omitted;
            add_error(row, &format!("partition {}: {omitted} more batches not listed", produced.partition));
        }
        row.partitions.push(partition);
    }
}

fn partition(produced: &WirePartition, cx: &mut Context) -> Partition {
    let (topic, topic_id) = topic(&produced.topic, cx);
    Partition {
        topic,
        topic_id,
        partition: produced.partition,
        bytes: produced.bytes,
        records: records(produced),
        batches: produced.batches.iter().map(batch).collect(),
        newest_record: produced.batches.iter().filter_map(newest_record).max(),
        message_ids: produced.message_ids.iter().map(|id| Arc::from(id.as_str())).collect(),
        ..Partition::default()
    }
}

/// How many records it has, if all of it was read.
fn records(partition: &WirePartition) -> Option<u32> {
    partition.records.filter(|_| partition.error.is_none()).and_then(|n| u32::try_from(n).ok())
}

/// When the last of a batch's records was made: the producer says it with magic 1 and 2.
fn newest_record(header: &BatchHeader) -> Option<Nanos> {
    Some(header.max_timestamp_ms).filter(|ms| *ms >= 0).map(Nanos::from_millis)
}

fn batch(header: &BatchHeader) -> Batch {
    Batch {
        magic: header.magic,
        crc: header.crc,
        bytes: header.length_bytes,
        records: header.records().unwrap_or(0),
        producer_id: header.producer_id,
        base_sequence: header.base_sequence,
    }
}

/// Adds what the response says, its times apart.
fn add_response(row: &mut Request, frame: &ResponseFrame<Stamp>, cx: &mut Context) {
    row.response_bytes = Some(frame.size);
    row.response_sequence = cx.sequence(frame.stream_start);
    if let Some(error) = frame.error {
        add_error(row, &format!("response: {error}"));
    }
    row.throttle_ms = frame.throttle_ms;
    row.error_code = frame.error_code;
    match &frame.body {
        ResponseBody::Produce(partitions) => add_partitions(row, partitions, false, cx),
        ResponseBody::Fetch(body) => add_partitions(row, &body.partitions, true, cx),
        ResponseBody::Metadata { .. } | ResponseBody::Other => {}
    }
}

/// What the broker answered of the partitions asked for, which it lists in the request's order or groups differently. In a
/// fetch session (KIP-227) a request names only those that changed, and an answer those that have something: they come
/// after the ones named.
fn add_partitions(row: &mut Request, answers: &[WirePartition], is_fetch: bool, cx: &mut Context) {
    let mut places = HashMap::new();
    for (at, answer) in answers.iter().enumerate() {
        if let (true, Some(error)) = (is_fetch, answer.error) {
            add_error(row, &format!("response: partition {}: {error}", answer.partition));
        }
        let in_order = row.partitions.get(at).is_some_and(|asked| is_same(asked, answer));
        let place = if in_order { Some(at) } else { place_of(answer, row, &mut places, cx) };
        if let (true, None) = (is_fetch, place) {
            let (topic, topic_id) = topic(&answer.topic, cx);
            row.partitions.push(Partition {
                topic,
                topic_id,
                partition: answer.partition,
                ..Partition::default()
            });
        }
        let place = place.or(row.partitions.len().checked_sub(1).filter(|_| is_fetch));
        let Some(asked) = place.and_then(|place| row.partitions.get_mut(place)) else { continue };
        asked.error_code = Some(answer.error_code);
        if is_fetch {
            (asked.bytes, asked.records) = (answer.bytes, records(answer));
        } else {
            asked.base_offset = (answer.base_offset >= 0).then_some(answer.base_offset);
        }
    }
}

type PartitionKey = (Option<Arc<str>>, Option<TopicId>, i32);

/// Where the request names a partition; `places` is made for the first that is asked about.
fn place_of(
    answer: &WirePartition,
    row: &Request,
    places: &mut HashMap<PartitionKey, usize>,
    cx: &mut Context,
) -> Option<usize> {
    if places.is_empty() {
        let asked = row.partitions.iter().enumerate();
        places.extend(asked.map(|(at, asked)| ((asked.topic.clone(), asked.topic_id, asked.partition), at)));
    }
    let (topic, topic_id) = topic(&answer.topic, cx);
    places.get(&(topic, topic_id, answer.partition)).copied()
}

fn is_same(asked: &Partition, answered: &WirePartition) -> bool {
    asked.partition == answered.partition
        && match &answered.topic {
            TopicRef::Name(name) => asked.topic.as_deref() == Some(name),
            TopicRef::Id(id) => asked.topic_id == Some(TopicId(*id)),
        }
}

#[cfg(test)]
mod tests;
