//! Walks the body of a response that may bring records element by element as its bytes come. Passes over records.

use super::dialect::Dialect;
use super::framing::Step;
use super::produce::{element, set_topic};
use super::stage::{Left, Stage};
use super::{FetchResponseBody, FetchedPartition, FrameError, TopicRef};
use crate::batch::BatchHeader;
use crate::fetch::PartitionTop;
use crate::produce::Topic;
use crate::reader::Reader;
use crate::{ApiKey, Error, ErrorKind};

/// What is kept of one response: more partitions than fit are an error.
const MAX_KEPT_BYTES: usize = 8 << 20;
/// How many partitions' buffers are kept for later responses.
const MAX_POOLED: usize = 1024;

/// The state of one body, and buffers that live on from body to body.
pub(super) struct FetchWalk {
    dialect: Dialect,
    stage: Stage,
    topics_left: u32,
    partitions_left: u32,
    /// Bytes of the current partition's records from the next batch on.
    records_left: u64,
    topic: TopicRef,
    kept_bytes: usize,
    pool: Vec<FetchedPartition>,
    /// How long the broker throttled the client, once it was read.
    pub(super) throttle_ms: Option<i32>,
    /// The body's own error code, once it was read, where it has one.
    pub(super) error_code: Option<i16>,
}

impl FetchWalk {
    pub(super) fn new() -> Self {
        Self {
            dialect: Dialect::FIRST,
            stage: Stage::Done,
            topics_left: 0,
            partitions_left: 0,
            records_left: 0,
            topic: TopicRef::Name(String::new()),
            kept_bytes: 0,
            pool: Vec::new(),
            throttle_ms: None,
            error_code: None,
        }
    }

    /// A body of that version begins; `body` is an earlier one.
    ///
    /// # Errors
    /// A version that is not known.
    pub(super) fn begin(
        &mut self,
        api_key: ApiKey,
        version: i16,
        body: &mut FetchResponseBody,
    ) -> Result<(), Error> {
        (self.throttle_ms, self.error_code) = (None, None);
        self.dialect = Dialect::of(api_key, version)?;
        self.stage = Stage::Top;
        self.kept_bytes = 0;
        self.records_left = 0;
        body.session_id = 0;
        let room = MAX_POOLED.saturating_sub(self.pool.len());
        self.pool.extend(body.partitions.drain(..).take(room));
        Ok(())
    }

    pub(super) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Reads one element. `left` is what the frame holds from the first of `bytes` on, `at` what it held
    /// before; an error's offset is the frame's.
    pub(super) fn step(
        &mut self,
        body: &mut FetchResponseBody,
        bytes: &[u8],
        left: u64,
        at: usize,
    ) -> Result<Step, Error> {
        let step = match self.stage {
            Stage::Batch => self.batch(body, bytes, at),
            _ => element(bytes, |reader| self.read_element(body, reader, left))
                .map_err(|error| error.shifted(at))?,
        };
        self.settle();
        Ok(step)
    }

    fn read_element(
        &mut self,
        body: &mut FetchResponseBody,
        reader: &mut Reader<'_>,
        left: u64,
    ) -> Result<(), Error> {
        match self.stage {
            Stage::Top => {
                let top = self.dialect.top(reader)?;
                (self.throttle_ms, self.error_code) = (top.throttle_ms, top.error_code);
                body.session_id = top.session_id;
                self.topics_left = top.topics;
                self.stage = Stage::Topic;
            }
            Stage::Topic => {
                let (topic, partitions) = self.dialect.topic(reader)?;
                set_topic(&mut self.topic, topic);
                self.topics_left -= 1;
                self.partitions_left = partitions;
                self.stage = Stage::Partition;
            }
            Stage::Partition => {
                let top = self.dialect.partition(reader)?;
                let bytes = top.bytes.unwrap_or(0);
                if u64::from(bytes) > left.saturating_sub(reader.at() as u64) {
                    return Err(reader.error(ErrorKind::BadLength { length: bytes.into() }));
                }
                self.add_partition(body, top)?;
                self.partitions_left -= 1;
                self.records_left = u64::from(bytes);
                self.stage = Stage::Batch;
            }
            Stage::PartitionEnd => {
                self.dialect.partition_end(reader)?;
                self.stage = Stage::Partition;
            }
            Stage::End => {
                self.dialect.end(reader)?;
                self.stage = Stage::Done;
            }
            stage => self.stage = stage.read_end(reader)?,
        }
        Ok(())
    }

    /// Moves on from a stage that takes no bytes.
    fn settle(&mut self) {
        let left = Left {
            topics: self.topics_left,
            partitions: self.partitions_left,
            record_bytes: self.records_left,
        };
        self.stage = self.stage.settled(&left, self.dialect.has_ends());
    }

    fn add_partition(&mut self, body: &mut FetchResponseBody, top: PartitionTop) -> Result<(), Error> {
        let name_bytes = if let TopicRef::Name(name) = &self.topic { name.len() } else { 0 };
        self.kept_bytes = self.kept_bytes.saturating_add(size_of::<FetchedPartition>() + name_bytes);
        if self.kept_bytes > MAX_KEPT_BYTES {
            return Err(Error::new(ErrorKind::TooLarge { limit: MAX_KEPT_BYTES }, 0));
        }
        let mut partition = self.pool.pop().unwrap_or_else(FetchedPartition::empty);
        match &self.topic {
            TopicRef::Name(name) => set_topic(&mut partition.topic, Topic::Name(name)),
            TopicRef::Id(id) => partition.topic = TopicRef::Id(*id),
        }
        partition.restart(top);
        if !self.dialect.has_records() {
            partition.records = None;
        }
        body.partitions.push(partition);
        Ok(())
    }

    fn batch(&mut self, body: &mut FetchResponseBody, bytes: &[u8], at: usize) -> Step {
        let Some(partition) = body.partitions.last_mut() else { return Step::Rest };
        let window = bytes.get(..usize::try_from(self.records_left).unwrap_or(usize::MAX)).unwrap_or(bytes);
        match BatchHeader::parse(window) {
            Ok(header) if u64::from(header.length_bytes) <= self.records_left => {
                partition.add(header);
                let (length, head) = (u64::from(header.length_bytes), header.head_bytes());
                self.records_left -= length;
                return Step::Used { bytes: head, skip: length.saturating_sub(head as u64) };
            }
            Err(Error { kind: ErrorKind::UnexpectedEnd { missing }, .. })
                if (window.len() + missing) as u64 <= self.records_left =>
            {
                return Step::More(missing);
            }
            // A broker answers with so many bytes of the log, wherever in a batch they end.
            Ok(_) | Err(Error { kind: ErrorKind::UnexpectedEnd { .. }, .. }) => {}
            Err(error) => partition.fail(FrameError::Malformed(error.shifted(at))),
        }
        Step::Used { bytes: 0, skip: std::mem::take(&mut self.records_left) }
    }

    /// Bytes are missing; see [`super::framing::Direction::lost`]. None if they cannot be done without.
    pub(super) fn lost(
        &mut self,
        body: &mut FetchResponseBody,
        n: u64,
        held: &[u8],
        skip: u64,
    ) -> Option<u64> {
        if self.stage != Stage::Batch {
            return None;
        }
        let partition = body.partitions.last_mut()?;
        let ahead = (skip + self.records_left).checked_sub(held.len() as u64)?.checked_sub(n)?;
        partition.fail(FrameError::Lost { bytes: n });
        partition.records = None;
        self.records_left = 0;
        self.settle();
        Some(ahead)
    }
}

impl FetchedPartition {
    fn empty() -> Self {
        Self {
            topic: TopicRef::Id([0; 16]),
            partition: 0,
            error_code: 0,
            high_watermark: -1,
            log_start_offset: -1,
            bytes: 0,
            batches: Vec::new(),
            batches_omitted: 0,
            records: Some(0),
            error: None,
        }
    }

    /// Clears what an earlier response left, but for its topic.
    fn restart(&mut self, top: PartitionTop) {
        (self.partition, self.error_code) = (top.partition, top.error_code);
        (self.high_watermark, self.log_start_offset) = (top.high_watermark, top.log_start_offset);
        self.bytes = top.bytes.unwrap_or(0);
        self.batches.clear();
        self.batches_omitted = 0;
        self.records = Some(0);
        self.error = None;
    }

    fn add(&mut self, header: BatchHeader) {
        self.records = match (self.records, header.records()) {
            (Some(sum), Some(records)) => Some(sum + u64::from(records)),
            _ => None,
        };
        if self.batches.len() < Self::MAX_BATCHES {
            self.batches.push(header);
        } else {
            self.batches_omitted = self.batches_omitted.saturating_add(1);
        }
    }

    /// The first error counts.
    fn fail(&mut self, error: FrameError) {
        self.error.get_or_insert(error);
    }
}
