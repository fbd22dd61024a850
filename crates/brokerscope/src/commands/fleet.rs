//! `fleet`: recordings of many brokers, here or in an object store, read one broker after the other, and which broker differs in
//! what. Of each only sums are kept.

mod counted;
mod folders;

use anyhow::Context as _;
use fleet::{Broker, Fleet};
use report::fleet::{Differences, Figures};
use report::quantity::format_count_of;

use crate::cli::FleetArgs;
use crate::failure;
use crate::options::Format;
use crate::output::{self, Pace};
use crate::remote::Source;

/// Rows of a table, unless more are asked for. Programs get all.
const SHOWN: usize = 20;

/// Reads all of them, and compares.
pub(crate) fn run(args: &FleetArgs) -> anyhow::Result<()> {
    let presentation = &args.presentation;
    let source = Source::of(&args.directory)?;
    let folders = folders::find(&args.directory, source.as_ref(), &args.clusters, &args.dates)?;
    let recordings = folders.values().map(Vec::len).sum::<usize>() as u64;
    let (mut brokers, mut unread) = (Vec::new(), 0);
    for (name, recordings) in folders {
        let (stats, damaged) = counted::count(&name, &recordings, source.as_ref(), presentation)?;
        unread += damaged;
        brokers.push(Broker::of(name, &stats));
    }
    show(args, &Fleet::of(brokers))?;
    presentation.say(&format!("{} read", format_count_of(recordings, "recording")));
    if let Some(source) = &source {
        presentation.say(&source.said());
    }
    failure::of_parts(&args.directory, unread)
}

fn show(args: &FleetArgs, fleet: &Fleet) -> anyhow::Result<()> {
    let mut out = output::stdout(Pace::AllThere);
    let look = args.presentation.look(Pace::AllThere);
    let asked = args.top.map(|most| most as usize);
    let (differences, figures) = (Differences(fleet), Figures(&fleet.brokers));
    let written = match (args.presentation.format, args.figures) {
        (Format::Table, false) => differences.write_table(&mut out, &look, asked.unwrap_or(SHOWN)),
        (Format::Json, false) => differences.write_json(&mut out, asked.unwrap_or(usize::MAX)),
        (Format::Csv, false) => differences.write_csv(&mut out, asked.unwrap_or(usize::MAX)),
        (Format::Table, true) => figures.write_table(&mut out, &look),
        (Format::Json, true) => figures.write_json(&mut out),
        (Format::Csv, true) => figures.write_csv(&mut out),
    };
    written.context(output::CANNOT_WRITE)
}
