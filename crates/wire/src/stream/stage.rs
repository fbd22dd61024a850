//! The order of a body that lists topics, their partitions and those partitions' record batches: a Produce
//! request's and a Fetch response's. Does not read what the elements hold.

use crate::reader::Reader;
use crate::{Error, ErrorKind};

/// What comes next in such a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Top,
    Topic,
    Partition,
    Batch,
    /// Tagged fields.
    PartitionEnd,
    TopicEnd,
    End,
    Done,
}

/// What is still to come at each level.
pub(super) struct Left {
    pub(super) topics: u32,
    pub(super) partitions: u32,
    /// Bytes of the current partition's records from the next batch on.
    pub(super) record_bytes: u64,
}

impl Stage {
    /// Reads the tagged fields that end a partition, a topic or the body; says what follows.
    pub(super) fn read_end(self, reader: &mut Reader<'_>) -> Result<Self, Error> {
        let next = match self {
            Self::PartitionEnd => Self::Partition,
            Self::TopicEnd => Self::Topic,
            Self::End => Self::Done,
            _ => return Err(reader.error(ErrorKind::TrailingBytes)),
        };
        reader.tagged_fields(true)?;
        Ok(next)
    }

    /// The next stage that takes bytes.
    pub(super) fn settled(mut self, left: &Left, flexible: bool) -> Self {
        loop {
            self = match self {
                Self::Batch if left.record_bytes == 0 => Self::PartitionEnd,
                Self::Partition if left.partitions == 0 => Self::TopicEnd,
                Self::Topic if left.topics == 0 => Self::End,
                Self::PartitionEnd if !flexible => Self::Partition,
                Self::TopicEnd if !flexible => Self::Topic,
                Self::End if !flexible => Self::Done,
                settled => return settled,
            };
        }
    }
}
