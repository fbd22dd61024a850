//! `advise`: what to change about a broker, and why. Collects the inputs of rules and prints their results; changes
//! nothing and judges nothing itself.

#[cfg(feature = "live")]
mod running;

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use advise::{Advice, Inputs, RULES, Rule, Settings};
use analysis::advice::{AdviceTotals, recorded_inputs};
use analysis::recorder::broker_settings;
use analysis::{Analysis, Output, file_error, open_file, source};
use anyhow::Context as _;
use clap::Args;
use clap::builder::PossibleValuesParser;
use report::advice::{self, AdviceReport, Views};
use report::blocked::BlockedRow;
use sandbox::Access;

use super::{Run, locks};
use crate::args::{Client, DumpFiles, Duration, Flags, Format, Presentation, Slow, Target};
use crate::failure::usage;
use crate::file_access::FileAccess;
use crate::output::{self, Pace};

/// Size limit of a file of JVM options; no command line is longer.
const MAX_OPTION_BYTES: u64 = 4 << 20;
/// Why there are no thread dumps if the user gave none.
const NO_DUMPS: &str = "none were given; use --dump with files from jstack, jcmd PID Thread.print or OpenJ9";
/// What a settings file does not contain.
const FILE_ONLY: &str =
    "settings changed while the broker runs (kafka-configs) are not in its file and therefore not known";

/// `advise`.
#[derive(Debug, Args)]
#[command(mut_arg("for", |flag| flag.conflicts_with("input")))]
#[command(mut_arg("client_properties", |flag| flag.conflicts_with("input")))]
#[command(after_help = "Each finding says what was seen, the setting with its old and new value, what
it cost slow requests here, the risk, and the comparison that verifies it. A
rule that lacks an input says so in one line. Nothing on the host is changed.

Examples:
  brokerscope advise DIR
  brokerscope advise --for 60s
  brokerscope advise --all
  brokerscope advise server.properties --dump threads-*.txt
  brokerscope advise DIR --explain journal-commit
  brokerscope advise DIR --format json | jq -r .changes[0].setting")]
pub(crate) struct Advise {
    /// A recording's directory, or a server.properties; without it, the broker that runs here.
    #[arg(value_name = "INPUT")]
    input: Option<PathBuf>,
    /// Take the broker's settings from this server.properties.
    #[arg(long, help_heading = "Input", value_name = "FILE")]
    properties: Option<PathBuf>,
    /// Take the JVM's options from this file, which holds its command line as ps shows it.
    #[arg(long, help_heading = "JVM", value_name = "FILE")]
    jvm_options: Option<PathBuf>,
    /// Show also the rules that advise nothing, and why.
    #[arg(long, help_heading = "Output")]
    all: bool,
    /// Explain one rule: when it applies, where its threshold comes from, and its result for INPUT.
    #[arg(long, value_name = "RULE", value_parser = PossibleValuesParser::new(RULES.iter().map(|rule| rule.name)), hide_possible_values = true, conflicts_with = "all")]
    explain: Option<String>,
    #[command(flatten)]
    length: Duration,
    #[command(flatten)]
    slow: Slow,
    #[command(flatten)]
    client: Client,
    #[command(flatten)]
    dump: DumpFiles,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    presentation: Presentation,
}

/// Everything found out about the broker, for rules and for people.
struct Findings {
    inputs: Inputs,
    /// Locks on which thread dumps show blocked threads, for people.
    blocked: Vec<BlockedRow>,
    /// Name of the input, for people.
    subject: String,
    notes: Vec<String>,
    /// Error if some input could not be read; reported after everything else is shown.
    whole: anyhow::Result<()>,
}

impl Findings {
    fn new(inputs: Inputs, subject: String, notes: Vec<String>) -> Self {
        Self { inputs, blocked: Vec::new(), subject, notes, whole: Ok(()) }
    }
}

impl Run for Advise {
    const FLAGS: Flags = Flags {
        hidden: &["utc", "wide"],
        help: &[
            ("for", "Watch the broker that runs here for this time first; without it, costs are not known"),
            ("slower-than", "Explain requests that took at least this long"),
        ],
        defaults: &[("slower-than", "100ms")],
        ..Flags::NONE
    };

    fn run(&self) -> anyhow::Result<()> {
        let rule = self.explain.as_deref().and_then(|name| RULES.iter().find(|rule| rule.name == name));
        if self.presentation.format == Format::Csv {
            return usage("advise has no csv; use --format json");
        }
        if let Some(rule) = rule {
            return self.explain(rule);
        }
        let Findings { inputs, blocked, subject, notes, whole } = self.collect()?;
        let in_dumps = inputs.dumps.as_ref().ok().map(|dumps| (dumps.dumps, dumps.running.clone()));
        let report = AdviceReport {
            subject,
            watched: inputs.costs.as_ref().ok().map(|costs| (costs.window, costs.slow())),
            slower_than: inputs.slower_than,
            advice: Advice::of(&inputs),
            views: Views { blocked, in_dumps, on_cpu: inputs.profile.as_ref().ok().cloned() },
            comparison: inputs.comparison(),
            all: self.all,
            notes,
        };
        let out = output::stdout(Pace::Buffered);
        let written = match self.presentation.format {
            Format::Table => advice::write_text(out, &self.presentation.look(Pace::Buffered), &report),
            Format::Json | Format::Csv => advice::write_json(out, &report),
        };
        written.context(output::CANNOT_WRITE)?;
        output::log_notes(&report.notes);
        whole
    }
}

impl Advise {
    /// Explains one rule; reads an input only if one is named, because a rule can be explained without one.
    fn explain(&self, rule: &Rule) -> anyhow::Result<()> {
        if self.presentation.format != Format::Table {
            return usage("--explain is for people to read; --format json has each rule's source");
        }
        let is_live = self.length.duration.is_some()
            || self.target.pid.is_some()
            || self.client.client_properties.is_some();
        let named = self.input.is_some() || is_live;
        let findings = if named { Some(self.collect()?) } else { None };
        let evaluated = findings.as_ref().map(|findings| rule.evaluate(&findings.inputs));
        let look = self.presentation.look(Pace::Buffered);
        let out = output::stdout(Pace::Buffered);
        advice::explain_rule(out, &look, rule, evaluated.as_ref()).context(output::CANNOT_WRITE)?;
        findings.map_or(Ok(()), |findings| findings.whole)
    }

    /// Collects all inputs, including the user's files besides the main input.
    fn collect(&self) -> anyhow::Result<Findings> {
        let mut findings = match &self.input {
            Some(input) if is_properties(input) => {
                FileAccess::of(self.files().chain([input]))?.enter()?;
                of_properties(input)?
            }
            Some(input) => self.of_recording(input)?,
            #[cfg(feature = "live")]
            None => {
                // Missing files are reported before the watch; the files are read after it.
                let access = FileAccess::of(self.files())?;
                let findings = running::collect(self)?;
                access.enter()?;
                findings
            }
            #[cfg(not(feature = "live"))]
            None => {
                return usage(
                    "name a recording or a server.properties: this brokerscope was built without the feature `live`",
                );
            }
        };
        let inputs = &mut findings.inputs;
        inputs.slower_than = self.slow.slower_than;
        if let Some(file) = &self.properties {
            inputs.settings = Ok(settings(file)?);
        }
        if let Some(file) = &self.jvm_options {
            inputs.host_facts.jvm_arguments = Ok(jvm_options(file)?);
        }
        if !self.dump.dump.is_empty() {
            let (series, blocked) = locks::dumps::read(&self.dump.dump, &mut findings.notes)?;
            inputs.dumps = Ok(series);
            findings.blocked = blocked;
        }
        Ok(findings)
    }

    /// Files to read besides the input.
    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.properties.iter().chain(&self.jvm_options).chain(&self.dump.dump)
    }

    fn of_recording(&self, input: &Path) -> anyhow::Result<Findings> {
        let named = [input.to_owned()];
        let (access, options) =
            FileAccess::of_sources(&named, self.target.read_options(self.presentation.times))?;
        access.with(|access| self.files().fold(access, Access::read)).enter()?;
        let mut source = source::open(&named, &options)?;
        let slower_than = self.slow.slower_than;
        let mut analysis = Analysis::new(source.config(slower_than));
        let mut totals = AdviceTotals::default();
        analysis.run(&mut *source, &mut |output| {
            add(&mut totals, output);
            Ok::<_, anyhow::Error>(())
        })?;
        let requests = analysis.summary.requests > 0;
        let inputs = recorded_inputs(totals, requests, input, source.recording(), slower_than);
        let gaps = source.gaps(slower_than);
        let losses: Vec<_> = gaps.loss_notes().collect();
        let settings = source.recording().and_then(|recording| broker_settings::note(recording.manifest()));
        let notes = gaps.notes.into_iter().chain(settings).chain(losses).collect();
        let what = if source.recording().is_some() { "recording" } else { "capture" };
        let inputs = Inputs { dumps: Err(NO_DUMPS.into()), ..inputs };
        let findings = Findings::new(inputs, format!("{what} {}", input.display()), notes);
        Ok(Findings { whole: source.check().map_err(Into::into), ..findings })
    }
}

fn add(totals: &mut AdviceTotals, output: Output<'_>) {
    match output {
        Output::Event(event) => totals.event(event),
        Output::Verdict(verdict) => totals.verdict(&verdict),
        Output::Pause(_) => {}
    }
}

fn is_properties(input: &Path) -> bool {
    input.extension().is_some_and(|extension| extension == "properties") && !input.is_dir()
}

fn of_properties(file: &Path) -> anyhow::Result<Findings> {
    let why = "only server.properties was given: name a recording, or run advise on the broker's host";
    let inputs =
        Inputs { settings: Ok(settings(file)?), dumps: Err(NO_DUMPS.into()), ..Inputs::unknown(why) };
    Ok(Findings::new(inputs, file.display().to_string(), vec![FILE_ONLY.to_owned()]))
}

fn settings(file: &Path) -> anyhow::Result<Settings> {
    // A missing file gets the same message as in every command.
    open_file(file)?;
    Ok(Settings::from(broker::properties::read(file)?))
}

/// Reads the JVM options among the words of a file.
fn jvm_options(file: &Path) -> anyhow::Result<Vec<Arc<str>>> {
    let mut bytes = Vec::new();
    let read = open_file(file)?.take(MAX_OPTION_BYTES).read_to_end(&mut bytes);
    read.map_err(|error| file_error(file, &error))?;
    let text = String::from_utf8_lossy(&bytes);
    let words = text.split(|c: char| c.is_whitespace() || c == '\0' || c == '"' || c == '\'');
    Ok(words.filter(|word| word.starts_with("-X")).map(Into::into).collect())
}
