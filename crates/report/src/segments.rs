//! What is in a segment: its batches, or its records. Does not read segments and never sees a payload.

pub mod csv;
pub mod json;
pub mod table;

use std::io;
use std::sync::Arc;

use model::TopicPartition;
use serde::Serialize;

pub use csv::SegmentCsv;
pub use json::SegmentJson;
pub use table::SegmentTable;

/// The segment that is shown.
#[derive(Clone, Debug)]
pub struct SegmentFile {
    /// Its file, below its log dir where that is known.
    pub file: Arc<str>,
    /// The partition, where the file's directory names one.
    pub topic_partition: Option<TopicPartition>,
}

/// One batch of a segment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename = "batch")]
pub struct BatchRow {
    /// Offset of its first record.
    pub base_offset: i64,
    /// Offset of its last record.
    pub last_offset: i64,
    /// Its bytes, the 12 leading ones included.
    pub bytes: u64,
    /// Where it starts in the file.
    pub position: u64,
    /// Its message format.
    pub magic: i8,
    /// The CRC it carries.
    pub crc: u32,
    /// Whether that is its CRC.
    pub crc_ok: bool,
    /// `none`, `gzip`, `snappy`, `lz4`, `zstd`.
    pub codec: &'static str,
    /// The idempotent producer's id, or -1.
    pub producer_id: i64,
    /// Records in it, where its header says so.
    pub records: Option<u32>,
    /// The greatest timestamp, UTC milliseconds, or -1.
    pub timestamp_ms: i64,
    /// Whether it is a transaction's marker.
    pub control: bool,
    /// Message ids of its records, where they were asked for.
    pub message_ids: Vec<String>,
}

/// One record of a segment.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename = "record")]
pub struct RecordRow {
    /// Its offset.
    pub offset: i64,
    /// UTC milliseconds, or -1.
    pub timestamp_ms: i64,
    /// Bytes of its key; none for no key.
    pub key_bytes: Option<u64>,
    /// Bytes of its value; none for a tombstone.
    pub value_bytes: Option<u64>,
    /// Its message id, where one was asked for and is there.
    pub message_id: Option<String>,
}

/// An output of a segment's content.
pub trait SegmentReport {
    /// Writes one batch.
    fn batch(&mut self, batch: &BatchRow) -> io::Result<()>;

    /// Writes one record of the batch before.
    fn record(&mut self, record: &RecordRow) -> io::Result<()>;

    /// Ends the output.
    fn finish(&mut self) -> io::Result<()>;
}
