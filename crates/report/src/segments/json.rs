//! A segment as JSON lines: batches, each followed by its records.

use std::io::{self, Write};

use super::{BatchRow, RecordRow, SegmentReport};
use crate::json;

/// A segment as JSON lines.
pub struct SegmentJson<W>(pub W);

impl<W: Write> SegmentReport for SegmentJson<W> {
    fn batch(&mut self, batch: &BatchRow) -> io::Result<()> {
        json::write_line(&mut self.0, batch)
    }

    fn record(&mut self, record: &RecordRow) -> io::Result<()> {
        json::write_line(&mut self.0, record)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
