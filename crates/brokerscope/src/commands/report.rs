//! `report`: recordings, or a capture, as a page; several recordings are compared on it too. Reads each input once, or of a long one
//! apart what verdicts depend on and what sums are made of, and reaches the verdicts that `explain` does.

mod about;
pub(crate) mod judged;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use compare::{Part, Setup};
use page::{Page, RecordingData, RecordingInfo, html, markdown, perfetto};
use report::comparison::page::ComparisonData;
use report::explanation::Conclusion;
use report::quantity::{format_bytes, format_count_of};

use crate::cli::{PageFormat, Report};
use crate::comparing::{Comparing, Counted};
use crate::failure::{self, Usage};
use crate::grounds::Grounds;
use crate::options::{Format, Presentation};
use crate::output::{self, Pace};
use judged::Judged;

/// What is compared of several recordings.
const COMPARED: &str = "produce";

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
    let page = read(args, &presentation, &mut whole)?;
    write(args, &page)?;
    if to_file {
        let bytes = std::fs::metadata(&args.output).map_or(0, |file| file.len());
        let slow: u64 = page.recordings.iter().map(|recording| recording.slow.slow).sum();
        let told: usize = page.recordings.iter().map(|recording| recording.requests.len()).sum();
        presentation.say(&format!(
            "{} written to {}: {}, {told} of them in detail",
            format_bytes(bytes),
            args.output.display(),
            format_count_of(slow, "slow request"),
        ));
    }
    whole
}

/// Recordings one by one; whatever else was named is one capture. What could not be read of them to the end is told after
/// the rest was written.
fn read(args: &Report, presentation: &Presentation, whole: &mut anyhow::Result<()>) -> anyhow::Result<Page> {
    if let Some(file) = args.inputs.iter().find(|input| !input.is_dir()) {
        std::fs::metadata(file).map_err(|error| failure::of_file(file, &error))?;
        let mut grounds = open(args, &args.inputs)?;
        let about = about::capture(&args.inputs);
        let (data, _) = one(args, presentation, &mut grounds, (about, file), None)?;
        *whole = grounds.check();
        return Ok(Page::of(vec![data]));
    }
    let mut comparing = Comparing::new(args.slower_than, &[COMPARED.to_owned()], &[]);
    let (mut recordings, mut setups) = (Vec::new(), Vec::new());
    for (dir, name) in args.inputs.iter().zip(names(&args.inputs)) {
        let mut grounds = open(args, std::slice::from_ref(dir))?;
        let about = grounds.recording().map(about::recording).unwrap_or_default();
        let counted = comparing.count(&name, Part::WHOLE);
        let about = RecordingInfo { name: name.clone(), ..about };
        let compared = (args.inputs.len() > 1).then_some(&counted);
        let (data, conclusion) = one(args, presentation, &mut grounds, (about, dir), compared)?;
        let run = counted.into_run();
        if whole.is_ok() {
            *whole = grounds.check();
        }
        comparing.concluded(&name, grounds.recording(), &conclusion);
        recordings.push(data);
        setups.push(Setup { name, note: None, runs: vec![run] });
    }
    let page = Page::of(recordings);
    let several = setups.len() > 1 && setups.iter().flat_map(|setup| &setup.runs).any(|run| !run.is_empty());
    let comparison = several.then(|| ComparisonData::of(&comparing.compare(setups)));
    Ok(Page { comparison, ..page })
}

fn open(args: &Report, inputs: &[PathBuf]) -> anyhow::Result<Grounds> {
    Grounds::open(inputs, &args.beside.jfr, &args.filter, &args.target)
}

/// The ends of the directories' paths, as long as it takes to tell them apart.
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
    let apart = |names: &Vec<String>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    (1..longest).map(ends).find(apart).unwrap_or_else(|| ends(longest))
}

fn one(
    args: &Report,
    presentation: &Presentation,
    grounds: &mut Grounds,
    (about, input): (RecordingInfo, &Path),
    counted: Option<&Counted<'_>>,
) -> anyhow::Result<(RecordingData, Conclusion)> {
    let judged = Judged::read(grounds, args.slower_than, counted)?;
    let known = grounds.known(args.slower_than, presentation);
    Ok(judged.finish(about, known, input, grounds))
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

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn recordings_are_called_by_the_ends_of_their_paths_that_tell_them_apart() {
        let named = |dirs: &[&str]| names(&dirs.iter().map(Into::into).collect::<Vec<_>>());
        assert_eq!(named(&["/no/ext4/1"]), ["1"]);
        assert_eq!(named(&["/no/a", "/no/b"]), ["a", "b"]);
        assert_eq!(named(&["/no/ext4/1", "/no/xfs/1", "/no/xfs/2"]), ["ext4/1", "xfs/1", "xfs/2"]);
        assert_eq!(named(&["/no/a", "/no/a"]), ["/no/a", "/no/a"]);
    }
}
