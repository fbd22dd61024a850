//! Produce requests of version 11 and their responses, as the Java client and a broker write them
//! (ProduceRequest.json, ProduceResponse.json: flexible since version 9), with uncompressed batches.

use crate::random::Random;

/// The record header that carries message ids.
pub(crate) const MESSAGE_ID_HEADER: &str = "message-id";
/// A batch is full at the client's default of 16 KiB (`batch.size`).
const RECORDS_PER_BATCH: u64 = 16;
const TOPICS: [&str; 3] = ["orders", "payments-eu", "clickstream.raw"];

/// A request: its bytes, and what is in it.
pub(crate) struct Produce {
    pub(crate) bytes: Vec<u8>,
    pub(crate) records: u64,
    topic: &'static str,
    partitions: Vec<i32>,
    correlation_id: i32,
}

impl Produce {
    /// A request to four to eight partitions of one topic, some 100 KB; `first_id` counts message ids.
    pub(crate) fn new(correlation_id: i32, client_id: &str, first_id: u64, random: &mut Random) -> Self {
        let topic = TOPICS.get(random.below(3) as usize).copied().unwrap_or("orders");
        let partitions: Vec<i32> = (0..4 + random.below(5) as i32).collect();
        let mut bytes = vec![0; 4];
        bytes.extend(0i16.to_be_bytes());
        bytes.extend(11i16.to_be_bytes());
        bytes.extend(correlation_id.to_be_bytes());
        bytes.extend((client_id.len() as u16).to_be_bytes());
        bytes.extend(client_id.bytes());
        // No tagged fields, no transactional id, acks=all, 30 s, one topic.
        bytes.extend([0, 0]);
        bytes.extend((-1i16).to_be_bytes());
        bytes.extend(30_000i32.to_be_bytes());
        bytes.push(2);
        compact_string(&mut bytes, topic);
        bytes.push(partitions.len() as u8 + 1);
        let mut records = 0;
        for partition in &partitions {
            bytes.extend(partition.to_be_bytes());
            let count = RECORDS_PER_BATCH - random.below(4);
            let batch = batch(count, first_id + records, random);
            uvarint(&mut bytes, batch.len() as u64 + 1);
            bytes.extend(batch);
            bytes.push(0);
            records += count;
        }
        bytes.extend([0, 0]);
        frame(&mut bytes);
        Self { bytes, records, topic, partitions, correlation_id }
    }

    /// The broker's answer.
    pub(crate) fn response(&self, base_offset: i64) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        bytes.extend(self.correlation_id.to_be_bytes());
        bytes.extend([0, 2]);
        compact_string(&mut bytes, self.topic);
        bytes.push(self.partitions.len() as u8 + 1);
        for partition in &self.partitions {
            bytes.extend(partition.to_be_bytes());
            bytes.extend(0i16.to_be_bytes());
            bytes.extend(base_offset.to_be_bytes());
            bytes.extend((-1i64).to_be_bytes());
            bytes.extend(0i64.to_be_bytes());
            // No record errors, no error message, no tagged fields.
            bytes.extend([1, 0, 0]);
        }
        bytes.push(0);
        bytes.extend(0i32.to_be_bytes());
        bytes.push(0);
        frame(&mut bytes);
        bytes
    }
}

/// A batch of magic 2 (DefaultRecordBatch.java).
fn batch(count: u64, first_id: u64, random: &mut Random) -> Vec<u8> {
    let mut checked = Vec::with_capacity(20_000);
    checked.extend(0i16.to_be_bytes());
    checked.extend((count as i32 - 1).to_be_bytes());
    checked.extend(1_760_000_000_000i64.to_be_bytes());
    checked.extend(1_760_000_000_005i64.to_be_bytes());
    checked.extend((-1i64).to_be_bytes());
    checked.extend((-1i16).to_be_bytes());
    checked.extend((-1i32).to_be_bytes());
    checked.extend((count as i32).to_be_bytes());
    for number in 0..count {
        record(&mut checked, number, first_id + number, random);
    }
    let mut batch = 0i64.to_be_bytes().to_vec();
    batch.extend((checked.len() as u32 + 9).to_be_bytes());
    batch.extend((-1i32).to_be_bytes());
    batch.push(2);
    batch.extend(crc32c::crc32c(&checked).to_be_bytes());
    batch.extend(checked);
    batch
}

/// A record of about 1 KB with an eight-byte key and a message id.
fn record(batch: &mut Vec<u8>, number: u64, id: u64, random: &mut Random) {
    let mut record = vec![0];
    varint(&mut record, number as i64 / 4);
    varint(&mut record, number as i64);
    varint(&mut record, 8);
    record.extend(id.to_be_bytes());
    let value = 900 + random.below(200) as usize;
    varint(&mut record, value as i64);
    record.resize(record.len() + value, (id % 251) as u8);
    varint(&mut record, 1);
    varint(&mut record, MESSAGE_ID_HEADER.len() as i64);
    record.extend(MESSAGE_ID_HEADER.bytes());
    let id = format!("{:09}", 371_000_000 + id);
    varint(&mut record, id.len() as i64);
    record.extend(id.bytes());
    varint(batch, record.len() as i64);
    batch.extend(record);
}

/// Writes the size of a whole frame into its first four bytes.
fn frame(bytes: &mut [u8]) {
    let size = bytes.len() as u32 - 4;
    if let Some(field) = bytes.first_chunk_mut::<4>() {
        *field = size.to_be_bytes();
    }
}

fn compact_string(bytes: &mut Vec<u8>, text: &str) {
    uvarint(bytes, text.len() as u64 + 1);
    bytes.extend(text.bytes());
}

fn varint(bytes: &mut Vec<u8>, number: i64) {
    uvarint(bytes, ((number << 1) ^ (number >> 63)) as u64);
}

fn uvarint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}
