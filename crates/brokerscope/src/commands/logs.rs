//! `logs`: slow events in a broker's own logs, from files, a pipe, or a log that is being written.
//! Fuzzed by: log.

mod rows;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration as StdDuration;

use analysis::{Stop, Usage, file_error, input, open_file};
use anyhow::{Context as _, bail};
use broker::server_log::{self, LogFollower, LogScanner, Patterns, Piece, ReadError, Zone};
use clap::Args;
use model::LogKind;

use self::rows::Rows;
use super::Run;
use crate::args::{Duration, Filter, Flags, Presentation, Slow, Top};
use crate::failure::usage;
use crate::file_access::FileAccess;
use crate::quantity;

/// Polling interval for a log without new lines.
const POLL_INTERVAL: StdDuration = StdDuration::from_millis(200);
/// Size limit of a file of patterns.
const MAX_PATTERN_BYTES: u64 = 1 << 20;

/// `logs`.
#[derive(Debug, Args)]
#[command(after_help = "Lines of Kafka 2.0 to 4.1 are known in Kafka's own layout, in others, as JSON,
and behind the prefixes of kubectl, the journal and containers; also Kafka's
request log at DEBUG, and ends of JVM pauses.

A file of --patterns has one pattern a line: NAME UNIT EXPRESSION. UNIT is that
of the group `value`: ns, us, ms, s, min, bytes, count, or - for none:
  slow-disk ms write of (?<topic>\\S+) stalled for (?<value>\\d+)

Examples:
  brokerscope logs server.log*
  brokerscope logs server.log.*.gz --list --kind segment-roll
  brokerscope logs server.log --kind tier-cleanup --format csv
  brokerscope logs kafka-request.log --api produce --since '2024-05-19 15:00'
  brokerscope logs /var/log/kafka/server.log --follow --slower-than 100ms
  kubectl logs kafka-0 --timestamps | brokerscope logs - --patterns ours.txt")]
pub(crate) struct Logs {
    /// Logs, plain or compressed (gzip, zstd), in the order in which their lines are listed; - for a pipe.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// List events as the log is written, also after it is rotated or truncated, until Ctrl-C.
    #[arg(long, help_heading = "Input")]
    follow: bool,
    /// List events instead of the totals (JSON has both, CSV the list).
    #[arg(long, help_heading = "Output")]
    list: bool,
    /// Show only lines of this kind (repeatable).
    #[arg(long = "kind", help_heading = "Filter", value_name = "KIND", value_parser = quantity::one_of(&LogKind::ALL, LogKind::as_str))]
    kinds: Vec<LogKind>,
    /// Show only lines written at this time or later: 2024-05-19, '2024-05-19 15:04', 2024-05-19T15:04:47.458Z, or a time
    /// before now, as in 2h.
    #[arg(long, help_heading = "Filter", value_name = "WHEN")]
    since: Option<String>,
    /// Show only lines written before this time.
    #[arg(long, help_heading = "Filter", value_name = "WHEN")]
    until: Option<String>,
    /// Look for the patterns from this file too.
    #[arg(long, help_heading = "Input", value_name = "FILE")]
    patterns: Option<PathBuf>,
    /// Read times without a zone in this one: UTC, or +02:00. Without it, this machine's (TZ).
    #[arg(long, help_heading = "Input", value_name = "ZONE")]
    log_zone: Option<String>,
    /// Use this day, as 2024-05-19, for the first line of logs whose times have no date.
    #[arg(long, help_heading = "Input", value_name = "DATE")]
    date: Option<String>,
    #[command(flatten)]
    length: Duration,
    #[command(flatten)]
    slow: Slow,
    #[command(flatten)]
    top: Top,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    presentation: Presentation,
}

impl Run for Logs {
    const FLAGS: Flags = Flags {
        unused: &["port", "message-id"],
        help: &[
            ("for", "Stop after this time (--follow and -)"),
            ("slower-than", "Show only what took at least this long, and each such request of a request log"),
            ("top", "Show only this many of the slowest in the totals [default: 10]"),
            (
                "topic",
                "Show only this topic (repeatable); Kafka 4.1's request log has ids instead of names in many requests",
            ),
            ("api", "Show only this API of Kafka's request log, for example produce (repeatable)"),
        ],
        ..Flags::NONE
    };

    fn run(&self) -> anyhow::Result<()> {
        let args = self;
        let stdin = args.files.iter().filter(|file| is_stdin(file)).count();
        if stdin > 1 || stdin == 1 && args.follow {
            return usage("- can be given once, and not with --follow: a pipe is read as it comes");
        }
        if args.length.duration.is_some() && !args.follow && stdin == 0 {
            return usage("--for is for --follow and -; a file is read to its end");
        }
        let zone = zone(args)?;
        let (day, rows) = (day(args)?, Rows::new(args, &zone)?);
        self.restrict()?;
        let scan = LogScanner::new(zone.clone(), day, patterns(args)?);
        if args.follow { follow(args, &scan, rows) } else { read(args, &scan, rows) }
    }
}

impl Logs {
    /// Enters the sandbox. Followed logs are read by name, because they may be replaced.
    fn restrict(&self) -> anyhow::Result<()> {
        let access = FileAccess::of(self.files.iter().chain(&self.patterns))?;
        let followed = self.files.iter().filter(|_| self.follow);
        access.with(|access| followed.fold(access, |access, file| access.read_by_name(file))).enter()
    }
}

fn is_stdin(file: &Path) -> bool {
    file.as_os_str() == "-"
}

fn zone(args: &Logs) -> anyhow::Result<Zone> {
    let Some(text) = &args.log_zone else { return Ok(Zone::system()) };
    let wrong = "write UTC or an offset as +02:00; for a zone by its name, set TZ";
    Ok(Zone::parse(text)
        .ok_or_else(|| Usage::new(format!("--log-zone {text:?} is not a time zone: {wrong}")))?)
}

fn day(args: &Logs) -> anyhow::Result<Option<(i16, i8, i8)>> {
    let Some(text) = &args.date else { return Ok(None) };
    let mut parts = text.splitn(3, '-');
    let mut part = || parts.next().and_then(|part| part.parse::<i16>().ok());
    let small = |part: Option<i16>| part.and_then(|part| i8::try_from(part).ok());
    let day = (part(), small(part()), small(part()));
    let is_day = server_log::parse_instant(text, &Zone::utc()).is_some();
    match day {
        (Some(year), Some(month), Some(day)) if is_day => Ok(Some((year, month, day))),
        _ => Err(Usage::new(format!("--date {text:?} is not a date; write it as 2024-05-19")).into()),
    }
}

fn patterns(args: &Logs) -> anyhow::Result<Patterns> {
    let Some(path) = &args.patterns else { return Ok(Patterns::default()) };
    let mut text = String::new();
    let read = open_file(path)?.take(MAX_PATTERN_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| file_error(path, &error))?;
    if text.len() as u64 > MAX_PATTERN_BYTES {
        bail!(
            "{}: it is larger than 1 MiB: a pattern file has one pattern a line, at most 64",
            path.display()
        );
    }
    Patterns::parse(&text).with_context(|| path.display().to_string())
}

/// Reads the logs one after the other.
/// If one cannot be read to its end, shows the rest before failing.
fn read(args: &Logs, scan: &LogScanner, mut rows: Rows<'_>) -> anyhow::Result<()> {
    for path in args.files.iter().filter(|path| !is_stdin(path)) {
        open_file(path)?;
    }
    let mut failed = Vec::new();
    for path in &args.files {
        let mut scan = scan.clone();
        let read = if is_stdin(path) {
            let stop = Stop::after(args.length.duration)?;
            read_one(input::stdin(&stop), &mut scan, path, &mut rows)
        } else {
            read_one(open_file(path)?, &mut scan, path, &mut rows)
        };
        rows.count(scan.counts());
        match read.map_err(anyhow::Error::downcast::<ReadError>) {
            Ok(()) => {}
            Err(Ok(error)) => failed.push(format!("{}: {error}", path.display())),
            Err(Err(error)) => return Err(error),
        }
    }
    rows.finish()?;
    if failed.is_empty() { Ok(()) } else { bail!("{}", failed.join("; ")) }
}

fn read_one(input: impl Read, scan: &mut LogScanner, path: &Path, rows: &mut Rows<'_>) -> anyhow::Result<()> {
    let file = path.to_string_lossy();
    let read = server_log::read(input, |block| scan.feed(block, &mut |item| rows.add(item, &file)));
    let is_cut = |error: &anyhow::Error| error.is::<ReadError>();
    // Lines before a read error count.
    if read.as_ref().err().is_none_or(is_cut) {
        scan.finish(&mut |item| rows.add(item, &file))?;
    }
    read
}

/// A followed log and the position up to which it was read.
struct OpenLog {
    file: String,
    log: LogFollower,
    scan: LogScanner,
}

/// Reads lines as they are added to the logs, until it is time to stop.
fn follow(args: &Logs, scan: &LogScanner, mut rows: Rows<'_>) -> anyhow::Result<()> {
    let mut logs = args.files.iter().map(|path| OpenLog::open(path, scan)).collect::<Result<Vec<_>, _>>()?;
    let stop = Stop::after(args.length.duration)?;
    while !stop.should_stop() {
        let mut any = false;
        for log in &mut logs {
            any |= log.poll(&mut rows)?;
        }
        if !any {
            thread::sleep(POLL_INTERVAL);
        }
    }
    for mut log in logs {
        let OpenLog { file, scan, .. } = &mut log;
        scan.finish(&mut |item| rows.add(item, file))?;
        rows.count(scan.counts());
    }
    rows.finish()
}

impl OpenLog {
    fn open(path: &Path, scan: &LogScanner) -> anyhow::Result<Self> {
        open_file(path)?;
        let log = LogFollower::open(path).with_context(|| path.display().to_string())?;
        Ok(Self { file: path.to_string_lossy().into_owned(), log, scan: scan.clone() })
    }

    fn poll(&mut self, rows: &mut Rows<'_>) -> anyhow::Result<bool> {
        let Self { file, log, scan } = self;
        let polled = log.poll(&mut |piece| match piece {
            Piece::Data(more) => scan.feed(more, &mut |item| rows.add(item, file)),
            Piece::Restart => scan.finish(&mut |item| rows.add(item, file)),
        });
        polled.map_err(
            |error: anyhow::Error| {
                if error.is::<ReadError>() { error.context(file.clone()) } else { error }
            },
        )
    }
}
