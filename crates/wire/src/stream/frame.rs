//! Frames as [`crate::stream`] returns them. Does not decode.

use crate::api::{Number, Values};
use crate::{ApiKey, BatchHeader, Error, ErrorKind};

/// Why a frame or a partition in it could not be read completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Required bytes were missing from the stream.
    #[error("{0} bytes were not captured")]
    Lost(u64),
    /// Bytes were missing in the header: the client id may be unknown, and the body is.
    #[error("{0} bytes were not captured, from the request's header on")]
    HeadLost(u64),
    /// The bytes violate the protocol. Offsets count from the frame's first byte, its size field.
    #[error("{0}")]
    Malformed(Error),
}

/// A topic as identified on the wire.
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
    /// Memory of a copy besides its own size.
    pub(super) fn name_bytes(&self) -> usize {
        if let Self::Name(name) = self { name.len() } else { 0 }
    }

    /// Copies another topic, reusing the name's buffer.
    #[inline]
    pub(super) fn copy_from(&mut self, from: &Self) {
        match (self, from) {
            (Self::Name(buffer), Self::Name(name)) => set_text(buffer, name),
            (slot, from) => *slot = from.clone(),
        }
    }

    /// Copies the topic of a row, reusing the name's buffer.
    #[inline]
    pub(super) fn set(&mut self, values: &Values<'_>) {
        match (self, values.topic_name) {
            (Self::Name(buffer), Some(name)) => set_text(buffer, name),
            (slot, Some(name)) => *slot = Self::Name(name.to_owned()),
            (slot, None) => *slot = Self::Id(values.topic_id.unwrap_or_default()),
        }
    }
}

fn set_text(buffer: &mut String, text: &str) {
    buffer.clear();
    buffer.push_str(text);
}

/// Memory of a text's buffer.
pub(super) fn text_bytes(text: Option<&String>) -> usize {
    text.map_or(0, String::capacity)
}

/// Sets a text, reusing its buffer.
pub(super) fn set_optional_text(slot: &mut Option<String>, text: Option<&str>) {
    match (slot.as_mut(), text) {
        (Some(buffer), Some(text)) => set_text(buffer, text),
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
    /// Offset of its first byte (of the size field) in the stream. Counts missing bytes.
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
    /// The client's name for itself.
    pub client_id: Option<String>,
    /// The body, if it is of a kind that is decoded.
    pub body: RequestBody,
    /// Why the frame as a whole could not be read completely.
    pub error: Option<FrameError>,
}

/// A request's body.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestBody {
    /// Produce.
    Produce(ProduceBody),
    /// Fetch, `ShareFetch`, `ShareAcknowledge`.
    Fetch(FetchBody),
    /// Another body that may name a group or a transaction.
    Ids(RequestIdsBody),
    /// An API whose body is not decoded, or a body that could not be decoded.
    Other,
}

/// A Produce request's body, without its records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProduceBody {
    /// The transaction's id (version 3 and later).
    pub transactional_id: Option<String>,
    /// 0, 1 or -1 (all); `None` if the body could not be read that far.
    pub acks: Option<i16>,
    /// How long the broker may wait for followers, in milliseconds.
    pub timeout_ms: i32,
    /// The partitions, in the request's order; if the frame has an error, those read before it.
    pub partitions: Vec<Partition>,
}

/// One partition of a request or a response.
/// Fields that its kind of frame does not have are as in [`Self::default`].
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// The topic.
    pub topic: TopicRef,
    /// The partition's number.
    pub partition: i32,
    /// Fetch request: the first requested offset.
    pub fetch_offset: Option<i64>,
    /// Responses: Kafka's error code; 0 means none.
    pub error_code: i16,
    /// Produce response: the offset of the first appended record, or -1.
    pub base_offset: i64,
    /// Produce response: when the broker appended the records, if the topic uses `LogAppendTime`; else -1.
    pub log_append_time_ms: i64,
    /// Fetch response: the offset after the last record that all in-sync replicas have, or -1.
    pub high_watermark: i64,
    /// Responses: the partition's first offset, or -1 (version 5 and later).
    pub log_start_offset: i64,
    /// Bytes of its records; a broker may cut off the last batch.
    pub bytes: u32,
    /// The headers of its whole batches, in order. For magic 0 and 1, those of its messages. At most
    /// [`Self::MAX_PRODUCED_BATCHES`] or [`Self::MAX_FETCHED_BATCHES`] of them.
    pub batches: Vec<BatchHeader>,
    /// Batches that were read but are not in `batches`.
    pub batches_omitted: u32,
    /// Records in all its whole batches; `None` if a header does not say (compressed messages of magic 0 and 1) or was
    /// lost, or if the frame has no records.
    pub records: Option<u64>,
    /// Produce request: values of the message id header, in record order; invalid UTF-8 is replaced, and values are cut
    /// at [`Self::MAX_MESSAGE_ID_BYTES`].
    pub message_ids: Vec<String>,
    /// Why this partition could not be read completely.
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
    /// Maximum number of batch headers kept for one partition of a Produce request.
    pub const MAX_PRODUCED_BATCHES: usize = 4096;
    /// Maximum number of batch headers kept for one partition of a Fetch response.
    pub const MAX_FETCHED_BATCHES: usize = 1024;
    /// The longest message id that is kept whole.
    pub const MAX_MESSAGE_ID_BYTES: usize = 256;

    /// Its memory, including its buffers.
    fn kept_bytes(&self) -> usize {
        let ids: usize = self.message_ids.iter().map(String::capacity).sum();
        let name = if let TopicRef::Name(name) = &self.topic { name.capacity() } else { 0 };
        size_of::<Self>()
            + name
            + self.batches.capacity() * size_of::<BatchHeader>()
            + self.message_ids.capacity() * size_of::<String>()
            + ids
    }

    /// Clears the values of an earlier frame, except for the topic.
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

    /// Copies a row's values.
    #[inline]
    pub(super) fn set(&mut self, values: &Values<'_>) {
        let offset = |number| values.number(number).unwrap_or(-1);
        // A ShareFetch may also acknowledge records: the fetch's own error takes precedence.
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

    /// Adds a batch; keeps at most `limit` headers.
    pub(super) fn add(&mut self, header: BatchHeader, limit: usize) {
        let sum = self.records.zip(header.records());
        self.records = sum.map(|(sum, records)| sum + u64::from(records));
        if self.batches.len() < limit {
            self.batches.push(header);
        } else {
            self.batches_omitted = self.batches_omitted.saturating_add(1);
        }
    }

    /// Sets the error; the first one wins.
    pub(super) fn fail(&mut self, error: FrameError) {
        self.error.get_or_insert(error);
    }
}

/// The memory of a list.
fn list_bytes(partitions: &Vec<Partition>) -> usize {
    let unused = partitions.capacity() - partitions.len();
    unused * size_of::<Partition>() + partitions.iter().map(Partition::kept_bytes).sum::<usize>()
}

/// Memory of one body: too many partitions or message ids are an error.
const MAX_KEPT_BYTES: usize = 8 << 20;
/// Maximum number of partitions whose buffers are reused, and their maximum size.
const MAX_POOLED_PARTITIONS: usize = 1024;
const MAX_POOLED_BYTES: usize = 1 << 20;

/// Fills a body's list of partitions, within [`MAX_KEPT_BYTES`].
/// An earlier body's partitions stay in the list until it is finished, so that their buffers are reused in place.
#[derive(Default)]
pub(super) struct PartitionFiller {
    filled: usize,
    kept_bytes: usize,
    pool: Vec<Partition>,
    /// Memory of the pool, and of the list when it was last finished.
    pool_bytes: usize,
    list_bytes: usize,
}

impl PartitionFiller {
    pub(super) fn begin(&mut self) {
        (self.filled, self.kept_bytes) = (0, 0);
    }

    /// Frees an earlier body's partitions beyond [`MAX_POOLED_PARTITIONS`]. Frees all of them if they take too much
    /// memory. Those that stay keep their buffers.
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

    /// Its memory, including the list that it fills.
    pub(super) fn total_bytes(&self) -> usize {
        self.list_bytes + self.pool_bytes + self.kept_bytes
    }

    /// How many batch headers a partition may have now, up to `limit`.
    /// They take at most half of the remaining memory, so that batches do not crowd out partitions.
    pub(super) fn batch_limit(&mut self, limit: usize) -> usize {
        let kept_bytes = self.kept_bytes + size_of::<BatchHeader>();
        if kept_bytes > MAX_KEPT_BYTES / 2 {
            return 0;
        }
        self.kept_bytes = kept_bytes;
        limit
    }

    /// Counts memory of the body.
    pub(super) fn keep(&mut self, bytes: usize) -> Result<(), Error> {
        self.kept_bytes = self.kept_bytes.saturating_add(bytes);
        if self.kept_bytes <= MAX_KEPT_BYTES {
            Ok(())
        } else {
            Err(Error::new(ErrorKind::TooLarge(MAX_KEPT_BYTES), 0))
        }
    }

    /// The next partition, with the buffers of an earlier body; `name_bytes` is the length of its topic's name.
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

    /// Shortens the list to the partitions that were added.
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

    /// Sets `partitions` to the rows that `read` returns from a whole body; to none if there are too many.
    pub(super) fn fill<V>(
        &mut self,
        partitions: &mut Vec<Partition>,
        read: impl FnOnce(&mut dyn FnMut(&Values<'_>)) -> Result<V, Error>,
    ) -> Result<V, Error> {
        self.shorten(partitions);
        self.begin();
        let mut stored = Ok(());
        let read = read(&mut |values: &Values<'_>| {
            if stored.is_ok() {
                stored = self.add(partitions, values.topic_name.map_or(0, str::len)).map(|partition| {
                    partition.topic.set(values);
                    partition.clear(0, None);
                    partition.set(values);
                });
            }
        });
        if stored.is_err() || read.is_err() {
            *partitions = Vec::new();
            self.filled = 0;
        }
        self.finish(partitions);
        stored.and(read)
    }
}

/// The names in a request that is not decoded further.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestIdsBody {
    /// The transaction's id; `None` also if there are several.
    pub transactional_id: Option<String>,
    /// The group's id; `None` also if there are several.
    pub group_id: Option<String>,
}

/// The body of a Fetch, `ShareFetch` or `ShareAcknowledge` request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchBody {
    /// The share group.
    pub group_id: Option<String>,
    /// How long the broker may wait for `min_bytes`, in milliseconds.
    pub max_wait_ms: Option<i32>,
    /// How many bytes the broker waits for.
    pub min_bytes: Option<i32>,
    /// The maximum number of bytes in all (version 3 and later).
    pub max_bytes: Option<i32>,
    /// Fetch: 0 reads uncommitted, 1 committed records (version 4 and later).
    pub isolation_level: i8,
    /// The fetch session, 0 for none (KIP-227).
    pub session_id: i32,
    /// The number of the request in its session; 0 starts one, -1 means no session.
    pub session_epoch: i32,
    /// The partitions, in the request's order; in a session, only those that changed.
    pub partitions: Vec<Partition>,
}

/// One response.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseFrame<T> {
    /// The stamp of the chunk that held its first byte.
    pub first: T,
    /// The stamp of the chunk that held its last byte.
    pub last: T,
    /// Offset of its first byte (of the size field) in the stream. Counts missing bytes.
    pub stream_start: u64,
    /// Offset after its last byte.
    pub stream_end: u64,
    /// Bytes of the frame without the four of its size field.
    pub size: u32,
    /// The number of the request that it answers.
    pub correlation_id: i32,
    /// How long the broker throttled the client, if the response says so.
    pub throttle_ms: Option<i32>,
    /// Kafka's error code for the request as a whole, if the response has one; 0 means none.
    pub error_code: Option<i16>,
    /// The body, if it is of a kind that is decoded.
    pub body: ResponseBody,
    /// Why the frame could not be read completely.
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
        /// Their partitions: the topic's index in `topics`, the partition's number, and its replica count.
        replicas: Vec<(u32, i32, u32)>,
    },
    /// Fetch, `ShareFetch`, `ShareAcknowledge`, without records.
    Fetch(FetchResponseBody),
    /// An API whose body is not decoded, or an answer to an unknown request.
    Other,
}

/// The body of a response to Fetch, `ShareFetch` or `ShareAcknowledge`. Does not include the records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchResponseBody {
    /// The fetch session, 0 for none.
    pub session_id: i32,
    /// The partitions, in the response's order; if the frame has an error, those read before it.
    pub partitions: Vec<Partition>,
}
