//! A segment as JSON lines: batches, each followed by its records.

use std::io::{self, Write};

use super::{BatchRow, RecordRow, SegmentReport};
use crate::json;

/// A segment as JSON lines.
pub struct SegmentJson<W> {
    out: W,
    /// The line being written: there are too many records to allocate one for each.
    line: Vec<u8>,
}

impl<W: Write> SegmentJson<W> {
    /// JSON lines to this output.
    pub fn new(out: W) -> Self {
        Self { out, line: Vec::new() }
    }

    /// `name` with its quotes, comma and colon, and the number or null.
    fn number(&mut self, name: &str, number: Option<impl itoa::Integer>) {
        self.line.extend_from_slice(name.as_bytes());
        match number {
            Some(number) => self.line.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
            None => self.line.extend_from_slice(b"null"),
        }
    }
}

impl<W: Write> SegmentReport for SegmentJson<W> {
    fn batch(&mut self, batch: &BatchRow) -> io::Result<()> {
        json::write_line(&mut self.out, batch)
    }

    /// What `serde_json` would write, in a third of the time.
    fn record(&mut self, record: &RecordRow) -> io::Result<()> {
        self.line.clear();
        self.line.extend_from_slice(br#"{"type":"record""#);
        self.number(r#","offset":"#, Some(record.offset));
        self.number(r#","timestamp_ms":"#, Some(record.timestamp_ms));
        self.number(r#","key_bytes":"#, record.key_bytes);
        self.number(r#","value_bytes":"#, record.value_bytes);
        self.line.extend_from_slice(br#","message_id":"#);
        json::write(&mut self.line, &record.message_id)?;
        self.line.extend_from_slice(b"}\n");
        self.out.write_all(&self.line)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::{RecordRow, SegmentJson, SegmentReport as _};
    use crate::json::write_line;

    #[test]
    fn a_record_is_written_as_serde_would() {
        let plain = RecordRow {
            offset: 371_409_548,
            timestamp_ms: 1_718_971_896_521,
            key_bytes: Some(0),
            value_bytes: Some(u64::MAX),
            message_id: Some("a\"b\\\u{9b}ž\n".to_owned()),
        };
        let bare = RecordRow {
            offset: i64::MIN,
            timestamp_ms: -1,
            key_bytes: None,
            value_bytes: None,
            message_id: None,
        };
        let (mut expected, mut report) = (Vec::new(), SegmentJson::new(Vec::new()));
        for row in [&plain, &bare, &plain] {
            write_line(&mut expected, row).unwrap();
            report.record(row).unwrap();
        }
        assert_eq!(String::from_utf8(report.out).unwrap(), String::from_utf8(expected).unwrap());
    }
}
