//! `report`: recordings, or a capture, as a page. Reads each input once and reaches the verdicts that `explain` does.

mod about;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use diagnose::{Engine, Watched};
use model::{Event, Nanos};
use report::numbers::{counted, size};
use report::page::{About, Collector, Page, RecordingData, html, markdown, perfetto};

use crate::cli::{PageFormat, Report};
use crate::failure::{self, Usage};
use crate::grounds::{Grounds, Known};
use crate::options::{Format, Presentation};
use crate::output::{self, Pace};

/// Writes the page.
pub(crate) fn run(args: &Report) -> anyhow::Result<()> {
    if !args.beside.jfr.is_empty() && args.inputs.len() > 1 {
        return Err(
            Usage("--jfr goes with one recording: it tells of one broker at one time".to_owned()).into()
        );
    }
    let presentation = Presentation { format: Format::Table, utc: args.utc, quiet: args.quiet, wide: false };
    let narrowing = [("--topic", !args.filter.topics.is_empty()), ("--api", !args.filter.apis.is_empty())];
    presentation.say_unused("report (the page itself can be searched)", &narrowing);
    let to_file = args.output != Path::new("-");
    if to_file {
        failure::check_place(&args.output)?;
    }
    let mut whole = Ok(());
    let page = Page::of(read(args, &presentation, &mut whole)?);
    write(args, &page)?;
    if to_file {
        let bytes = std::fs::metadata(&args.output).map_or(0, |file| file.len());
        let slow: u64 = page.recordings.iter().map(|recording| recording.slow.slow).sum();
        let told: usize = page.recordings.iter().map(|recording| recording.requests.len()).sum();
        presentation.say(&format!(
            "{} written to {}: {}, {told} of them in detail",
            size(bytes),
            args.output.display(),
            counted(slow, "slow request"),
        ));
    }
    whole
}

/// Recordings one by one; whatever else was named is one capture. What could not be read of them to the end is told after
/// the rest was written.
fn read(
    args: &Report,
    presentation: &Presentation,
    whole: &mut anyhow::Result<()>,
) -> anyhow::Result<Vec<RecordingData>> {
    if let Some(file) = args.inputs.iter().find(|input| !input.is_dir()) {
        std::fs::metadata(file).map_err(|error| failure::of_file(file, &error))?;
        return Ok(vec![one(args, presentation, &args.inputs, whole)?]);
    }
    args.inputs.iter().map(|dir| one(args, presentation, std::slice::from_ref(dir), whole)).collect()
}

fn one(
    args: &Report,
    presentation: &Presentation,
    inputs: &[PathBuf],
    whole: &mut anyhow::Result<()>,
) -> anyhow::Result<RecordingData> {
    let mut grounds = Grounds::open(inputs, &args.beside.jfr, &args.filter, &args.target)?;
    let mut judged = Judged::new(&grounds, args.slower_than);
    grounds.read(&mut |event| {
        judged.event(event);
        Ok(())
    })?;
    if whole.is_ok() {
        *whole = grounds.check();
    }
    let about = grounds.recording().map_or_else(|| about::capture(inputs), about::recording);
    Ok(judged.finish(about, grounds.known(args.slower_than, presentation)))
}

/// The engine, and the page that is being made of what goes through it.
struct Judged {
    engine: Engine,
    collector: Collector,
    watched: Watched,
    slower_than: Nanos,
}

impl Judged {
    fn new(grounds: &Grounds, slower_than: Nanos) -> Self {
        let started = grounds.recording().map(|recording| Nanos(recording.manifest().started_ns));
        let collector = Collector::new(started.filter(|started| *started > Nanos::ZERO), slower_than);
        let engine = Engine::new(grounds.config(slower_than));
        Self { engine, collector, watched: grounds.watched(), slower_than }
    }

    fn event(&mut self, event: Event) {
        self.collector.event(&event);
        self.engine.push(event);
        self.decided();
    }

    fn decided(&mut self) {
        for mut verdict in self.engine.take_verdicts() {
            verdict.doubts = diagnose::doubts(&verdict, &self.watched);
            self.collector.verdict(&verdict);
        }
    }

    fn finish(mut self, about: About, known: Known) -> RecordingData {
        let summary = self.engine.finish();
        self.decided();
        self.collector.finish(about, &known.conclude(summary, self.slower_than, None))
    }
}

fn write(args: &Report, page: &Page) -> anyhow::Result<()> {
    let mut out: Box<dyn Write> = if args.output == Path::new("-") {
        output::stdout(Pace::AllThere)
    } else {
        let created = File::create(&args.output);
        Box::new(BufWriter::new(created.with_context(|| format!("{}: cannot write", args.output.display()))?))
    };
    let written = match args.format {
        PageFormat::Html => html::write(&mut out, page),
        PageFormat::Json => html::write_json(&mut out, page),
        PageFormat::Perfetto => perfetto::write(&mut out, page),
        PageFormat::Md => markdown::write(&mut out, page),
    };
    written.and_then(|()| out.flush()).with_context(|| format!("{}: cannot write", args.output.display()))
}
