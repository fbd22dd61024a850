//! A request as JSON shows it: the field names of the command line's contract. Adds nothing that the
//! request does not say.

use model::{Batch, Partition, Request};
use serde::Serialize;

/// One request; times are UTC nanoseconds.
#[derive(Serialize)]
#[serde(tag = "type", rename = "request")]
pub struct RequestView<'a> {
    arrival_ns: i64,
    arrival_end_ns: i64,
    response_ns: Option<i64>,
    end_ns: Option<i64>,
    latency_ns: Option<i64>,
    head_of_line_ns: Option<i64>,
    data_ns: Option<i64>,
    api: &'a str,
    api_key: i16,
    api_version: i16,
    correlation_id: i32,
    client_id: Option<&'a str>,
    client: String,
    broker: String,
    request_bytes: u32,
    response_bytes: Option<u32>,
    acks: Option<i16>,
    transactional_id: Option<&'a str>,
    group_id: Option<&'a str>,
    min_bytes: Option<i32>,
    max_wait_ms: Option<i32>,
    throttle_ms: Option<i32>,
    error_code: Option<i16>,
    error: Option<&'a str>,
    partitions: Vec<PartitionView<'a>>,
}

#[derive(Serialize)]
struct PartitionView<'a> {
    topic: Option<&'a str>,
    topic_id: Option<String>,
    partition: i32,
    bytes: u32,
    records: Option<u32>,
    /// The first batch's.
    batch_crc: Option<u32>,
    fetch_offset: Option<i64>,
    base_offset: Option<i64>,
    error_code: Option<i16>,
    message_ids: Vec<&'a str>,
    batches: Vec<BatchView>,
}

#[derive(Serialize)]
struct BatchView {
    crc: u32,
    magic: i8,
    bytes: u32,
    records: u32,
    producer_id: i64,
    base_sequence: i32,
}

impl<'a> From<&'a Request> for RequestView<'a> {
    fn from(request: &'a Request) -> Self {
        Self {
            arrival_ns: request.arrival.0,
            arrival_end_ns: request.arrival_end.0,
            response_ns: request.response.map(|at| at.0),
            end_ns: request.end.map(|at| at.0),
            latency_ns: request.latency().map(|length| length.0),
            head_of_line_ns: request.head_of_line.map(|length| length.0),
            data_ns: request.data.map(|at| at.0),
            api: request.api,
            api_key: request.api_key,
            api_version: request.api_version,
            correlation_id: request.correlation_id,
            client_id: request.client_id.as_deref(),
            client: request.client.to_string(),
            broker: request.broker.to_string(),
            request_bytes: request.request_bytes,
            response_bytes: request.response_bytes,
            acks: request.acks,
            transactional_id: request.transactional_id.as_deref(),
            group_id: request.group_id.as_deref(),
            min_bytes: request.min_bytes,
            max_wait_ms: request.max_wait_ms,
            throttle_ms: request.throttle_ms,
            error_code: request.error_code,
            error: request.error.as_deref(),
            partitions: request.partitions.iter().map(PartitionView::from).collect(),
        }
    }
}

impl<'a> From<&'a Partition> for PartitionView<'a> {
    fn from(partition: &'a Partition) -> Self {
        Self {
            topic: partition.topic.as_deref(),
            topic_id: partition.topic_id.map(|id| id.to_string()),
            partition: partition.partition,
            bytes: partition.bytes,
            records: partition.records,
            batch_crc: partition.batches.first().map(|batch| batch.crc),
            fetch_offset: partition.fetch_offset,
            base_offset: partition.base_offset,
            error_code: partition.error_code,
            message_ids: partition.message_ids.iter().map(AsRef::as_ref).collect(),
            batches: partition.batches.iter().map(BatchView::from).collect(),
        }
    }
}

impl From<&Batch> for BatchView {
    fn from(batch: &Batch) -> Self {
        Self {
            crc: batch.crc,
            magic: batch.magic,
            bytes: batch.bytes,
            records: batch.records,
            producer_id: batch.producer_id,
            base_sequence: batch.base_sequence,
        }
    }
}
