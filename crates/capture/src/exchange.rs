//! The pending requests of one connection.
//! Kafka answers a connection's requests in order, so a response to any but the first one shows that the earlier
//! responses were lost.
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
    /// Lowest and highest correlation id in `pending`. They make a search through bytes that are not a response cheap.
    correlations: (i32, i32),
    /// When the last captured response ended.
    last_answer: Nanos,
    /// When the last bytes of a response to an uncaptured request were captured.
    last_unmatched: Nanos,
    /// Bytes of responses that were not captured since the last captured response.
    answers_lost: u64,
    client_id: Option<Arc<str>>,
}

struct PendingRequest {
    api_key: ApiKey,
    /// A read-committed fetch: data may be in the log long before the fetch may return it.
    read_committed: bool,
    bytes: usize,
    row: Box<Request>,
}

/// How much of a frame was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Everything up to its end.
    Whole,
    /// Its end is among bytes that were not captured.
    Lost,
    /// The connection or the capture ended within it.
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
            last_answer: Nanos::MIN,
            last_unmatched: Nanos::MIN,
            answers_lost: 0,
            client_id: None,
        }
    }

    /// Switches to another connection, while no request is pending.
    pub(crate) fn restart(&mut self, client: SocketAddr, broker: SocketAddr) {
        let pending = std::mem::take(&mut self.pending);
        *self = Self { pending, ..Self::new(client, broker) };
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Its memory in bytes.
    pub(crate) fn kept_bytes(&self) -> usize {
        let client_id = self.client_id.as_ref().map_or(0, |id| id.len());
        self.pending_bytes + self.pending.capacity() * size_of::<PendingRequest>() + client_id
    }

    /// Handles a request.
    pub(crate) fn request(&mut self, frame: &RequestFrame<Stamp>, extent: Extent, cx: &mut Context) {
        if cx.is_full() {
            cx.counters.dropped_requests += 1;
            return;
        }
        let mut row = of_request(frame, (self.client, self.broker), &mut self.client_id, cx);
        match extent {
            Extent::Whole if frame.api_key == ApiKey::PRODUCE => cx.arrivals.add_produced(&row, &cx.topics),
            Extent::Whole => {}
            Extent::Lost if row.error.is_some() => {}
            Extent::Lost => add_error(&mut row, "the end of the request was not captured"),
            Extent::Cut => row.error = Some("the capture ends inside the request".into()),
        }
        // Kafka sends no response to acks=0 (ProduceRequest, "acks").
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

    /// The API and version of the pending request with this correlation id.
    pub(crate) fn find_pending(&self, correlation_id: i32) -> Option<(ApiKey, i16)> {
        let (low, high) = self.correlations;
        if correlation_id < low || correlation_id > high {
            return None;
        }
        let pending = self.pending.iter().find(|pending| pending.row.correlation_id == correlation_id)?;
        Some((pending.api_key, pending.row.api_version))
    }

    /// Handles a response.
    pub(crate) fn response(&mut self, frame: &ResponseFrame<Stamp>, extent: Extent, cx: &mut Context) {
        learn(&frame.body, cx);
        let place =
            self.pending.iter().position(|pending| pending.row.correlation_id == frame.correlation_id);
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
            ResponseBody::Produce(_) => cx.arrivals.on_produce_response(&row, &cx.topics),
            ResponseBody::Fetch(body) if api_key == ApiKey::FETCH && is_whole(&row, extent) => {
                if !read_committed {
                    row.data = cx.arrivals.find_arrival(&row, &body.partitions, &cx.topics);
                }
                cx.arrivals.on_fetch_response(&row, &body.partitions);
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
            // Bytes captured together with its first byte may be its own.
            let is_before = self.last_unmatched < frame.first.seen;
            let previous_end =
                if is_before { self.last_answer.max(self.last_unmatched) } else { self.last_answer };
            row.head_of_line = Some(between(row.arrival_end, previous_end.min(end)));
            self.last_answer = end;
        } else {
            self.last_answer = frame.first.seen;
        }
    }

    /// Notes bytes from the broker that answer no captured request. They are not part of any response to one.
    pub(crate) fn note_unmatched(&mut self, at: Nanos) {
        self.last_unmatched = at;
    }

    /// Counts bytes of responses that were not captured.
    pub(crate) fn add_lost_answers(&mut self, bytes: u64) {
        self.answers_lost = self.answers_lost.saturating_add(bytes);
    }

    /// Emits the rows of requests that have waited too long.
    pub(crate) fn give_up_late(&mut self, now: Nanos, cx: &mut Context) {
        let answer_within = cx.limits.answer_within;
        while self.pending.front().is_some_and(|pending| now - pending.row.arrival_end > answer_within) {
            self.give_up_first(NoResponse::TooLong, cx);
        }
    }

    /// Emits the rows of all pending requests.
    pub(crate) fn give_up_all(&mut self, why: NoResponse, cx: &mut Context) {
        while self.is_waiting() {
            self.give_up_first(why, cx);
        }
    }

    /// Makes room for another request of this size.
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
        let pending = self.pending.pop_front()?;
        self.pending_bytes -= pending.bytes;
        if self.pending.is_empty() {
            self.correlations = (i32::MAX, i32::MIN);
        }
        Some(pending)
    }
}

/// Whether a request and its response were read completely.
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

// Builds a row from a request's frame and adds its response. Does not match them.

/// The row of a request without its response.
/// `client_id` is the last one on the connection, so that all rows share one copy.
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

/// Adds the requested partitions; the response adds what was fetched of them.
fn add_fetch(row: &mut Request, body: &FetchBody, cx: &mut Context) {
    row.group_id = body.group_id.as_deref().map(Arc::from);
    (row.min_bytes, row.max_wait_ms) = (body.min_bytes, body.max_wait_ms);
    row.partitions.reserve_exact(body.partitions.len());
    for requested in &body.partitions {
        let (topic, topic_id) = topic(&requested.topic, cx);
        row.partitions.push(Partition {
            topic,
            topic_id,
            partition: requested.partition,
            fetch_offset: requested.fetch_offset,
            ..Partition::default()
        });
    }
}

/// A topic's name and id, as far as the wire has them.
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

/// The number of records, if everything was read.
fn records(partition: &WirePartition) -> Option<u32> {
    partition.records.filter(|_| partition.error.is_none()).and_then(|n| u32::try_from(n).ok())
}

/// The time of a batch's newest record; magic 1 and 2 have the producer's.
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

/// Adds the response, except for its times.
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

/// Adds the broker's answers to the requested partitions. The broker lists them in the request's order or groups them
/// differently. In a fetch session (KIP-227), a request names only partitions that changed, and an answer those with
/// news: the ones not requested are appended.
fn add_partitions(row: &mut Request, answers: &[WirePartition], is_fetch: bool, cx: &mut Context) {
    let mut places = HashMap::new();
    for (at, answer) in answers.iter().enumerate() {
        if let (true, Some(error)) = (is_fetch, answer.error) {
            add_error(row, &format!("response: partition {}: {error}", answer.partition));
        }
        let in_order = row.partitions.get(at).is_some_and(|requested| is_same(requested, answer));
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
        let Some(requested) = place.and_then(|place| row.partitions.get_mut(place)) else { continue };
        requested.error_code = Some(answer.error_code);
        if is_fetch {
            (requested.bytes, requested.records) = (answer.bytes, records(answer));
        } else {
            requested.base_offset = (answer.base_offset >= 0).then_some(answer.base_offset);
        }
    }
}

type PartitionKey = (Option<Arc<str>>, Option<TopicId>, i32);

/// The index of a partition in the request; `places` is filled at the first lookup.
fn place_of(
    answer: &WirePartition,
    row: &Request,
    places: &mut HashMap<PartitionKey, usize>,
    cx: &mut Context,
) -> Option<usize> {
    if places.is_empty() {
        let requested = row.partitions.iter().enumerate();
        places.extend(
            requested.map(|(at, partition)| {
                ((partition.topic.clone(), partition.topic_id, partition.partition), at)
            }),
        );
    }
    let (topic, topic_id) = topic(&answer.topic, cx);
    places.get(&(topic, topic_id, answer.partition)).copied()
}

fn is_same(requested: &Partition, answer: &WirePartition) -> bool {
    requested.partition == answer.partition
        && match &answer.topic {
            TopicRef::Name(name) => requested.topic.as_deref() == Some(name),
            TopicRef::Id(id) => requested.topic_id == Some(TopicId(*id)),
        }
}

#[cfg(test)]
mod tests;
