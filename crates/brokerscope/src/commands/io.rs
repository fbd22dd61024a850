//! `io`: the broker's file operations, from a recording or live.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use diagnose::Reasons;
use model::{Event, FileOp};
use recording::{Recording, Table};
use report::file_ops::{FileOpCsv, FileOpJson, FileOpReport, FileOpRow, FileOpTable};
use report::numbers::grouped;

use crate::cli::Io;
use crate::commands::record;
use crate::failure::Usage;
use crate::options::{Filter, Format};
use crate::output::{self, Pace};
use crate::segments::MessageIds;

/// Shows the operations.
pub(crate) fn run(args: &Io) -> anyhow::Result<()> {
    let Filter { ports, apis, .. } = &args.filter;
    args.presentation.say_unused("io", &[("--port", !ports.is_empty()), ("--api", !apis.is_empty())]);
    match &args.from {
        Some(_) if args.duration.is_some() => {
            Err(Usage("--for is for live input; a recording is read to its end".to_owned()).into())
        }
        Some(dir) => from_recording(args, dir),
        None => live(args),
    }
}

fn from_recording(args: &Io, dir: &Path) -> anyhow::Result<()> {
    let recording = Recording::open(dir)?;
    let own = recording.manifest().broker.as_ref().map(|broker| broker.log_dirs.clone()).unwrap_or_default();
    let mut shown = Shown::new(args, own, Pace::AllThere);
    for event in recording.events_of(&[Table::OffCpu, Table::FileOps]) {
        match event {
            Ok(event) => shown.event(event)?,
            // The other parts still tell.
            Err(error) => output::warn(&error.to_string()),
        }
    }
    let mut notes = recording.notes();
    notes.extend(record::notes(recording.manifest(), &args.presentation));
    shown.finish(&notes)
}

#[cfg(feature = "live")]
fn live(args: &Io) -> anyhow::Result<()> {
    use crate::stop::Stop;
    use crate::watched;
    const WAIT: std::time::Duration = std::time::Duration::from_millis(100);

    let stop = Stop::after(args.duration)?;
    let broker = watched::broker(&args.target)?;
    let watch = watched::start(&args.target, &broker, None, true)?;
    let mut shown = Shown::new(args, broker.log_dirs.clone(), Pace::AsTheyCome);
    args.presentation.say(&format!("watching broker {}; Ctrl-C ends it", broker.pid));
    let mut losses = Vec::new();
    let mut event = |event: Event| match event {
        Event::Loss(loss) => {
            losses.push(format!("lost {} {}: {}", grouped(loss.count), loss.kind.as_str(), loss.detail));
            Ok(())
        }
        Event::BrokerChange(change) => {
            args.presentation.say_change(&change, broker.pid);
            Ok(())
        }
        other => shown.event(other),
    };
    while !stop.asked() {
        watch.next(WAIT).map_or(Ok(()), &mut event)?;
    }
    let mut last = Ok(());
    let ended = watch.stop(&mut |rest| {
        if last.is_ok() {
            last = event(rest);
        }
    });
    last?;
    if let Some(error) = ended.kernel {
        losses.push(format!("the probes ended early: {error}"));
    }
    losses.extend(ended.trouble);
    if ended.dropped > 0 {
        losses.push(format!("{} events came faster than they could be shown", grouped(ended.dropped)));
    }
    shown.finish(&losses)
}

#[cfg(not(feature = "live"))]
fn live(_args: &Io) -> anyhow::Result<()> {
    Err(Usage("--from RECORDING is needed: this brokerscope was built without the feature `live`".to_owned())
        .into())
}

/// The output, and how many operations went to it.
struct Shown<'a> {
    report: Box<dyn FileOpReport>,
    message_ids: Option<MessageIds>,
    reasons: Reasons,
    args: &'a Io,
    seen: u64,
    count: u64,
}

impl<'a> Shown<'a> {
    fn new(args: &'a Io, own_log_dirs: Vec<PathBuf>, pace: Pace) -> Self {
        let out = output::stdout(pace);
        let by_message = args.filter.message_id.is_some();
        let report: Box<dyn FileOpReport> = match args.presentation.format {
            Format::Table => Box::new(FileOpTable::new(out, &args.presentation.look(pace), by_message)),
            Format::Json => Box::new(FileOpJson(out)),
            Format::Csv => Box::new(FileOpCsv::new(out)),
        };
        let log_dirs =
            if args.target.log_dirs.is_empty() { own_log_dirs } else { args.target.log_dirs.clone() };
        let message_ids = args.filter.message_id.as_deref().map(|header| MessageIds::new(header, log_dirs));
        Self { report, message_ids, reasons: Reasons::default(), args, seen: 0, count: 0 }
    }

    /// Takes what bears on file operations, in the order of ends.
    fn event(&mut self, event: Event) -> anyhow::Result<()> {
        match event {
            Event::OffCpu(interval) => self.reasons.off_cpu(*interval),
            Event::FileOp(op) => self.file_op(&op)?,
            _ => {}
        }
        Ok(())
    }

    fn file_op(&mut self, op: &FileOp) -> anyhow::Result<()> {
        self.seen += 1;
        // Asked of every operation: what is told of one is forgotten.
        let reasons = self.reasons.of(op);
        if !self.args.filter.admits(op, self.args.slower_than) {
            return Ok(());
        }
        self.count += 1;
        let message_ids = self.message_ids.as_mut().map(|ids| ids.written_by(op)).unwrap_or_default();
        let row = FileOpRow { op, reasons: &reasons, message_ids: &message_ids };
        self.report.file_op(&row).context("cannot write to standard output")
    }

    fn finish(mut self, notes: &[String]) -> anyhow::Result<()> {
        self.report.finish().context("cannot write to standard output")?;
        let presentation = &self.args.presentation;
        presentation.say(&format!("{} shown of {} file operations", grouped(self.count), grouped(self.seen)));
        for note in notes {
            presentation.say(note);
        }
        Ok(())
    }
}
