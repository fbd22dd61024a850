//! Frames as [`crate::stream`] returns them. Does not decode.

use std::fmt;

use crate::{ApiKey, BatchHeader, Error};

/// What could not be read of a frame or of a partition in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// Bytes that mattered were missing from the stream.
    Lost {
        /// How many.
        bytes: u64,
    },
    /// Bytes were missing in the header: the client id may not be known, and nothing of the body is.
    HeadLost {
        /// How many.
        bytes: u64,
    },
    /// The bytes are not what the protocol says. Offsets count from the frame's first byte, its size field.
    Malformed(Error),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { bytes } => write!(f, "{bytes} bytes were not captured"),
            Self::HeadLost { bytes } => {
                write!(f, "{bytes} bytes were not captured, from the request's header on")
            }
            Self::Malformed(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for FrameError {}

/// A topic as the wire names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicRef {
    /// By name: Produce and Fetch up to version 12.
    Name(String),
    /// By id: Produce and Fetch from version 13 (KIP-516).
    Id([u8; 16]),
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestFrame<T> {
    /// The stamp of the chunk that held its first byte.
    pub first: T,
    /// The stamp of the chunk that held its last byte.
    pub last: T,
    /// Offset of its first byte (of the size field) in the stream, missing bytes counted.
    pub stream_start: u64,
    /// Offset after its last byte.
    pub stream_end: u64,
    /// Bytes of the frame without the four of its size field.
    pub size: u32,
    /// The API.
    pub api_key: ApiKey,
    /// Its version.
    pub api_version: i16,
    /// The client's number for this request.
    pub correlation_id: i32,
    /// What the client calls itself.
    pub client_id: Option<String>,
    /// The body, where it is one that is decoded.
    pub body: RequestBody,
    /// What could not be read of it as a whole.
    pub error: Option<FrameError>,
}

/// A request's body.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestBody {
    /// Produce.
    Produce(ProduceBody),
    /// Fetch, `ShareFetch`, `ShareAcknowledge`.
    Fetch(FetchBody),
    /// Another that may name a group or a transaction.
    Ids(RequestIdsBody),
    /// An API whose body is not decoded, or a body that could not be.
    Other,
}

/// A Produce request's body, without its records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProduceBody {
    /// The transaction's id (version 3 and later).
    pub transactional_id: Option<String>,
    /// 0, 1 or -1 (all); none if the body could not be read so far.
    pub acks: Option<i16>,
    /// How long the broker may wait for followers, in milliseconds.
    pub timeout_ms: i32,
    /// The partitions, in the request's order; as far as they were read if the frame has an error.
    pub partitions: Vec<ProducePartition>,
}

/// One partition of a Produce request.
#[derive(Clone, Debug, PartialEq)]
pub struct ProducePartition {
    /// The topic.
    pub topic: TopicRef,
    /// The partition's number.
    pub partition: i32,
    /// Bytes of its records.
    pub bytes: u32,
    /// The heads of its batches, or of its messages for magic 0 and 1, in order; at most
    /// [`Self::MAX_BATCHES`] of them.
    pub batches: Vec<BatchHeader>,
    /// Batches that were read but are not in `batches`.
    pub batches_omitted: u32,
    /// Records in all its batches; none if a head does not say (compressed messages of magic 0 and 1).
    pub records: Option<u64>,
    /// Values of the wanted record header, in record order; not valid UTF-8 replaced, cut at
    /// [`Self::MAX_MESSAGE_ID_BYTES`].
    pub message_ids: Vec<String>,
    /// What could not be read of this partition alone.
    pub error: Option<FrameError>,
}

impl ProducePartition {
    /// The most batch heads that are kept for one partition.
    pub const MAX_BATCHES: usize = 4096;
    /// The longest message id that is kept whole.
    pub const MAX_MESSAGE_ID_BYTES: usize = 256;
}

/// What a request names, of one that is not decoded further.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestIdsBody {
    /// The transaction's id; none also where several are named.
    pub transactional_id: Option<String>,
    /// The group's id; none also where several are named.
    pub group_id: Option<String>,
}

/// The body of a Fetch, `ShareFetch` or `ShareAcknowledge` request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchBody {
    /// The share group.
    pub group_id: Option<String>,
    /// How long the broker may wait for `min_bytes`, in milliseconds.
    pub max_wait_ms: Option<i32>,
    /// How many bytes the broker shall wait for.
    pub min_bytes: Option<i32>,
    /// The most bytes wanted in all (version 3 and later).
    pub max_bytes: Option<i32>,
    /// Fetch: 0 reads uncommitted, 1 committed records (version 4 and later).
    pub isolation_level: i8,
    /// The fetch session, 0 for none (KIP-227).
    pub session_id: i32,
    /// The number of the request in its session; 0 starts one, -1 is without.
    pub session_epoch: i32,
    /// The partitions, in the request's order; in a session those that changed.
    pub partitions: Vec<FetchPartition>,
}

/// One partition of a [`FetchBody`].
#[derive(Clone, Debug, PartialEq)]
pub struct FetchPartition {
    /// The topic.
    pub topic: TopicRef,
    /// The partition's number.
    pub partition: i32,
    /// Fetch: the first offset wanted.
    pub fetch_offset: Option<i64>,
}

/// One response.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseFrame<T> {
    /// The stamp of the chunk that held its first byte.
    pub first: T,
    /// The stamp of the chunk that held its last byte.
    pub last: T,
    /// Offset of its first byte (of the size field) in the stream, missing bytes counted.
    pub stream_start: u64,
    /// Offset after its last byte.
    pub stream_end: u64,
    /// Bytes of the frame without the four of its size field.
    pub size: u32,
    /// The number of the request it answers.
    pub correlation_id: i32,
    /// How long the broker says it throttled the client, where it says so.
    pub throttle_ms: Option<i32>,
    /// Kafka's error code for the request as a whole, where the answer has one; 0 is none.
    pub error_code: Option<i16>,
    /// The body, where it is one that is decoded.
    pub body: ResponseBody,
    /// What could not be read of it.
    pub error: Option<FrameError>,
}

/// A response's body.
#[derive(Clone, Debug, PartialEq)]
pub enum ResponseBody {
    /// Produce.
    Produce {
        /// How long the broker throttled the client (version 1 and later).
        throttle_ms: Option<i32>,
        /// The partitions, in the response's order.
        partitions: Vec<ProducedPartition>,
    },
    /// Metadata.
    Metadata {
        /// Topic ids (zero before version 10) and names; only topics that have either.
        topics: Vec<([u8; 16], Option<String>)>,
    },
    /// Fetch, `ShareFetch`, `ShareAcknowledge`, without records.
    Fetch(FetchResponseBody),
    /// An API whose body is not decoded, or an answer to a request that is not known.
    Other,
}

/// The body of a response to Fetch, `ShareFetch` or `ShareAcknowledge`, without its records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchResponseBody {
    /// The fetch session, 0 for none.
    pub session_id: i32,
    /// The partitions, in the response's order; as far as they were read if the frame has an error.
    pub partitions: Vec<FetchedPartition>,
}

/// One partition of a [`FetchResponseBody`].
#[derive(Clone, Debug, PartialEq)]
pub struct FetchedPartition {
    /// The topic.
    pub topic: TopicRef,
    /// The partition's number.
    pub partition: i32,
    /// Kafka's error code; 0 is none.
    pub error_code: i16,
    /// The offset after the last that all in-sync replicas have, or -1.
    pub high_watermark: i64,
    /// The partition's first offset, or -1 (version 5 and later).
    pub log_start_offset: i64,
    /// Bytes of its records, of which the last batch may be cut off.
    pub bytes: u32,
    /// The heads of its whole batches, or of its messages for magic 0 and 1, in order; at most
    /// [`Self::MAX_BATCHES`] of them.
    pub batches: Vec<BatchHeader>,
    /// Batches that were read but are not in `batches`.
    pub batches_omitted: u32,
    /// Records in its whole batches; none if a head does not say, or was lost, and of `ShareAcknowledge`.
    pub records: Option<u64>,
    /// What could not be read of this partition alone.
    pub error: Option<FrameError>,
}

impl FetchedPartition {
    /// The most batch heads that are kept for one partition.
    pub const MAX_BATCHES: usize = 1024;
}

/// One partition of a Produce response.
#[derive(Clone, Debug, PartialEq)]
pub struct ProducedPartition {
    /// The topic.
    pub topic: TopicRef,
    /// The partition's number.
    pub partition: i32,
    /// Kafka's error code; 0 is none.
    pub error_code: i16,
    /// The offset of the first record as appended, or -1.
    pub base_offset: i64,
    /// When the broker appended it, if the topic uses `LogAppendTime`; else -1.
    pub log_append_time_ms: i64,
}
