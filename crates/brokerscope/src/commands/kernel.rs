//! `kernel`: journal commits and calls of file-system functions, side by side in time, from a recording or live.

use analysis::recorder::plan::OFF_CPU;
use anyhow::Context as _;
use clap::Args;
use diagnose::{Call, Calls};
use model::{Event, Nanos};
use recording::Table;
use report::Writer;
use report::kernel::KernelCalls;
use report::quantity::format_count_of;

use super::Run;
use crate::args::{Flags, Scope, Source};
use crate::output::{self, Pace, Stdout};
use crate::reader::{self, Input, Reader};
use crate::selection::Pattern;

/// Tables with calls.
const TABLES: [Table; 5] =
    [Table::JournalCommits, Table::KernelSpans, Table::Reclaims, Table::OffCpu, Table::FileOps];
/// Longest call that is still listed in order.
/// Short for live input, because nobody wants to wait longer.
const LIVE_REORDER_WINDOW: Nanos = Nanos::from_millis(2_000);
const REPLAY_REORDER_WINDOW: Nanos = Nanos::from_millis(60_000);

/// `kernel`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brokerscope kernel --slower-than 50ms
  brokerscope kernel --from DIR --slower-than 100ms --wide
  brokerscope kernel --from DIR --function 'ext4_*' --device sda1")]
pub(crate) struct Kernel {
    /// Show only this function; `*` at the beginning, the end or both matches anything (repeatable).
    #[arg(long = "function", help_heading = "Filter", value_name = "FUNCTION")]
    functions: Vec<Pattern>,
    /// Show only calls for this device, by name or major:minor (repeatable).
    #[arg(long = "device", help_heading = "Filter", value_name = "DEVICE")]
    devices: Vec<String>,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    scope: Scope,
}

impl Run for Kernel {
    const FLAGS: Flags = Flags {
        hidden: &["flight-recorder", "see-tls"],
        unused: &["port", "topic", "api", "message-id"],
        ..Flags::NONE
    };

    fn run(&self) -> anyhow::Result<()> {
        reader::read(&self.source, &self.scope, &[], &TABLES, |input| Rows::new(self, input))
    }
}

struct Rows<'a> {
    calls: Calls,
    report: Writer<KernelCalls, Stdout>,
    args: &'a Kernel,
    count: u64,
    /// Whether off-CPU time was watched.
    off_cpu: bool,
}

impl<'a> Rows<'a> {
    fn new(args: &'a Kernel, input: &Input) -> Self {
        let out = output::stdout(input.pace);
        let report = Writer::new(out, &KernelCalls, &args.scope.presentation.form(input.pace));
        let window = if input.pace == Pace::Buffered { REPLAY_REORDER_WINDOW } else { LIVE_REORDER_WINDOW };
        Self {
            calls: Calls::new(args.scope.slow.slower_than, window),
            report,
            args,
            count: 0,
            off_cpu: input.sees(OFF_CPU),
        }
    }

    fn show(&mut self, all: bool) -> anyhow::Result<()> {
        while let Some(call) = self.calls.take(all) {
            if self.matches(&call) {
                self.count += 1;
                self.report.row(&call).context(output::CANNOT_WRITE)?;
            }
        }
        Ok(())
    }

    fn matches(&self, call: &Call) -> bool {
        let Kernel { functions, devices, .. } = self.args;
        let device = |name: &String| {
            call.device.as_ref().is_some_and(|device| {
                let (major, minor) = device.number();
                *device.name == **name || format!("{major}:{minor}") == *name
            })
        };
        (functions.is_empty() || functions.iter().any(|pattern| pattern.is(&call.function)))
            && (devices.is_empty() || devices.iter().any(device))
    }
}

impl Reader for Rows<'_> {
    fn event(&mut self, event: Event) -> anyhow::Result<()> {
        self.calls.event(&event);
        self.show(false)
    }

    fn finish(mut self, notes: &[String]) -> anyhow::Result<()> {
        self.show(true)?;
        self.report.finish().context(output::CANNOT_WRITE)?;
        tracing::info!("{} shown", format_count_of(self.count, "call"));
        if !self.off_cpu {
            tracing::info!(
                "off-CPU time was not watched: only calls whose entry and return were recorded are shown",
            );
        }
        output::log_notes(notes);
        Ok(())
    }
}
