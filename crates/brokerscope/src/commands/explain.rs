//! `explain`: why requests were slow, from a recording, live, or, as far as packets show it, from a capture.

#[cfg(feature = "live")]
mod timeliness;

use std::path::PathBuf;
use std::time::{Duration as StdDuration, Instant};

use analysis::source::{self, ONLY_READ, ReadOptions};
use analysis::{Analysis, CrossCheck, EventSource, Output, Stop, input};
use anyhow::Context as _;
use clap::Args;
use diagnose::Config;
use model::{Nanos, Verdict};
use recording::VerdictWriter;
use report::explanation::{
    Conclusion, ExplanationReport, ExplanationText, RequestText, TopVerdicts, Verdicts,
};
use report::quantity::format_count_of;
use sandbox::Access;

use super::Run;
use crate::args::{Duration, Flags, JfrFiles, Jvm, Scope, Top};
use crate::failure::usage;
use crate::file_access::FileAccess;
use crate::output::{self, Pace};
use crate::selection::{RequestConditions, Selection};
use crate::watch_mode::WatchMode;

/// Maximum time for which verdicts are buffered.
const MAX_WRITE_DELAY: StdDuration = StdDuration::from_millis(100);
/// Longest wait for an event of an always-on watch. Its verdicts come ten times as late.
#[cfg(feature = "live")]
const ALWAYS_ON_WAIT: StdDuration = StdDuration::from_secs(1);
/// Message for a recording that cannot be written to, before the reason.
const CANNOT_SAVE: &str = "cannot save the verdicts (explain a copy that you can write to, or omit --save)";

/// `explain`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  brokerscope explain DIR --slower-than 50ms --topic orders
  brokerscope explain DIR --request 371409 --client 10.0.0.7:41234
  brokerscope explain DIR --why-not
  brokerscope explain DIR --format json | jq .cause
  brokerscope explain DIR --follow --slower-than 50ms
  brokerscope explain DIR --save --quiet
  brokerscope explain live --slower-than 50ms --for 10m")]
pub(crate) struct Explain {
    /// A recording's directory, finished or still being written; pcap or pcapng files, plain or compressed (stages on the
    /// wire only); or live, or live:IFACE, for the broker that runs here, on all interfaces or this one.
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<PathBuf>,
    /// Explain the request with this correlation id, however fast it was.
    /// Several connections can use the same id: --client ADDRESS:PORT selects one.
    #[arg(long, help_heading = "Filter", value_name = "CORRELATION", allow_negative_numbers = true, conflicts_with_all = ["top", "slower_than"])]
    request: Option<i32>,
    /// Explain a recording while it is written: each verdict appears once all its evidence is there, about 12 s after the
    /// request. Stops when the recorder ends, or on Ctrl-C.
    #[arg(long, help_heading = "Input", conflicts_with = "top")]
    follow: bool,
    /// Save the verdicts in the recording too, as the table verdicts/ (Parquet); replaces earlier ones.
    #[arg(long, help_heading = "Output", conflicts_with_all = ["request", "port", "topic", "api", "client", "errors", "no_waits"])]
    save: bool,
    /// Compare each request with Kafka's own request log (kafka.request.logger at DEBUG; plain or gzip), and show how
    /// well they agree (several files after one --request-log). With live, take requests that cannot be captured, such
    /// as those on TLS connections, from this file while the broker writes it.
    #[arg(long, help_heading = "Input", value_name = "FILE", num_args = 1..)]
    request_log: Vec<PathBuf>,
    /// Show what could not be decided, and what data would decide it, for requests without a cause or with one that only
    /// the timing suggests.
    #[arg(long, help_heading = "Output")]
    why_not: bool,
    #[command(flatten)]
    mode: WatchMode,
    #[command(flatten)]
    jvm: Jvm,
    #[command(flatten)]
    jfr: JfrFiles,
    #[command(flatten)]
    top: Top,
    #[command(flatten)]
    length: Duration,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    scope: Scope,
}

impl Run for Explain {
    const FLAGS: Flags = Flags {
        help: &[
            ("slower-than", "Explain requests that took at least this long"),
            ("top", "Show only the N slowest requests; the totals are of all"),
            ("for", "Stop after this time (live, --follow)"),
            ("pid", "Take topic names from this broker's log dirs; without it, from any that runs here"),
            ("log-dir", "Take topic names from this log dir (repeatable)"),
            ("message-id", "Show this record header as message id (captures; `record` takes it too)"),
            (
                "flight-recorder",
                "Record lock waits with JDK Flight Recorder in the broker's JVM (live): verdicts then come 3 s later",
            ),
        ],
        // Nothing that stalls the broker is on by default.
        defaults: &[("slower-than", "100ms"), ("flight-recorder", "never")],
        ..Flags::NONE
    };

    fn run(&self) -> anyhow::Result<()> {
        self.scope.filter.requests().check()?;
        if let Some(interface) = self.live_interface() {
            if self.follow || self.save {
                return usage("--follow and --save need a recording");
            }
            if !self.jfr.jfr.is_empty() {
                return usage("--jfr needs a recording; for live input use --flight-recorder");
            }
            return self.run_live(interface);
        }
        if let Some(flag) = self.mode.explicit_flag() {
            return usage(format!("{flag} is for live input; a recording is explained as it was made"));
        }
        if self.jvm.see_tls {
            return usage("--see-tls is for live input; a recording has what was read when it was made");
        }
        if self.length.duration.is_some() && !self.follow {
            return usage("--for is for live input and --follow; a recording is read to its end");
        }
        self.run_files()
    }
}

impl Explain {
    /// The interface to capture on, if the input is the live broker.
    fn live_interface(&self) -> Option<&str> {
        let [input] = &self.inputs[..] else { return None };
        match input.to_str()? {
            "live" => Some("any"),
            other => other.strip_prefix("live:"),
        }
    }

    fn run_files(&self) -> anyhow::Result<()> {
        if self.save && self.inputs.iter().any(|input| input::url(input).is_some()) {
            return usage(ONLY_READ);
        }
        let options = self.restrict()?;
        let (mut source, pace): (Box<dyn EventSource>, _) = if self.follow {
            let stop = Stop::after(self.length.duration)?;
            (Box::new(source::follow(&self.inputs, &options, stop)?), Pace::Immediate)
        } else {
            (source::open(&self.inputs, &options)?, Pace::Buffered)
        };
        let saved = if self.save { Some(self.create_table(&*source)?) } else { None };
        let mut explanation = Explanation { saved, ..Explanation::new(self, pace) };
        let mut analysis = self.analysis(&*source);
        analysis.cross_check = CrossCheck::read(&self.request_log)?;
        source.select(&analysis.config);
        analysis.run(&mut *source, &mut |output| match output {
            Output::Verdict(verdict) => explanation.verdict(verdict),
            _ => Ok(()),
        })?;
        explanation.finish(&analysis.finish(source.gaps(self.scope.slow.slower_than)))?;
        Ok(source.check()?)
    }

    /// Enters the sandbox and returns the options for reading files.
    fn restrict(&self) -> anyhow::Result<ReadOptions> {
        let options = ReadOptions { jfr: self.jfr.jfr.clone(), ..self.scope.read_options() };
        let (access, options) = FileAccess::of_sources(&self.inputs, options)?;
        let saved_in = self.inputs.iter().filter(|_| self.save);
        let access = access.with(|access| self.request_log.iter().fold(access, Access::read));
        access.with(|access| saved_in.fold(access, Access::write)).enter()?;
        Ok(options)
    }

    #[cfg(feature = "live")]
    fn run_live(&self, interface: &str) -> anyhow::Result<()> {
        use analysis::Gaps;
        use analysis::source::{Live, LiveOptions};

        use crate::watch_mode::Preference;

        let stop = Stop::after(None)?;
        let options = self.scope.live_options(self.jvm);
        let slow = self.scope.slow.slower_than;
        // An engineer who is watching now wants all evidence.
        let always_on = self.mode.choose(Preference::Full, &self.only_full(interface), self.scope.slow)?;
        let wait = if always_on.is_some() { ALWAYS_ON_WAIT } else { options.wait };
        let options = LiveOptions {
            interface: Some(interface.to_owned()),
            request_log: self.source_log()?,
            always_on,
            max_cost: Some(self.mode.max_cost(always_on)),
            wait,
            ..options
        };
        let mut live = Live::start(options, Some(stop), self.length.duration)?;
        let pid = live.broker.pid;
        tracing::info!(
            "explaining requests of broker {pid} that take {slow} or longer{}",
            self.length.until()
        );
        let mut analysis = self.analysis(&live);
        let mut timeliness = timeliness::Timeliness::new(&analysis.config);
        let mut explanation = Explanation::new(self, Pace::Batched);
        analysis.run(&mut live, &mut |output| {
            match output {
                Output::Verdict(verdict) => explanation.verdict(verdict)?,
                Output::Event(model::Event::Loss(loss)) => timeliness.add_loss(loss),
                Output::Event(_) => {}
                Output::Pause(pause) => {
                    explanation.flush(|ended| timeliness.add_lag(pause.now - ended))?;
                    if let Some(warning) = timeliness.warning(pause.now) {
                        tracing::warn!("{warning}");
                    }
                }
            }
            Ok::<_, anyhow::Error>(())
        })?;
        let gaps = Gaps { lag: timeliness.conclude(), ..live.gaps(slow) };
        explanation.finish(&analysis.finish(gaps))
    }

    /// The request log from which a live watch takes requests.
    #[cfg(feature = "live")]
    fn source_log(&self) -> anyhow::Result<Option<PathBuf>> {
        match &self.request_log[..] {
            [_, ..] if self.jvm.see_tls => {
                usage("--request-log and --see-tls read the same requests: give one of them")
            }
            [_, _, ..] => {
                usage("--request-log takes one file for live input: the one that the broker writes")
            }
            files => Ok(files.first().cloned()),
        }
    }

    /// Flags that only the full watch can serve. An always-on watch shows each verdict as it comes.
    #[cfg(feature = "live")]
    fn only_full(&self, interface: &str) -> [crate::watch_mode::FullFlag; 6] {
        [
            ("--see-tls", self.jvm.see_tls),
            ("--request-log", !self.request_log.is_empty()),
            ("--request", self.request.is_some()),
            ("--top", self.top.top.is_some()),
            ("--message-id", self.scope.filter.message_id.is_some()),
            ("live:IFACE", interface != "any"),
        ]
    }

    #[cfg(not(feature = "live"))]
    fn run_live(&self, _interface: &str) -> anyhow::Result<()> {
        usage("name a recording: this brokerscope was built without the feature `live`")
    }

    /// The requested analysis: of one request, with doubts.
    fn analysis(&self, source: &dyn EventSource) -> Analysis<'_> {
        // The request selected by its id may be quick.
        let slower_than = if self.request.is_some() { Nanos::ZERO } else { self.scope.slow.slower_than };
        let conditions = RequestConditions::new(&self.scope.filter, &self.selection, slower_than);
        let config = Config { only_request: self.request, ..source.config(self.scope.slow.slower_than) };
        let mut analysis = Analysis::new(config);
        analysis.filter = Box::new(move |request| conditions.matches(request));
        analysis.doubts = self.why_not.then(|| source.coverage());
        analysis
    }

    /// Creates the table of verdicts in the recording that they are about.
    fn create_table(&self, source: &dyn EventSource) -> anyhow::Result<VerdictWriter> {
        if let Some(recording) = source.recording() {
            VerdictWriter::create(recording, self.scope.slow.slower_than).context(CANNOT_SAVE)
        } else {
            usage("--save needs a recording: a packet capture cannot hold verdicts")
        }
    }
}

/// The output of verdicts.
struct Explanation {
    report: Box<dyn ExplanationReport>,
    pace: Pace,
    saved: Option<VerdictWriter>,
    /// Time of the last flush.
    flushed: Option<Instant>,
    /// End times of requests whose verdicts wait to be flushed.
    waiting: Vec<Nanos>,
}

impl Explanation {
    /// With [`Pace::Immediate`], verdicts are written when they are reached; with [`Pace::Batched`], by
    /// [`Self::flush`].
    fn new(args: &Explain, pace: Pace) -> Self {
        Self { report: report(args, pace), pace, saved: None, flushed: None, waiting: Vec::new() }
    }

    fn verdict(&mut self, verdict: Verdict) -> anyhow::Result<()> {
        if let Some(saved) = &mut self.saved {
            saved.write(&verdict).context(CANNOT_SAVE)?;
        }
        if self.pace == Pace::Batched {
            self.waiting.push(verdict.request.last_seen());
        }
        self.report.verdict(verdict).context(output::CANNOT_WRITE)?;
        if self.pace != Pace::Batched && self.flushed.is_none_or(|at| at.elapsed() >= MAX_WRITE_DELAY) {
            self.report.flush().context(output::CANNOT_WRITE)?;
            self.flushed = Some(Instant::now());
        }
        Ok(())
    }

    /// Writes out buffered verdicts. Calls `on_written` with the end time of each one's request.
    #[cfg(feature = "live")]
    fn flush(&mut self, on_written: impl FnMut(Nanos)) -> anyhow::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.report.flush().context(output::CANNOT_WRITE)?;
        self.waiting.drain(..).for_each(on_written);
        Ok(())
    }

    fn finish(mut self, conclusion: &Conclusion) -> anyhow::Result<()> {
        self.report.finish(conclusion).context(output::CANNOT_WRITE)?;
        if let Some(saved) = self.saved {
            let count = saved.finish().context(CANNOT_SAVE)?;
            tracing::info!("{} saved in the recording's verdicts/", format_count_of(count, "verdict"));
        }
        Ok(())
    }
}

fn report(args: &Explain, pace: Pace) -> Box<dyn ExplanationReport> {
    let out = output::stdout(pace);
    let all: Box<dyn ExplanationReport> = match (args.scope.presentation.form(pace), args.request) {
        (report::Format::Table(style), Some(number)) => Box::new(RequestText::new(out, &style, number)),
        (report::Format::Table(style), None) if pace != Pace::Buffered && args.top.top.is_none() => {
            Box::new(ExplanationText::streaming(out, &style))
        }
        (report::Format::Table(style), None) => Box::new(ExplanationText::new(out, &style)),
        (form, _) => Box::new(report::Writer::new(out, &Verdicts, &form)),
    };
    match args.top.top {
        Some(most) => Box::new(TopVerdicts::new(most, all)),
        None => all,
    }
}
