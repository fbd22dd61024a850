//! A request as the wire showed it, paired with its response. Does not say why it was slow.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::{Nanos, TopicId};

/// One request and, where one was seen, its response.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// When the first byte of the request was seen at the broker.
    pub arrival: Nanos,
    /// When its last byte was seen.
    pub arrival_end: Nanos,
    /// When the first byte of the response was seen; none for acks=0, or if it was not captured.
    pub response: Option<Nanos>,
    /// When the last byte of the response was seen.
    pub end: Option<Nanos>,
    /// The part of the latency in which the request was complete but an earlier one of its connection was
    /// still unanswered (Kafka serves one request a connection at a time).
    pub head_of_line: Option<Nanos>,
    /// Fetch: when so much of what it brought was at the broker that `min_bytes` was reached: the last byte of
    /// the produce request that brought it. At most `arrival_end` where the data was there already; none where
    /// any of what was fetched is of a produce request that was not seen or cannot be told from another.
    pub data: Option<Nanos>,
    /// The API key as on the wire, known or not.
    pub api_key: i16,
    /// Kafka's name of the API (`PRODUCE`), or `UNKNOWN`.
    pub api: &'static str,
    /// The version of the API that the client used.
    pub api_version: i16,
    /// The client's number for this request on this connection.
    pub correlation_id: i32,
    /// What the client calls itself; may hold anything.
    pub client_id: Option<Arc<str>>,
    /// The client's end of the connection.
    pub client: SocketAddr,
    /// The broker's end of the connection.
    pub broker: SocketAddr,
    /// Bytes of the request's frame, without the four of its length.
    pub request_bytes: u32,
    /// Bytes of the response's frame, without the four of its length.
    pub response_bytes: Option<u32>,
    /// The TCP sequence number of the request's first byte (of the four of its length): the request ends
    /// `4 + request_bytes` later, modulo 2^32. None in recordings that do not say.
    pub sequence: Option<u32>,
    /// The same of its response, in the other direction.
    pub response_sequence: Option<u32>,
    /// Produce: 0, 1 or -1 (all).
    pub acks: Option<i16>,
    /// The transaction's id, where the request carries one.
    pub transactional_id: Option<Arc<str>>,
    /// The group's id, where the request carries one.
    pub group_id: Option<Arc<str>>,
    /// Fetch and `ShareFetch`: how many bytes the broker shall wait for.
    pub min_bytes: Option<i32>,
    /// Fetch and `ShareFetch`: how long it may wait for them, in milliseconds.
    pub max_wait_ms: Option<i32>,
    /// How long the broker says it throttled the client, in milliseconds.
    pub throttle_ms: Option<i32>,
    /// The error code of the response as a whole (0 is none), where it has one.
    pub error_code: Option<i16>,
    /// What could not be read of this request or its response.
    pub error: Option<Arc<str>>,
    /// The partitions the request names, in its order.
    pub partitions: Vec<Partition>,
}

impl Request {
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

/// One partition's share of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Partition {
    /// The topic's name; none where the wire carried only an id that nothing resolved.
    pub topic: Option<Arc<str>>,
    /// The topic's id, where the wire carried one.
    pub topic_id: Option<TopicId>,
    /// The partition's number.
    pub partition: i32,
    /// Bytes of that partition's records.
    pub bytes: u32,
    /// Records in them, where the batch headers could be read.
    pub records: Option<u32>,
    /// The record batches, in order; more than one only from old clients.
    pub batches: Vec<Batch>,
    /// Fetch: the first offset asked for.
    pub fetch_offset: Option<i64>,
    /// The offset the broker gave the first record.
    pub base_offset: Option<i64>,
    /// The broker's error code for this partition (0 is none).
    pub error_code: Option<i16>,
    /// Produce: when the newest of its records was made, by the producer's clock and to a millisecond; none where no batch says so.
    pub newest_record: Option<Nanos>,
    /// Values of the record header that the user named, one a record that has it.
    pub message_ids: Vec<Arc<str>>,
}

/// What identifies a record batch: on the wire and again in the write of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Batch {
    /// The message format: 0, 1 or 2.
    pub magic: i8,
    /// Magic 2: the CRC-32C that the broker keeps; magic 0 and 1: the CRC-32 of the (outer) message.
    pub crc: u32,
    /// Bytes of the batch on the wire, its 12 leading bytes included.
    pub bytes: u32,
    /// Records in the batch.
    pub records: u32,
    /// The idempotent producer's id, or -1.
    pub producer_id: i64,
    /// The idempotent producer's sequence number of the first record, or -1.
    pub base_sequence: i32,
}
