//! The header of a record batch (magic 2) or of a message (magic 0 and 1).
//! [`crate::record`] reads records.
//!
//! Layout, after `DefaultRecordBatch.java` (magic 2) and `LegacyRecord.java` (magic 0 and 1):
//!
//! ```text
//! magic 2                               magic 0 and 1
//!  0 base offset             int64       0 offset        int64
//!  8 length after here       int32       8 size after here int32
//! 12 partition leader epoch  int32      12 crc (CRC-32)  uint32
//! 16 magic                   int8       16 magic         int8
//! 17 crc (CRC-32C)           uint32     17 attributes    int8
//! 21 attributes              int16      18 timestamp     int64 (magic 1)
//! 23 last offset delta       int32         key           bytes
//! 27 base timestamp          int64         value         bytes
//! 35 max timestamp           int64
//! 43 producer id             int64
//! 51 producer epoch          int16
//! 53 base sequence           int32
//! 57 records count           int32
//! 61 records
//! ```

use crate::compression::Codec;
use crate::reader::Reader;
use crate::{Error, ErrorKind};

/// Bytes of a magic 2 batch before its records.
pub const HEAD_BYTES: usize = 61;
/// Bytes of base offset and length, which the length does not count.
pub const LEADING_BYTES: usize = 12;
/// Offset of the magic, the same in every format.
const MAGIC_AT: usize = 16;
/// Offset of the first byte covered by magic 2's CRC.
const CRC_FROM_V2: usize = 21;
/// Offset of the first byte covered by the CRC of magic 0 and 1.
const CRC_FROM_LEGACY: usize = 16;
/// Attribute bits: 0-2 codec, 3 timestamp type (magic 1 and 2), 4 transactional, 5 control (magic 2).
const CODEC_MASK: i16 = 0x07;
const LOG_APPEND_TIME: i16 = 0x08;
const CONTROL: i16 = 0x20;

/// Who set a batch's timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    /// The client; magic 0 has no timestamps at all.
    Create,
    /// The broker, when it appended the batch (`message.timestamp.type=LogAppendTime`).
    LogAppend,
}

/// The fields before the records of a batch, or in a message of magic 0 and 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record; for a compressed message of magic 0 and 1, of the last one inside.
    pub base_offset: i64,
    /// Bytes of the whole batch, including the 12 leading ones.
    pub length_bytes: u32,
    /// The leader epoch the broker wrote; -1 for magic 0 and 1.
    pub partition_leader_epoch: i32,
    /// The format: 0, 1 or 2.
    pub magic: i8,
    /// Magic 2: CRC-32C of everything from the attributes on, which the broker does not change.
    /// Magic 0 and 1: CRC-32 of everything from the magic on.
    pub crc: u32,
    /// The attribute bits.
    pub attributes: i16,
    /// Offset of the last record minus that of the first; 0 for magic 0 and 1.
    pub last_offset_delta: i32,
    /// Milliseconds since 1970 of the first record; -1 if it has no timestamp (magic 0).
    pub base_timestamp_ms: i64,
    /// The largest timestamp, or the append time; as `base_timestamp_ms` for magic 1.
    pub max_timestamp_ms: i64,
    /// The idempotent producer's id, or -1.
    pub producer_id: i64,
    /// The producer's epoch, or -1.
    pub producer_epoch: i16,
    /// The producer's sequence number of the first record, or -1.
    pub base_sequence: i32,
    /// Records in the batch: 1 for an uncompressed message of magic 0 and 1, -1 for a compressed one, whose header does
    /// not say.
    pub records_count: i32,
}

impl BatchHeader {
    /// Parses the header of the batch or message at the start of `bytes`; ignores the rest.
    ///
    /// # Errors
    /// `UnexpectedEnd` while the header is incomplete, `UnknownMagic`, `BadLength` for a length that cannot even hold
    /// the header, or a negative count.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        match bytes.get(MAGIC_AT) {
            Some(2) => Self::parse_v2(bytes),
            Some(0 | 1) => Self::parse_legacy(bytes),
            Some(&magic) => Err(Error::new(ErrorKind::UnknownMagic(magic as i8), MAGIC_AT)),
            None => {
                let missing = MAGIC_AT + 1 - bytes.len();
                Err(Error::new(ErrorKind::UnexpectedEnd(missing), bytes.len()))
            }
        }
    }

    fn parse_v2(bytes: &[u8]) -> Result<Self, Error> {
        let Some(head) = bytes.get(..HEAD_BYTES) else {
            let missing = HEAD_BYTES - bytes.len();
            return Err(Error::new(ErrorKind::UnexpectedEnd(missing), bytes.len()));
        };
        let mut reader = Reader::new(head);
        let header = Self {
            base_offset: reader.i64()?,
            length_bytes: whole_length(reader.i32()?, HEAD_BYTES)?,
            partition_leader_epoch: reader.i32()?,
            magic: reader.i8()?,
            crc: reader.u32()?,
            attributes: reader.i16()?,
            last_offset_delta: reader.i32()?,
            base_timestamp_ms: reader.i64()?,
            max_timestamp_ms: reader.i64()?,
            producer_id: reader.i64()?,
            producer_epoch: reader.i16()?,
            base_sequence: reader.i32()?,
            records_count: reader.i32()?,
        };
        if header.records_count < 0 {
            let length = i64::from(header.records_count);
            return Err(Error::new(ErrorKind::BadLength(length), HEAD_BYTES - 4));
        }
        Ok(header)
    }

    fn parse_legacy(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes);
        let base_offset = reader.i64()?;
        let size = reader.i32()?;
        let crc = reader.u32()?;
        let magic = reader.i8()?;
        let attributes = i16::from(reader.i8()?);
        let timestamp_ms = if magic == 1 { reader.i64()? } else { -1 };
        // The lengths of key and value, 4 bytes each, are there even if both are null.
        let length_bytes = whole_length(size, reader.at() + 8)?;
        Ok(Self {
            base_offset,
            length_bytes,
            partition_leader_epoch: -1,
            magic,
            crc,
            attributes,
            last_offset_delta: 0,
            base_timestamp_ms: timestamp_ms,
            max_timestamp_ms: timestamp_ms,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            records_count: if attributes & CODEC_MASK == 0 { 1 } else { -1 },
        })
    }

    /// Bytes that [`Self::parse`] reads: 61 for magic 2, 26 and 18 for the message formats.
    pub fn head_bytes(&self) -> usize {
        match self.magic {
            2 => HEAD_BYTES,
            1 => 26,
            _ => 18,
        }
    }

    /// How the records are compressed.
    ///
    /// # Errors
    /// `UnknownCodec` for numbers above 4, and for zstd in magic 0 and 1, where Kafka refuses it (KIP-110).
    pub fn codec(&self) -> Result<Codec, Error> {
        let number = (self.attributes & CODEC_MASK) as u8;
        let at = if self.magic == 2 { 22 } else { 17 };
        match Codec::from_number(number) {
            Some(Codec::Zstd) if self.magic < 2 => None,
            codec => codec,
        }
        .ok_or(Error::new(ErrorKind::UnknownCodec(number), at))
    }

    /// The number of records, if the header contains it.
    pub fn records(&self) -> Option<u32> {
        u32::try_from(self.records_count).ok()
    }

    /// Whether it is a control batch. It then contains the end of a transaction or another control record instead of
    /// data.
    pub fn is_control(&self) -> bool {
        self.magic == 2 && self.attributes & CONTROL != 0
    }

    /// Who set the timestamps.
    pub fn timestamp_type(&self) -> TimestampType {
        if self.magic > 0 && self.attributes & LOG_APPEND_TIME != 0 {
            TimestampType::LogAppend
        } else {
            TimestampType::Create
        }
    }

    /// Whether the CRC is that of `batch`. `batch` is the whole batch, including its leading 12 bytes. False if `batch`
    /// is shorter than [`Self::length_bytes`].
    pub fn crc_ok(&self, batch: &[u8]) -> bool {
        let from = if self.magic == 2 { CRC_FROM_V2 } else { CRC_FROM_LEGACY };
        let Some(covered) = batch.get(from..self.length_bytes as usize) else { return false };
        if self.magic == 2 { crc32c::crc32c(covered) == self.crc } else { crc32(covered) == self.crc }
    }
}

/// CRC-32 as zlib computes it.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// The size of a whole batch from its length field. The field must cover at least the header.
fn whole_length(length: i32, least: usize) -> Result<u32, Error> {
    match u32::try_from(length) {
        Ok(after) if after as usize + LEADING_BYTES >= least => Ok(after + LEADING_BYTES as u32),
        _ => Err(Error::new(ErrorKind::BadLength(i64::from(length)), 8)),
    }
}
