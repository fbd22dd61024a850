//! A row from a request's frame, and what its response adds. Does not decide which belongs to which.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use model::{Batch, Nanos, Partition, Request, TopicId};
use wire::BatchHeader;
use wire::stream::{
    FetchBody, Partition as WirePartition, ProduceBody, RequestBody, RequestFrame, ResponseBody,
    ResponseFrame, TopicRef,
};

use crate::context::{Context, add_error};
use crate::reassembly::Stamp;

/// The row of a request without its response. `client_id` is the one last seen on the connection, so
/// that all its rows share one copy.
pub(super) fn of_request(
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
        response: None,
        end: None,
        head_of_line: None,
        data: None,
        api_key: frame.api_key.0,
        api: frame.api_key.name(),
        api_version: frame.api_version,
        correlation_id: frame.correlation_id,
        client_id: client_id.clone(),
        client,
        broker,
        request_bytes: frame.size,
        response_bytes: None,
        sequence: Some(frame.stream_start as u32),
        response_sequence: None,
        acks: None,
        transactional_id: None,
        group_id: None,
        min_bytes: None,
        max_wait_ms: None,
        throttle_ms: None,
        error_code: None,
        error: frame.error.map(|error| Arc::from(error.to_string())),
        partitions: Vec::new(),
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
        records: produced.records.filter(|_| produced.error.is_none()).and_then(|n| u32::try_from(n).ok()),
        batches: produced.batches.iter().map(batch).collect(),
        fetch_offset: None,
        base_offset: None,
        error_code: None,
        newest_record: produced.batches.iter().filter_map(newest_record).max(),
        message_ids: produced.message_ids.iter().map(|id| Arc::from(id.as_str())).collect(),
    }
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
pub(super) fn add_response(row: &mut Request, frame: &ResponseFrame<Stamp>, cx: &mut Context) {
    row.response_bytes = Some(frame.size);
    row.response_sequence = Some(frame.stream_start as u32);
    if let Some(error) = frame.error {
        add_error(row, &format!("response: {error}"));
    }
    row.throttle_ms = frame.throttle_ms;
    row.error_code = frame.error_code;
    match &frame.body {
        ResponseBody::Produce { partitions, .. } => add_produced(&mut row.partitions, partitions, cx),
        ResponseBody::Fetch(body) => add_fetched(row, &body.partitions, cx),
        ResponseBody::Metadata { .. } | ResponseBody::Other => {}
    }
}

/// What was fetched of the partitions asked for. In a fetch session (KIP-227) a request names only those
/// that changed, and an answer those that have something: they come after the ones named.
fn add_fetched(row: &mut Request, fetched: &[WirePartition], cx: &mut Context) {
    let mut places = HashMap::new();
    for (place, asked) in row.partitions.iter().enumerate() {
        places.insert((asked.topic.clone(), asked.topic_id, asked.partition), place);
    }
    for answered in fetched {
        if let Some(error) = answered.error {
            add_error(row, &format!("response: partition {}: {error}", answered.partition));
        }
        let (topic, topic_id) = topic(&answered.topic, cx);
        let place = places.get(&(topic.clone(), topic_id, answered.partition)).copied();
        let place = place.unwrap_or(row.partitions.len());
        if place == row.partitions.len() {
            let partition = answered.partition;
            row.partitions.push(Partition { topic, topic_id, partition, ..Partition::default() });
        }
        let Some(partition) = row.partitions.get_mut(place) else { continue };
        partition.bytes = answered.bytes;
        partition.error_code = Some(answered.error_code);
        partition.records =
            answered.records.filter(|_| answered.error.is_none()).and_then(|n| u32::try_from(n).ok());
    }
}

/// Brokers list partitions in the request's order or group them differently; the first is tried first.
fn add_produced(partitions: &mut [Partition], produced: &[WirePartition], cx: &mut Context) {
    let in_order = partitions.len() == produced.len()
        && partitions.iter().zip(produced).all(|(asked, answered)| is_same(asked, answered));
    if in_order {
        for (asked, answered) in partitions.iter_mut().zip(produced) {
            fill(asked, answered);
        }
        return;
    }
    let mut by_name = HashMap::new();
    for answered in produced {
        let (topic, topic_id) = topic(&answered.topic, cx);
        by_name.insert((topic, topic_id, answered.partition), answered);
    }
    for asked in partitions {
        if let Some(answered) = by_name.get(&(asked.topic.clone(), asked.topic_id, asked.partition)) {
            fill(asked, answered);
        }
    }
}

fn is_same(asked: &Partition, answered: &WirePartition) -> bool {
    asked.partition == answered.partition
        && match &answered.topic {
            TopicRef::Name(name) => asked.topic.as_deref() == Some(name),
            TopicRef::Id(id) => asked.topic_id == Some(TopicId(*id)),
        }
}

fn fill(asked: &mut Partition, answered: &WirePartition) {
    asked.error_code = Some(answered.error_code);
    asked.base_offset = (answered.base_offset >= 0).then_some(answered.base_offset);
}
