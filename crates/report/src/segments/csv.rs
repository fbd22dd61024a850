//! A segment as CSV: its batches, or its records.

use std::io::{self, Write};

use super::{BatchRow, RecordRow, SegmentReport};
use crate::csv::{self, known};

const BATCHES: [&str; 13] = [
    "base_offset",
    "last_offset",
    "bytes",
    "position",
    "magic",
    "crc",
    "crc_ok",
    "codec",
    "producer_id",
    "records",
    "timestamp_ms",
    "control",
    "message_ids",
];

const RECORDS: [&str; 5] = ["offset", "timestamp_ms", "key_bytes", "value_bytes", "message_id"];

/// A segment as CSV.
pub struct SegmentCsv<W> {
    out: W,
    records: bool,
    headed: bool,
    /// A record's line being written: there are too many to allocate anything for each.
    line: Vec<u8>,
}

impl<W: Write> SegmentCsv<W> {
    /// CSV to this output; `records` for one line a record instead of one a batch.
    pub fn new(out: W, records: bool) -> Self {
        Self { out, records, headed: false, line: Vec::new() }
    }

    fn head(&mut self) -> io::Result<()> {
        if self.headed {
            return Ok(());
        }
        self.headed = true;
        if self.records {
            csv::write_line(&mut self.out, RECORDS)
        } else {
            csv::write_line(&mut self.out, BATCHES)
        }
    }

    fn line(&mut self, fields: &[String]) -> io::Result<()> {
        self.head()?;
        csv::write_line(&mut self.out, fields.iter().map(String::as_str))
    }
}

impl<W: Write> SegmentReport for SegmentCsv<W> {
    fn batch(&mut self, batch: &BatchRow) -> io::Result<()> {
        if self.records {
            return Ok(());
        }
        self.line(&[
            batch.base_offset.to_string(),
            batch.last_offset.to_string(),
            batch.bytes.to_string(),
            batch.position.to_string(),
            batch.magic.to_string(),
            batch.crc.to_string(),
            batch.crc_ok.to_string(),
            batch.codec.to_owned(),
            batch.producer_id.to_string(),
            known(batch.records),
            batch.timestamp_ms.to_string(),
            batch.control.to_string(),
            batch.message_ids.join(" "),
        ])
    }

    fn record(&mut self, record: &RecordRow) -> io::Result<()> {
        self.head()?;
        let mut buffers = [itoa::Buffer::new(); 4];
        let [offset, timestamp_ms, key_bytes, value_bytes] = &mut buffers;
        let fields = [
            offset.format(record.offset),
            timestamp_ms.format(record.timestamp_ms),
            record.key_bytes.map_or("", |bytes| key_bytes.format(bytes)),
            record.value_bytes.map_or("", |bytes| value_bytes.format(bytes)),
            record.message_id.as_deref().unwrap_or_default(),
        ];
        self.line.clear();
        csv::write_line(&mut self.line, fields)?;
        self.out.write_all(&self.line)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.head()?;
        self.out.flush()
    }
}
