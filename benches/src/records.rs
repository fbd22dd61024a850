//! Records and record batches of magic 2, byte for byte. See DefaultRecord.java and DefaultRecordBatch.java. Does not
//! compress.

/// Attribute bits of the codecs used here.
pub(crate) const UNCOMPRESSED: i16 = 0;
pub(crate) const LZ4: i16 = 3;

/// The fields that [`batch`] writes before its records.
pub(crate) struct Head {
    pub(crate) base_offset: i64,
    pub(crate) base_timestamp_ms: i64,
    pub(crate) max_timestamp_ms: i64,
    pub(crate) attributes: i16,
    pub(crate) count: i32,
}

/// A batch of encoded records, compressed if its attributes say so, with its CRC.
pub(crate) fn batch(head: &Head, records: &[u8]) -> Vec<u8> {
    let mut checked = Vec::with_capacity(40 + records.len());
    checked.extend(head.attributes.to_be_bytes());
    checked.extend((head.count - 1).to_be_bytes());
    checked.extend(head.base_timestamp_ms.to_be_bytes());
    checked.extend(head.max_timestamp_ms.to_be_bytes());
    // Producer id, epoch and sequence of a producer that is not idempotent.
    checked.extend((-1i64).to_be_bytes());
    checked.extend((-1i16).to_be_bytes());
    checked.extend((-1i32).to_be_bytes());
    checked.extend(head.count.to_be_bytes());
    checked.extend(records);
    let mut batch = Vec::with_capacity(21 + checked.len());
    batch.extend(head.base_offset.to_be_bytes());
    batch.extend((checked.len() as u32 + 9).to_be_bytes());
    batch.extend((-1i32).to_be_bytes());
    batch.push(2);
    batch.extend(crc32c::crc32c(&checked).to_be_bytes());
    batch.extend(checked);
    batch
}

/// A record's place in its batch.
#[derive(Clone, Copy)]
pub(crate) struct Deltas {
    pub(crate) offset: i64,
    pub(crate) timestamp_ms: i64,
}

/// Appends a record with at most one header.
pub(crate) fn record(
    out: &mut Vec<u8>,
    deltas: Deltas,
    key: &[u8],
    value: &[u8],
    header: Option<(&str, &str)>,
) {
    let mut record = Vec::with_capacity(32 + key.len() + value.len());
    record.push(0);
    varint(&mut record, deltas.timestamp_ms);
    varint(&mut record, deltas.offset);
    for bytes in [key, value] {
        varint(&mut record, bytes.len() as i64);
        record.extend(bytes);
    }
    varint(&mut record, i64::from(header.is_some()));
    for text in header.into_iter().flat_map(|(name, value)| [name, value]) {
        varint(&mut record, text.len() as i64);
        record.extend(text.bytes());
    }
    varint(out, record.len() as i64);
    out.extend(record);
}

fn varint(bytes: &mut Vec<u8>, number: i64) {
    uvarint(bytes, ((number << 1) ^ (number >> 63)) as u64);
}

/// Appends an unsigned varint, as in records and flexible messages.
pub(crate) fn uvarint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}
