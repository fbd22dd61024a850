//! A request as the wire showed it, paired with its response. Does not say why it was slow.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::{Nanos, TopicId};

row! {
    request_row =>
    /// One request and, where one was seen, its response.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Request {
        /// When the first byte of the request was seen at the broker.
        arrival: Nanos as "arrival_ns",
        /// When its last byte was seen.
        arrival_end: Nanos as "arrival_end_ns",
        /// When the first byte of the response was seen; none for acks=0, or if it was not captured.
        response: Option<Nanos> as "response_ns",
        /// When the last byte of the response was seen.
        end: Option<Nanos> as "end_ns"
            => latency: Option<Nanos> as "latency_ns" "First byte of the request to last byte of the response.",
        /// The part of the latency in which the request was complete but an earlier one of its connection was
        /// still unanswered (Kafka serves one request a connection at a time).
        head_of_line: Option<Nanos> as "head_of_line_ns",
        /// Fetch: when so much of what it brought was at the broker that `min_bytes` was reached: the last byte of
        /// the produce request that brought it. At most `arrival_end` where the data was there already; none where
        /// any of what was fetched is of a produce request that was not seen or cannot be told from another.
        data: Option<Nanos> as "data_ns",
        /// The API key as on the wire, known or not.
        api_key: i16,
        /// Kafka's name of the API (`PRODUCE`), or `UNKNOWN`.
        api: &'static str,
        /// The version of the API that the client used.
        api_version: i16,
        /// The client's number for this request on this connection.
        correlation_id: i32,
        /// What the client calls itself; may hold anything.
        client_id: Option<Arc<str>>,
        /// The client's end of the connection.
        client: SocketAddr,
        /// The broker's end of the connection.
        broker: SocketAddr,
        /// Bytes of the request's frame, without the four of its length.
        request_bytes: u32,
        /// Bytes of the response's frame, without the four of its length.
        response_bytes: Option<u32>,
        /// The TCP sequence number of the request's first byte (of the four of its length): the request ends
        /// `4 + request_bytes` later, modulo 2^32. None in recordings that do not say.
        sequence: Option<u32>,
        /// The same of its response, in the other direction.
        response_sequence: Option<u32>,
        /// Produce: 0, 1 or -1 (all).
        acks: Option<i16>,
        /// The transaction's id, where the request carries one.
        transactional_id: Option<Arc<str>>,
        /// The group's id, where the request carries one.
        group_id: Option<Arc<str>>,
        /// Fetch and `ShareFetch`: how many bytes the broker shall wait for.
        min_bytes: Option<i32>,
        /// Fetch and `ShareFetch`: how long it may wait for them, in milliseconds.
        max_wait_ms: Option<i32>,
        /// How long the broker says it throttled the client, in milliseconds.
        throttle_ms: Option<i32>,
        /// The error code of the response as a whole (0 is none), where it has one.
        error_code: Option<i16>,
        /// What could not be read of this request or its response.
        error: Option<Arc<str>>,
        /// The partitions the request names, in its order.
        partitions: Vec<Partition>,
    }
}

impl Request {
    /// A request on a connection, of which nothing else is known yet.
    pub fn new(client: SocketAddr, broker: SocketAddr) -> Self {
        Self {
            arrival: Nanos::ZERO,
            arrival_end: Nanos::ZERO,
            response: None,
            end: None,
            head_of_line: None,
            data: None,
            api_key: 0,
            api: "",
            api_version: 0,
            correlation_id: 0,
            client_id: None,
            client,
            broker,
            request_bytes: 0,
            response_bytes: None,
            sequence: None,
            response_sequence: None,
            acks: None,
            transactional_id: None,
            group_id: None,
            min_bytes: None,
            max_wait_ms: None,
            throttle_ms: None,
            error_code: None,
            error: None,
            partitions: Vec::new(),
        }
    }

    /// First byte of the request to last byte of the response.
    pub fn latency(&self) -> Option<Nanos> {
        self.end.map(|end| end - self.arrival)
    }

    /// The TCP sequence number after the request's last byte.
    pub fn sequence_end(&self) -> Option<u32> {
        self.sequence.map(|first| first.wrapping_add(4).wrapping_add(self.request_bytes))
    }

    /// The TCP sequence number after its response's last byte.
    pub fn response_sequence_end(&self) -> Option<u32> {
        let (first, bytes) = self.response_sequence.zip(self.response_bytes)?;
        Some(first.wrapping_add(4).wrapping_add(bytes))
    }

    /// When the last byte of it, or of its response, was seen.
    pub fn last_seen(&self) -> Nanos {
        self.end.unwrap_or(self.arrival_end)
    }
}

row! {
    partition_row =>
    /// One partition's share of a request.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct Partition {
        /// The topic's name; none where the wire carried only an id that nothing resolved.
        topic: Option<Arc<str>>,
        /// The topic's id, where the wire carried one.
        topic_id: Option<TopicId>,
        /// The partition's number.
        partition: i32,
        /// Bytes of that partition's records.
        bytes: u32,
        /// Records in them, where the batch headers could be read.
        records: Option<u32> as "records"
            => first_batch_crc: Option<u32> as "batch_crc" "The CRC of its first batch.",
        /// The record batches, in order; more than one only from old clients.
        batches: Vec<Batch>,
        /// Fetch: the first offset asked for.
        fetch_offset: Option<i64>,
        /// The offset the broker gave the first record.
        base_offset: Option<i64>,
        /// The broker's error code for this partition (0 is none).
        error_code: Option<i16>,
        /// Produce: when the newest of its records was made, by the producer's clock and to a millisecond; none where no batch says so.
        newest_record: Option<Nanos> as "newest_record_ns",
        /// Values of the record header that the user named, one a record that has it.
        message_ids: Vec<Arc<str>>,
    }
}

row! {
    batch_row =>
    /// What identifies a record batch: on the wire and again in the write of it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Batch {
        /// The message format: 0, 1 or 2.
        magic: i8,
        /// Magic 2: the CRC-32C that the broker keeps; magic 0 and 1: the CRC-32 of the (outer) message.
        crc: u32,
        /// Bytes of the batch on the wire, its 12 leading bytes included.
        bytes: u32,
        /// Records in the batch.
        records: u32,
        /// The idempotent producer's id, or -1.
        producer_id: i64,
        /// The idempotent producer's sequence number of the first record, or -1.
        base_sequence: i32,
    }
}

impl Partition {
    /// The CRC of its first batch.
    pub fn first_batch_crc(&self) -> Option<u32> {
        self.batches.first().map(|batch| batch.crc)
    }
}
