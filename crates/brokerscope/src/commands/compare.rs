//! `compare`: runs of a broker under several configurations. Reads each recording once, through the engine that `explain` uses,
//! and keeps counts of it only.

mod configurations;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context as _;
use compare::{Comparison, Run, Setup};
use diagnose::{Config, Engine};
use model::{Event, Request, Verdict};
use report::comparison::page::ComparisonData;
use report::comparison::{Compared, csv, json, markdown, text};
use report::numbers::{counted, size};
use report::page::{Page, html};

use crate::cli::{Compare, ComparisonFormat};
use crate::failure;
use crate::filter::same_api;
use crate::grounds::Grounds;
use crate::options::{Filter, Format, Presentation, Target};
use crate::output::{self, Pace};
use crate::packets;
use configurations::{Configuration, Recorded};

/// Compares.
pub(crate) fn run(args: &Compare) -> anyhow::Result<()> {
    let mut reading = Reading::new(args);
    packets::check_apis(&reading.filter)?;
    // All are looked for before the first is read, and so are places to write: reading takes time.
    let files = [args.output.as_deref(), args.md.as_deref()].into_iter().flatten();
    files.filter(|path| *path != Path::new("-")).try_for_each(failure::check_place)?;
    let configurations = configurations::find(&args.configurations, args.skip)?;
    let setups = configurations.iter().map(|one| reading.configuration(one)).collect::<Result<_, _>>()?;
    let whole = std::mem::replace(&mut reading.whole, Ok(()));
    let compared = reading.compare(setups);
    write(args, &compared)?;
    whole
}

/// What all recordings are read with, and what was said of them.
struct Reading<'a> {
    args: &'a Compare,
    filter: Filter,
    presentation: Presentation,
    hosts: Vec<String>,
    notes: Vec<String>,
    /// What could not be read to its end: told after the rest was shown.
    whole: anyhow::Result<()>,
}

impl<'a> Reading<'a> {
    fn new(args: &'a Compare) -> Self {
        Self {
            args,
            filter: Filter { topics: args.topics.clone(), apis: args.apis.clone(), ..Filter::default() },
            presentation: presentation(args),
            hosts: Vec::new(),
            notes: Vec::new(),
            whole: Ok(()),
        }
    }

    fn configuration(&mut self, of: &Configuration) -> anyhow::Result<Setup> {
        let runs = of.runs.iter().map(|run| self.run(run)).collect::<Result<_, _>>()?;
        Ok(Setup { name: of.name.clone(), note: of.note.clone(), runs })
    }

    fn run(&mut self, recorded: &Recorded) -> anyhow::Result<Run> {
        let paths = std::slice::from_ref(&recorded.path);
        let mut grounds = Grounds::open(paths, &[], &self.filter, &Target::default())?;
        let mut run = Run::new(&recorded.name(), self.args.slo, recorded.part);
        let mut engine = Engine::new(self.config(&grounds));
        grounds.read(&mut |event| {
            if let Event::Request(request) = &event {
                count(&self.filter, request, &mut run);
            }
            engine.push(event);
            judged(&self.filter, &engine.take_verdicts(), &mut run);
            Ok(())
        })?;
        let summary = engine.finish();
        judged(&self.filter, &engine.take_verdicts(), &mut run);
        let known = grounds.known(self.args.slo, &self.presentation);
        self.hosts.extend(grounds.recording().map(host));
        let notes = known.notes.iter().map(|note| format!("{}: {note}", recorded.name()));
        self.notes.extend(notes);
        let conclusion = known.conclude(summary, self.args.slo, None);
        for (kind, lost) in conclusion.summary.losses.iter().filter(|(_, lost)| *lost > 0) {
            self.notes.push(format!("{}: lost {lost} {}", recorded.name(), kind.as_str()));
        }
        if self.whole.is_ok() {
            self.whole = grounds.check();
        }
        Ok(run)
    }

    /// Only what is compared is judged.
    fn config(&self, grounds: &Grounds) -> Config {
        let mut config = grounds.config(self.args.slo);
        config.apis.retain(|api| self.args.apis.iter().any(|wanted| same_api(wanted, api)));
        config
    }

    fn compare(mut self, setups: Vec<Setup>) -> Compared {
        self.hosts.sort();
        self.hosts.dedup();
        if self.hosts.len() > 1 {
            self.notes.insert(0, format!("not recorded on one machine: {}", self.hosts.join("; ")));
        }
        let name = |wanted: &String| {
            let known = wire::ApiKey::known().find(|api| same_api(wanted, api.name()));
            known.map_or_else(|| wanted.clone(), |api| api.name().to_owned())
        };
        let comparison = Comparison::of(self.args.slo, setups);
        for empty in comparison.configurations.iter().filter(|one| one.requests == 0) {
            self.notes.push(format!("{}: there is no such request: nothing compares with it", empty.name));
        }
        Compared {
            apis: self.args.apis.iter().map(name).collect(),
            topics: self.args.topics.clone(),
            comparison,
            notes: self.notes,
        }
    }
}

/// Counts a request, unless it waited as it had asked to.
fn count(filter: &Filter, request: &Request, run: &mut Run) {
    if let Some(bytes) = filter.record_bytes(request).filter(|_| request.hold().is_none()) {
        run.request(request.arrival, request.latency_less_wait(), bytes);
    }
}

fn judged(filter: &Filter, verdicts: &[Verdict], run: &mut Run) {
    for verdict in verdicts.iter().filter(|verdict| filter.record_bytes(&verdict.request).is_some()) {
        run.verdict(verdict);
    }
}

/// What a recording was made on, as far as figures hang on it.
fn host(recording: &recording::Recording) -> String {
    let host = &recording.manifest().host;
    format!("{}, Linux {} {}, {} CPUs", host.name, host.kernel, host.machine, host.cpus)
}

fn presentation(args: &Compare) -> Presentation {
    Presentation { format: Format::Table, utc: args.utc, quiet: args.quiet, wide: args.wide }
}

fn write(args: &Compare, compared: &Compared) -> anyhow::Result<()> {
    let presentation = presentation(args);
    if let Some(path) = &args.md {
        to_file(path, |out| markdown::write(out, compared))?;
    }
    let page = |out: &mut dyn Write| html::write(out, &Page::comparing(ComparisonData::of(compared)));
    match args.output.as_deref() {
        Some(path) if path == Path::new("-") => {
            let mut out = output::stdout(Pace::AllThere);
            return page(&mut out).and_then(|()| out.flush()).context(output::CANNOT_WRITE);
        }
        Some(path) => {
            to_file(path, page)?;
            let bytes = std::fs::metadata(path).map_or(0, |file| file.len());
            let count = counted(compared.comparison.configurations.len() as u64, "configuration");
            presentation.say(&format!("{} written to {}: {count}", size(bytes), path.display()));
        }
        None => {}
    }
    let mut out = output::stdout(Pace::AllThere);
    let written = match args.format {
        ComparisonFormat::Table => text::write(&mut out, &presentation.look(Pace::AllThere), compared),
        ComparisonFormat::Json => json::write(&mut out, compared),
        ComparisonFormat::Csv => csv::write(&mut out, compared),
        ComparisonFormat::Md => markdown::write(&mut out, compared),
    };
    written.context(output::CANNOT_WRITE)
}

fn to_file(path: &Path, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> anyhow::Result<()> {
    let cannot = || format!("{}: cannot write", path.display());
    let mut out = BufWriter::new(File::create(path).with_context(cannot)?);
    write(&mut out).and_then(|()| out.flush()).with_context(cannot)
}
