//! `segment`: the batches, or the records, of a segment file. Payloads are never shown.

use anyhow::Context as _;
use broker::segment::{Batch, Segment as SegmentReader};
use report::numbers::{counted, grouped};
use report::segments::{
    BatchRow, RecordRow, SegmentCsv, SegmentFile, SegmentJson, SegmentReport, SegmentTable,
};
use wire::record::{Record, Records};

use crate::cli::Segment;
use crate::options::Format;
use crate::output::{self, Pace};
use crate::segments::{MOST_DECOMPRESSED_BYTES, MessageIds};

/// Shows what is in the segment.
pub(crate) fn run(args: &Segment) -> anyhow::Result<()> {
    let segment = SegmentReader::open(&args.file)?;
    let mut shown = Shown::new(args);
    let (offset, bytes) = (args.offset.unwrap_or(0), args.bytes.unwrap_or(u64::MAX));
    for batch in segment.batches_in(offset, bytes)? {
        match batch {
            Ok(batch) => shown.batch(&batch)?,
            // What follows damage cannot be found: batches are chained by their lengths.
            Err(error) => shown.notes.push(error.to_string()),
        }
    }
    shown.finish()
}

struct Shown<'a> {
    report: Box<dyn SegmentReport>,
    message_ids: Option<MessageIds>,
    args: &'a Segment,
    scratch: Vec<u8>,
    batches: u64,
    records: u64,
    damaged: u64,
    notes: Vec<String>,
}

impl<'a> Shown<'a> {
    fn new(args: &'a Segment) -> Self {
        let out = output::stdout(Pace::AllThere);
        let look = args.presentation.look(Pace::AllThere);
        let report: Box<dyn SegmentReport> = match args.presentation.format {
            Format::Table => Box::new(SegmentTable::new(out, &look, segment_file(args), args.records)),
            Format::Json => Box::new(SegmentJson(out)),
            Format::Csv => Box::new(SegmentCsv::new(out, args.records)),
        };
        let message_ids = args.message_id.as_deref().map(|header| MessageIds::new(header, Vec::new()));
        let (scratch, notes) = (Vec::new(), Vec::new());
        Self { report, message_ids, args, scratch, batches: 0, records: 0, damaged: 0, notes }
    }

    fn batch(&mut self, batch: &Batch) -> anyhow::Result<()> {
        let row = self.row(batch);
        self.batches += 1;
        self.records += u64::from(row.records.unwrap_or(0));
        self.damaged += u64::from(!row.crc_ok);
        self.report.batch(&row).context("cannot write to standard output")?;
        if self.args.records { self.records_of(batch) } else { Ok(()) }
    }

    fn row(&mut self, batch: &Batch) -> BatchRow {
        let header = &batch.header;
        let mut ids = Vec::new();
        if let Some(message_ids) = &mut self.message_ids {
            message_ids.of_batch(&batch.bytes, &mut ids);
        }
        BatchRow {
            base_offset: header.base_offset,
            last_offset: header.base_offset.saturating_add(i64::from(header.last_offset_delta)),
            bytes: u64::from(header.length_bytes),
            position: batch.position,
            magic: header.magic,
            crc: header.crc,
            crc_ok: header.crc_ok(&batch.bytes),
            codec: header.codec().map_or("unknown", wire::compression::Codec::name),
            producer_id: header.producer_id,
            records: header.records(),
            timestamp_ms: header.max_timestamp_ms,
            control: header.is_control(),
            message_ids: ids.iter().map(ToString::to_string).collect(),
        }
    }

    fn records_of(&mut self, batch: &Batch) -> anyhow::Result<()> {
        let header = self.args.message_id.as_deref().map(str::as_bytes);
        let records = match Records::open(&batch.bytes, MOST_DECOMPRESSED_BYTES, &mut self.scratch) {
            Ok(records) => records,
            Err(error) => {
                self.notes.push(unreadable(batch, error));
                return Ok(());
            }
        };
        for record in records {
            match record {
                Ok(record) => self
                    .report
                    .record(&record_row(&record, header))
                    .context("cannot write to standard output")?,
                Err(error) => self.notes.push(unreadable(batch, error)),
            }
        }
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<()> {
        self.report.finish().context("cannot write to standard output")?;
        let presentation = &self.args.presentation;
        presentation.say(&format!("{} with {}", self.counted_batches(), counted(self.records, "record")));
        if self.damaged > 0 {
            presentation.say(&format!("{} whose CRC is wrong", grouped(self.damaged)));
        }
        self.notes.iter().for_each(|note| presentation.say(note));
        Ok(())
    }

    fn counted_batches(&self) -> String {
        format!("{} batch{}", grouped(self.batches), if self.batches == 1 { "" } else { "es" })
    }
}

fn unreadable(batch: &Batch, error: wire::Error) -> String {
    format!("the batch at position {} cannot be read further: {error}", batch.position)
}

fn record_row(record: &Record<'_>, header: Option<&[u8]>) -> RecordRow {
    let id = header.and_then(|name| record.header(name).ok().flatten());
    RecordRow {
        offset: record.offset,
        timestamp_ms: record.timestamp_ms,
        key_bytes: record.key.map(|key| key.len() as u64),
        value_bytes: record.value.map(|value| value.len() as u64),
        message_id: id.map(|id| String::from_utf8_lossy(id).into_owned()),
    }
}

/// The file below its log dir: its own name and that of its directory.
fn segment_file(args: &Segment) -> SegmentFile {
    let path = std::path::absolute(&args.file).unwrap_or_else(|_| args.file.clone());
    let names = path.components().rev().take(2).map(|name| name.as_os_str().to_string_lossy());
    let mut names = names.collect::<Vec<_>>();
    names.reverse();
    let file = names.join("/");
    let (_, topic_partition) = broker::path::classify(&file);
    SegmentFile { file: file.into(), topic_partition }
}
