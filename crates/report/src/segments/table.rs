//! A segment as a table: its batches (one row a message id where those were asked for), or its records.

use std::io::{self, Write};

use model::Nanos;

use super::{BatchRow, RecordRow, SegmentFile, SegmentReport};
use crate::Style;
use crate::escape::escape;
use crate::quantity::{NONE, or_dash};
use crate::table::{Column, Table};
use crate::time_of_day::TimesOfDay;

const BATCHES: [Column; 14] = [
    Column::text("MESSAGE_ID", 0),
    Column::text("FILE", 24),
    Column::text("TOPIC", 8),
    Column::text("PARTITION", 0),
    Column::text("BYTES", 7),
    Column::text("OFF_KB", 7),
    Column::number("POSITION", 10),
    Column::number("BASE_OFFSET", 0),
    Column::number("LAST_OFFSET", 0),
    Column::number("RECORDS", 0),
    Column::text("TIMESTAMP", 12),
    Column::text("CODEC", 6),
    Column::text("CRC", 10),
    Column::text("CRC_OK", 0),
];

const WIDE: [Column; 3] =
    [Column::number("MAGIC", 0), Column::number("PRODUCER_ID", 0), Column::text("CONTROL", 0)];

const RECORDS: [Column; 5] = [
    Column::number("OFFSET", 10),
    Column::text("TIMESTAMP", 12),
    Column::number("KEY_BYTES", 0),
    Column::number("VALUE_BYTES", 0),
    Column::text("MESSAGE_ID", 0),
];

/// A segment as a table.
pub struct SegmentTable<W> {
    table: Table<W>,
    segment: SegmentFile,
    times: TimesOfDay,
    wide: bool,
    records: bool,
}

impl<W: Write> SegmentTable<W> {
    /// A table that looks like this; `records` for one row a record instead of one a batch.
    pub fn new(out: W, look: &Style, segment: SegmentFile, records: bool) -> Self {
        let mut columns = if records { RECORDS.to_vec() } else { BATCHES.to_vec() };
        if look.wide && !records {
            columns.extend(WIDE);
        }
        let table = Table::new(out, columns, look.lookahead).coloured(look.colour);
        Self { table, segment, times: TimesOfDay::new(look.zone.clone()), wide: look.wide, records }
    }

    fn batch_row(&mut self, batch: &BatchRow, id: Option<&str>) -> io::Result<()> {
        let partition = self.segment.topic_partition.as_ref();
        let mut cells = vec![
            or_dash(id.map(escape)),
            escape(&self.segment.file).into_owned(),
            or_dash(partition.map(|of| escape(&of.topic))),
            or_dash(partition.map(|of| of.partition)),
            batch.bytes.to_string(),
            (batch.position / 1024).to_string(),
            batch.position.to_string(),
            batch.base_offset.to_string(),
            batch.last_offset.to_string(),
            or_dash(batch.records),
            timestamp(&mut self.times, batch.timestamp_ms).to_owned(),
            batch.codec.to_owned(),
            format!("{:#010x}", batch.crc),
            yes_no(batch.crc_ok),
        ];
        if self.wide {
            cells.extend([batch.magic.to_string(), batch.producer_id.to_string(), yes_no(batch.control)]);
        }
        self.table.row(cells)
    }
}

/// Kafka writes -1 for "no timestamp".
fn timestamp(times: &mut TimesOfDay, ms: i64) -> &str {
    if ms < 0 { NONE } else { times.text(Nanos::from_millis(ms)) }
}

fn number(buffer: &mut itoa::Buffer, number: Option<impl itoa::Integer>) -> &str {
    number.map_or(NONE, |number| buffer.format(number))
}

fn yes_no(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

impl<W: Write> SegmentReport for SegmentTable<W> {
    fn batch(&mut self, batch: &BatchRow) -> io::Result<()> {
        if self.records {
            return Ok(());
        }
        if batch.message_ids.is_empty() {
            return self.batch_row(batch, None);
        }
        batch.message_ids.iter().try_for_each(|id| self.batch_row(batch, Some(id)))
    }

    fn record(&mut self, record: &RecordRow) -> io::Result<()> {
        // There are too many records to allocate anything for each.
        let mut buffers = [itoa::Buffer::new(); 3];
        let [offset, key_bytes, value_bytes] = &mut buffers;
        let message_id = record.message_id.as_deref().map(escape);
        self.table.row_of(&[
            number(offset, Some(record.offset)),
            timestamp(&mut self.times, record.timestamp_ms),
            number(key_bytes, record.key_bytes),
            number(value_bytes, record.value_bytes),
            message_id.as_deref().unwrap_or(NONE),
        ])
    }

    fn finish(&mut self) -> io::Result<()> {
        self.table.finish()
    }
}
