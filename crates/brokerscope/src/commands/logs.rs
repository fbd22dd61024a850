//! `logs`: what a broker's own logs say about slow things, from files, a pipe, or a log that is being written.

mod shown;
mod wanted;

use std::io::Read;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use broker::server_log::{self, Counts, LogFollower, LogScanner, Patterns, Piece, ReadError, Zone};

use crate::cli::Logs as Args;
use crate::failure::{self, Usage};
use crate::input;
use crate::options::Filter;
use crate::stop::Stop;
use shown::Shown;
use wanted::Wanted;

/// How often a log that nothing was added to is looked at again.
const LOOK: Duration = Duration::from_millis(200);
/// A file of patterns is small.
const PATTERN_BYTES: u64 = 1 << 20;

/// Shows what the logs tell.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let Filter { ports, message_id, .. } = &args.filter;
    let unused = [("--port", !ports.is_empty()), ("--message-id", message_id.is_some())];
    args.presentation.say_unused("logs", &unused);
    let stdin = args.files.iter().filter(|file| is_stdin(file)).count();
    if stdin > 1 || stdin == 1 && args.follow {
        return Err(
            Usage("- stands once, and without --follow: a pipe is read as it comes".to_owned()).into()
        );
    }
    if args.duration.is_some() && !args.follow && stdin == 0 {
        return Err(Usage("--for is for --follow and -; a file is read to its end".to_owned()).into());
    }
    let zone = zone(args)?;
    let scan = LogScanner::new(zone.clone(), day(args)?, patterns(args)?);
    let shown = Shown::new(args, Wanted::new(args, &zone)?);
    if args.follow { follow(args, &scan, shown) } else { read(args, &scan, shown) }
}

fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn zone(args: &Args) -> anyhow::Result<Zone> {
    let Some(text) = &args.log_zone else { return Ok(Zone::system()) };
    let wrong = "write UTC or an offset as +02:00; for a zone by its name, set TZ";
    Ok(Zone::parse(text).ok_or_else(|| Usage(format!("--log-zone {text:?} is no zone: {wrong}")))?)
}

fn day(args: &Args) -> anyhow::Result<Option<(i16, i8, i8)>> {
    let Some(text) = &args.date else { return Ok(None) };
    let mut parts = text.splitn(3, '-');
    let mut part = || parts.next().and_then(|part| part.parse::<i16>().ok());
    let small = |part: Option<i16>| part.and_then(|part| i8::try_from(part).ok());
    let day = (part(), small(part()), small(part()));
    let is_day = server_log::parse_instant(text, &Zone::utc()).is_some();
    match day {
        (Some(year), Some(month), Some(day)) if is_day => Ok(Some((year, month, day))),
        _ => Err(Usage(format!("--date {text:?} is no date; write it as 2024-05-19")).into()),
    }
}

fn patterns(args: &Args) -> anyhow::Result<Patterns> {
    let Some(path) = &args.patterns else { return Ok(Patterns::default()) };
    let mut text = String::new();
    let read = failure::open(path)?.take(PATTERN_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| failure::of_file(path, &error))?;
    if text.len() as u64 > PATTERN_BYTES {
        bail!("{}: it is larger than 1 MiB: a file of patterns has one a line, at most 64", path.display());
    }
    Patterns::parse(&text).with_context(|| path.display().to_string())
}

/// Reads the logs one after the other. What can be read is shown, also where something cannot.
fn read(args: &Args, scan: &LogScanner, mut shown: Shown<'_>) -> anyhow::Result<()> {
    for path in args.files.iter().filter(|path| !is_stdin(path)) {
        failure::open(path)?;
    }
    let mut failed = Vec::new();
    for path in &args.files {
        let mut scan = scan.clone();
        let read = if is_stdin(path) {
            let stop = Stop::after(args.duration)?;
            read_one(input::stdin(&stop), &mut scan, path, &mut shown)
        } else {
            read_one(failure::open(path)?, &mut scan, path, &mut shown)
        };
        shown.read(scan.counts());
        match read.map_err(anyhow::Error::downcast::<ReadError>) {
            Ok(()) => {}
            Err(Ok(error)) => failed.push(format!("{}: {error}", path.display())),
            Err(Err(error)) => return Err(error),
        }
    }
    shown.finish()?;
    if failed.is_empty() { Ok(()) } else { bail!("{}", failed.join("; ")) }
}

fn read_one(
    input: impl Read,
    scan: &mut LogScanner,
    path: &Path,
    shown: &mut Shown<'_>,
) -> anyhow::Result<()> {
    let file = path.to_string_lossy();
    let read = server_log::read(input, |block| scan.feed(block, &mut |told| shown.told(told, &file)));
    let is_cut = |error: &anyhow::Error| error.is::<ReadError>();
    // Of a log that cannot be read on, what there is counts.
    if read.as_ref().err().is_none_or(is_cut) {
        scan.finish(&mut |told| shown.told(told, &file))?;
    }
    read
}

/// A log that is followed, and how far it was read.
struct Followed {
    file: String,
    log: LogFollower,
    scan: LogScanner,
}

/// Goes on with what is added to the logs until it is told to stop.
fn follow(args: &Args, scan: &LogScanner, mut shown: Shown<'_>) -> anyhow::Result<()> {
    let mut logs = args.files.iter().map(|path| Followed::open(path, scan)).collect::<Result<Vec<_>, _>>()?;
    let stop = Stop::after(args.duration)?;
    while !stop.asked() {
        let mut any = false;
        for log in &mut logs {
            any |= log.poll(&mut shown)?;
        }
        if !any {
            thread::sleep(LOOK);
        }
    }
    for mut log in logs {
        let Followed { file, scan, .. } = &mut log;
        scan.finish(&mut |told| shown.told(told, file))?;
        shown.read(scan.counts());
    }
    shown.finish()
}

impl Followed {
    fn open(path: &Path, scan: &LogScanner) -> anyhow::Result<Self> {
        failure::open(path)?;
        let log = LogFollower::open(path).with_context(|| path.display().to_string())?;
        Ok(Self { file: path.to_string_lossy().into_owned(), log, scan: scan.clone() })
    }

    fn poll(&mut self, shown: &mut Shown<'_>) -> anyhow::Result<bool> {
        let Self { file, log, scan } = self;
        let polled = log.poll(&mut |piece| match piece {
            Piece::Data(more) => scan.feed(more, &mut |told| shown.told(told, file)),
            Piece::Restart => scan.finish(&mut |told| shown.told(told, file)),
        });
        polled.map_err(
            |error: anyhow::Error| {
                if error.is::<ReadError>() { error.context(file.clone()) } else { error }
            },
        )
    }
}

/// Adds what was read of one log to what was read of others.
fn add(read: &mut report::logs::LogStats, counts: Counts) {
    read.files += 1;
    read.bytes += counts.bytes;
    read.lines += counts.lines;
    read.cut_lines += counts.cut;
    read.unreadable_requests += counts.unreadable_requests;
}
