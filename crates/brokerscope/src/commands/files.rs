//! `files`: what was read and written of which file, from a recording or live.

use anyhow::Context as _;
use model::{Event, Nanos};
use recording::Table;
use report::files::{Files, Interval, Traffic};
use report::quantity::format_count_of;

use crate::cli::Files as Args;
use crate::options::{Filter, Format};
use crate::output::{self, Pace};
use crate::seen::{self, About, Reader};

/// What traffic is told from, and what it is compared with.
const TABLES: [Table; 4] = [Table::FileOps, Table::BlockIos, Table::SocketOps, Table::HostSamples];
/// Rows of a table, unless more are asked for. Programs get all.
const SHOWN: usize = 20;

/// Adds up, and shows the sums when the input has ended.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let Filter { ports, apis, message_id, .. } = &args.filter;
    let unused =
        [("--port", !ports.is_empty()), ("--api", !apis.is_empty()), ("--message-id", message_id.is_some())];
    args.presentation.say_unused("files", &unused);
    seen::read(&args.source, &args.target, &args.presentation, &TABLES, |about| Counted::new(args, about))
}

struct Counted<'a> {
    files: Files,
    args: &'a Args,
    ops: u64,
    /// What is known of it beforehand.
    interval: Interval,
    /// From the first to the last of what was seen.
    first: Nanos,
    last: Nanos,
}

impl<'a> Counted<'a> {
    fn new(args: &'a Args, about: &About) -> Self {
        if args.source.is_endless() {
            args.presentation.say("Ctrl-C shows what was found");
        }
        let interval = Interval {
            span: about.span.or(args.source.duration),
            rated_iops: args.rated_iops,
            partial: about.partial || args.slower_than > Nanos::ZERO || !args.filter.topics.is_empty(),
        };
        let (first, last) = (Nanos::MAX, Nanos::MIN);
        Self { files: Files::new(args.by), args, ops: 0, interval, first, last }
    }
}

impl Reader for Counted<'_> {
    fn event(&mut self, event: Event) -> anyhow::Result<()> {
        (self.first, self.last) = (self.first.min(event.time()), self.last.max(event.time()));
        match event {
            Event::FileOp(op) if self.args.filter.admits(&op, self.args.slower_than) => {
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
        if !args.filter.topics.is_empty() {
            // Among them are those of the topics left out.
            totals.unknown = Traffic::default();
        }
        let asked = args.top.map(|most| most as usize);
        let all = asked.unwrap_or(usize::MAX);
        let mut out = output::stdout(Pace::AllThere);
        let written = match args.presentation.format {
            Format::Table => {
                let look = args.presentation.look(Pace::AllThere);
                totals.write_table(&mut out, &look, asked.unwrap_or(SHOWN))
            }
            Format::Json => totals.write_json(&mut out, all),
            Format::Csv => totals.write_csv(&mut out, all),
        };
        written.context(output::CANNOT_WRITE)?;
        args.presentation.say(&format!("{} counted", format_count_of(ops, "file operation")));
        args.presentation.say_each(notes);
        Ok(())
    }
}
