//! `kernel`: journal commits and calls of file-system functions side by side in time, from a recording or live.

use anyhow::Context as _;
use diagnose::{Call, Calls};
use model::{Event, Nanos};
use recording::Table;
use report::kernel::{KernelCsv, KernelJson, KernelReport, KernelTable};
use report::quantity::format_count_of;

use crate::cli::Kernel;
use crate::options::{Filter, Format};
use crate::output::{self, Pace};
use crate::seen::{self, About, Reader};

/// What calls are told from.
const TABLES: [Table; 5] =
    [Table::JournalCommits, Table::KernelSpans, Table::Reclaims, Table::OffCpu, Table::FileOps];
/// How long a call may take and still stand in its place among the others: who watches does not want to wait longer.
const LIVE: Nanos = Nanos::from_millis(2_000);
const REPLAY: Nanos = Nanos::from_millis(60_000);

/// Shows the calls.
pub(crate) fn run(args: &Kernel) -> anyhow::Result<()> {
    let Filter { ports, topics, apis, message_id } = &args.filter;
    let unused = [
        ("--port", !ports.is_empty()),
        ("--topic", !topics.is_empty()),
        ("--api", !apis.is_empty()),
        ("--message-id", message_id.is_some()),
    ];
    args.presentation.say_unused("kernel", &unused);
    seen::read(&args.source, &args.target, &args.presentation, &TABLES, |about| Shown::new(args, about))
}

struct Shown<'a> {
    calls: Calls,
    report: Box<dyn KernelReport>,
    args: &'a Kernel,
    count: u64,
    /// Whether threads off the CPU were watched.
    off_cpu: bool,
}

impl<'a> Shown<'a> {
    fn new(args: &'a Kernel, about: &About) -> Self {
        let out = output::stdout(about.pace);
        let report: Box<dyn KernelReport> = match args.presentation.format {
            Format::Table => Box::new(KernelTable::new(out, &args.presentation.look(about.pace))),
            Format::Json => Box::new(KernelJson(out)),
            Format::Csv => Box::new(KernelCsv::new(out)),
        };
        let held_for = if about.pace == Pace::AllThere { REPLAY } else { LIVE };
        Self { calls: Calls::new(args.slower_than, held_for), report, args, count: 0, off_cpu: about.off_cpu }
    }

    fn show(&mut self, all: bool) -> anyhow::Result<()> {
        while let Some(call) = self.calls.take(all) {
            if self.wants(&call) {
                self.count += 1;
                self.report.call(&call).context(output::CANNOT_WRITE)?;
            }
        }
        Ok(())
    }

    fn wants(&self, call: &Call) -> bool {
        let Kernel { functions, devices, .. } = self.args;
        let device = |wanted: &String| {
            call.device.as_ref().is_some_and(|device| {
                let (major, minor) = device.number();
                *device.name == **wanted || format!("{major}:{minor}") == *wanted
            })
        };
        (functions.is_empty() || functions.iter().any(|wanted| wanted.is(&call.function)))
            && (devices.is_empty() || devices.iter().any(device))
    }
}

impl Reader for Shown<'_> {
    fn event(&mut self, event: Event) -> anyhow::Result<()> {
        self.calls.event(&event);
        self.show(false)
    }

    fn finish(mut self, notes: &[String]) -> anyhow::Result<()> {
        self.show(true)?;
        self.report.finish().context(output::CANNOT_WRITE)?;
        let presentation = &self.args.presentation;
        presentation.say(&format!("{} shown", format_count_of(self.count, "call")));
        if !self.off_cpu {
            presentation.say(
                "threads off the CPU were not watched: of calls, only those whose own ends were recorded are shown",
            );
        }
        presentation.say_each(notes);
        Ok(())
    }
}
