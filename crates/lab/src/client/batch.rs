//! A record batch, magic 2 (`DefaultRecordBatch.java`): no keys, no headers, no compression.

/// Bytes before the records: base offset 8, length 4, leader epoch 4, magic 1, CRC 4, and what the CRC covers.
const BEFORE_CRC: usize = 17;
const NO_PRODUCER: i64 = -1;

/// A batch of these values, all at `timestamp_ms`. The CRC is Castagnoli's, from the attributes on.
#[must_use]
pub fn batch(values: &[&[u8]], timestamp_ms: i64) -> Vec<u8> {
    let mut covered = Vec::new();
    let count = values.len() as i32;
    covered.extend(0_i16.to_be_bytes()); // attributes
    covered.extend((count - 1).to_be_bytes()); // last offset delta
    covered.extend(timestamp_ms.to_be_bytes());
    covered.extend(timestamp_ms.to_be_bytes());
    covered.extend(NO_PRODUCER.to_be_bytes());
    covered.extend((-1_i16).to_be_bytes()); // producer epoch
    covered.extend((-1_i32).to_be_bytes()); // base sequence
    covered.extend(count.to_be_bytes());
    for (at, value) in values.iter().enumerate() {
        append_record(&mut covered, at as i64, value);
    }
    let mut batch = Vec::with_capacity(BEFORE_CRC + 4 + covered.len());
    batch.extend(0_i64.to_be_bytes()); // base offset: the broker's to say
    batch.extend((covered.len() as i32 + 9).to_be_bytes()); // what follows
    batch.extend((-1_i32).to_be_bytes()); // leader epoch
    batch.push(2);
    batch.extend(crc32c::crc32c(&covered).to_be_bytes());
    batch.extend(covered);
    batch
}

/// `DefaultRecord.java`: length, attributes, timestamp delta, offset delta, key, value, headers.
fn append_record(to: &mut Vec<u8>, offset_delta: i64, value: &[u8]) {
    let mut record = vec![0];
    append_varint(&mut record, 0);
    append_varint(&mut record, offset_delta);
    append_varint(&mut record, -1);
    append_varint(&mut record, value.len() as i64);
    record.extend_from_slice(value);
    append_varint(&mut record, 0);
    append_varint(to, record.len() as i64);
    to.append(&mut record);
}

/// Zigzag, seven bits a byte, the lowest first (`ByteUtils.writeVarlong`).
fn append_varint(to: &mut Vec<u8>, value: i64) {
    let mut left = ((value << 1) ^ (value >> 63)) as u64;
    while left >= 0x80 {
        to.push(left as u8 | 0x80);
        left >>= 7;
    }
    to.push(left as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_says_its_length_its_count_and_its_checksum() {
        let batch = batch(&[b"one", b"second"], 7);
        let number = |at: usize| u32::from_be_bytes(batch[at..at + 4].try_into().unwrap());
        assert_eq!(number(8) as usize, batch.len() - 12);
        assert_eq!(batch[16], 2);
        assert_eq!(number(17), crc32c::crc32c(&batch[21..]));
        assert_eq!(number(23), 1);
        assert_eq!(number(57), 2);
        assert_eq!(batch[61..], *b"\x12\0\0\0\x01\x06one\0\x18\0\0\x02\x01\x0csecond\0");
    }

    #[test]
    fn long_values_have_long_lengths() {
        let mut bytes = Vec::new();
        append_varint(&mut bytes, 300);
        append_varint(&mut bytes, -1);
        assert_eq!(bytes, [0xd8, 0x04, 0x01]);
    }
}
