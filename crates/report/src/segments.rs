//! Content of a segment: its batches, or its records. Does not read segments and never sees a payload.

use std::io::{self, Write};
use std::sync::Arc;

use model::{Nanos, TopicPartition};

use crate::rows::{Cell, Column, Format, Report, Writer};

/// The segment that is shown.
#[derive(Clone, Debug)]
pub struct SegmentFile {
    /// Its file, relative to its log dir if that is known.
    pub file: Arc<str>,
    /// The partition, if the file's directory names one.
    pub topic_partition: Option<TopicPartition>,
}

/// One batch of a segment.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchRow {
    /// Offset of its first record.
    pub base_offset: i64,
    /// Offset of its last record.
    pub last_offset: i64,
    /// Its bytes, including the leading 12.
    pub bytes: u64,
    /// Where it starts in the file.
    pub position: u64,
    /// Its message format.
    pub magic: i8,
    /// The CRC it carries.
    pub crc: u32,
    /// Whether that CRC is correct.
    pub crc_ok: bool,
    /// `none`, `gzip`, `snappy`, `lz4`, `zstd`.
    pub codec: &'static str,
    /// The idempotent producer's id, or -1.
    pub producer_id: i64,
    /// Number of records, if its header states it.
    pub records: Option<u32>,
    /// The greatest timestamp, UTC milliseconds, or -1.
    pub timestamp_ms: i64,
    /// Whether it is a transaction marker.
    pub control: bool,
    /// Message ids of its records, if they were requested.
    pub message_ids: Vec<String>,
}

/// One record of a segment.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordRow {
    /// Its offset.
    pub offset: i64,
    /// UTC milliseconds, or -1.
    pub timestamp_ms: i64,
    /// Bytes of its key; `None` without a key.
    pub key_bytes: Option<u64>,
    /// Bytes of its value; `None` for a tombstone.
    pub value_bytes: Option<u64>,
    /// Its message id, if requested and present.
    pub message_id: Option<String>,
}

/// A batch and the message ids that the row shows.
struct BatchLine<'a> {
    batch: &'a BatchRow,
    message_ids: &'a [String],
}

/// Batches, one row each or, in tables, one per message id if those were requested.
struct Batches(SegmentFile);

impl Report for Batches {
    type Row<'a> = BatchLine<'a>;
    const TYPE: &'static str = "batch";

    fn columns(&self) -> Vec<Column<Self>> {
        type Col = Column<Batches>;
        let SegmentFile { file, topic_partition } = self.0.clone();
        let of = topic_partition.clone();
        vec![
            Col::text("MESSAGE_ID", 0, "", |row| row.message_ids.first().map(|id| &**id).into()),
            Col::text("FILE", 24, "", move |_| Cell::display(&file)),
            Col::text("TOPIC", 8, "", move |_| {
                topic_partition.as_ref().map(|of| of.topic.to_string()).into()
            }),
            Col::text("PARTITION", 0, "", move |_| of.as_ref().map(|of| of.partition).into()),
            Col::number("BASE_OFFSET", 0, "base_offset", |row| row.batch.base_offset.into()).place(1),
            Col::number("LAST_OFFSET", 0, "last_offset", |row| row.batch.last_offset.into()).place(1),
            Col::text("BYTES", 7, "bytes", |row| row.batch.bytes.into()),
            Col::text("OFF_KB", 7, "", |row| (row.batch.position / 1024).into()),
            Col::number("POSITION", 10, "position", |row| row.batch.position.into()),
            Col::number("MAGIC", 0, "magic", |row| row.batch.magic.into()).wide(),
            Col::text("CRC", 10, "crc", |row| Cell::Hex(row.batch.crc.into())).place(3),
            Col::text("CRC_OK", 0, "crc_ok", |row| row.batch.crc_ok.into()).place(3),
            Col::text("CODEC", 6, "codec", |row| row.batch.codec.into()).place(2),
            Col::number("PRODUCER_ID", 0, "producer_id", |row| row.batch.producer_id.into()).wide(),
            Col::number("RECORDS", 0, "records", |row| row.batch.records.into()).place(1),
            Col::text("TIMESTAMP", 12, "", |row| timestamp(row.batch.timestamp_ms)).place(1),
            Col::data("timestamp_ms", |row| row.batch.timestamp_ms.into()),
            Col::text("CONTROL", 0, "control", |row| row.batch.control.into()).wide(),
            Col::data("message_ids", |row| Cell::List(row.message_ids.iter().map(Into::into).collect())),
        ]
    }
}

/// Records, one row each.
struct Records;

impl Report for Records {
    type Row<'a> = RecordRow;
    const TYPE: &'static str = "record";

    fn columns(&self) -> Vec<Column<Self>> {
        type Col = Column<Records>;
        vec![
            Col::number("OFFSET", 10, "offset", |row| row.offset.into()),
            Col::text("TIMESTAMP", 12, "", |row| timestamp(row.timestamp_ms)),
            Col::data("timestamp_ms", |row| row.timestamp_ms.into()),
            Col::number("KEY_BYTES", 0, "key_bytes", |row| row.key_bytes.into()),
            Col::number("VALUE_BYTES", 0, "value_bytes", |row| row.value_bytes.into()),
            Col::text("MESSAGE_ID", 0, "message_id", |row| row.message_id.as_deref().into()),
        ]
    }
}

/// Kafka writes -1 for "no timestamp".
fn timestamp<'a>(ms: i64) -> Cell<'a> {
    (ms >= 0).then(|| Cell::Time(Nanos::from_millis(ms))).into()
}

/// A segment's content in any format: its batches, or its records; in JSON batches, each followed by its records.
pub struct SegmentWriter<W: Write> {
    form: Form<W>,
    splits_messages: bool,
}

enum Form<W: Write> {
    Batches(Writer<Batches, W>),
    Records(Writer<Records, W>),
    /// Records go to a buffer before they follow their batch.
    Both(Writer<Batches, W>, Box<Writer<Records, Vec<u8>>>),
}

impl<W: Write> SegmentWriter<W> {
    /// Creates a writer to this output. Writes one row per record if `records`, else one per batch.
    pub fn new(out: W, segment: SegmentFile, records: bool, format: &Format) -> Self {
        let form = match format {
            Format::Json => Form::Both(
                Writer::new(out, &Batches(segment), format),
                Box::new(Writer::new(Vec::new(), &Records, format)),
            ),
            _ if records => Form::Records(Writer::new(out, &Records, format)),
            _ => Form::Batches(Writer::new(out, &Batches(segment), format)),
        };
        Self { form, splits_messages: matches!(format, Format::Table(_)) }
    }

    /// Writes one batch.
    pub fn batch(&mut self, batch: &BatchRow) -> io::Result<()> {
        let (Form::Batches(writer) | Form::Both(writer, _)) = &mut self.form else { return Ok(()) };
        if !self.splits_messages || batch.message_ids.is_empty() {
            return writer.row(&BatchLine { batch, message_ids: &batch.message_ids });
        }
        batch.message_ids.chunks(1).try_for_each(|message_ids| writer.row(&BatchLine { batch, message_ids }))
    }

    /// Writes one record of the preceding batch.
    pub fn record(&mut self, record: &RecordRow) -> io::Result<()> {
        match &mut self.form {
            Form::Batches(_) => Ok(()),
            Form::Records(writer) => writer.row(record),
            Form::Both(batches, records) => {
                records.row(record)?;
                let line = records.output();
                batches.output().write_all(line)?;
                line.clear();
                Ok(())
            }
        }
    }

    /// Ends the output.
    pub fn finish(&mut self) -> io::Result<()> {
        match &mut self.form {
            Form::Batches(writer) | Form::Both(writer, _) => writer.finish(),
            Form::Records(writer) => writer.finish(),
        }
    }
}
