//! The elements of a Fetch response (`FetchResponse.json`; versions 0 to 3 as of 3.9). A response as a whole
//! may be too large to hold.

use super::{FIRST_WITH_SESSION, is_flexible, topic};
use crate::Error;
use crate::produce::Topic;
use crate::reader::Reader;

/// First versions with each field.
const FIRST_WITH_THROTTLE: i16 = 1;
const FIRST_WITH_LAST_STABLE_OFFSET: i16 = 4;
const FIRST_WITH_LOG_START_OFFSET: i16 = 5;
/// KIP-392.
const FIRST_WITH_PREFERRED_REPLICA: i16 = 11;

/// What stands before the topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResponseTop {
    pub(crate) throttle_ms: Option<i32>,
    /// None before version 7.
    pub(crate) error_code: Option<i16>,
    pub(crate) session_id: i32,
    pub(crate) topics: u32,
}

impl ResponseTop {
    pub(crate) fn read(reader: &mut Reader<'_>, version: i16) -> Result<Self, Error> {
        let throttle_ms = if version >= FIRST_WITH_THROTTLE { Some(reader.i32()?) } else { None };
        let has_session = version >= FIRST_WITH_SESSION;
        let error_code = if has_session { Some(reader.i16()?) } else { None };
        let session_id = if has_session { reader.i32()? } else { 0 };
        let topics = reader.array_length(is_flexible(version))?;
        Ok(Self { throttle_ms, error_code, session_id, topics })
    }
}

/// A topic and the number of its partitions.
pub(crate) fn topic_top<'a>(reader: &mut Reader<'a>, version: i16) -> Result<(Topic<'a>, u32), Error> {
    Ok((topic(reader, version)?, reader.array_length(is_flexible(version))?))
}

/// A partition as far as its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartitionTop {
    pub(crate) partition: i32,
    pub(crate) error_code: i16,
    pub(crate) high_watermark: i64,
    pub(crate) log_start_offset: i64,
    /// Bytes of the records that follow; none is null.
    pub(crate) bytes: Option<u32>,
}

impl PartitionTop {
    pub(crate) fn read(reader: &mut Reader<'_>, version: i16) -> Result<Self, Error> {
        let flexible = is_flexible(version);
        let partition = reader.i32()?;
        let error_code = reader.i16()?;
        let high_watermark = reader.i64()?;
        if version >= FIRST_WITH_LAST_STABLE_OFFSET {
            reader.i64()?;
        }
        let log_start_offset = if version >= FIRST_WITH_LOG_START_OFFSET { reader.i64()? } else { -1 };
        if version >= FIRST_WITH_LAST_STABLE_OFFSET {
            // Aborted transactions: producer id, first offset.
            for _ in 0..reader.nullable_array(flexible)?.unwrap_or(0) {
                reader.take(8 + 8)?;
                reader.tagged_fields(flexible)?;
            }
        }
        if version >= FIRST_WITH_PREFERRED_REPLICA {
            reader.i32()?;
        }
        let bytes = reader.bytes_length(flexible)?;
        Ok(Self { partition, error_code, high_watermark, log_start_offset, bytes })
    }
}
