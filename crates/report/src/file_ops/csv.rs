//! File operations as CSV, message ids in one field separated by blanks.

use std::io::{self, Write};

use super::{FileOpReport, FileOpRow};
use crate::csv::{self, known};

const HEADINGS: [&str; 19] = [
    "start_ns",
    "end_ns",
    "latency_ns",
    "op",
    "tid",
    "thread",
    "bytes",
    "offset",
    "file",
    "topic",
    "partition",
    "kind",
    "device",
    "inode",
    "fs",
    "batch_crc",
    "base_offset",
    "reasons",
    "message_ids",
];

/// File operations as CSV.
pub struct FileOpCsv<W> {
    out: W,
    headed: bool,
}

impl<W: Write> FileOpCsv<W> {
    /// CSV to this output.
    pub fn new(out: W) -> Self {
        Self { out, headed: false }
    }

    fn head(&mut self) -> io::Result<()> {
        if !self.headed {
            self.headed = true;
            csv::write_line(&mut self.out, HEADINGS)?;
        }
        Ok(())
    }
}

fn fields(row: &FileOpRow<'_>) -> [String; 19] {
    let op = row.op;
    let reasons = row.reasons.iter().map(|(reason, length)| format!("{reason}={}", length.0));
    [
        op.start.0.to_string(),
        op.end.0.to_string(),
        op.latency().0.to_string(),
        op.op.as_str().to_owned(),
        op.tid.to_string(),
        op.thread.to_string(),
        known(op.bytes),
        op.offset.to_string(),
        op.file.to_string(),
        known(op.topic_partition.as_ref().map(|of| &of.topic)),
        known(op.topic_partition.as_ref().map(|of| of.partition)),
        op.kind.as_str().to_owned(),
        op.device.to_string(),
        op.inode.to_string(),
        op.fs.to_string(),
        known(op.batch.map(|batch| batch.crc)),
        known(op.batch.map(|batch| batch.base_offset)),
        reasons.collect::<Vec<_>>().join(" "),
        row.message_ids.join(" "),
    ]
}

impl<W: Write> FileOpReport for FileOpCsv<W> {
    fn file_op(&mut self, row: &FileOpRow<'_>) -> io::Result<()> {
        self.head()?;
        csv::write_line(&mut self.out, fields(row).iter().map(String::as_str))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.head()?;
        self.out.flush()
    }
}
