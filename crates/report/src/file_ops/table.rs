//! File operations as a table: one row an operation, or one a message id where those were asked for.

use std::io::{self, Write};

use super::{FileOpReport, FileOpRow, reasons};
use crate::errno;
use crate::escape::escape;
use crate::quantity::or_dash;
use crate::table::{Column, Table};
use crate::{Style, Zone};

const TIMES: [Column; 3] =
    [Column::text("START TIME", 12), Column::text("END TIME", 12), Column::text("LATENCY", 7)];

const BY_WRITE: [Column; 6] = [
    Column::text("TID", 6),
    Column::text("BYTES", 7),
    Column::text("OFF_KB", 9),
    Column::text("FILE", 32),
    Column::text("TOPIC", 12),
    Column::text("PARTITION", 0),
];

const BY_MESSAGE: [Column; 6] = [
    Column::text("MESSAGE_ID", 10),
    Column::text("FILE", 32),
    Column::text("TOPIC", 12),
    Column::text("PARTITION", 0),
    Column::text("BYTES", 7),
    Column::text("OFF_KB", 9),
];

/// What was done, and what took most of its time.
const WHAT_AND_WHY: [Column; 2] = [Column::text("OP", 5), Column::text("REASON", 0)];

const WIDE: [Column; 12] = [
    Column::text("THREAD", 15),
    Column::text("KIND", 9),
    Column::text("DEVICE", 0),
    Column::text("FS", 4),
    Column::text("BATCH_CRC", 10),
    Column::number("BASE_OFFSET", 0),
    Column::number("DISK", 0),
    Column::number("READAHEAD", 0),
    Column::text("ERRNO", 0),
    Column::text("RENAMED_TO", 0),
    Column::text("HELD_UP_BY", 0),
    Column::text("REASONS", 0),
];

/// File operations as a table.
pub struct FileOpTable<W> {
    table: Table<W>,
    zone: Zone,
    wide: bool,
    by_message: bool,
}

impl<W: Write> FileOpTable<W> {
    /// A table that looks like this; `by_message` for one row a message id.
    pub fn new(out: W, look: &Style, by_message: bool) -> Self {
        let mut columns = TIMES.to_vec();
        columns.extend(if by_message { BY_MESSAGE } else { BY_WRITE });
        columns.extend(WHAT_AND_WHY);
        if look.wide {
            columns.extend(WIDE);
        }
        let table = Table::new(out, columns, look.lookahead).coloured(look.colour);
        Self { table, zone: look.zone.clone(), wide: look.wide, by_message }
    }

    fn row(&mut self, row: &FileOpRow<'_>, id: Option<&str>) -> io::Result<()> {
        let op = row.op;
        let mut cells = vec![
            self.zone.time_of_day(op.start),
            self.zone.time_of_day(op.end),
            format!("{} ms", op.latency().as_millis_rounded()),
        ];
        let bytes = or_dash(op.bytes);
        let off_kb = (op.offset / 1024).to_string();
        let file = escape(&op.file).into_owned();
        let topic = or_dash(op.topic_partition.as_ref().map(|of| escape(&of.topic)));
        let partition = or_dash(op.topic_partition.as_ref().map(|of| of.partition));
        if self.by_message {
            cells.extend([or_dash(id.map(escape)), file, topic, partition, bytes, off_kb]);
        } else {
            cells.extend([op.tid.to_string(), bytes, off_kb, file, topic, partition]);
        }
        cells.extend([op.op.as_str().to_owned(), reasons::longest(row.reasons)]);
        if self.wide {
            cells.extend(wide_cells(row));
        }
        self.table.row(cells)
    }
}

fn wide_cells(row: &FileOpRow<'_>) -> [String; 12] {
    let op = row.op;
    [
        escape(&op.thread).into_owned(),
        op.kind.as_str().to_owned(),
        escape(&op.device.to_string()).into_owned(),
        escape(&op.fs).into_owned(),
        or_dash(op.batch.map(|batch| format!("{:#010x}", batch.crc))),
        or_dash(op.batch.map(|batch| batch.base_offset)),
        or_dash(op.disk_bytes),
        or_dash(op.readahead_bytes),
        or_dash(op.errno.map(errno::name)),
        or_dash(op.renamed_to.as_deref().map(escape)),
        reasons::held_up_by(row.reasons),
        reasons::all(row.reasons),
    ]
}

impl<W: Write> FileOpReport for FileOpTable<W> {
    fn file_op(&mut self, row: &FileOpRow<'_>) -> io::Result<()> {
        if !self.by_message || row.message_ids.is_empty() {
            return self.row(row, None);
        }
        row.message_ids.iter().try_for_each(|id| self.row(row, Some(id)))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.table.finish()
    }
}
