//! `segment`: the batches, or the records, of a segment file. Payloads are never shown.

use anyhow::Context as _;
use broker::segment::{Batch, message_id};
use report::numbers::{counted, grouped};
use report::segments::{
    BatchRow, RecordRow, SegmentCsv, SegmentFile, SegmentJson, SegmentReport, SegmentTable,
};
use wire::record::Record;

use crate::cli::Segment;
use crate::failure;
use crate::options::Format;
use crate::output::{self, Pace};

/// Damaged places told at most.
const MOST_NOTES: usize = 20;

/// Shows what is in the segment.
pub(crate) fn run(args: &Segment) -> anyhow::Result<()> {
    let mut segment =
        broker::Segment::open(&args.file).map_err(|error| failure::of_file(&args.file, &error))?;
    let mut shown = Shown::new(args);
    let batches = match (args.offset, args.bytes) {
        (Some(offset), Some(bytes)) => segment.batches_in(offset, bytes),
        _ => segment.batches(),
    };
    for batch in batches {
        match batch {
            Ok(batch) => shown.batch(&batch)?,
            Err(damage) => shown.note(damage.to_string()),
        }
    }
    shown.finish()
}

struct Shown<'a> {
    report: Box<dyn SegmentReport>,
    args: &'a Segment,
    scratch: Vec<u8>,
    /// The records of one batch.
    rows: Vec<RecordRow>,
    batches: u64,
    records: u64,
    damaged: u64,
    notes: Vec<String>,
    more_notes: u64,
}

impl<'a> Shown<'a> {
    fn new(args: &'a Segment) -> Self {
        let out = output::stdout(Pace::AllThere);
        let look = args.presentation.look(Pace::AllThere);
        let report: Box<dyn SegmentReport> = match args.presentation.format {
            Format::Table => Box::new(SegmentTable::new(out, &look, segment_file(args), args.records)),
            Format::Json => Box::new(SegmentJson::new(out)),
            Format::Csv => Box::new(SegmentCsv::new(out, args.records)),
        };
        Self {
            report,
            args,
            scratch: Vec::new(),
            rows: Vec::new(),
            batches: 0,
            records: 0,
            damaged: 0,
            notes: Vec::new(),
            more_notes: 0,
        }
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
        let message_ids = self.message_ids(batch);
        BatchRow {
            base_offset: header.base_offset,
            last_offset: batch.last_offset(),
            bytes: u64::from(header.length_bytes),
            position: batch.position,
            magic: header.magic,
            crc: header.crc,
            crc_ok: batch.crc_ok,
            codec: header.codec().map_or("unknown", wire::compression::Codec::name),
            producer_id: header.producer_id,
            records: header.records(),
            timestamp_ms: header.max_timestamp_ms,
            control: header.is_control(),
            message_ids,
        }
    }

    fn message_ids(&mut self, batch: &Batch) -> Vec<String> {
        let Some(header) = &self.args.message_id else { return Vec::new() };
        batch.message_ids(header.as_bytes(), &mut self.scratch).unwrap_or_else(|error| {
            self.note(unreadable(batch, error));
            Vec::new()
        })
    }

    /// Keeps a sentence for the end. A file that is no segment at all must not fill the screen.
    fn note(&mut self, sentence: String) {
        if self.notes.len() < MOST_NOTES { self.notes.push(sentence) } else { self.more_notes += 1 }
    }

    fn records_of(&mut self, batch: &Batch) -> anyhow::Result<()> {
        let header = self.args.message_id.as_deref().map(str::as_bytes);
        self.rows.clear();
        let rows = &mut self.rows;
        let read = batch.records(&mut self.scratch).and_then(|mut records| {
            records.try_for_each(|record| {
                rows.push(record_row(&record?, header));
                Ok(())
            })
        });
        if let Err(error) = read {
            self.note(unreadable(batch, error));
            return Ok(());
        }
        let Self { rows, report, .. } = self;
        rows.iter().try_for_each(|row| report.record(row)).context("cannot write to standard output")
    }

    fn finish(mut self) -> anyhow::Result<()> {
        self.report.finish().context("cannot write to standard output")?;
        let presentation = &self.args.presentation;
        presentation.say(&format!("{} with {}", batches(self.batches), counted(self.records, "record")));
        if self.damaged > 0 {
            presentation.say(&format!("{} with a wrong CRC", batches(self.damaged)));
        }
        for note in &self.notes {
            presentation.say(note);
        }
        if self.more_notes > 0 {
            presentation.say(&format!("and {} more places like these", grouped(self.more_notes)));
        }
        Ok(())
    }
}

fn batches(count: u64) -> String {
    format!("{} batch{}", grouped(count), if count == 1 { "" } else { "es" })
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
        message_id: id.map(message_id),
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
