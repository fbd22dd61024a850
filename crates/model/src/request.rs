//! A request as seen on the wire, paired with its response, and how it ended: answered, failed, or delayed on purpose.
//! Does not say why it was slow.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::api_key::{FETCH, JOIN_GROUP, SHARE_FETCH, SYNC_GROUP};
use crate::row_summary::RequestColumns;
use crate::{Nanos, Row, TopicId};

row! {
    request_row =>
    /// One request and, where one was seen, its response.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Request {
        /// When the first byte of the request was seen at the broker.
        arrival: Nanos as "arrival_ns",
        /// When its last byte was seen.
        arrival_end: Nanos as "arrival_end_ns",
        /// When the first byte of the response was seen; none with acks=0, or if it was not captured.
        response: Option<Nanos> as "response_ns",
        /// When the last byte of the response was seen.
        end: Option<Nanos> as "end_ns"
            => latency: Option<Nanos> as "latency_ns" "First byte of the request to last byte of the response.",
        /// The part of the latency in which the request was complete but an earlier one of its connection was
        /// still unanswered (Kafka serves one request of a connection at a time).
        head_of_line: Option<Nanos> as "head_of_line_ns",
        /// Fetch: when enough of the data it returned had reached the broker for `min_bytes`: the last byte of the
        /// produce request that brought it. At most `arrival_end` if the data was there already. If a produce request
        /// was not seen or cannot be distinguished from another: when a response first reported a high watermark above
        /// the data, if that was before the fetch arrived and enough data lay below it; else none. If the fetch
        /// returned nothing: the same for the offset that it requested.
        data: Option<Nanos> as "data_ns",
        /// The API key as on the wire, known or not.
        api_key: i16,
        /// Kafka's name of the API (`PRODUCE`), or `UNKNOWN`.
        api: &'static str,
        /// The version of the API that the client used.
        api_version: i16,
        /// The client's number for this request on this connection.
        correlation_id: i32,
        /// The name that the client gives itself; may contain anything.
        client_id: Option<Arc<str>>,
        /// The client's end of the connection.
        client: SocketAddr,
        /// The broker's end of the connection.
        broker: SocketAddr,
        /// Bytes of the request's frame, without the four of its length; 0 from Kafka's request log, which does not
        /// say.
        request_bytes: u32,
        /// Bytes of the response's frame, without the four of its length.
        response_bytes: Option<u32>,
        /// The TCP sequence number of the request's first byte (the first of the four of its length): the request ends
        /// `4 + request_bytes` later, modulo 2^32. None in recordings that do not say.
        sequence: Option<u32>,
        /// The TCP sequence number of the response's first byte, in the other direction.
        response_sequence: Option<u32>,
        /// Produce: 0, 1 or -1 (all).
        acks: Option<i16>,
        /// The transaction's id, where the request carries one.
        transactional_id: Option<Arc<str>>,
        /// The group's id, where the request carries one.
        group_id: Option<Arc<str>>,
        /// Fetch and `ShareFetch`: how many bytes the broker should wait for.
        min_bytes: Option<i32>,
        /// Fetch and `ShareFetch`: how long it may wait for them, in milliseconds.
        max_wait_ms: Option<i32>,
        /// How long the broker throttled the client, as its response reports, in milliseconds.
        throttle_ms: Option<i32>,
        /// The error code of the whole response (0 is none), where it has one.
        error_code: Option<i16>,
        /// The part of this request or its response that could not be read.
        error: Option<Arc<str>>,
        /// The source of its times and bytes: `packets`, `socket-calls` with `--watch always-on`, `tls-agent` with
        /// `--see-tls`, or `request-log` with `--request-log`. None in recordings that do not say.
        seen_by: Option<RequestSource>,
        /// With `--see-tls`, if the kernel saw its bytes arrive: when the broker's first call for it began. Otherwise that
        /// is `arrival_ns`.
        read: Option<Nanos> as "read_ns",
        /// Likewise, when the broker's last call for it ended. Otherwise that is `arrival_end_ns`.
        read_end: Option<Nanos> as "read_end_ns",
        /// From Kafka's request log: from `arrival_ns` until a request handler took it.
        queue: Option<Nanos> as "queue_ns",
        /// From Kafka's request log: then until the work on this broker was done.
        local: Option<Nanos> as "local_ns",
        /// From Kafka's request log: then until other brokers had done theirs. The rest until `response_ns` is the
        /// response's queue.
        remote: Option<Nanos> as "remote_ns",
        /// The partitions the request names, in its order.
        partitions: Vec<Partition>,
    }
}

impl Partition {
    fn memory_bytes(&self) -> usize {
        let name = self.topic.as_ref().map_or(0, |name| name.len());
        let ids: usize = self.message_ids.iter().map(|id| 4 * size_of::<usize>() + id.len()).sum();
        size_of::<Self>() + name + size_of_val(&*self.batches) + ids
    }
}

impl Request {
    /// A request on a connection, with nothing else known yet.
    pub fn new(client: SocketAddr, broker: SocketAddr) -> Self {
        Self { client, broker, ..Row::empty() }
    }

    /// Approximate size in memory, in bytes; a shared name counts each time.
    pub fn memory_bytes(&self) -> usize {
        let texts = [&self.client_id, &self.transactional_id, &self.group_id, &self.error];
        let texts: usize = texts.into_iter().flatten().map(|text| text.len()).sum();
        let partitions: usize = self.partitions.iter().map(Partition::memory_bytes).sum();
        size_of::<Self>() + texts + partitions
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
}

named! {
    /// The source that saw a request.
    pub enum RequestSource {
        /// Its packets: all of both frames, and when their bytes came and left.
        Packets = "packets",
        /// The broker's calls on its socket (`--watch always-on`): from the first byte in the socket to the last byte
        /// that the broker wrote, and only the heads of both frames.
        SocketCalls = "socket-calls",
        /// The agent in the broker's JVM (`--see-tls`): all of both frames, and when the broker's calls for them began and
        /// ended.
        TlsAgent = "tls-agent",
        /// Kafka's request log (`--request-log`): times by Kafka's own clock, its end by when the line was written,
        /// and no bytes of frames.
        RequestLog = "request-log",
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
        /// Fetch: the first requested offset.
        fetch_offset: Option<i64>,
        /// The offset that the broker gave the first record.
        base_offset: Option<i64>,
        /// The broker's error code for this partition (0 is none).
        error_code: Option<i16>,
        /// Produce: when its newest record was created, by the producer's clock, to the millisecond; none if no batch
        /// says so.
        newest_record: Option<Nanos> as "newest_record_ns",
        /// Values of the record header that the user named, one for each record that has it.
        message_ids: Vec<Arc<str>>,
    }
}

row! {
    batch_row =>
    /// The fields that identify a record batch, on the wire and again in its write.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Batch {
        /// The message format: 0, 1 or 2.
        magic: i8,
        /// Magic 2: the CRC-32C that the broker keeps; magic 0 and 1: the CRC-32 of the (outer) message.
        crc: u32,
        /// Bytes of the batch on the wire, its 12 leading bytes included.
        bytes: u32,
        /// Records in the batch; 0 if its head does not say: for a compressed message of magic 0 or 1.
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

/// The topic that KRaft's controllers keep (`Topic.CLUSTER_METADATA_TOPIC_NAME`). Its id is `Uuid.METADATA_TOPIC_ID`.
pub const METADATA_TOPIC: &str = "__cluster_metadata";
const METADATA_TOPIC_ID: TopicId = TopicId([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

/// Kafka's error code for "no error".
const NONE: i16 = 0;

/// How much later than allowed a long poll may end. Covers the broker's timer and the network.
const OVERRUN: Nanos = Nanos::from_millis(50);

named! {
    /// Why a broker delays a request on purpose. The client requested that time: it is not slowness.
    pub enum IntendedWait {
        /// A fetch that waited for data, but none came, or less than requested.
        LongPoll = "long-poll",
        /// A member of a consumer group that waited for the other members (KIP-62).
        Rebalance = "rebalance",
    }
}

/// Declares how a request ended, for types with all of its columns or some.
macro_rules! outcome {
    ($($Columns:ty),*) => {$(
        impl $Columns {
            /// Whether an answer was due but not seen. With acks=0 none is due.
            pub fn is_unanswered(&self) -> bool {
                self.end.is_none() && self.acks != Some(0)
            }

            /// Whether it was refused, unreadable in part or unanswered. Refused means that the broker reported an
            /// error for it or one of its partitions.
            pub fn failed(&self) -> bool {
                let codes = self.partitions.iter().map(|partition| partition.error_code).chain([self.error_code]);
                let refused = codes.flatten().any(|code| code != NONE);
                refused || self.error.is_some() || self.is_unanswered()
            }

            /// The latency without the head-of-line wait. That is the part in which an earlier request of the
            /// connection was still unanswered.
            pub fn latency_less_head_of_line(&self) -> Option<Nanos> {
                let ahead = self.head_of_line.unwrap_or(Nanos::ZERO);
                self.latency().map(|latency| (latency - ahead).at_least_zero())
            }

            /// The part of the latency in which a fetch that returned data waited for it. No longer than the fetch
            /// allowed. Zero if it is not known when the data came.
            pub fn data_wait(&self) -> Nanos {
                let (Some(data), Some(max_wait_ms)) = (self.data, self.max_wait_ms) else { return Nanos::ZERO };
                if self.min_bytes.is_none_or(|bytes| bytes <= 0) || self.end.is_none() || self.failed() {
                    return Nanos::ZERO;
                }
                let begun = self.arrival_end + self.head_of_line.unwrap_or(Nanos::ZERO);
                (data - begun).min(Nanos::from_millis(max_wait_ms.into())).at_least_zero()
            }

            /// The latency without the wait for data: the part to be explained.
            pub fn latency_less_wait(&self) -> Option<Nanos> {
                self.latency().map(|latency| latency - self.data_wait())
            }

            /// The longest that a fetch can have waited for data. No longer than the fetch allowed. Defined even if it
            /// is not known when the data came.
            pub fn max_data_wait(&self) -> Nanos {
                let known =
                    self.data.is_some() || self.api_key != FETCH || self.min_bytes.is_some_and(|bytes| bytes <= 0);
                let (Some(max_wait_ms), Some(response), false) = (self.max_wait_ms, self.response, known) else {
                    return self.data_wait();
                };
                let begun = self.arrival_end + self.head_of_line.unwrap_or(Nanos::ZERO);
                (response - begun).min(Nanos::from_millis(max_wait_ms.into())).at_least_zero()
            }

            /// Why the broker delayed it on purpose, if it did. `None` for a failed request, and for a fetch that
            /// returned what it requested (see [`Self::data_wait`]) or took longer than it allowed.
            pub fn intended_wait(&self) -> Option<IntendedWait> {
                match self.api_key {
                    _ if self.failed() => None,
                    FETCH if self.is_of_raft() => Some(IntendedWait::LongPoll),
                    FETCH if self.returned_no_data() && self.had_data_on_arrival() => None,
                    JOIN_GROUP | SYNC_GROUP => Some(IntendedWait::Rebalance),
                    FETCH if self.reached_max_wait() && self.ended_within_max_wait() => Some(IntendedWait::LongPoll),
                    FETCH | SHARE_FETCH if self.returned_no_data() && self.ended_within_max_wait() => {
                        Some(IntendedWait::LongPoll)
                    }
                    _ => None,
                }
            }

            /// Whether it reads the cluster's metadata from its raft leader. The leader waits for records with any
            /// `min_bytes` (`KafkaRaftClient.handleFetchRequest`).
            fn is_of_raft(&self) -> bool {
                self.partitions.iter().any(|partition| {
                    partition.topic.as_deref() == Some(METADATA_TOPIC)
                        || partition.topic_id == Some(METADATA_TOPIC_ID)
                })
            }

            fn returned_no_data(&self) -> bool {
                self.partitions.iter().all(|partition| partition.bytes == 0)
            }

            /// Whether the broker had the data when the request came.
            fn had_data_on_arrival(&self) -> bool {
                self.data.is_some_and(|data| data <= self.arrival_end)
            }

            /// Whether it returned less than it requested because its maximum wait had passed.
            fn reached_max_wait(&self) -> bool {
                let (Some(min_bytes), Some(max_wait_ms)) = (self.min_bytes, self.max_wait_ms) else { return false };
                let bytes: i64 = self.partitions.iter().map(|partition| i64::from(partition.bytes)).sum();
                let time = self.latency_less_head_of_line();
                bytes < min_bytes.into() && time.is_some_and(|time| time >= Nanos::from_millis(max_wait_ms.into()))
            }

            /// Whether it took no longer than it allowed the broker to wait; also true if its limits could not be read.
            fn ended_within_max_wait(&self) -> bool {
                let Some(max_wait_ms) = self.max_wait_ms else { return true };
                let allowed = Nanos::from_millis(max_wait_ms.into()) + OVERRUN;
                let in_time = self.latency_less_head_of_line().is_some_and(|latency| latency <= allowed);
                max_wait_ms > 0 && self.min_bytes != Some(0) && in_time
            }
        }
    )*};
}
outcome!(Request, RequestColumns);

#[cfg(test)]
mod tests {
    use super::IntendedWait;
    use crate::{Nanos, Partition, Request, TopicId};

    fn request(api_key: i16, partitions: Vec<Partition>) -> Request {
        Request {
            arrival: Nanos(1_000),
            arrival_end: Nanos(1_000),
            response: Some(Nanos(9_000)),
            end: Some(Nanos(9_000)),
            head_of_line: Some(Nanos(3_000)),
            api_key,
            api: "ANY",
            api_version: 4,
            correlation_id: 1,
            request_bytes: 100,
            response_bytes: Some(20),
            partitions,
            ..Request::new(([10, 0, 0, 7], 41_234).into(), ([10, 0, 0, 1], 9_092).into())
        }
    }

    fn partition(bytes: u32, error_code: i16) -> Partition {
        Partition { bytes, error_code: Some(error_code), ..Partition::default() }
    }

    #[test]
    fn intended_wait_is_long_poll_or_rebalance() {
        assert_eq!(
            request(1, vec![partition(0, 0), partition(0, 0)]).intended_wait(),
            Some(IntendedWait::LongPoll)
        );
        assert_eq!(request(1, Vec::new()).intended_wait(), Some(IntendedWait::LongPoll));
        assert_eq!(request(1, vec![partition(0, 0), partition(1, 0)]).intended_wait(), None);
        assert_eq!(request(1, vec![partition(0, 6)]).intended_wait(), None);
        assert_eq!(Request { end: None, ..request(1, Vec::new()) }.intended_wait(), None);
        let until =
            |ms| Request { end: Some(Nanos(1_000) + Nanos::from_millis(ms)), ..request(1, Vec::new()) };
        let waited = |ms| Request { max_wait_ms: Some(500), min_bytes: Some(1), ..until(ms) };
        assert_eq!(waited(503).intended_wait(), Some(IntendedWait::LongPoll));
        assert_eq!(waited(900).intended_wait(), None, "nobody asked for that");
        assert_eq!(Request { max_wait_ms: Some(0), ..waited(5) }.intended_wait(), None);
        assert_eq!(Request { min_bytes: Some(0), ..waited(5) }.intended_wait(), None);
        let little = |ms, min_bytes| Request {
            min_bytes: Some(min_bytes),
            partitions: vec![partition(9, 0)],
            ..waited(ms)
        };
        assert_eq!(little(504, 10).intended_wait(), Some(IntendedWait::LongPoll));
        assert_eq!(little(504, 9).intended_wait(), None, "it returned what it requested");
        assert_eq!(
            little(400, 10).intended_wait(),
            None,
            "there was time left, so it was answered for another reason"
        );
        assert_eq!(little(900, 10).intended_wait(), None);
        let raft = Partition { topic: Some("__cluster_metadata".into()), ..partition(9, 0) };
        let raft = Request { min_bytes: Some(0), partitions: vec![raft], ..waited(503) };
        assert_eq!(raft.intended_wait(), Some(IntendedWait::LongPoll), "the leader waits with any min_bytes");
        let by_id = Partition { topic_id: TopicId::parse("AAAAAAAAAAAAAAAAAAAAAQ"), ..partition(0, 0) };
        let by_id = Request { min_bytes: Some(0), partitions: vec![by_id], ..waited(503) };
        assert_eq!(by_id.intended_wait(), Some(IntendedWait::LongPoll));
        let there = |ms| Request { data: Some(Nanos(ms)), partitions: vec![partition(0, 0)], ..waited(503) };
        assert_eq!(there(1_000).intended_wait(), None, "what it asked for was there");
        assert_eq!(there(1_001).intended_wait(), Some(IntendedWait::LongPoll));
        assert_eq!(request(0, Vec::new()).intended_wait(), None);
        assert_eq!(request(11, Vec::new()).intended_wait(), Some(IntendedWait::Rebalance));
    }

    #[test]
    fn error_code_unreadable_part_or_no_answer_fails_a_request() {
        let well = request(0, vec![partition(5, 0)]);
        assert!(!well.failed());
        assert!(request(0, vec![partition(5, 0), partition(5, 7)]).failed());
        assert!(Request { error_code: Some(15), ..well.clone() }.failed());
        assert!(!Request { error_code: Some(0), ..well.clone() }.failed());
        assert!(Request { error: Some("cut".into()), ..well.clone() }.failed());
        let silent = Request { end: None, acks: Some(-1), ..well.clone() };
        assert!(silent.failed() && silent.is_unanswered());
        assert!(!Request { acks: Some(0), ..silent }.failed());
    }

    #[test]
    fn data_wait_starts_after_head_of_line_and_ends_with_the_data() {
        let at = |ms| Nanos(1_000) + Nanos::from_millis(ms);
        let fetch = |data| Request {
            response: Some(at(310)),
            end: Some(at(310)),
            head_of_line: Some(Nanos::from_millis(20)),
            min_bytes: Some(1),
            max_wait_ms: Some(500),
            data,
            ..request(1, vec![partition(5, 0)])
        };
        let waited = |request: &Request| request.data_wait();
        assert_eq!(waited(&fetch(Some(at(300)))), Nanos::from_millis(280));
        assert_eq!(fetch(Some(at(300))).latency_less_wait(), Some(Nanos::from_millis(30)));
        assert_eq!(fetch(Some(at(300))).intended_wait(), None);
        assert_eq!(waited(&fetch(Some(at(10)))), Nanos::ZERO, "it was another request that it waited for");
        assert_eq!(waited(&fetch(Some(at(-5_000)))), Nanos::ZERO);
        assert_eq!(waited(&fetch(None)), Nanos::ZERO);
        let short = Request { max_wait_ms: Some(100), ..fetch(Some(at(300))) };
        assert_eq!(waited(&short), Nanos::from_millis(100), "nobody asked for more");
        assert_eq!(waited(&Request { min_bytes: Some(0), ..fetch(Some(at(300))) }), Nanos::ZERO);
        assert_eq!(waited(&Request { end: None, ..fetch(Some(at(300))) }), Nanos::ZERO);
    }

    #[test]
    fn head_of_line_time_is_subtracted_once() {
        let request = request(0, Vec::new());
        assert_eq!(request.latency_less_head_of_line(), Some(Nanos(5_000)));
        let alone = Request { head_of_line: None, ..request };
        assert_eq!(alone.latency_less_head_of_line(), alone.latency());
    }
}
