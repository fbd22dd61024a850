//! Reads a body that lists topics and partitions, as its bytes come. Goes element by element through the topics, their
//! partitions and those partitions' record batches. The body is a Produce request's or that of a response to Fetch,
//! `ShareFetch` or `ShareAcknowledge`. Skips records unless message ids are extracted from them.

use super::frame::PartitionFiller;
use super::framing::Step;
use super::{FrameError, Options, Partition, TopicRef};
use crate::api::layout::{BodyReader, Levels};
use crate::api::{Number, Values};
use crate::batch::BatchHeader;
use crate::record::message_ids;
use crate::{ApiKey, Error, ErrorKind};

/// The maximum size of an element other than a batch: two strings and tagged fields.
pub(super) const MAX_ELEMENT_BYTES: usize = 128 << 10;
/// Larger scratch space is freed.
const KEEP_SCRATCH_BYTES: usize = 256 << 10;

/// The next element of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Top,
    Topic,
    Partition,
    Batch,
    /// The fields after records, partitions and topics, with tagged fields.
    PartitionEnd,
    TopicEnd,
    End,
    Done,
}

/// The origin of a body's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A producer's: whole batches.
    Client,
    /// A broker's: a number of bytes of the log, which may end inside a batch.
    Broker,
}

/// The state of one body, and buffers that are reused from body to body.
pub(super) struct BodyWalk {
    origin: Origin,
    /// The API and version of `levels`.
    is_of: Option<(ApiKey, i16)>,
    levels: Levels,
    stage: Stage,
    topics_left: u32,
    partitions_left: u32,
    /// Bytes of the current partition's records, from the next batch on.
    records_left: u64,
    topic: TopicRef,
    filler: PartitionFiller,
    scratch: Vec<u8>,
}

impl BodyWalk {
    pub(super) fn new(origin: Origin) -> Self {
        Self {
            origin,
            is_of: None,
            levels: Levels::default(),
            stage: Stage::Done,
            topics_left: 0,
            partitions_left: 0,
            records_left: 0,
            topic: TopicRef::Name(String::new()),
            filler: PartitionFiller::default(),
            scratch: Vec::new(),
        }
    }

    /// Begins a body of this API and version, if it lists partitions.
    /// Its list should be an earlier body's, so that the buffers are reused.
    pub(super) fn begin(&mut self, api_key: ApiKey, version: i16) -> Result<(), Error> {
        if self.is_of != Some((api_key, version)) {
            self.levels = match self.origin {
                Origin::Client => api_key.request_levels(version),
                Origin::Broker => api_key.response_levels(version),
            }?;
            self.is_of = Some((api_key, version));
        }
        (self.stage, self.records_left) = (Stage::Top, 0);
        self.filler.begin();
        if self.scratch.capacity() > KEEP_SCRATCH_BYTES {
            self.scratch = Vec::new();
        }
        Ok(())
    }

    /// See [`PartitionFiller::shorten`].
    pub(super) fn shorten(&mut self, partitions: &mut Vec<Partition>) {
        self.filler.shorten(partitions);
    }

    /// Ends the frame: its list contains the partitions read so far.
    pub(super) fn finish(&mut self, partitions: &mut Vec<Partition>) {
        self.filler.finish(partitions);
    }

    pub(super) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// See [`super::RequestStream::kept_bytes`].
    pub(super) fn kept_bytes(&self) -> usize {
        self.filler.total_bytes() + self.topic.name_bytes() + self.scratch.capacity()
    }

    /// Frees its buffers, between two bodies.
    pub(super) fn release(&mut self) {
        (self.filler, self.scratch) = (PartitionFiller::default(), Vec::new());
        self.topic = TopicRef::default();
    }

    /// Reads those elements that are complete in `bytes`; at least one, or none with the reason.
    /// `left` is the number of bytes in the frame from the start of `bytes` on, `at` the number before; an error's
    /// offset is relative to the frame. `top` receives the fields before the topics.
    pub(super) fn step(
        &mut self,
        partitions: &mut Vec<Partition>,
        mut top: impl FnMut(&Values<'_>),
        bytes: &[u8],
        (left, at): (u64, usize),
        options: &Options,
    ) -> Result<Step, Error> {
        let mut body = BodyReader::new(bytes, self.levels.version, self.levels.flexible);
        loop {
            let before = body.reader.at();
            let step = match self.stage {
                Stage::Batch => Ok(self.batch(partitions, body.reader.rest(), at + before, options)),
                _ => self.element(partitions, &mut top, &mut body, left).map_err(|error| error.shifted(at)),
            };
            match step {
                Ok(Step::Used { bytes: used, skip }) => {
                    self.settle();
                    let used = before + used;
                    if skip >= bytes.len().saturating_sub(used) as u64 {
                        return Ok(Step::Used { bytes: used, skip });
                    }
                    body.reader.move_to(used + skip as usize);
                }
                // If it is due to the first element, it comes again in the next call.
                _ if before > 0 => return Ok(Step::Used { bytes: before, skip: 0 }),
                step => return step,
            }
        }
    }

    /// Reads one element if it is complete, within limits.
    fn element(
        &mut self,
        partitions: &mut Vec<Partition>,
        top: &mut impl FnMut(&Values<'_>),
        body: &mut BodyReader<'_>,
        left: u64,
    ) -> Result<Step, Error> {
        let start = body.reader;
        match self.read_element(partitions, top, body, left) {
            Ok(()) => Ok(Step::Used { bytes: body.reader.at() - start.at(), skip: 0 }),
            Err(Error { kind: ErrorKind::UnexpectedEnd(missing), at }) => {
                if start.rest().len().saturating_add(missing) > MAX_ELEMENT_BYTES {
                    return Err(Error::new(ErrorKind::TooLarge(MAX_ELEMENT_BYTES), at));
                }
                Ok(Step::More(missing))
            }
            Err(error) => Err(error),
        }
    }

    fn read_element(
        &mut self,
        partitions: &mut Vec<Partition>,
        top: &mut impl FnMut(&Values<'_>),
        body: &mut BodyReader<'_>,
        left: u64,
    ) -> Result<(), Error> {
        let flexible = self.levels.flexible;
        self.stage = match self.stage {
            Stage::Top => {
                body.read_fields(self.levels.top)?;
                self.topics_left = body.reader.array_length(flexible)?;
                top(&body.values);
                Stage::Topic
            }
            Stage::Topic => {
                body.read_fields(self.levels.topic)?;
                self.partitions_left = body.reader.array_length(flexible)?;
                self.topic.set(&body.values);
                self.topics_left -= 1;
                Stage::Partition
            }
            Stage::Partition => {
                body.read_fields(self.levels.partition)?;
                self.begin_partition(partitions, body, left)?;
                Stage::Batch
            }
            Stage::PartitionEnd => {
                body.read_fields(self.levels.partition_end)?;
                body.reader.tagged_fields(flexible)?;
                Stage::Partition
            }
            Stage::TopicEnd => {
                body.reader.tagged_fields(flexible)?;
                Stage::Topic
            }
            Stage::End => {
                body.read_fields(self.levels.end)?;
                body.reader.tagged_fields(flexible)?;
                Stage::Done
            }
            Stage::Batch | Stage::Done => return Err(body.reader.error(ErrorKind::TrailingBytes)),
        };
        Ok(())
    }

    /// Adds the partition whose records start at `body`.
    fn begin_partition(
        &mut self,
        partitions: &mut Vec<Partition>,
        body: &mut BodyReader<'_>,
        left: u64,
    ) -> Result<(), Error> {
        let Levels { flexible, has_records, .. } = self.levels;
        let bytes = if has_records { body.reader.bytes_length(flexible)?.unwrap_or(0) } else { 0 };
        if u64::from(bytes) > left.saturating_sub(body.reader.at() as u64) {
            return Err(body.reader.error(ErrorKind::BadLength(bytes.into())));
        }
        let partition = self.filler.add(partitions, self.topic.name_bytes())?;
        partition.topic.copy_from(&self.topic);
        partition.clear(bytes, has_records.then_some(0));
        partition.set(&body.values);
        self.partitions_left -= 1;
        self.records_left = u64::from(bytes);
        Ok(())
    }

    /// Advances past stages without bytes.
    #[inline]
    fn settle(&mut self) {
        let flexible = self.levels.flexible;
        loop {
            self.stage = match self.stage {
                Stage::Batch if self.records_left == 0 => Stage::PartitionEnd,
                Stage::Partition if self.partitions_left == 0 => Stage::TopicEnd,
                Stage::Topic if self.topics_left == 0 => Stage::End,
                Stage::PartitionEnd if !flexible => Stage::Partition,
                Stage::TopicEnd if !flexible => Stage::Topic,
                Stage::End if !flexible => Stage::Done,
                _ => return,
            };
        }
    }

    fn batch(&mut self, partitions: &mut [Partition], bytes: &[u8], at: usize, options: &Options) -> Step {
        let Some(partition) = self.filler.last(partitions) else { return Step::Rest };
        let window = bytes.get(..usize::try_from(self.records_left).unwrap_or(usize::MAX)).unwrap_or(bytes);
        let error = match BatchHeader::parse(window) {
            Ok(header) if u64::from(header.length_bytes) <= self.records_left => {
                return self.whole_batch(partition, header, window, at, options);
            }
            Ok(header) => {
                let length = header.length_bytes.into();
                Some(Error::new(ErrorKind::BadLength(length), at + 8))
                    .filter(|_| self.origin == Origin::Client)
            }
            Err(Error { kind: ErrorKind::UnexpectedEnd(missing), .. }) => {
                let to_come = self.records_left as usize - window.len();
                if missing <= to_come {
                    return Step::More(missing);
                }
                let kind = ErrorKind::UnexpectedEnd(missing - to_come);
                let end = at + window.len() + to_come;
                Some(Error::new(kind, end)).filter(|_| self.origin == Origin::Client)
            }
            Err(error) => Some(error.shifted(at)),
        };
        // Only this partition is invalid: its byte count says where the next one starts.
        if let Some(error) = error {
            partition.fail(FrameError::Malformed(error));
        }
        Step::Used { bytes: 0, skip: std::mem::take(&mut self.records_left) }
    }

    fn whole_batch(
        &mut self,
        partition: &mut Partition,
        header: BatchHeader,
        window: &[u8],
        at: usize,
        options: &Options,
    ) -> Step {
        let length = header.length_bytes as usize;
        let header_name = options.message_id_header.as_deref().filter(|_| self.origin == Origin::Client);
        if let Some(name) = header_name.filter(|_| header.magic == 2) {
            if length <= options.max_batch_buffer_bytes {
                let Some(batch) = window.get(..length) else { return Step::More(length - window.len()) };
                self.read_message_ids(partition, batch, at, name, options.max_decompressed_bytes);
            } else {
                let kind = ErrorKind::TooLarge(options.max_batch_buffer_bytes);
                partition.fail(FrameError::Malformed(Error::new(kind, at)));
            }
        }
        self.add_batch(partition, header);
        let head = header.head_bytes();
        Step::Used { bytes: head, skip: length.saturating_sub(head) as u64 }
    }

    fn add_batch(&mut self, partition: &mut Partition, header: BatchHeader) {
        let limit = match self.origin {
            Origin::Client => Partition::MAX_PRODUCED_BATCHES,
            Origin::Broker => Partition::MAX_FETCHED_BATCHES,
        };
        partition.add(header, self.filler.batch_limit(limit));
        self.records_left = self.records_left.saturating_sub(u64::from(header.length_bytes));
    }

    fn read_message_ids(
        &mut self,
        partition: &mut Partition,
        batch: &[u8],
        at: usize,
        name: &[u8],
        limit: usize,
    ) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut stored = Ok(());
        let result = message_ids(batch, name, limit, &mut scratch, |id| {
            let id = id.get(..Partition::MAX_MESSAGE_ID_BYTES).unwrap_or(id);
            let text = String::from_utf8_lossy(id);
            match self.filler.keep(size_of::<String>() + text.len()) {
                Ok(()) => partition.message_ids.push(text.into_owned()),
                full => stored = full,
            }
        });
        self.scratch = scratch;
        if let Err(error) = result.and(stored) {
            partition.fail(FrameError::Malformed(error.shifted(at)));
        }
    }

    /// The values in the `held` first bytes of the fields before the topics; the rest is missing.
    pub(super) fn cut_top<'a>(&self, held: &'a [u8]) -> Option<Values<'a>> {
        let mut body = BodyReader::new(held, self.levels.version, self.levels.flexible);
        let _ends_early = body.read_fields(self.levels.top);
        (self.stage == Stage::Top).then_some(body.values)
    }

    /// Handles missing bytes; see [`super::framing::Direction::lost`]. `None` if they are indispensable.
    pub(super) fn lost(
        &mut self,
        partitions: &mut [Partition],
        n: u64,
        held: &[u8],
        skip: u64,
    ) -> Option<u64> {
        if self.stage != Stage::Batch {
            return None;
        }
        let partition = self.filler.last(partitions)?;
        let held_bytes = held.len() as u64;
        let ahead = (skip + self.records_left).checked_sub(held_bytes)?.checked_sub(n)?;
        partition.fail(FrameError::Lost(n));
        // A batch buffered for its message ids: its header is there, and its end is known.
        let header = BatchHeader::parse(held).ok();
        let in_batch = header.filter(|h| u64::from(h.length_bytes) >= held_bytes + n && skip == 0);
        let skip = if let Some(header) = in_batch {
            self.add_batch(partition, header);
            u64::from(header.length_bytes) - held_bytes - n
        } else {
            partition.records = None;
            self.records_left = 0;
            ahead
        };
        self.settle();
        Some(skip)
    }
}

/// The longest wait for followers that is accepted in a body that is only a guess: a day.
const MAX_BELIEVED_TIMEOUT_MS: i32 = 86_400_000;

/// Whether a Produce request's body is plausible up to its first partition. The frame has `left` bytes from the start
/// of `bytes` on. Distinguishes a frame from bytes that look like its header.
pub(super) fn starts_as_produce(levels: &Levels, bytes: &[u8], left: usize) -> Result<bool, Error> {
    let mut body = BodyReader::new(bytes, levels.version, levels.flexible);
    body.read_fields(levels.top)?;
    let topics = body.reader.array_length(levels.flexible)?;
    let acks_are_known = body.values.int(Number::Acks).is_some_and(|acks| (-1..=1).contains(&acks));
    let timeout_ms = body.values.int(Number::TimeoutMs).unwrap_or(0);
    if !acks_are_known || !(0..=MAX_BELIEVED_TIMEOUT_MS).contains(&timeout_ms) {
        return Ok(false);
    }
    body.read_fields(levels.topic)?;
    let partitions = body.reader.array_length(levels.flexible)?;
    if topics == 0 || partitions == 0 || !is_legal_topic(&body.values) {
        return Ok(false);
    }
    body.read_fields(levels.partition)?;
    let bytes = body.reader.bytes_length(levels.flexible)?.unwrap_or(0);
    let fits = bytes as usize <= left.saturating_sub(body.reader.at());
    Ok(fits && body.values.int(Number::Partition).is_some_and(|partition| partition >= 0))
}

/// Whether a broker could have this topic (`Topic.java`: only some characters; names that are too long are not read).
fn is_legal_topic(values: &Values<'_>) -> bool {
    let legal = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
    match values.topic_name {
        Some(name) => !name.is_empty() && name.bytes().all(legal),
        None => values.topic_id.is_some_and(|id| id != [0; 16]),
    }
}
