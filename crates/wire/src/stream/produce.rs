//! Walks a Produce request's body element by element as its bytes come. Passes over records, unless the
//! message ids in them are wanted.

use super::framing::Step;
use super::stage::{Left, Stage};
use super::{FrameError, Options, ProduceBody, ProducePartition, TopicRef};
use crate::batch::BatchHeader;
use crate::produce::{RequestTop, Topic, first_fields, is_flexible, partition_top, topic_top};
use crate::reader::Reader;
use crate::record::message_ids;
use crate::{Error, ErrorKind};

/// No element but a batch is larger than this: two strings and tagged fields.
pub(super) const MAX_ELEMENT_BYTES: usize = 128 << 10;
/// What is kept of one request: more partitions or message ids than fit are an error.
const MAX_KEPT_BYTES: usize = 8 << 20;
/// How many partitions' buffers are kept for later requests.
const MAX_POOLED: usize = 1024;
/// Larger scratch space is given back.
const KEEP_SCRATCH_BYTES: usize = 256 << 10;

/// The state of one body, and buffers that live on from body to body.
pub(super) struct ProduceWalk {
    version: i16,
    stage: Stage,
    topics_left: u32,
    partitions_left: u32,
    /// Bytes of the current partition's records from the next batch on.
    records_left: u64,
    topic: TopicRef,
    kept_bytes: usize,
    pool: Vec<ProducePartition>,
    scratch: Vec<u8>,
}

impl ProduceWalk {
    pub(super) fn new() -> Self {
        Self {
            version: 0,
            stage: Stage::Top,
            topics_left: 0,
            partitions_left: 0,
            records_left: 0,
            topic: TopicRef::Name(String::new()),
            kept_bytes: 0,
            pool: Vec::new(),
            scratch: Vec::new(),
        }
    }

    pub(super) fn begin(&mut self, version: i16, body: &mut ProduceBody) {
        self.version = version;
        self.stage = Stage::Top;
        self.kept_bytes = 0;
        self.records_left = 0;
        let room = MAX_POOLED.saturating_sub(self.pool.len());
        self.pool.extend(body.partitions.drain(..).take(room));
        if let Some(id) = &mut body.transactional_id {
            id.clear();
        }
        (body.acks, body.timeout_ms) = (None, 0);
        if self.scratch.capacity() > KEEP_SCRATCH_BYTES {
            self.scratch = Vec::new();
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Reads one element. `left` is what the frame holds from the first of `bytes` on, `at` what it held
    /// before; an error's offset is the frame's.
    pub(super) fn step(
        &mut self,
        body: &mut ProduceBody,
        bytes: &[u8],
        left: u64,
        at: usize,
        options: &Options,
    ) -> Result<Step, Error> {
        let step = match self.stage {
            Stage::Batch => self.batch(body, bytes, at, options),
            _ => element(bytes, |reader| self.read_element(body, reader, left))
                .map_err(|error| error.shifted(at))?,
        };
        self.settle();
        Ok(step)
    }

    fn read_element(
        &mut self,
        body: &mut ProduceBody,
        reader: &mut Reader<'_>,
        left: u64,
    ) -> Result<(), Error> {
        match self.stage {
            Stage::Top => {
                let top = RequestTop::read(reader, self.version)?;
                set_text(&mut body.transactional_id, top.transactional_id);
                (body.acks, body.timeout_ms) = (Some(top.acks), top.timeout_ms);
                self.topics_left = top.topics;
                self.stage = Stage::Topic;
            }
            Stage::Topic => {
                let (topic, partitions) = topic_top(reader, self.version)?;
                set_topic(&mut self.topic, topic);
                self.topics_left -= 1;
                self.partitions_left = partitions;
                self.stage = Stage::Partition;
            }
            Stage::Partition => {
                let (partition, bytes) = partition_top(reader, self.version)?;
                let bytes = bytes.unwrap_or(0);
                if u64::from(bytes) > left.saturating_sub(reader.at() as u64) {
                    return Err(reader.error(ErrorKind::BadLength { length: bytes.into() }));
                }
                self.add_partition(body, partition, bytes)?;
                self.partitions_left -= 1;
                self.records_left = u64::from(bytes);
                self.stage = Stage::Batch;
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
        self.stage = self.stage.settled(&left, is_flexible(self.version));
    }

    fn keep(&mut self, bytes: usize) -> bool {
        self.kept_bytes = self.kept_bytes.saturating_add(bytes);
        self.kept_bytes <= MAX_KEPT_BYTES
    }

    fn add_partition(&mut self, body: &mut ProduceBody, number: i32, bytes: u32) -> Result<(), Error> {
        let name_bytes = if let TopicRef::Name(name) = &self.topic { name.len() } else { 0 };
        if !self.keep(size_of::<ProducePartition>() + name_bytes) {
            return Err(Error::new(ErrorKind::TooLarge { limit: MAX_KEPT_BYTES }, 0));
        }
        let mut partition = self.pool.pop().unwrap_or_else(|| ProducePartition::empty(TopicRef::Id([0; 16])));
        match &self.topic {
            TopicRef::Name(name) => set_topic(&mut partition.topic, Topic::Name(name)),
            TopicRef::Id(id) => partition.topic = TopicRef::Id(*id),
        }
        partition.restart(number, bytes);
        body.partitions.push(partition);
        Ok(())
    }

    fn batch(&mut self, body: &mut ProduceBody, bytes: &[u8], at: usize, options: &Options) -> Step {
        let Some(partition) = body.partitions.last_mut() else { return Step::Rest };
        let window = bytes.get(..usize::try_from(self.records_left).unwrap_or(usize::MAX)).unwrap_or(bytes);
        let header = match BatchHeader::parse(window) {
            Ok(header) if u64::from(header.length_bytes) <= self.records_left => header,
            Ok(header) => {
                let kind = ErrorKind::BadLength { length: header.length_bytes.into() };
                return self.give_up(partition, Error::new(kind, at + 8));
            }
            Err(Error { kind: ErrorKind::UnexpectedEnd { missing }, .. }) => {
                let to_come = self.records_left as usize - window.len();
                if missing <= to_come {
                    return Step::More(missing);
                }
                let kind = ErrorKind::UnexpectedEnd { missing: missing - to_come };
                return self.give_up(partition, Error::new(kind, at + window.len() + to_come));
            }
            Err(error) => return self.give_up(partition, error.shifted(at)),
        };
        let length = header.length_bytes as usize;
        if let Some(name) = options.message_id_header.as_deref() {
            if header.magic == 2 && length <= options.max_batch_buffer_bytes {
                let Some(batch) = window.get(..length) else { return Step::More(length - window.len()) };
                self.read_message_ids(partition, batch, at, name, options.max_decompressed_bytes);
            } else if header.magic == 2 {
                let kind = ErrorKind::TooLarge { limit: options.max_batch_buffer_bytes };
                partition.fail(FrameError::Malformed(Error::new(kind, at)));
            }
        }
        partition.add(header);
        self.records_left -= u64::from(header.length_bytes);
        let head = header.head_bytes();
        Step::Used { bytes: head, skip: length.saturating_sub(head) as u64 }
    }

    /// Only this partition is wrong: its byte count says where the next one starts.
    fn give_up(&mut self, partition: &mut ProducePartition, error: Error) -> Step {
        partition.fail(FrameError::Malformed(error));
        let skip = self.records_left;
        self.records_left = 0;
        Step::Used { bytes: 0, skip }
    }

    fn read_message_ids(
        &mut self,
        partition: &mut ProducePartition,
        batch: &[u8],
        at: usize,
        name: &[u8],
        limit: usize,
    ) {
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut full = false;
        let result = message_ids(batch, name, limit, &mut scratch, |id| {
            let id = id.get(..ProducePartition::MAX_MESSAGE_ID_BYTES).unwrap_or(id);
            let text = String::from_utf8_lossy(id);
            if self.keep(size_of::<String>() + text.len()) {
                partition.message_ids.push(text.into_owned());
            } else {
                full = true;
            }
        });
        self.scratch = scratch;
        let kept =
            if full { Err(Error::new(ErrorKind::TooLarge { limit: MAX_KEPT_BYTES }, 0)) } else { Ok(()) };
        if let Err(error) = result.and(kept) {
            partition.fail(FrameError::Malformed(error.shifted(at)));
        }
    }

    /// Bytes are missing; see [`super::framing::Direction::lost`]. None if they cannot be done without.
    pub(super) fn lost(&mut self, body: &mut ProduceBody, n: u64, held: &[u8], skip: u64) -> Option<u64> {
        if self.stage == Stage::Top {
            // Whether there will be an answer depends on acks: worth having alone.
            if let Ok((transactional_id, acks)) = first_fields(&mut Reader::new(held), self.version) {
                set_text(&mut body.transactional_id, transactional_id);
                body.acks = Some(acks);
            }
        }
        if self.stage != Stage::Batch {
            return None;
        }
        let partition = body.partitions.last_mut()?;
        let held_bytes = held.len() as u64;
        let ahead = (skip + self.records_left).checked_sub(held_bytes)?.checked_sub(n)?;
        partition.fail(FrameError::Lost { bytes: n });
        // A batch held for its message ids: its head is there, and its end is known.
        let header = BatchHeader::parse(held).ok();
        let in_batch = header.filter(|h| u64::from(h.length_bytes) >= held_bytes + n && skip == 0);
        let skip = if let Some(header) = in_batch {
            partition.add(header);
            self.records_left = self.records_left.saturating_sub(u64::from(header.length_bytes));
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

impl ProducePartition {
    fn empty(topic: TopicRef) -> Self {
        Self {
            topic,
            partition: 0,
            bytes: 0,
            batches: Vec::new(),
            batches_omitted: 0,
            records: Some(0),
            message_ids: Vec::new(),
            error: None,
        }
    }

    /// Clears what an earlier request left, but for its topic.
    fn restart(&mut self, partition: i32, bytes: u32) {
        (self.partition, self.bytes) = (partition, bytes);
        self.batches.clear();
        self.batches_omitted = 0;
        self.records = Some(0);
        self.message_ids.clear();
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

/// Reads one element of a body if it is all there, within bounds.
pub(super) fn element(
    bytes: &[u8],
    read: impl FnOnce(&mut Reader<'_>) -> Result<(), Error>,
) -> Result<Step, Error> {
    let mut reader = Reader::new(bytes);
    match read(&mut reader) {
        Ok(()) => Ok(Step::Used { bytes: reader.at(), skip: 0 }),
        Err(Error { kind: ErrorKind::UnexpectedEnd { missing }, at }) => {
            if bytes.len().saturating_add(missing) > MAX_ELEMENT_BYTES {
                return Err(Error::new(ErrorKind::TooLarge { limit: MAX_ELEMENT_BYTES }, at));
            }
            Ok(Step::More(missing))
        }
        Err(error) => Err(error),
    }
}

/// Sets a text, reusing its buffer.
pub(super) fn set_text(slot: &mut Option<String>, text: Option<&str>) {
    match (slot.as_mut(), text) {
        (Some(kept), Some(text)) => {
            kept.clear();
            kept.push_str(text);
        }
        _ => *slot = text.map(str::to_owned),
    }
}

/// Sets a topic, reusing its name's buffer.
pub(super) fn set_topic(slot: &mut TopicRef, topic: Topic<'_>) {
    match (slot, topic) {
        (TopicRef::Name(kept), Topic::Name(name)) => {
            kept.clear();
            kept.push_str(name);
        }
        (slot, Topic::Name(name)) => *slot = TopicRef::Name(name.to_owned()),
        (slot, Topic::Id(id)) => *slot = TopicRef::Id(id),
    }
}
