//! The elements of `ShareFetch` and `ShareAcknowledge` responses. A response as a whole may be too large to hold.

use super::FIRST_WITH_RENEWAL;
use crate::fetch::{PartitionTop, ResponseTop};
use crate::produce::Topic;
use crate::reader::Reader;
use crate::{ApiKey, Error};

/// What stands before the topics.
pub(crate) fn response_top(
    reader: &mut Reader<'_>,
    api_key: ApiKey,
    version: i16,
) -> Result<ResponseTop, Error> {
    let throttle_ms = Some(reader.i32()?);
    let error_code = Some(reader.i16()?);
    reader.nullable_string(true)?; // error message
    if api_key == ApiKey::SHARE_FETCH || version >= FIRST_WITH_RENEWAL {
        reader.i32()?; // for how long records are locked
    }
    Ok(ResponseTop { throttle_ms, error_code, session_id: 0, topics: reader.array_length(true)? })
}

/// A topic and the number of its partitions.
pub(crate) fn topic_top<'a>(reader: &mut Reader<'a>) -> Result<(Topic<'a>, u32), Error> {
    Ok((Topic::Id(reader.uuid()?), reader.array_length(true)?))
}

/// A partition as far as its records; `ShareAcknowledge` has none.
pub(crate) fn partition_top(reader: &mut Reader<'_>, api_key: ApiKey) -> Result<PartitionTop, Error> {
    let fetches = api_key == ApiKey::SHARE_FETCH;
    let partition = reader.i32()?;
    let mut error_code = reader.i16()?;
    reader.nullable_string(true)?; // error message
    if fetches {
        // A ShareFetch may acknowledge as well: the fetch's own error comes first.
        let of_acknowledging = reader.i16()?;
        reader.nullable_string(true)?;
        error_code = if error_code == 0 { of_acknowledging } else { error_code };
    }
    reader.take(4 + 4)?; // the leader and its epoch
    reader.tagged_fields(true)?;
    let bytes = if fetches { reader.bytes_length(true)? } else { None };
    Ok(PartitionTop { partition, error_code, high_watermark: -1, log_start_offset: -1, bytes })
}

/// What follows a partition's records.
pub(crate) fn partition_end(reader: &mut Reader<'_>, api_key: ApiKey) -> Result<(), Error> {
    if api_key == ApiKey::SHARE_FETCH {
        for _ in 0..reader.array_length(true)? {
            reader.take(8 + 8 + 2)?; // acquired: first and last offset, how often delivered
            reader.tagged_fields(true)?;
        }
    }
    reader.tagged_fields(true)
}

/// What follows the topics: where the partitions' leaders are.
pub(crate) fn response_end(reader: &mut Reader<'_>) -> Result<(), Error> {
    for _ in 0..reader.array_length(true)? {
        reader.i32()?;
        reader.string(true)?;
        reader.i32()?;
        reader.nullable_string(true)?;
        reader.tagged_fields(true)?;
    }
    reader.tagged_fields(true)
}
