//! The body of a Produce response (`ProduceResponse.json`; versions 0 to 2 as of 3.9).

use super::{Topic, check_version, is_flexible};
use crate::Error;
use crate::reader::Reader;

/// First versions with each field.
const FIRST_WITH_THROTTLE: i16 = 1;
const FIRST_WITH_LOG_APPEND_TIME: i16 = 2;
const FIRST_WITH_LOG_START_OFFSET: i16 = 5;
/// KIP-467.
const FIRST_WITH_RECORD_ERRORS: i16 = 8;

/// A whole Produce response body.
#[derive(Clone, Debug)]
pub struct ProduceResponse<'a> {
    /// How long the broker throttled the client, in milliseconds (version 1 and later).
    pub throttle_ms: Option<i32>,
    partitions: Responses<'a>,
}

/// One partition's share of a Produce response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionResponse<'a> {
    /// The topic.
    pub topic: Topic<'a>,
    /// The partition's number.
    pub partition: i32,
    /// Kafka's error code; 0 is none.
    pub error_code: i16,
    /// The offset given to the first record, or -1.
    pub base_offset: i64,
    /// When the broker appended it, if the topic uses `LogAppendTime`; else -1.
    pub log_append_time_ms: i64,
    /// The partition's first offset, or -1 (version 5 and later).
    pub log_start_offset: i64,
    /// What the broker says is wrong (version 8 and later).
    pub error_message: Option<&'a str>,
}

impl<'a> ProduceResponse<'a> {
    /// Reads and checks a whole body of that version.
    ///
    /// # Errors
    /// `UnsupportedVersion` outside 0 to 13, and whatever is wrong with the body.
    pub fn parse(body: &'a [u8], version: i16) -> Result<Self, Error> {
        check_version(version)?;
        let mut reader = Reader::new(body);
        let topics_left = reader.array_length(is_flexible(version))?;
        let partitions = Responses { reader, version, topic: None, partitions_left: 0, topics_left };
        let mut walk = partitions.clone();
        while walk.read_next()?.is_some() {}
        let mut reader = walk.reader;
        let throttle_ms = if version >= FIRST_WITH_THROTTLE { Some(reader.i32()?) } else { None };
        reader.tagged_fields(is_flexible(version))?;
        reader.finish()?;
        Ok(Self { throttle_ms, partitions })
    }

    /// The partitions of all topics in order.
    pub fn partitions(&self) -> Responses<'a> {
        self.partitions.clone()
    }
}

/// Iterates over the partitions of a [`ProduceResponse`].
#[derive(Clone, Debug)]
pub struct Responses<'a> {
    reader: Reader<'a>,
    version: i16,
    topic: Option<Topic<'a>>,
    partitions_left: u32,
    topics_left: u32,
}

impl<'a> Responses<'a> {
    fn read_next(&mut self) -> Result<Option<PartitionResponse<'a>>, Error> {
        let flexible = is_flexible(self.version);
        loop {
            match self.topic {
                Some(topic) if self.partitions_left > 0 => {
                    self.partitions_left -= 1;
                    return self.partition(topic).map(Some);
                }
                Some(_) => {
                    self.topic = None;
                    self.reader.tagged_fields(flexible)?;
                }
                None if self.topics_left > 0 => {
                    self.topics_left -= 1;
                    self.topic = Some(Topic::read(&mut self.reader, self.version)?);
                    self.partitions_left = self.reader.array_length(flexible)?;
                }
                None => return Ok(None),
            }
        }
    }

    fn partition(&mut self, topic: Topic<'a>) -> Result<PartitionResponse<'a>, Error> {
        let (version, flexible) = (self.version, is_flexible(self.version));
        let reader = &mut self.reader;
        let mut partition = PartitionResponse {
            topic,
            partition: reader.i32()?,
            error_code: reader.i16()?,
            base_offset: reader.i64()?,
            log_append_time_ms: if version >= FIRST_WITH_LOG_APPEND_TIME { reader.i64()? } else { -1 },
            log_start_offset: if version >= FIRST_WITH_LOG_START_OFFSET { reader.i64()? } else { -1 },
            error_message: None,
        };
        if version >= FIRST_WITH_RECORD_ERRORS {
            for _ in 0..reader.array_length(flexible)? {
                reader.i32()?;
                reader.nullable_string(flexible)?;
                reader.tagged_fields(flexible)?;
            }
            partition.error_message = reader.nullable_string(flexible)?;
        }
        // CurrentLeader and NodeEndpoints (KIP-951) are tagged fields.
        reader.tagged_fields(flexible)?;
        Ok(partition)
    }
}

impl<'a> Iterator for Responses<'a> {
    type Item = PartitionResponse<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        // ProduceResponse::parse has walked the same bytes without an error.
        self.read_next().ok().flatten()
    }
}
