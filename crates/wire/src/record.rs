//! Reads the records in a batch of any magic and codec. Does not find batches: [`crate::batch`] does.
//!
//! A record of magic 2 (`DefaultRecord.java`): length varint, attributes int8, timestamp delta varlong, offset delta
//! varint, key and value each a varint length (-1 is null) and bytes, then a varint count of headers, each a key and a
//! value in the same form, where the key is never null.

use crate::batch::{BatchHeader, HEAD_BYTES, TimestampType};
use crate::compression::{Codec, decompress};
use crate::reader::Reader;
use crate::{Error, ErrorKind};

/// One record.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Its offset: absolute in a segment; relative to the batch's base offset in a Produce request.
    pub offset: i64,
    /// Milliseconds since 1970, or -1 (magic 0).
    pub timestamp_ms: i64,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value.
    pub value: Option<&'a [u8]>,
    headers: Headers<'a>,
}

impl<'a> Record<'a> {
    /// Its headers in order; none before magic 2. If the bytes are invalid, the last item is an error.
    pub fn headers(&self) -> Headers<'a> {
        self.headers.clone()
    }

    /// The value of the last header with this name, as in Kafka's `Headers.lastHeader`; a null value counts as none.
    pub fn header(&self, name: &[u8]) -> Result<Option<&'a [u8]>, Error> {
        let mut found = None;
        for header in self.headers() {
            let (key, value) = header?;
            if key == name {
                found = value;
            }
        }
        Ok(found)
    }
}

/// Iterates over the headers of a [`Record`]: key and value.
#[derive(Clone, Debug)]
pub struct Headers<'a> {
    reader: Reader<'a>,
    left: u32,
}

impl<'a> Headers<'a> {
    const NONE: Self = Self { reader: Reader::EMPTY, left: 0 };

    fn read_next(&mut self) -> Result<(&'a [u8], Option<&'a [u8]>), Error> {
        let at = self.reader.at();
        let key = field(&mut self.reader)?.ok_or(Error::new(ErrorKind::BadLength(-1), at))?;
        Ok((key, field(&mut self.reader)?))
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Result<(&'a [u8], Option<&'a [u8]>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let header = self.read_next();
        if header.is_err() {
            self.left = 0;
        }
        Some(header)
    }
}

/// Iterates over the records of one batch, up to the first error.
#[derive(Clone, Debug)]
pub struct Records<'a>(Format<'a>);

#[derive(Clone, Debug)]
enum Format<'a> {
    Legacy(Messages<'a>),
    V2 { header: BatchHeader, reader: Reader<'a>, left: u32, done: bool },
}

impl<'a> Records<'a> {
    /// Opens the batch, or the message of magic 0 or 1, at the start of `batch`; ignores bytes after it.
    /// Compressed records are decompressed into `scratch`, up to `limit` bytes.
    ///
    /// # Errors
    /// Errors in the header, an incomplete batch, and errors of [`decompress`]. The CRC is not checked:
    /// [`BatchHeader::crc_ok`] does that.
    pub fn open(batch: &'a [u8], limit: usize, scratch: &'a mut Vec<u8>) -> Result<Self, Error> {
        let header = BatchHeader::parse(batch)?;
        let batch = Reader::new(batch).take(header.length_bytes as usize)?;
        if header.magic < 2 {
            return Messages::open(&header, batch, limit, scratch).map(|m| Self(Format::Legacy(m)));
        }
        let records = batch.get(HEAD_BYTES..).unwrap_or_default();
        let codec = header.codec()?;
        let records = if codec == Codec::None {
            records
        } else {
            decompress(codec, header.magic, records, scratch, limit).map_err(|e| e.shifted(HEAD_BYTES))?;
            scratch.as_slice()
        };
        let count = header.records_count;
        let left = header.records().ok_or(Error::new(ErrorKind::BadLength(count.into()), HEAD_BYTES - 4))?;
        Ok(Self(Format::V2 { header, reader: Reader::new(records), left, done: false }))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Format::Legacy(messages) => messages.next(),
            Format::V2 { done: true, .. } => None,
            Format::V2 { header, reader, left, done } => {
                let Some(still_left) = left.checked_sub(1) else {
                    *done = true;
                    return reader.finish().err().map(Err);
                };
                *left = still_left;
                let record = read_v2(header, reader);
                *done = record.is_err();
                Some(record)
            }
        }
    }
}

fn read_v2<'a>(header: &BatchHeader, reader: &mut Reader<'a>) -> Result<Record<'a>, Error> {
    let at = reader.at();
    let length = reader.varint()?;
    let length = usize::try_from(length).map_err(|_| Error::new(ErrorKind::BadLength(length.into()), at))?;
    let start = reader.at();
    let mut body = Reader::new(reader.take(length)?);
    read_v2_body(header, &mut body).map_err(|error| error.shifted(start))
}

fn read_v2_body<'a>(header: &BatchHeader, body: &mut Reader<'a>) -> Result<Record<'a>, Error> {
    body.i8()?; // attributes, all unused
    let timestamp_delta = body.varlong()?;
    let offset_delta = body.varint()?;
    let key = field(body)?;
    let value = field(body)?;
    let at = body.at();
    let count = body.varint()?;
    let left = u32::try_from(count).map_err(|_| Error::new(ErrorKind::BadLength(count.into()), at))?;
    let timestamp_ms = match header.timestamp_type() {
        TimestampType::LogAppend => header.max_timestamp_ms,
        TimestampType::Create => header.base_timestamp_ms.wrapping_add(timestamp_delta),
    };
    Ok(Record {
        offset: header.base_offset.wrapping_add(i64::from(offset_delta)),
        timestamp_ms,
        key,
        value,
        headers: Headers { reader: *body, left },
    })
}

/// Reads a varint length, where -1 means null, and that many bytes.
fn field<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>, Error> {
    let at = reader.at();
    match reader.varint()? {
        -1 => Ok(None),
        length => match usize::try_from(length) {
            Ok(length) => reader.take(length).map(Some),
            Err(_) => Err(Error::new(ErrorKind::BadLength(length.into()), at)),
        },
    }
}

/// Calls `f` with the values of the header `header_name`, in record order. Skips records without it. Only magic 2 has
/// headers: batches of other magics are not even decompressed, and control batches have none.
///
/// # Errors
/// Like [`Records::open`] and its iteration; `f` has already received the values before the error.
pub fn message_ids(
    batch: &[u8],
    header_name: &[u8],
    limit: usize,
    scratch: &mut Vec<u8>,
    mut f: impl FnMut(&[u8]),
) -> Result<(), Error> {
    let header = BatchHeader::parse(batch)?;
    if header.magic < 2 || header.is_control() {
        return Ok(());
    }
    for record in Records::open(batch, limit, scratch)? {
        if let Some(value) = record?.header(header_name)? {
            f(value);
        }
    }
    Ok(())
}

// Messages of magic 0 and 1, alone or in a compressed set inside one. Does not iterate over an outer message set.
//
// After `LegacyRecord.java` and `AbstractLegacyRecordBatch.java`: a compressed message's value is a message set whose
// messages are not compressed again. With magic 1, the inner offsets count from 0 and the outer offset is the last
// message's (KIP-31), or 0 from early versions of librdkafka; with magic 0, they are absolute.

/// Iterates over one message, or over the messages inside it.
#[derive(Clone, Debug)]
struct Messages<'a> {
    set: Reader<'a>,
    /// Added to the inner messages' offsets.
    offset_shift: i64,
    /// The timestamp of all messages, if it is the append time.
    append_time_ms: Option<i64>,
    inside: bool,
}

impl<'a> Messages<'a> {
    fn open(
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
        let value = value.ok_or(Error::new(ErrorKind::BadLength(-1), at))?;
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

/// Reads the next message: its header and all of its bytes.
fn next_message<'a>(set: &mut Reader<'a>) -> Result<(BatchHeader, &'a [u8]), Error> {
    let start = set.at();
    let header = BatchHeader::parse(set.rest()).map_err(|e| e.shifted(start))?;
    if header.magic > 1 {
        return Err(Error::new(ErrorKind::UnknownMagic(header.magic), start));
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
    last.ok_or(Error::new(ErrorKind::UnexpectedEnd(1), 0))
}

type KeyAndValue<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

/// Reads key and value, which fill a message from `at` to its end.
fn key_and_value(message: &[u8], at: usize) -> Result<KeyAndValue<'_>, Error> {
    let mut reader = Reader::new(message);
    reader.take(at)?;
    let key = reader.nullable_bytes(false)?;
    let value = reader.nullable_bytes(false)?;
    reader.finish()?;
    Ok((key, value))
}
