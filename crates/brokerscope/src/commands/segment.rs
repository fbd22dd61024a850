//! `segment`: the batches or records of a segment file. Never shows payloads.

mod reading;

use std::io;
use std::path::PathBuf;
use std::thread;

use analysis::file_error;
use anyhow::Context as _;
use clap::Args;
use report::quantity::{format_count, format_count_of};
use report::segments::{SegmentFile, SegmentWriter};

use super::Run;
use crate::args::Presentation;
use crate::file_access::FileAccess;
use crate::output::{self, Pace, Stdout};
use crate::quantity;
use reading::{BatchStart, Piece, Reading};

/// Maximum number of notes about damaged places.
const MAX_NOTES: usize = 20;

/// `segment`.
#[derive(Debug, Args)]
#[command(after_help = "Keys and values are never shown. Offset and bytes are those of a write, as
`brokerscope io --format json` shows them.

Examples:
  brokerscope segment 00000000000000000000.log --records --message-id id
  brokerscope segment FILE --offset 90979668000 --bytes 2009 --message-id id")]
pub(crate) struct Segment {
    /// A segment's .log file.
    file: PathBuf,
    /// Show only what was written at this file position.
    #[arg(long, help_heading = "Filter", value_name = "N", requires = "bytes", value_parser = quantity::size)]
    offset: Option<u64>,
    /// Show this many bytes from there.
    #[arg(long, help_heading = "Filter", value_name = "M", requires = "offset", value_parser = quantity::size)]
    bytes: Option<u64>,
    /// Show every record, not only batches.
    #[arg(long, help_heading = "Output")]
    records: bool,
    /// Show this record header as message id.
    #[arg(long, help_heading = "Output", value_name = "HEADER")]
    message_id: Option<String>,
    #[command(flatten)]
    presentation: Presentation,
}

impl Run for Segment {
    fn run(&self) -> anyhow::Result<()> {
        FileAccess::of([&self.file])?.enter()?;
        let mut segment =
            broker::Segment::open(&self.file).map_err(|error| file_error(&self.file, &error))?;
        let mut rows = Rows::new(self);
        thread::scope(|scope| {
            let (reading, pieces) = Reading::new(self);
            scope.spawn(move || reading.run(&mut segment));
            pieces.each(|piece| rows.piece(piece))
        })?;
        rows.finish()
    }
}

struct Rows<'a> {
    report: SegmentWriter<Stdout>,
    args: &'a Segment,
    batches: u64,
    records: u64,
    /// Batches without a record count.
    uncounted: u64,
    damaged: u64,
    notes: Vec<String>,
    more_notes: u64,
}

impl<'a> Rows<'a> {
    fn new(args: &'a Segment) -> Self {
        let out = output::stdout(Pace::Buffered);
        let form = args.presentation.form(Pace::Buffered);
        let report = SegmentWriter::new(out, segment_file(args), args.records, &form);
        Self {
            report,
            args,
            batches: 0,
            records: 0,
            uncounted: 0,
            damaged: 0,
            notes: Vec::new(),
            more_notes: 0,
        }
    }

    fn piece(&mut self, piece: &mut Piece) -> anyhow::Result<()> {
        self.write(piece).context(output::CANNOT_WRITE)?;
        piece.notes.drain(..).for_each(|sentence| self.note(sentence));
        Ok(())
    }

    fn write(&mut self, piece: &Piece) -> io::Result<()> {
        let mut records = piece.records.iter();
        let mut written = 0;
        for BatchStart { batch, after } in &piece.batches {
            records.by_ref().take(after - written).try_for_each(|record| self.report.record(record))?;
            written = *after;
            self.batches += 1;
            self.records += u64::from(batch.records.unwrap_or(0));
            self.uncounted += u64::from(batch.records.is_none());
            self.damaged += u64::from(!batch.crc_ok);
            self.report.batch(batch)?;
        }
        records.try_for_each(|record| self.report.record(record))
    }

    /// Keeps a message for the end. Bounded, so that a file that is not a segment does not fill the screen.
    fn note(&mut self, sentence: String) {
        if self.notes.len() < MAX_NOTES { self.notes.push(sentence) } else { self.more_notes += 1 }
    }

    fn finish(mut self) -> anyhow::Result<()> {
        self.report.finish().context(output::CANNOT_WRITE)?;
        tracing::info!("{}", contents(self.batches, self.records, self.uncounted));
        if self.damaged > 0 {
            tracing::info!("{} with a wrong CRC", batches(self.damaged));
        }
        output::log_notes(&self.notes);
        if self.more_notes > 0 {
            tracing::info!("and {} more places like these", format_count(self.more_notes));
        }
        // An empty segment is fine, and a range in the file may hold no batch.
        let is_none = self.batches == 0 && !self.notes.is_empty() && self.args.offset.is_none();
        anyhow::ensure!(
            !is_none,
            "{}: there is no record batch in it: name the .log file of a segment",
            self.args.file.display()
        );
        Ok(())
    }
}

/// Formats the contents; `uncounted` batches do not say how many records they have.
fn contents(all: u64, records: u64, uncounted: u64) -> String {
    let records = format_count_of(records, "record");
    if uncounted == 0 {
        return format!("{} with {records}", batches(all));
    }
    let uncounted = batches(uncounted);
    format!("{} with {records} and those of {uncounted} without a count", batches(all))
}

fn batches(count: u64) -> String {
    format!("{} batch{}", format_count(count), if count == 1 { "" } else { "es" })
}

/// The file's path relative to its log dir: its directory's name and its own.
fn segment_file(args: &Segment) -> SegmentFile {
    let path = std::path::absolute(&args.file).unwrap_or_else(|_| args.file.clone());
    let names = path.components().rev().take(2).map(|name| name.as_os_str().to_string_lossy());
    let mut names = names.collect::<Vec<_>>();
    names.reverse();
    let file = names.join("/");
    let (_, topic_partition) = broker::path::classify(&file);
    SegmentFile { file: file.into(), topic_partition }
}

#[cfg(test)]
mod tests {
    use super::contents;

    #[test]
    fn batches_without_a_record_count_are_reported_separately() {
        assert_eq!(contents(3, 12, 0), "3 batches with 12 records");
        let some = contents(3, 12, 2);
        assert_eq!(some, "3 batches with 12 records and those of 2 batches without a count");
    }
}
