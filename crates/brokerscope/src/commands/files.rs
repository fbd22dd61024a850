//! `files`: bytes read and written by file, from a recording or live.

use anyhow::Context as _;
use clap::Args;
use model::{Event, Nanos};
use recording::Table;
use report::files::{Files as FileTotals, GroupBy, Interval, Sort, Traffic, WatchedPurposes};
use report::quantity::format_count_of;

use super::Run;
use crate::args::{Flags, Scope, Source, Top};
use crate::output::{self, Pace};
use crate::quantity;
use crate::reader::{self, Input, Reader};

/// Tables with the traffic, and with what it is compared with.
const TABLES: [Table; 4] = [Table::FileOps, Table::BlockIos, Table::SocketOps, Table::HostSamples];

/// `files`.
#[derive(Debug, Args)]
#[command(after_help = "If the disk is read and what was read is sent to no one, the first line says
so and names the files.

Examples:
  brokerscope files --for 60s
  brokerscope files --for 60s --rated-iops 40000
  brokerscope files --from DIR --by kind
  brokerscope files --from DIR --sort reads --top 10")]
pub(crate) struct Files {
    /// Group by this.
    #[arg(long, help_heading = "Output", value_name = "WHAT", default_value = "file", value_parser = quantity::one_of(&GroupBy::ALL, GroupBy::as_str))]
    by: GroupBy,
    /// Sort by this, largest first; bytes are bytes read from disk plus bytes written.
    #[arg(long, help_heading = "Output", value_name = "WHAT", default_value = "bytes", value_parser = quantity::one_of(&Sort::ALL, Sort::as_str))]
    sort: Sort,
    /// Compare with this number of requests per second, for which each device is rated.
    #[arg(long, help_heading = "Output", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rated_iops: Option<u64>,
    #[command(flatten)]
    top: Top,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    scope: Scope,
}

impl Run for Files {
    const FLAGS: Flags = Flags {
        hidden: &["flight-recorder", "see-tls"],
        unused: &["port", "api", "message-id"],
        help: &[
            ("slower-than", "Count only operations that took at least this long"),
            ("top", "Show only the first N; without it, 20 in a table and all elsewhere"),
        ],
        ..Flags::NONE
    };

    fn run(&self) -> anyhow::Result<()> {
        reader::read(&self.source, &self.scope, &[], &TABLES, |input| Totals::new(self, input))
    }
}

struct Totals<'a> {
    files: FileTotals,
    args: &'a Files,
    ops: u64,
    /// Facts about the interval that are known beforehand.
    interval: Interval,
    /// Times of the first and the last event.
    first: Nanos,
    last: Nanos,
}

impl<'a> Totals<'a> {
    fn new(args: &'a Files, input: &Input) -> Self {
        args.source.announce_end();
        let interval = Interval {
            span: input.span.or(args.source.length.duration),
            rated_iops: args.rated_iops,
            partial: input.partial
                || args.scope.slow.slower_than > Nanos::ZERO
                || !args.scope.filter.topics.is_empty(),
            // A recording without a plan does not say what was watched.
            watched: WatchedPurposes::by(|purpose| input.plan.is_empty() || input.sees(purpose)),
        };
        let (first, last) = (Nanos::MAX, Nanos::MIN);
        Self { files: FileTotals::new(args.by), args, ops: 0, interval, first, last }
    }
}

impl Reader for Totals<'_> {
    fn event(&mut self, event: Event) -> anyhow::Result<()> {
        (self.first, self.last) = (self.first.min(event.time()), self.last.max(event.time()));
        match event {
            Event::FileOp(op) if self.args.scope.admits(&op) => {
                self.ops += 1;
                self.files.file_op(&op);
            }
            Event::BlockIo(io) => self.files.block_io(&io),
            Event::SocketOp(op) => self.files.socket_op(&op),
            Event::HostSample(sample) => self.files.host_sample(&sample),
            _ => {}
        }
        Ok(())
    }

    fn finish(self, notes: &[String]) -> anyhow::Result<()> {
        let Self { files, args, ops, mut interval, first, last } = self;
        interval.span = interval.span.or((last > first).then(|| last - first));
        let mut totals = files.finish(args.sort).over(interval);
        if !args.scope.filter.topics.is_empty() {
            // These include the topics that are left out.
            totals.unknown = Traffic::default();
        }
        let presentation = args.scope.presentation;
        let (form, max) = (presentation.form(Pace::Buffered), presentation.max_rows(args.top));
        let written = report::files::write(output::stdout(Pace::Buffered), &form, &totals, max);
        written.context(output::CANNOT_WRITE)?;
        tracing::info!("{} counted", format_count_of(ops, "file operation"));
        output::log_notes(notes);
        Ok(())
    }
}
