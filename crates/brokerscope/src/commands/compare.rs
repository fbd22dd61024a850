//! `compare`: runs of a broker under several configurations. Of each recording the engine that `explain` uses is told what
//! verdicts depend on, and counts of all requests are kept, nothing else.

mod configurations;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context as _;
use compare::{Run, Setup};
use diagnose::Engine;
use model::{Event, Request};
use page::{Page, html};
use report::comparison::page::ComparisonData;
use report::comparison::{ComparisonReport, csv, json, markdown, text};
use report::quantity::{format_bytes, format_count_of};

use crate::apart;
use crate::cli::{Compare, ComparisonFormat};
use crate::comparing::Comparing;
use crate::failure;
use crate::filter::same_api;
use crate::grounds::Grounds;
use crate::options::{Format, Presentation, Target};
use crate::output::{self, Pace};
use crate::packets;
use configurations::Recorded;

/// Compares.
pub(crate) fn run(args: &Compare) -> anyhow::Result<()> {
    let mut comparing = Comparing::new(args.slo, &args.apis, &args.topics);
    packets::check_apis(comparing.filter())?;
    // All are looked for before the first is read, and so are places to write: reading takes time.
    let files = [args.output.as_deref(), args.md.as_deref()].into_iter().flatten();
    files.filter(|path| *path != Path::new("-")).try_for_each(failure::check_place)?;
    let configurations = configurations::find(&args.configurations, args.skip)?;
    let (mut setups, mut whole) = (Vec::new(), Ok(()));
    for of in configurations {
        let runs = of.runs.iter().map(|run| read(args, &mut comparing, run, &mut whole));
        setups.push(Setup { name: of.name, note: of.note, runs: runs.collect::<Result<_, _>>()? });
    }
    write(args, &comparing.compare(setups))?;
    whole
}

/// Counts a run. What could not be read of it to the end is told after the rest was shown.
fn read(
    args: &Compare,
    comparing: &mut Comparing,
    recorded: &Recorded,
    whole: &mut anyhow::Result<()>,
) -> anyhow::Result<Run> {
    let paths = std::slice::from_ref(&recorded.path);
    let mut grounds = Grounds::open(paths, &[], comparing.filter(), &Target::default())?;
    // Only what is compared is judged.
    let mut config = grounds.config(args.slo);
    config.apis.retain(|api| args.apis.iter().any(|wanted| same_api(wanted, api)));
    let counted = comparing.count(&recorded.name(), recorded.part);
    let near_slow = grounds.near_slow(&config);
    let mut engine = Engine::new(config);
    let mut judge = |event| {
        engine.push(event);
        counted.verdicts(&engine.take_verdicts());
    };
    match near_slow {
        Some(near_slow) => {
            let count = &mut |requests: &[Request]| counted.requests(requests);
            apart::read(&mut grounds, near_slow, count, None, &mut |event| {
                judge(event);
                Ok(())
            })?;
        }
        None => grounds.read(&mut |event| {
            if let Event::Request(request) = &event {
                counted.requests(std::slice::from_ref(request));
            }
            judge(event);
            Ok(())
        })?,
    }
    let summary = engine.finish();
    counted.verdicts(&engine.take_verdicts());
    let run = counted.into_run();
    let conclusion = grounds.known(args.slo, &presentation(args)).conclude(summary, args.slo, None);
    comparing.concluded(&recorded.name(), grounds.recording(), &conclusion);
    if whole.is_ok() {
        *whole = grounds.check();
    }
    Ok(run)
}

fn presentation(args: &Compare) -> Presentation {
    Presentation { format: Format::Table, utc: args.utc, quiet: args.quiet, wide: args.wide }
}

fn write(args: &Compare, compared: &ComparisonReport) -> anyhow::Result<()> {
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
            let count = format_count_of(compared.comparison.configurations.len() as u64, "configuration");
            presentation.say(&format!("{} written to {}: {count}", format_bytes(bytes), path.display()));
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
