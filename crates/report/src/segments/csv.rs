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
}

impl<W: Write> SegmentCsv<W> {
    /// CSV to this output; `records` for one line a record instead of one a batch.
    pub fn new(out: W, records: bool) -> Self {
        Self { out, records, headed: false }
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
        self.line(&[
            record.offset.to_string(),
            record.timestamp_ms.to_string(),
            known(record.key_bytes),
            known(record.value_bytes),
            known(record.message_id.as_deref()),
        ])
    }

    fn finish(&mut self) -> io::Result<()> {
        self.head()?;
        self.out.flush()
    }
}
