//! `compare`: runs of a broker under several configurations. Feeds the engine only the events of each recording that
//! verdicts depend on, and counts all requests; reads nothing else.

mod configurations;

use std::path::PathBuf;

use analysis::background::Totals;
use analysis::comparison::ComparisonRuns;
use analysis::filter::same_api;
use analysis::{Analysis, Output, source};
use anyhow::Context as _;
use clap::{Args, ValueEnum};
use compare::{Run as ComparedRun, Setup};
use model::Nanos;
use page::{Page, html};
use report::comparison::{
    ComparisonData, ComparisonReport, write_csv, write_json, write_markdown, write_text,
};
use report::quantity::{format_bytes, format_count_of};

use super::Run;
use crate::args::{Flags, Target, Times};
use crate::file_access::FileAccess;
use crate::output::{self, Destination, Pace};
use crate::quantity;
use configurations::RunPath;

/// `compare`.
#[derive(Debug, Args)]
#[command(after_help = "A CONFIGURATION is a recording, a directory with several runs of one
configuration, or NAME=DIR,DIR... for names and runs of your choice. The first
one is the base. After a directory, @10s-20s takes only that part of the run
(@10s- and @-20s too): a recording compares with itself, before and after.

Examples:
  brokerscope compare before/ after/ --slo 65ms
  brokerscope compare ext4=a1,a2,a3 xfs=b1,b2,b3 -o compare.html
  brokerscope compare was=DIR@-60s is=DIR@60s- --api fetch --topic orders")]
pub(crate) struct Compare {
    /// Configurations to compare, at least two: DIR, DIR@FROM-TO or NAME=DIR,DIR... (see below).
    #[arg(value_name = "CONFIGURATION", required = true, num_args = 2..)]
    configurations: Vec<String>,
    /// Count requests that took at least this long as slow, and find their causes.
    #[arg(long, alias = "slower-than", value_name = "TIME", default_value = "100ms", value_parser = quantity::time)]
    slo: Nanos,
    /// Compare only requests of this API (repeatable).
    #[arg(long = "api", help_heading = "Filter", value_name = "API", default_value = "produce")]
    apis: Vec<String>,
    /// Compare only requests for this topic (repeatable).
    #[arg(long = "topic", help_heading = "Filter", value_name = "TOPIC")]
    topics: Vec<String>,
    /// Leave out this much time at the start of every run, as warm-up.
    #[arg(long, help_heading = "Filter", value_name = "TIME", default_value = "0", value_parser = quantity::time)]
    skip: Nanos,
    /// Write in this format; json is one object per line.
    #[arg(long, help_heading = "Output", value_enum, default_value_t = ComparisonFormat::Table)]
    format: ComparisonFormat,
    /// Write an HTML page too; `-` writes it to standard output, and nothing else there.
    #[arg(short, long, help_heading = "Output", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write a summary in Markdown too.
    #[arg(long, help_heading = "Output", value_name = "FILE")]
    md: Option<PathBuf>,
    /// Show whole names and all causes.
    #[arg(long, help_heading = "Output")]
    wide: bool,
    #[command(flatten)]
    times: Times,
}

/// Output formats. Their names are enough in a list of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ComparisonFormat {
    // For people.
    Table,
    // One JSON object per line.
    Json,
    // Comma-separated values.
    Csv,
    // Markdown.
    Md,
}

impl Run for Compare {
    // Only the notes of a comparison have times of day.
    const FLAGS: Flags = Flags { hidden: &["utc"], ..Flags::NONE };

    fn run(&self) -> anyhow::Result<()> {
        let mut runs = ComparisonRuns::new(self.slo, &self.apis, &self.topics);
        runs.filter.check()?;
        // Checks all inputs and outputs before reading the first recording, because reading takes time.
        [&self.output, &self.md].into_iter().flatten().try_for_each(|path| output::check_place(path))?;
        let access = FileAccess::of(configurations::paths(&self.configurations)?)?;
        let page = self.output.as_deref().map(Destination::open).transpose()?;
        let note = self.md.as_deref().map(Destination::open).transpose()?;
        access.enter()?;
        let configurations = configurations::find(&self.configurations, self.skip)?;
        let (mut setups, mut whole) = (Vec::new(), Ok(()));
        for of in configurations {
            let counted = of.runs.iter().map(|run| self.read(&mut runs, run, &mut whole));
            setups.push(Setup { name: of.name, note: of.note, runs: counted.collect::<Result<_, _>>()? });
        }
        self.write(&runs.compare(setups), page.as_ref(), note.as_ref())?;
        whole
    }
}

impl Compare {
    /// Counts a run.
    /// Stores the error of a recording that cannot be read to its end in `whole`, to be reported last.
    fn read(
        &self,
        runs: &mut ComparisonRuns,
        recorded: &RunPath,
        whole: &mut anyhow::Result<()>,
    ) -> anyhow::Result<ComparedRun> {
        let options = Target::default().read_options(self.times);
        let mut source = source::open(std::slice::from_ref(&recorded.path), &options)?;
        // Only compared requests get verdicts.
        let mut config = source.config(self.slo);
        config.apis.retain(|api| self.apis.iter().any(|wanted| same_api(wanted, api)));
        let counter = runs.count(&recorded.name(), recorded.part);
        let selected = source.select(&config);
        let mut analysis = Analysis::new(config);
        let totals = Totals { requests: &mut |requests| counter.requests(requests), others: None };
        analysis.run_with(&mut *source, selected, totals, &mut |output| {
            if let Output::Verdict(verdict) = output {
                counter.verdict(&verdict);
            }
            Ok::<_, anyhow::Error>(())
        })?;
        let run = counter.into_run();
        let conclusion = analysis.finish(source.gaps(self.slo));
        runs.add_conclusion(&recorded.name(), source.recording(), &conclusion);
        if whole.is_ok() {
            *whole = source.check().map_err(Into::into);
        }
        Ok(run)
    }

    fn write(
        &self,
        compared: &ComparisonReport,
        page: Option<&Destination<'_>>,
        note: Option<&Destination<'_>>,
    ) -> anyhow::Result<()> {
        if let Some(note) = note {
            note.write(|out| write_markdown(out, compared))?;
        }
        if let Some(page) = page {
            let data = Page::comparing(ComparisonData::from(compared));
            let Some(bytes) = page.write(|out| html::write(out, &data))? else { return Ok(()) };
            let bytes = format_bytes(bytes);
            let count = format_count_of(compared.comparison.configurations.len() as u64, "configuration");
            tracing::info!("{bytes} written to {page}: {count}");
        }
        let mut out = output::stdout(Pace::Buffered);
        let look = output::look(self.times.zone(), self.wide, Pace::Buffered);
        let written = match self.format {
            ComparisonFormat::Table => write_text(&mut out, &look, compared),
            ComparisonFormat::Json => write_json(&mut out, compared),
            ComparisonFormat::Csv => write_csv(&mut out, compared),
            ComparisonFormat::Md => write_markdown(&mut out, compared),
        };
        written.context(output::CANNOT_WRITE)
    }
}
