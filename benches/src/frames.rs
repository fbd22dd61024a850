//! Produce requests of version 11 and their responses, with uncompressed batches. As the Java client and a broker write
//! them (ProduceRequest.json, ProduceResponse.json: flexible since version 9).

use crate::records::{self, Deltas, Head, UNCOMPRESSED, record, uvarint};
use fastrand::Rng;

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
    pub(crate) fn new(correlation_id: i32, client_id: &str, first_id: u64, rng: &mut Rng) -> Self {
        let topic = TOPICS.get(rng.u64(..3) as usize).copied().unwrap_or("orders");
        let partitions: Vec<i32> = (0..4 + rng.u64(..5) as i32).collect();
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
            let count = RECORDS_PER_BATCH - rng.u64(..4);
            let batch = batch(count, first_id + records, rng);
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

/// A batch of records of about 1 KB, each with an eight-byte key and a message id.
fn batch(count: u64, first_id: u64, rng: &mut Rng) -> Vec<u8> {
    let mut written = Vec::with_capacity(20_000);
    for number in 0..count {
        let id = first_id + number;
        let value = vec![(id % 251) as u8; 900 + rng.u64(..200) as usize];
        let deltas = Deltas { offset: number as i64, timestamp_ms: number as i64 / 4 };
        let message_id = format!("{:09}", 371_000_000 + id);
        let header = (MESSAGE_ID_HEADER, message_id.as_str());
        record(&mut written, deltas, &id.to_be_bytes(), &value, Some(header));
    }
    let head = Head {
        base_offset: 0,
        base_timestamp_ms: 1_760_000_000_000,
        max_timestamp_ms: 1_760_000_000_005,
        attributes: UNCOMPRESSED,
        count: count as i32,
    };
    records::batch(&head, &written)
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
