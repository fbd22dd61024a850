//! Frames as [`crate::stream`] returns them. Does not decode.

use crate::api::{Number, Values};
use crate::{ApiKey, BatchHeader, Error, ErrorKind};

/// What could not be read of a frame or of a partition in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Bytes that mattered were missing from the stream.
    #[error("{0} bytes were not captured")]
    Lost(u64),
    /// Bytes were missing in the header: the client id may not be known, and nothing of the body is.
    #[error("{0} bytes were not captured, from the request's header on")]
    HeadLost(u64),
    /// The bytes are not what the protocol says. Offsets count from the frame's first byte, its size field.
    #[error("{0}")]
    Malformed(Error),
}

/// A topic as the wire names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicRef {
    /// By name: Produce and Fetch up to version 12.
    Name(String),
    /// By id: Produce and Fetch from version 13 (KIP-516).
    Id([u8; 16]),
}

impl Default for TopicRef {
    fn default() -> Self {
        Self::Id([0; 16])
    }
}

impl TopicRef {
    /// What a copy of it takes besides its own size.
    pub(super) fn name_bytes(&self) -> usize {
        if let Self::Name(name) = self { name.len() } else { 0 }
    }

    /// Copies another, reusing the name's buffer.
    #[inline]
    pub(super) fn copy_from(&mut self, from: &Self) {
        match (self, from) {
            (Self::Name(kept), Self::Name(name)) => set_text(kept, name),
            (slot, from) => *slot = from.clone(),
        }
    }

    /// Takes over the topic of a row, reusing the name's buffer.
    #[inline]
    pub(super) fn set(&mut self, values: &Values<'_>) {
        match (self, values.topic_name) {
            (Self::Name(kept), Some(name)) => set_text(kept, name),
            (slot, Some(name)) => *slot = Self::Name(name.to_owned()),
            (slot, None) => *slot = Self::Id(values.topic_id.unwrap_or_default()),
        }
    }
}

fn set_text(kept: &mut String, text: &str) {
    kept.clear();
    kept.push_str(text);
}

/// What a text's buffer takes.
pub(super) fn text_bytes(text: Option<&String>) -> usize {
    text.map_or(0, String::capacity)
}

/// Sets a text, reusing its buffer.
pub(super) fn set_optional_text(slot: &mut Option<String>, text: Option<&str>) {
    match (slot.as_mut(), text) {
        (Some(kept), Some(text)) => set_text(kept, text),
        _ => *slot = text.map(str::to_owned),
    }
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
    pub partitions: Vec<Partition>,
}

/// One partition of a request or a response. What its kind of frame does not say is as in [`Self::default`].
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// The topic.
    pub topic: TopicRef,
    /// The partition's number.
    pub partition: i32,
    /// Fetch request: the first offset wanted.
    pub fetch_offset: Option<i64>,
    /// Responses: Kafka's error code; 0 is none.
    pub error_code: i16,
    /// Produce response: the offset of the first record as appended, or -1.
    pub base_offset: i64,
    /// Produce response: when the broker appended it, if the topic uses `LogAppendTime`; else -1.
    pub log_append_time_ms: i64,
    /// Fetch response: the offset after the last that all in-sync replicas have, or -1.
    pub high_watermark: i64,
    /// Responses: the partition's first offset, or -1 (version 5 and later).
    pub log_start_offset: i64,
    /// Bytes of its records; a broker may cut off the last batch.
    pub bytes: u32,
    /// The heads of its whole batches, or of its messages for magic 0 and 1, in order; at most
    /// [`Self::MAX_PRODUCED_BATCHES`] or [`Self::MAX_FETCHED_BATCHES`] of them.
    pub batches: Vec<BatchHeader>,
    /// Batches that were read but are not in `batches`.
    pub batches_omitted: u32,
    /// Records in all its whole batches; none if a head does not say (compressed messages of magic 0 and 1), or was
    /// lost, or the frame has no records.
    pub records: Option<u64>,
    /// Produce request: values of the wanted record header, in record order; not valid UTF-8 replaced, cut at
    /// [`Self::MAX_MESSAGE_ID_BYTES`].
    pub message_ids: Vec<String>,
    /// What could not be read of this partition alone.
    pub error: Option<FrameError>,
}

impl Default for Partition {
    fn default() -> Self {
        Self {
            topic: TopicRef::default(),
            partition: 0,
            fetch_offset: None,
            error_code: 0,
            base_offset: -1,
            log_append_time_ms: -1,
            high_watermark: -1,
            log_start_offset: -1,
            bytes: 0,
            batches: Vec::new(),
            batches_omitted: 0,
            records: None,
            message_ids: Vec::new(),
            error: None,
        }
    }
}

impl Partition {
    /// The most batch heads that are kept for one partition of a Produce request.
    pub const MAX_PRODUCED_BATCHES: usize = 4096;
    /// The same of a Fetch response.
    pub const MAX_FETCHED_BATCHES: usize = 1024;
    /// The longest message id that is kept whole.
    pub const MAX_MESSAGE_ID_BYTES: usize = 256;

    /// What it takes in memory, with its buffers.
    fn kept_bytes(&self) -> usize {
        let ids: usize = self.message_ids.iter().map(String::capacity).sum();
        let name = if let TopicRef::Name(name) = &self.topic { name.capacity() } else { 0 };
        size_of::<Self>()
            + name
            + self.batches.capacity() * size_of::<BatchHeader>()
            + self.message_ids.capacity() * size_of::<String>()
            + ids
    }

    /// Clears what an earlier frame left, but for the topic.
    #[inline]
    pub(super) fn clear(&mut self, bytes: u32, records: Option<u64>) {
        self.partition = 0;
        self.fetch_offset = None;
        self.error_code = 0;
        (self.base_offset, self.log_append_time_ms) = (-1, -1);
        (self.high_watermark, self.log_start_offset) = (-1, -1);
        (self.bytes, self.records) = (bytes, records);
        self.batches.clear();
        self.batches_omitted = 0;
        self.message_ids.clear();
        self.error = None;
    }

    /// Takes over a row's values.
    #[inline]
    pub(super) fn set(&mut self, values: &Values<'_>) {
        let offset = |number| values.number(number).unwrap_or(-1);
        // A ShareFetch may acknowledge as well: the fetch's own error comes first.
        let errors = [Number::PartitionError, Number::AcknowledgeError]
            .map(|number| values.short(number).unwrap_or(0));
        self.partition = values.int(Number::Partition).unwrap_or(0);
        self.fetch_offset = values.number(Number::FetchOffset);
        self.error_code = errors.into_iter().find(|&code| code != 0).unwrap_or(0);
        self.base_offset = offset(Number::BaseOffset);
        self.log_append_time_ms = offset(Number::LogAppendTimeMs);
        self.high_watermark = offset(Number::HighWatermark);
        self.log_start_offset = offset(Number::LogStartOffset);
    }

    /// Adds a batch; at most `limit` heads are kept.
    pub(super) fn add(&mut self, header: BatchHeader, limit: usize) {
        let sum = self.records.zip(header.records());
        self.records = sum.map(|(sum, records)| sum + u64::from(records));
        if self.batches.len() < limit {
            self.batches.push(header);
        } else {
            self.batches_omitted = self.batches_omitted.saturating_add(1);
        }
    }

    /// The first error counts.
    pub(super) fn fail(&mut self, error: FrameError) {
        self.error.get_or_insert(error);
    }
}

/// What a list takes in memory.
fn list_bytes(partitions: &Vec<Partition>) -> usize {
    let unused = partitions.capacity() - partitions.len();
    unused * size_of::<Partition>() + partitions.iter().map(Partition::kept_bytes).sum::<usize>()
}

/// What is kept of one body: more partitions or message ids than fit are an error.
const MAX_KEPT_BYTES: usize = 8 << 20;
/// How many partitions' buffers are kept for later bodies, and how many bytes of them.
const MAX_POOLED_PARTITIONS: usize = 1024;
const MAX_POOLED_BYTES: usize = 1 << 20;

/// Fills a body's list of partitions, within [`MAX_KEPT_BYTES`]. An earlier body's partitions stay in the list until it is
/// finished, so that their buffers are used again where they are.
#[derive(Default)]
pub(super) struct PartitionFiller {
    filled: usize,
    kept_bytes: usize,
    pool: Vec<Partition>,
    /// What the pool takes in memory, and what the list took when it was last finished.
    pool_bytes: usize,
    list_bytes: usize,
}

impl PartitionFiller {
    pub(super) fn begin(&mut self) {
        (self.filled, self.kept_bytes) = (0, 0);
    }

    /// Gives back what a list of an earlier body holds beyond the bound: each of its partitions keeps its buffers.
    pub(super) fn shorten(&mut self, partitions: &mut Vec<Partition>) {
        if partitions.len() > MAX_POOLED_PARTITIONS {
            partitions.truncate(MAX_POOLED_PARTITIONS);
            self.list_bytes = list_bytes(partitions);
        }
        if self.list_bytes + self.pool_bytes > MAX_POOLED_BYTES {
            (*partitions, self.pool) = (Vec::new(), Vec::new());
            (self.list_bytes, self.pool_bytes) = (0, 0);
        }
    }

    /// What it takes in memory, with the list that it fills.
    pub(super) fn total_bytes(&self) -> usize {
        self.list_bytes + self.pool_bytes + self.kept_bytes
    }

    /// How many batches' heads a partition may have now, of this limit. They take at most half of the room, so that
    /// batches do not crowd out partitions.
    pub(super) fn batch_limit(&mut self, limit: usize) -> usize {
        let kept_bytes = self.kept_bytes + size_of::<BatchHeader>();
        if kept_bytes > MAX_KEPT_BYTES / 2 {
            return 0;
        }
        self.kept_bytes = kept_bytes;
        limit
    }

    /// Counts what is kept of the body.
    pub(super) fn keep(&mut self, bytes: usize) -> Result<(), Error> {
        self.kept_bytes = self.kept_bytes.saturating_add(bytes);
        if self.kept_bytes <= MAX_KEPT_BYTES {
            Ok(())
        } else {
            Err(Error::new(ErrorKind::TooLarge(MAX_KEPT_BYTES), 0))
        }
    }

    /// The next partition, as an earlier body left it; its topic's name is that long.
    pub(super) fn add<'p>(
        &mut self,
        partitions: &'p mut Vec<Partition>,
        name_bytes: usize,
    ) -> Result<&'p mut Partition, Error> {
        self.keep(size_of::<Partition>() + name_bytes)?;
        if self.filled == partitions.len() {
            let pooled = self.pool.pop();
            self.pool_bytes -= pooled.as_ref().map_or(0, Partition::kept_bytes);
            partitions.push(pooled.unwrap_or_default());
        }
        self.filled += 1;
        self.last(partitions).ok_or(Error::new(ErrorKind::TooLarge(MAX_KEPT_BYTES), 0))
    }

    /// The partition that was added last.
    pub(super) fn last<'p>(&self, partitions: &'p mut [Partition]) -> Option<&'p mut Partition> {
        partitions.get_mut(self.filled.checked_sub(1)?)
    }

    /// Leaves in the list what was added.
    pub(super) fn finish(&mut self, partitions: &mut Vec<Partition>) {
        if self.filled < partitions.len() {
            let room = MAX_POOLED_PARTITIONS.saturating_sub(self.pool.len());
            let pooled = self.pool.len();
            self.pool.extend(partitions.drain(self.filled..).take(room));
            self.pool_bytes += self.pool.iter().skip(pooled).map(Partition::kept_bytes).sum::<usize>();
        }
        self.list_bytes = list_bytes(partitions);
        self.kept_bytes = 0;
    }

    /// Sets `partitions` to the rows that `read` hands out of a whole body; to none if they are too many.
    pub(super) fn fill<V>(
        &mut self,
        partitions: &mut Vec<Partition>,
        read: impl FnOnce(&mut dyn FnMut(&Values<'_>)) -> Result<V, Error>,
    ) -> Result<V, Error> {
        self.shorten(partitions);
        self.begin();
        let mut kept = Ok(());
        let read = read(&mut |values: &Values<'_>| {
            if kept.is_ok() {
                kept = self.add(partitions, values.topic_name.map_or(0, str::len)).map(|partition| {
                    partition.topic.set(values);
                    partition.clear(0, None);
                    partition.set(values);
                });
            }
        });
        if kept.is_err() || read.is_err() {
            *partitions = Vec::new();
            self.filled = 0;
        }
        self.finish(partitions);
        kept.and(read)
    }
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
    pub partitions: Vec<Partition>,
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
    /// Produce: the partitions, in the response's order.
    Produce(Vec<Partition>),
    /// Metadata.
    Metadata {
        /// Topic ids (zero before version 10) and names; only topics that have either.
        topics: Vec<([u8; 16], Option<String>)>,
        /// Of their partitions: the place of the topic in `topics`, the partition's number, and how many replicas it has.
        replicas: Vec<(u32, i32, u32)>,
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
    pub partitions: Vec<Partition>,
}
