//! Messages of magic 0 and 1, alone or as a compressed set inside one. Does not walk an outer message set.
//!
//! After `LegacyRecord.java` and `AbstractLegacyRecordBatch.java`: a compressed message's value is a message
//! set whose messages are not compressed again. With magic 1 the inner offsets count from 0 and the outer
//! one is the last message's (KIP-31), or 0 from early versions of librdkafka; with magic 0 they are absolute.

use super::{Headers, Record};
use crate::batch::{BatchHeader, TimestampType};
use crate::compression::{Codec, decompress};
use crate::reader::Reader;
use crate::{Error, ErrorKind};

/// Iterates over one message, or over those it holds.
#[derive(Clone, Debug)]
pub(super) struct Messages<'a> {
    set: Reader<'a>,
    /// Added to the messages' own offsets.
    offset_shift: i64,
    /// The timestamp that stands for all of them.
    append_time_ms: Option<i64>,
    inside: bool,
}

impl<'a> Messages<'a> {
    pub(super) fn open(
        header: &BatchHeader,
        message: &'a [u8],
        limit: usize,
        scratch: &'a mut Vec<u8>,
    ) -> Result<Self, Error> {
        let codec = header.codec()?;
        if codec == Codec::None {
            let set = Reader::new(message);
            return Ok(Self { set, offset_shift: 0, append_time_ms: None, inside: false });
        }
        let at = header.head_bytes();
        let (_, value) = key_and_value(message, at)?;
        let value = value.ok_or(Error::new(ErrorKind::BadLength { length: -1 }, at))?;
        decompress(codec, header.magic, value, scratch, limit)?;
        let set = Reader::new(scratch.as_slice());
        let last_inner = last_offset(set)?;
        let relative = header.magic == 1 && header.base_offset != 0;
        let append_time =
            (header.timestamp_type() == TimestampType::LogAppend).then_some(header.base_timestamp_ms);
        Ok(Self {
            set,
            offset_shift: if relative { header.base_offset.wrapping_sub(last_inner) } else { 0 },
            append_time_ms: append_time,
            inside: true,
        })
    }

    fn read_next(&mut self) -> Result<Record<'a>, Error> {
        let start = self.set.at();
        let (header, message) = next_message(&mut self.set)?;
        if self.inside && header.codec()? != Codec::None {
            return Err(Error::new(ErrorKind::NestedCompression, start));
        }
        let (key, value) = key_and_value(message, header.head_bytes()).map_err(|e| e.shifted(start))?;
        Ok(Record {
            offset: header.base_offset.wrapping_add(self.offset_shift),
            timestamp_ms: self.append_time_ms.unwrap_or(header.base_timestamp_ms),
            key,
            value,
            headers: Headers::NONE,
        })
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Record<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.set.is_empty() {
            return None;
        }
        let record = self.read_next();
        if record.is_err() {
            self.set = Reader::EMPTY;
        }
        Some(record)
    }
}

/// The next message's head and the whole of it.
fn next_message<'a>(set: &mut Reader<'a>) -> Result<(BatchHeader, &'a [u8]), Error> {
    let start = set.at();
    let header = BatchHeader::parse(set.rest()).map_err(|e| e.shifted(start))?;
    if header.magic > 1 {
        return Err(Error::new(ErrorKind::UnknownMagic { magic: header.magic }, start));
    }
    Ok((header, set.take(header.length_bytes as usize)?))
}

/// The offset of the last message of a set.
fn last_offset(mut set: Reader<'_>) -> Result<i64, Error> {
    let mut last = None;
    while !set.is_empty() {
        last = Some(next_message(&mut set)?.0.base_offset);
    }
    // Kafka calls a compressed set without messages invalid.
    last.ok_or(Error::new(ErrorKind::UnexpectedEnd { missing: 1 }, 0))
}

type KeyAndValue<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// Key and value, which fill a message from `at` to its end.
fn key_and_value(message: &[u8], at: usize) -> Result<KeyAndValue<'_>, Error> {
    let mut reader = Reader::new(message);
    reader.take(at)?;
    let key = reader.nullable_bytes(false)?;
    let value = reader.nullable_bytes(false)?;
    reader.finish()?;
    Ok((key, value))
}
