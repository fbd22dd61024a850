//! `io`: the broker's file operations, from a recording or live.

use analysis::recorder::plan::OFF_CPU;
use anyhow::Context as _;
use clap::Args;
use diagnose::Reasons;
use model::{Event, FileKind, FileOp, FileOpKind};
use recording::Table;
use report::Sink;
use report::file_ops::{FileOpRow, FileOpSummary, FileOpWriter, FileOps, TopFileOps};
use report::quantity::format_count;

use self::message_ids::MessageIds;
use super::Run;
use crate::args::{Flags, Scope, Source, Top};
use crate::output::{self, Pace};
use crate::quantity;
use crate::reader::{self, Input, Reader};

mod message_ids;

/// Tables with operations and their reasons.
const TABLES: [Table; 5] =
    [Table::OffCpu, Table::Reclaims, Table::DirtyThrottles, Table::BlockIos, Table::FileOps];

/// `io`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brokerscope io --slower-than 50ms
  brokerscope io --op fsync --op rename --slower-than 1ms --wide
  brokerscope io --summary --for 30s
  brokerscope io --from DIR --top 20
  brokerscope io --from DIR --slower-than 50ms --message-id id")]
pub(crate) struct Io {
    /// Show only this operation (repeatable).
    #[arg(long = "op", help_heading = "Filter", value_name = "OP", value_parser = quantity::one_of(&FileOpKind::ALL, FileOpKind::as_str))]
    ops: Vec<FileOpKind>,
    /// Show only operations on this kind of file (repeatable).
    #[arg(long = "kind", help_heading = "Filter", value_name = "KIND", value_parser = quantity::one_of(&FileKind::ALL, FileKind::as_str))]
    kinds: Vec<FileKind>,
    /// Show a summary instead: count, time and reasons by operation and kind of file.
    #[arg(long, help_heading = "Output", conflicts_with = "top")]
    summary: bool,
    #[command(flatten)]
    top: Top,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    scope: Scope,
}

impl Run for Io {
    const FLAGS: Flags =
        Flags { hidden: &["flight-recorder", "see-tls"], unused: &["port", "api"], ..Flags::NONE };

    fn run(&self) -> anyhow::Result<()> {
        reader::read(&self.source, &self.scope, &[], &TABLES, |input| Operations::new(self, input))
    }
}

/// The output, and the number of operations written to it.
struct Operations<'a> {
    report: Box<dyn Sink<FileOps>>,
    message_ids: Option<MessageIds>,
    reasons: Reasons,
    args: &'a Io,
    total: u64,
    count: u64,
}

impl<'a> Operations<'a> {
    fn new(args: &'a Io, input: &Input) -> Self {
        let waits_for_end = args.summary || args.top.top.is_some();
        let pace = if waits_for_end { Pace::Buffered } else { input.pace };
        if waits_for_end {
            args.source.announce_end();
        }
        let ids = args.scope.filter.message_id.as_deref().filter(|_| !args.summary);
        Self {
            report: report(args, pace),
            message_ids: ids.map(|header| MessageIds::new(header, input.log_dirs.clone())),
            reasons: Reasons::new(input.sees(OFF_CPU)),
            args,
            total: 0,
            count: 0,
        }
    }

    fn file_op(&mut self, op: &FileOp) -> anyhow::Result<()> {
        self.total += 1;
        // Called for every operation, because it also discards the operation's reasons.
        let reasons = self.reasons.of(op);
        if !self.matches(op) {
            return Ok(());
        }
        self.count += 1;
        let ids = self.message_ids.as_mut().filter(|_| op.op == FileOpKind::Write);
        let message_ids = ids.map(|ids| ids.written_by(op)).unwrap_or_default();
        let row = FileOpRow { op, reasons: &reasons, message_ids: &message_ids };
        self.report.row(&row).context(output::CANNOT_WRITE)
    }

    fn matches(&self, op: &FileOp) -> bool {
        let Io { ops, kinds, scope, .. } = self.args;
        scope.admits(op)
            && (ops.is_empty() || ops.contains(&op.op))
            && (kinds.is_empty() || kinds.contains(&op.kind))
    }
}

impl Reader for Operations<'_> {
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
        let written = self.args.top.top.map_or(self.count, |most| self.count.min(most as u64));
        let what = if self.args.summary { "summed up" } else { "shown" };
        tracing::info!("{} {what} of {} file operations", format_count(written), format_count(self.total));
        output::log_notes(notes);
        Ok(())
    }
}

fn report(args: &Io, pace: Pace) -> Box<dyn Sink<FileOps>> {
    let out = output::stdout(pace);
    let form = args.scope.presentation.form(pace);
    if args.summary {
        return Box::new(FileOpSummary::new(out, form));
    }
    let rows = Box::new(FileOpWriter::new(out, args.scope.filter.message_id.is_some(), &form));
    match args.top.top {
        Some(most) => Box::new(TopFileOps::new(most, rows)),
        None => rows,
    }
}
