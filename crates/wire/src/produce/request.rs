//! The body of a Produce request (`ProduceRequest.json`; versions 0 to 2 as of 3.9). Records stay bytes.

use super::{Topic, check_version, is_flexible};
use crate::Error;
use crate::reader::Reader;

/// First version with a transactional id (KIP-98).
const FIRST_WITH_TRANSACTIONAL_ID: i16 = 3;

/// What stands before the topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestTop<'a> {
    pub(crate) transactional_id: Option<&'a str>,
    pub(crate) acks: i16,
    pub(crate) timeout_ms: i32,
    pub(crate) topics: u32,
}

impl<'a> RequestTop<'a> {
    pub(crate) fn read(reader: &mut Reader<'a>, version: i16) -> Result<Self, Error> {
        let (transactional_id, acks) = first_fields(reader, version)?;
        let timeout_ms = reader.i32()?;
        Ok(Self { transactional_id, acks, timeout_ms, topics: reader.array_length(is_flexible(version))? })
    }
}

/// The transactional id and acks.
pub(crate) fn first_fields<'a>(
    reader: &mut Reader<'a>,
    version: i16,
) -> Result<(Option<&'a str>, i16), Error> {
    let has_id = version >= FIRST_WITH_TRANSACTIONAL_ID;
    let id = if has_id { reader.nullable_string(is_flexible(version))? } else { None };
    Ok((id, reader.i16()?))
}

/// A topic and the number of its partitions.
#[inline]
pub(crate) fn topic_top<'a>(reader: &mut Reader<'a>, version: i16) -> Result<(Topic<'a>, u32), Error> {
    Ok((Topic::read(reader, version)?, reader.array_length(is_flexible(version))?))
}

/// A partition's number and the bytes of its records; none is null.
#[inline]
pub(crate) fn partition_top(reader: &mut Reader<'_>, version: i16) -> Result<(i32, Option<u32>), Error> {
    Ok((reader.i32()?, reader.bytes_length(is_flexible(version))?))
}

/// A longer wait for followers is not believed of a body that is only guessed at: a day.
const MAX_BELIEVED_TIMEOUT_MS: i32 = 86_400_000;

/// Whether a body starts as real ones do, as far as its first partition, in a frame that has `left` bytes
/// from `reader` on. For telling a frame from bytes that look like its header.
pub(crate) fn starts_soundly(reader: &mut Reader<'_>, version: i16, left: usize) -> Result<bool, Error> {
    let start = reader.at();
    let top = RequestTop::read(reader, version)?;
    if !(-1..=1).contains(&top.acks) || !(0..=MAX_BELIEVED_TIMEOUT_MS).contains(&top.timeout_ms) {
        return Ok(false);
    }
    let (topic, partitions) = topic_top(reader, version)?;
    if top.topics == 0 || partitions == 0 || !topic.is_legal() {
        return Ok(false);
    }
    let (partition, bytes) = partition_top(reader, version)?;
    let left = left.saturating_sub(reader.at() - start);
    Ok(partition >= 0 && bytes.unwrap_or(0) as usize <= left)
}

/// A whole Produce request body.
#[derive(Clone, Debug)]
pub struct ProduceRequest<'a> {
    /// The transaction's id (version 3 and later).
    pub transactional_id: Option<&'a str>,
    /// 0, 1 or -1 (all).
    pub acks: i16,
    /// How long the broker may wait for followers, in milliseconds.
    pub timeout_ms: i32,
    partitions: Requested<'a>,
}

/// One partition's share of a Produce request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionData<'a> {
    /// The topic.
    pub topic: Topic<'a>,
    /// The partition's number.
    pub partition: i32,
    /// Its record batches, as bytes.
    pub records: Option<&'a [u8]>,
}

impl<'a> ProduceRequest<'a> {
    /// Reads the head of a body of that version; partitions are read as they are asked for.
    ///
    /// # Errors
    /// `UnsupportedVersion` outside 0 to 13, and what is wrong with the head.
    pub fn parse(body: &'a [u8], version: i16) -> Result<Self, Error> {
        check_version(version)?;
        let mut reader = Reader::new(body);
        let top = RequestTop::read(&mut reader, version)?;
        Ok(Self {
            transactional_id: top.transactional_id,
            acks: top.acks,
            timeout_ms: top.timeout_ms,
            partitions: Requested {
                reader,
                version,
                topic: None,
                partitions_left: 0,
                topics_left: top.topics,
                done: false,
            },
        })
    }

    /// The partitions of all topics in order. The last item is an error if the body has one.
    pub fn partitions(&self) -> Requested<'a> {
        self.partitions.clone()
    }
}

/// Iterates over the partitions of a [`ProduceRequest`].
#[derive(Clone, Debug)]
pub struct Requested<'a> {
    reader: Reader<'a>,
    version: i16,
    topic: Option<Topic<'a>>,
    partitions_left: u32,
    topics_left: u32,
    done: bool,
}

impl<'a> Requested<'a> {
    fn read_next(&mut self) -> Result<Option<PartitionData<'a>>, Error> {
        let flexible = is_flexible(self.version);
        loop {
            match self.topic {
                Some(topic) if self.partitions_left > 0 => {
                    self.partitions_left -= 1;
                    let (partition, length) = partition_top(&mut self.reader, self.version)?;
                    let records = length.map(|n| self.reader.take(n as usize)).transpose()?;
                    self.reader.tagged_fields(flexible)?;
                    return Ok(Some(PartitionData { topic, partition, records }));
                }
                Some(_) => {
                    self.topic = None;
                    self.reader.tagged_fields(flexible)?;
                }
                None if self.topics_left > 0 => {
                    self.topics_left -= 1;
                    let (topic, partitions) = topic_top(&mut self.reader, self.version)?;
                    self.topic = Some(topic);
                    self.partitions_left = partitions;
                }
                None => {
                    self.reader.tagged_fields(flexible)?;
                    self.reader.finish()?;
                    return Ok(None);
                }
            }
        }
    }
}

impl<'a> Iterator for Requested<'a> {
    type Item = Result<PartitionData<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let item = self.read_next();
        self.done = !matches!(item, Ok(Some(_)));
        item.transpose()
    }
}
