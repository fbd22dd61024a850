//! `report`: recordings, or a capture, as a page; several recordings are also compared on it. Reads each input once, or
//! of a long one separately what verdicts depend on and what totals need, and reaches the same verdicts as `explain`.

mod info;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use advise::{Advice, Inputs};
use analysis::advice::{AdviceTotals, recorded_inputs};
use analysis::background::Totals;
use analysis::comparison::{ComparisonRuns, RunCounter};
use analysis::source::ReadOptions;
use analysis::{Analysis, EventSource, Output, input, source};
use clap::Args;
use compare::{Part, Setup};
use model::{Event, Nanos, Verdict};
use page::{Collector, Page, RecordingData, RecordingInfo, html, markdown, perfetto};
use report::advice::{AdviceReport, Views};
use report::comparison::ComparisonData;
use report::explanation::Conclusion;
use report::quantity::{format_bytes, format_count_of};

use super::Run;
use crate::args::{Filter, Flags, JfrFiles, Slow, Target, Times};
use crate::failure::usage;
use crate::file_access::FileAccess;
use crate::output::Destination;

/// The API whose requests are compared between recordings.
const COMPARED_API: &str = "produce";
/// Why nothing is known about thread dumps.
const NO_DUMPS: &str = "a report does not read them; use advise --dump";
/// Why nothing is known about data that is read and not sent.
const NO_SOCKETS: &str = "a report does not read socket operations; use advise";

/// `report`.
#[derive(Debug, Args)]
#[command(after_help = "The page is one file that needs no network: mail it, or attach it to an
incident.

Examples:
  brokerscope report DIR -o page.html
  brokerscope report before/ after/ -o both.html --slower-than 65ms
  brokerscope report DIR --format md -o finding.md
  brokerscope report DIR --format perfetto -o trace.json")]
pub(crate) struct Report {
    /// Directories of recordings, or the pcap or pcapng files of one capture, plain or compressed (stages on the wire
    /// only).
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<PathBuf>,
    /// Write to this file; `-` for standard output.
    #[arg(short, long, help_heading = "Output", value_name = "FILE")]
    output: PathBuf,
    /// Write in this format.
    #[arg(long, help_heading = "Output", value_enum, default_value_t = PageFormat::Html)]
    format: PageFormat,
    #[command(flatten)]
    slow: Slow,
    #[command(flatten)]
    jfr: JfrFiles,
    #[command(flatten)]
    times: Times,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    target: Target,
}

/// Formats of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PageFormat {
    /// A page for a browser
    Html,
    /// The page's data
    Json,
    /// A trace of the slow requests shown in detail, for ui.perfetto.dev and Chrome
    Perfetto,
    /// A note for an issue or an incident
    Md,
}

impl Run for Report {
    const FLAGS: Flags = Flags {
        unused: &["topic", "api"],
        unused_why: " (the page itself can be searched)",
        help: &[
            ("slower-than", "Explain requests that took at least this long"),
            ("port", "Read this port of a capture (repeatable); without it, any that speaks Kafka"),
            ("pid", "Take topic names from this broker's log dirs; without it, from any that runs here"),
            ("log-dir", "Take topic names from this log dir (repeatable)"),
            ("message-id", "Show this record header as message id (captures; `record` takes it too)"),
        ],
        defaults: &[("slower-than", "100ms")],
        ..Flags::NONE
    };

    fn run(&self) -> anyhow::Result<()> {
        if !self.jfr.jfr.is_empty() && self.inputs.len() > 1 {
            return usage("--jfr needs exactly one recording: a JFR file is of one broker at one time");
        }
        let options = self.filter.of_packets(self.target.read_options(self.times));
        let options = ReadOptions { jfr: self.jfr.jfr.clone(), ..options };
        let (access, options) = FileAccess::of_sources(&self.inputs, options)?;
        let output = Destination::open(&self.output)?;
        access.enter()?;
        let mut whole = Ok(());
        let page = self.read(&options, &mut whole)?;
        let bytes = output.write(|out| match self.format {
            PageFormat::Html => html::write(out, &page),
            PageFormat::Json => html::write_json(out, &page),
            PageFormat::Perfetto => perfetto::write(out, &page),
            PageFormat::Md => markdown::write(out, &page),
        })?;
        if let Some(bytes) = bytes {
            let slow: u64 = page.recordings.iter().map(|recording| recording.slow.slow).sum();
            let detailed: usize = page.recordings.iter().map(|recording| recording.requests.len()).sum();
            tracing::info!(
                "{} written to {}: {}, {detailed} of them in detail",
                format_bytes(bytes),
                output,
                format_count_of(slow, "slow request"),
            );
        }
        whole
    }
}

impl Report {
    /// Reads recordings one by one; any other inputs are one capture.
    /// Stores the error of an input that cannot be read to its end in `whole`, to be reported last.
    fn read(&self, options: &ReadOptions, whole: &mut anyhow::Result<()>) -> anyhow::Result<Page> {
        let is_recording = |input: &&PathBuf| input.is_dir() || input::url(input).is_some();
        if let Some(file) = self.inputs.iter().find(|input| !is_recording(input)) {
            let mut source = source::open(&self.inputs, options)?;
            let (data, _) = self.read_input(&mut *source, info::capture(&self.inputs), file, None)?;
            *whole = source.check().map_err(Into::into);
            return Ok(Page::of(vec![data]));
        }
        let mut runs = ComparisonRuns::new(self.slow.slower_than, &[COMPARED_API.to_owned()], &[]);
        let (mut recordings, mut setups) = (Vec::new(), Vec::new());
        for (path, name) in self.inputs.iter().zip(names(&self.inputs)) {
            let mut source = source::open(std::slice::from_ref(path), options)?;
            let info = source.recording().map(info::recording).unwrap_or_default();
            let counter = runs.count(&name, Part::WHOLE);
            let info = RecordingInfo { name: name.clone(), ..info };
            let compared = (self.inputs.len() > 1).then_some(&counter);
            let (data, conclusion) = self.read_input(&mut *source, info, path, compared)?;
            let run = counter.into_run();
            if whole.is_ok() {
                *whole = source.check().map_err(Into::into);
            }
            runs.add_conclusion(&name, source.recording(), &conclusion);
            recordings.push(data);
            setups.push(Setup { name, note: None, runs: vec![run] });
        }
        let page = Page::of(recordings);
        let several =
            setups.len() > 1 && setups.iter().flat_map(|setup| &setup.runs).any(|run| !run.is_empty());
        let comparison = several.then(|| ComparisonData::from(&runs.compare(setups)));
        Ok(Page { comparison, ..page })
    }

    /// Reads one input for the page, and counts it for a comparison.
    fn read_input(
        &self,
        source: &mut dyn EventSource,
        info: RecordingInfo,
        input: &Path,
        compared: Option<&RunCounter<'_>>,
    ) -> anyhow::Result<(RecordingData, Conclusion)> {
        let slower_than = self.slow.slower_than;
        let selected = start_time(source).is_some() && source.select(&source.config(slower_than));
        collect(source, selected, info, input, slower_than, compared)
    }
}

/// Reads a whole source for a page; in parts if it was narrowed to a selection.
fn collect(
    source: &mut dyn EventSource,
    selected: bool,
    info: RecordingInfo,
    input: &Path,
    slower_than: Nanos,
    compared: Option<&RunCounter<'_>>,
) -> anyhow::Result<(RecordingData, Conclusion)> {
    let mut analysis = Analysis::new(source.config(slower_than));
    analysis.doubts = Some(source.coverage());
    let mut page = Collector::new(start_time(source), slower_than);
    let mut advice = AdviceTotals::without_files();
    if selected {
        let (mut traffic, mut work, mut cases) = page.part();
        let AdviceTotals { traffic: advice_traffic, work: advice_work, costs } = &mut advice;
        // Rust 1.85 drops what `Some` borrows at the end of its statement.
        let mut others = |event: &Event| {
            advice_work.event(event);
            work.event(event);
        };
        let totals = Totals {
            requests: &mut |batch| {
                if let Some(counter) = compared {
                    counter.requests(batch);
                }
                for request in batch {
                    advice_traffic.request(request);
                    traffic.request(request);
                }
            },
            others: Some(&mut others),
        };
        analysis.run_with(source, true, totals, &mut |output| {
            match output {
                Output::Event(event) => cases.event(event),
                Output::Verdict(verdict) => {
                    count(compared, &verdict);
                    costs.add(&verdict);
                    cases.verdict(&verdict);
                }
                Output::Pause(_) => {}
            }
            Ok::<_, anyhow::Error>(())
        })?;
        page = Collector::of(traffic, work, cases);
    } else {
        analysis.run(source, &mut |output| {
            match output {
                Output::Event(event) => {
                    if let (Event::Request(request), Some(counter)) = (event, compared) {
                        counter.requests(&[(&**request).into()]);
                    }
                    advice.event(event);
                    page.event(event);
                }
                Output::Verdict(verdict) => {
                    count(compared, &verdict);
                    advice.verdict(&verdict);
                    page.verdict(&verdict);
                }
                Output::Pause(_) => {}
            }
            Ok::<_, anyhow::Error>(())
        })?;
    }
    let any = analysis.summary.requests > 0;
    let conclusion = analysis.finish(source.gaps(slower_than));
    let inputs = recorded_inputs(advice, any, input, source.recording(), slower_than);
    let inputs = Inputs { dumps: Err(NO_DUMPS.into()), unsent: Err(NO_SOCKETS.into()), ..inputs };
    let advice = advise(&inputs, &info.name);
    Ok((page.finish(info, &conclusion).with_advice(&advice), conclusion))
}

fn count(compared: Option<&RunCounter<'_>>, verdict: &Verdict) {
    if let Some(counter) = compared {
        counter.verdict(verdict);
    }
}

/// Evaluates the advice rules. Notes are elsewhere on the page.
fn advise(inputs: &Inputs, subject: &str) -> AdviceReport {
    AdviceReport {
        subject: subject.to_owned(),
        watched: inputs.costs.as_ref().ok().map(|costs| (costs.window, costs.slow())),
        slower_than: inputs.slower_than,
        advice: Advice::of(inputs),
        views: Views::default(),
        comparison: inputs.comparison(),
        all: true,
        notes: Vec::new(),
    }
}

/// When a recording started, if it says so.
fn start_time(source: &dyn EventSource) -> Option<Nanos> {
    let started = Nanos(source.recording()?.manifest().started_ns);
    (started > Nanos::ZERO).then_some(started)
}

/// The shortest ends of the directories' paths that distinguish them.
fn names(dirs: &[PathBuf]) -> Vec<String> {
    let paths: Vec<_> =
        dirs.iter().map(|dir| std::fs::canonicalize(dir).unwrap_or_else(|_| dir.clone())).collect();
    let longest = paths.iter().map(|path| path.components().count()).max().unwrap_or(1);
    let ends = |parts: usize| {
        let end = |path: &PathBuf| {
            path.iter()
                .skip(path.iter().count().saturating_sub(parts))
                .collect::<PathBuf>()
                .display()
                .to_string()
        };
        paths.iter().map(end).collect::<Vec<_>>()
    };
    let are_distinct = |names: &Vec<String>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    (1..longest).map(ends).find(are_distinct).unwrap_or_else(|| ends(longest))
}

#[cfg(test)]
mod tests;
