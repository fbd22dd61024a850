//! `io`: the broker's file operations, from a recording or live.

use anyhow::Context as _;
use diagnose::Reasons;
use model::{Event, FileOp, FileOpKind};
use recording::Table;
use report::file_ops::{
    FileOpCsv, FileOpJson, FileOpReport, FileOpRow, FileOpSummary, FileOpSummaryReport, FileOpTable,
    TopFileOps,
};
use report::quantity::format_count;

use crate::cli::Io;
use crate::options::{Filter, Format};
use crate::output::{self, Pace};
use crate::seen::{self, About, Reader};
use crate::segments::MessageIds;

/// What operations and their reasons are told from.
const TABLES: [Table; 5] =
    [Table::OffCpu, Table::Reclaims, Table::DirtyThrottles, Table::BlockIos, Table::FileOps];

/// Shows the operations.
pub(crate) fn run(args: &Io) -> anyhow::Result<()> {
    let Filter { ports, apis, .. } = &args.filter;
    args.presentation.say_unused("io", &[("--port", !ports.is_empty()), ("--api", !apis.is_empty())]);
    seen::read(&args.source, &args.target, &args.presentation, &TABLES, |about| Shown::new(args, about))
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
    fn new(args: &'a Io, about: &About) -> Self {
        let waits_for_end = args.summary || args.top.is_some();
        let pace = if waits_for_end { Pace::AllThere } else { about.pace };
        if waits_for_end && args.source.is_endless() {
            args.presentation.say("Ctrl-C shows what was found");
        }
        let ids = args.filter.message_id.as_deref().filter(|_| !args.summary);
        Self {
            report: report(args, pace),
            message_ids: ids.map(|header| MessageIds::new(header, about.log_dirs.clone())),
            reasons: Reasons::new(about.off_cpu),
            args,
            seen: 0,
            count: 0,
        }
    }

    fn file_op(&mut self, op: &FileOp) -> anyhow::Result<()> {
        self.seen += 1;
        // Asked of every operation: what is told of one is forgotten.
        let reasons = self.reasons.of(op);
        if !self.wants(op) {
            return Ok(());
        }
        self.count += 1;
        let ids = self.message_ids.as_mut().filter(|_| op.op == FileOpKind::Write);
        let message_ids = ids.map(|ids| ids.written_by(op)).unwrap_or_default();
        let row = FileOpRow { op, reasons: &reasons, message_ids: &message_ids };
        self.report.file_op(&row).context(output::CANNOT_WRITE)
    }

    fn wants(&self, op: &FileOp) -> bool {
        let Io { ops, kinds, filter, slower_than, .. } = self.args;
        filter.admits(op, *slower_than)
            && (ops.is_empty() || ops.contains(&op.op))
            && (kinds.is_empty() || kinds.contains(&op.kind))
    }
}

impl Reader for Shown<'_> {
    fn event(&mut self, event: Event) -> anyhow::Result<()> {
        match event {
            Event::FileOp(op) => self.file_op(&op),
            other => {
                self.reasons.event(&other);
                Ok(())
            }
        }
    }

    fn finish(mut self, notes: &[String]) -> anyhow::Result<()> {
        self.report.finish().context(output::CANNOT_WRITE)?;
        let presentation = &self.args.presentation;
        let shown = self.args.top.map_or(self.count, |most| self.count.min(u64::from(most)));
        let what = if self.args.summary { "summed up" } else { "shown" };
        presentation.say(&format!(
            "{} {what} of {} file operations",
            format_count(shown),
            format_count(self.seen)
        ));
        presentation.say_each(notes);
        Ok(())
    }
}

fn report(args: &Io, pace: Pace) -> Box<dyn FileOpReport> {
    let out = output::stdout(pace);
    let look = args.presentation.look(pace);
    if args.summary {
        let form = match args.presentation.format {
            Format::Table => FileOpSummaryReport::Table(look),
            Format::Json => FileOpSummaryReport::Json,
            Format::Csv => FileOpSummaryReport::Csv,
        };
        return Box::new(FileOpSummary::new(out, form));
    }
    let rows: Box<dyn FileOpReport> = match args.presentation.format {
        Format::Table => Box::new(FileOpTable::new(out, &look, args.filter.message_id.is_some())),
        Format::Json => Box::new(FileOpJson(out)),
        Format::Csv => Box::new(FileOpCsv::new(out)),
    };
    match args.top {
        Some(most) => Box::new(TopFileOps::new(most as usize, rows)),
        None => rows,
    }
}
