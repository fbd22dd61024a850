//! File operations as CSV, message ids in one field separated by blanks.

use std::io::{self, Write};

use super::{FileOpReport, FileOpRow};
use crate::csv::{self, known};
use crate::errno;

const HEADINGS: [&str; 27] = [
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
    "pid",
    "errno",
    "disk_bytes",
    "readahead_bytes",
    "renamed_to",
    "functions",
    "held_up_by_tid",
    "held_up_by_thread",
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

fn fields(row: &FileOpRow<'_>) -> [String; 27] {
    let op = row.op;
    let reasons = row.reasons.iter().map(|reason| format!("{}={}", reason.name, reason.time.0));
    let functions = row
        .reasons
        .iter()
        .filter_map(|reason| Some(format!("{}={}", reason.name, reason.function.as_ref()?)));
    let held_up_by = row.reasons.first().and_then(|reason| reason.woken_by.as_ref());
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
        op.pid.to_string(),
        known(op.errno.map(errno::name)),
        known(op.disk_bytes),
        known(op.readahead_bytes),
        known(op.renamed_to.as_ref()),
        functions.collect::<Vec<_>>().join(" "),
        known(held_up_by.map(|by| by.tid)),
        known(held_up_by.map(|by| &by.thread)),
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
