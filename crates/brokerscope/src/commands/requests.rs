//! `requests`: every request of a capture, with its latency.

use analysis::input::{self, Packets};
#[cfg(feature = "live")]
use analysis::source;
use analysis::source::{Capture, ReadOptions};
use analysis::{EventSource as _, Stop, Usage};
use anyhow::Context as _;
use capture::Counters;
use clap::Args;
use model::{IntendedWait, Request};
use report::quantity::format_count_of;
use report::requests::overview::{self, Overview};
use report::requests::{RequestSummary, RequestWriter, TopRequests};

use super::Run;
use crate::args::{Duration, Flags, Format, Scope, Top};
use crate::failure::usage;
use crate::file_access::FileAccess;
use crate::output::{self, Pace, Stdout};
use crate::quantity;
use crate::selection::{RequestConditions, Selection};

/// `requests`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brokerscope requests trace.pcap --api produce --slower-than 100ms
  brokerscope requests ring.pcap* --format json
  brokerscope requests trace.pcap --summary
  brokerscope requests trace.pcap --top 20 --client 'payments-*' --no-waits
  tcpdump -i any -U -w - port 9092 | brokerscope requests - --message-id id
  brokerscope requests live:any --port 9092 --for 30s --format json")]
pub(crate) struct Requests {
    /// pcap or pcapng files, plain or compressed (gzip, zstd, lz4), in any order, because packets are sorted by time; `-`
    /// for a pipe from tcpdump; or live:IFACE (live:any, live:lo).
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<String>,
    /// Capture only this many bytes of each packet, from its IP header on (live; without it, whole packets). Costs less,
    /// but misses requests and partitions that start later in a packet. Incomplete rows are marked; missed requests count
    /// as gaps.
    #[arg(long, help_heading = "Input", value_name = "BYTES", value_parser = quantity::snaplen)]
    snaplen: Option<u32>,
    /// Show a summary instead: latency percentiles by API, topic, client and connection, and
    /// how full the producers' batches are.
    #[arg(long, help_heading = "Output", conflicts_with = "top")]
    summary: bool,
    #[command(flatten)]
    top: Top,
    #[command(flatten)]
    length: Duration,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    scope: Scope,
}

impl Run for Requests {
    const FLAGS: Flags = Flags {
        help: &[
            ("slower-than", "Show only requests that took at least this long"),
            ("for", "Stop after this time (live and `-`)"),
            ("pid", "Take topic names from this broker's log dirs; without it, from any that runs here"),
            ("log-dir", "Take topic names from this log dir (repeatable)"),
        ],
        ..Flags::NONE
    };

    fn run(&self) -> anyhow::Result<()> {
        let input = Packets::of(&self.inputs)?;
        if self.length.duration.is_some() && matches!(input, Packets::Files(_)) {
            return usage("--for is for live input and `-`; a file is read to its end");
        }
        self.check_snaplen(&input)?;
        self.scope.filter.requests().check()?;
        #[cfg(feature = "live")]
        if let Packets::Live(interface) = &input {
            return self.watch(&input, interface);
        }
        // Enters the sandbox before the thread for signals is started, so that it covers that thread too.
        let options = self.restrict(&input)?;
        let stop = Stop::after(self.length.duration)?;
        // Opens files before writing anything, so that an unreadable one leaves no headings behind.
        let (captures, pace) = match input {
            Packets::Files(paths) => (input::open_files(&paths)?, Pace::Buffered),
            Packets::Pipe(path) => (input::open_pipe(&path, &stop)?, Pace::Immediate),
            Packets::Stdin => (input::open_stdin(&stop)?, Pace::Immediate),
            Packets::Live(interface) => anyhow::bail!(
                "live:{interface}: this brokerscope was built without live capture; pipe `tcpdump -U -w -` into \
                 `brokerscope requests -`"
            ),
        };
        self.show(Capture::new(captures, &options, stop.clone())?, pace, &stop)
    }
}

impl Requests {
    /// Watches an interface. Opens it first, because the sandbox forbids that.
    #[cfg(feature = "live")]
    fn watch(&self, input: &Packets, interface: &str) -> anyhow::Result<()> {
        let live = source::open_interface(interface, self.snaplen, &self.scope.read_options().ports)?;
        let options = self.restrict(input)?;
        let stop = Stop::after(self.length.duration)?;
        self.show(Capture::on_interface(live, &options, stop.clone())?, Pace::Immediate, &stop)
    }

    /// Enters the sandbox and returns the options for reading packets.
    fn restrict(&self, input: &Packets) -> anyhow::Result<ReadOptions> {
        let options = self.scope.read_options();
        let paths = match input {
            Packets::Files(paths) => paths.clone(),
            Packets::Pipe(path) => vec![path.clone()],
            Packets::Stdin | Packets::Live(_) => vec!["-".into()],
        };
        let (access, options) = FileAccess::of_sources(&paths, options)?;
        access.enter()?;
        Ok(options)
    }

    fn show(&self, mut capture: Capture, pace: Pace, stop: &Stop) -> anyhow::Result<()> {
        let mut rows = Rows::new(self, pace);
        while let Some(request) = capture.next_request()? {
            rows.request(*request)?;
        }
        let was_stopped = pace == Pace::Immediate && stop.should_stop();
        rows.finish(capture.counters()?, capture.notes(was_stopped))?;
        Ok(capture.check()?)
    }

    /// Refuses a snap length that has no effect or hides requested data.
    fn check_snaplen(&self, input: &Packets) -> Result<(), Usage> {
        let refuse = |why: &str| Err(Usage::new(format!("--snaplen {why}")));
        match (self.snaplen, input) {
            (Some(_), Packets::Files(_) | Packets::Pipe(_) | Packets::Stdin) => {
                refuse("is for live input; for tcpdump's captures use tcpdump -s")
            }
            (Some(_), Packets::Live(_)) if self.scope.filter.message_id.is_some() => {
                refuse("cuts off the records that --message-id reads; use only one of them")
            }
            _ => Ok(()),
        }
    }
}

/// The output, and the number of requests written to it.
struct Rows<'a> {
    form: Form,
    args: &'a Requests,
    conditions: RequestConditions<'a>,
    pace: Pace,
    count: u64,
}

enum Form {
    Rows(RequestWriter<Stdout>),
    Top(TopRequests<Stdout>),
    Overview(Box<Overview>),
}

impl<'a> Rows<'a> {
    /// Creates the requested output.
    /// Only rows are shown as they come; other forms are shown at the end of the input.
    fn new(args: &'a Requests, pace: Pace) -> Self {
        let form = match args.top.top {
            _ if args.summary => Form::Overview(Box::default()),
            Some(most) => {
                let top = TopRequests::new(most, rows(args, Pace::Buffered));
                Form::Top(top.less_waits(args.selection.no_waits))
            }
            None => Form::Rows(rows(args, pace)),
        };
        if pace == Pace::Immediate && !matches!(form, Form::Rows(_)) && args.length.duration.is_none() {
            tracing::info!("Ctrl-C stops and shows the result");
        }
        let conditions =
            RequestConditions::new(&args.scope.filter, &args.selection, args.scope.slow.slower_than);
        Self { form, args, conditions, pace, count: 0 }
    }

    /// Adds a request.
    fn request(&mut self, mut request: Request) -> anyhow::Result<()> {
        if let Form::Overview(overview) = &mut self.form {
            overview.extend_span(&request);
        }
        let hold = request.intended_wait();
        if self.conditions.admit(&mut request) {
            self.count += 1;
            self.show(&request, hold)?;
        }
        Ok(())
    }

    fn show(&mut self, request: &Request, hold: Option<IntendedWait>) -> anyhow::Result<()> {
        match &mut self.form {
            Form::Rows(rows) => rows.request(request).context(output::CANNOT_WRITE)?,
            Form::Top(top) => top.request(request),
            Form::Overview(overview) => overview.request(request, hold),
        }
        Ok(())
    }

    /// Shows the rest of the output, and reports what was read and what is missing.
    fn finish(self, counters: Counters, notes: Vec<String>) -> anyhow::Result<()> {
        let Self { form, args, pace, count, .. } = self;
        let requests = counters.requests_by_api.values().sum();
        let mut summary = RequestSummary { requests, matched: count, counters, notes };
        match form {
            Form::Rows(mut rows) => rows.finish(&summary).context(output::CANNOT_WRITE)?,
            Form::Top(top) => {
                summary.matched = top.count();
                summary.notes.extend(unranked(top.unranked()));
                top.finish(&summary).context(output::CANNOT_WRITE)?;
            }
            Form::Overview(overview) => write(args, pace, *overview, &summary)?,
        }
        if args.scope.presentation.format != Format::Json {
            for sentence in summary.sentences() {
                tracing::info!("{sentence}");
            }
        }
        Ok(())
    }
}

fn rows(args: &Requests, pace: Pace) -> RequestWriter<Stdout> {
    RequestWriter::new(output::stdout(pace), extra_columns(args), &args.scope.presentation.form(pace))
}

/// Extra columns for the given flags.
/// A request that waited behind another is a victim, not the culprit.
fn extra_columns(args: &Requests) -> Vec<&'static str> {
    let mut headings = Vec::new();
    if args.top.top.is_some() || args.selection.errors {
        headings.push("API");
    }
    if args.top.top.is_some() {
        headings.push("HEAD_OF_LINE(ms)");
    }
    if args.selection.errors {
        headings.extend(["ERROR_CODE", "ERROR_NAME", "ERROR"]);
    }
    headings
}

fn write(args: &Requests, pace: Pace, overview: Overview, summary: &RequestSummary) -> anyhow::Result<()> {
    let out = output::stdout(Pace::Buffered);
    let written = overview::write(out, &args.scope.presentation.form(pace), &overview.finish(), summary);
    written.context(output::CANNOT_WRITE)
}

/// Notes requests without a latency, which are neither slow nor quick.
fn unranked(count: u64) -> Option<String> {
    (count > 0)
        .then(|| format!("{} without a latency left out of the ranking", format_count_of(count, "request")))
}
