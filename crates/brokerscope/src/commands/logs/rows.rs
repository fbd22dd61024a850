//! Filters log entries by the user's conditions and writes them. Reads no logs.

use std::time::{SystemTime, UNIX_EPOCH};

use analysis::Usage;
use analysis::filter::same_api;
use anyhow::Context as _;
use broker::server_log::{Counts, LogItem, LoggedRequest, Zone, parse_instant};
use model::{LogEntry, LogKind, Nanos};
use report::logs::{LogOverview, LogRow, LogSink, LogStats, LogSummary, LogWriter};
use report::quantity::{format_count, format_count_of};

use super::Logs;
use crate::output::{self, Pace};
use crate::quantity;

/// Number of slowest entries to show by default.
const DEFAULT_TOP: usize = 10;

/// Filter, output and totals of the logs.
pub(super) struct Rows<'a> {
    conditions: LineConditions<'a>,
    report: Box<dyn LogSink>,
    summary: LogSummary,
    read: LogStats,
    /// Matching entries without a time.
    untimed: u64,
}

impl<'a> Rows<'a> {
    /// Applies the flags.
    pub(super) fn new(args: &'a Logs, zone: &Zone) -> Result<Self, Usage> {
        let summary = LogSummary::new(args.top.top.unwrap_or(DEFAULT_TOP));
        let conditions = LineConditions::new(args, zone)?;
        Ok(Self { conditions, report: report(args), summary, read: LogStats::default(), untimed: 0 })
    }

    /// Adds an item of a log file.
    pub(super) fn add(&mut self, item: LogItem<'_>, file: &str) -> anyhow::Result<()> {
        match item {
            LogItem::Entry(entry) if self.conditions.entry(&entry) => {
                self.summary.entry(&entry);
                self.untimed += u64::from(entry.at.is_none());
                self.show(&entry, file)
            }
            LogItem::Request(request) if self.conditions.request(&request) => {
                self.summary.request(request.at, request.api, &request.times);
                self.untimed += u64::from(request.at.is_none());
                if self.conditions.each_request() { self.show(&slow(&request), file) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    /// Adds the counts of a log that was read.
    pub(super) fn count(&mut self, counts: Counts) {
        let read = &mut self.read;
        read.files += 1;
        read.bytes += counts.bytes;
        read.lines += counts.lines;
        read.cut_lines += counts.cut;
        read.unreadable_requests += counts.unreadable_requests;
    }

    /// Ends the output.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        self.report.finish(&self.summary, &self.read).context(output::CANNOT_WRITE)?;
        let lines = format_count_of(self.read.lines, "line");
        tracing::info!("{} of {lines} matched", format_count(self.summary.count()));
        output::log_notes(&self.notes());
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        let notes = [
            (self.read.cut_lines, "longer than 1 MiB: only the beginning of each was read"),
            (self.read.unreadable_requests, "about a request that could not be read"),
            (self.untimed, "without a date: give the day of the first line with --date"),
        ];
        let notes = notes.into_iter().filter(|(count, _)| *count > 0);
        notes.map(|(count, what)| format!("{} {what}", format_count_of(count, "line"))).collect()
    }

    fn show(&mut self, entry: &LogEntry, file: &str) -> anyhow::Result<()> {
        self.report.entry(LogRow { entry, file }).context(output::CANNOT_WRITE)
    }
}

fn report(args: &Logs) -> Box<dyn LogSink> {
    let pace = if args.follow { Pace::Immediate } else { Pace::Buffered };
    let out = output::stdout(pace);
    match args.presentation.form(pace) {
        report::Format::Table(style) if !args.list && !args.follow => Box::new(LogOverview::new(out, &style)),
        form => Box::new(LogWriter::new(out, &form)),
    }
}

/// Formats a slow request as one line of the list.
fn slow(request: &LoggedRequest<'_>) -> LogEntry {
    let times = &request.times;
    let text = format!(
        "{}: queue {}, local {}, remote {}, response queue {}, send {}",
        request.api, times.queue, times.local, times.remote, times.response_queue, times.send
    );
    LogEntry {
        at: request.at,
        kind: LogKind::Request,
        pattern: None,
        level: Some("DEBUG"),
        topic_partition: None,
        length: Some(times.total),
        count: None,
        offset: None,
        before_bytes: None,
        after_bytes: None,
        text: text.into(),
    }
}

/// Conditions on lines, all of which must hold.
struct LineConditions<'a> {
    args: &'a Logs,
    since: Nanos,
    until: Nanos,
    timed: bool,
}

impl<'a> LineConditions<'a> {
    /// Reads the conditions from the flags.
    fn new(args: &'a Logs, zone: &Zone) -> Result<Self, Usage> {
        let at = |flag: &str, text: &Option<String>| {
            let text = text.as_deref();
            text.map(|text| when(flag, text, zone)).transpose()
        };
        let (since, until) = (at("--since", &args.since)?, at("--until", &args.until)?);
        let timed = since.is_some() || until.is_some();
        Ok(Self { args, since: since.unwrap_or(Nanos::MIN), until: until.unwrap_or(Nanos::MAX), timed })
    }

    /// Whether an entry matches. One without a time cannot match a time range.
    fn entry(&self, entry: &LogEntry) -> bool {
        self.is_kind(entry.kind)
            && self.is_then(entry.at)
            && self.is_slow(entry.length)
            && self.args.filter.admits_topic(entry.topic_partition.as_ref())
    }

    /// Whether a request matches.
    fn request(&self, request: &LoggedRequest<'_>) -> bool {
        let (topics, apis) = (&self.args.filter.topics, &self.args.filter.apis);
        self.is_kind(LogKind::Request)
            && self.is_then(request.at)
            && self.is_slow(Some(request.times.total))
            && (apis.is_empty() || apis.iter().any(|api| same_api(api, request.api)))
            && (topics.is_empty() || topics.iter().any(|topic| request.names(topic)))
    }

    /// Whether slow requests are listed one by one.
    fn each_request(&self) -> bool {
        self.args.slow.slower_than > Nanos::ZERO
    }

    fn is_kind(&self, kind: LogKind) -> bool {
        self.args.kinds.is_empty() || self.args.kinds.contains(&kind)
    }

    fn is_then(&self, at: Option<Nanos>) -> bool {
        !self.timed || at.is_some_and(|at| self.since <= at && at < self.until)
    }

    fn is_slow(&self, length: Option<Nanos>) -> bool {
        let slower_than = self.args.slow.slower_than;
        slower_than <= Nanos::ZERO || length.is_some_and(|length| length >= slower_than)
    }
}

/// Parses an instant, or a duration before now.
fn when(flag: &str, text: &str, zone: &Zone) -> Result<Nanos, Usage> {
    let ago = || {
        let length = quantity::time(text).ok()?;
        Some(Nanos::from(SystemTime::now().duration_since(UNIX_EPOCH).ok()?) - length)
    };
    let wrong = "write it as 2024-05-19, '2024-05-19 15:04', 2024-05-19T15:04:47Z, or how long ago, as 2h";
    parse_instant(text, zone)
        .or_else(ago)
        .ok_or_else(|| Usage::new(format!("{flag} {text:?} is not a time: {wrong}")))
}
