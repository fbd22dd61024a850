//! Hands what logs tell to the output that the user chose, and says what there is to know about it. Does not read.

use anyhow::Context as _;
use broker::server_log::{Counts, LogItem, LoggedRequest};
use model::{LogEntry, LogKind};
use report::logs::{LogCsv, LogJson, LogOverview, LogReport, LogRow, LogStats, LogSummary, LogTable};
use report::quantity::{format_count, format_count_of};

use super::wanted::Wanted;
use crate::cli::Logs as Args;
use crate::options::Format;
use crate::output::{self, Pace};

/// What comes of the logs.
pub(super) struct Shown<'a> {
    args: &'a Args,
    wanted: Wanted<'a>,
    report: Box<dyn LogReport>,
    digest: LogSummary,
    read: LogStats,
    /// Wanted entries without a time.
    untimed: u64,
}

impl<'a> Shown<'a> {
    pub(super) fn new(args: &'a Args, wanted: Wanted<'a>) -> Self {
        let digest = LogSummary::new(usize::try_from(args.top).unwrap_or(usize::MAX));
        Self { args, wanted, report: report(args), digest, read: LogStats::default(), untimed: 0 }
    }

    /// Takes what a line of this log tells.
    pub(super) fn told(&mut self, told: LogItem<'_>, file: &str) -> anyhow::Result<()> {
        match told {
            LogItem::Entry(entry) if self.wanted.entry(&entry) => {
                self.digest.entry(&entry);
                self.untimed += u64::from(entry.at.is_none());
                self.show(&entry, file)
            }
            LogItem::Request(request) if self.wanted.request(&request) => {
                self.digest.request(request.at, request.api, &request.times);
                self.untimed += u64::from(request.at.is_none());
                if self.wanted.each_request() { self.show(&slow(&request), file) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }

    /// Counts what was read of a log.
    pub(super) fn read(&mut self, counts: Counts) {
        super::add(&mut self.read, counts);
    }

    /// Ends the output.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        self.report.finish(&self.digest, &self.read).context(output::CANNOT_WRITE)?;
        let presentation = &self.args.presentation;
        let lines = format_count_of(self.read.lines, "line");
        presentation.say(&format!("{} of {lines} told something", format_count(self.digest.count())));
        presentation.say_each(&self.notes());
        Ok(())
    }

    fn notes(&self) -> Vec<String> {
        let notes = [
            (self.read.cut_lines, "longer than 1 MiB: of those only the beginning was looked at"),
            (self.read.unreadable_requests, "about a request that could not be read"),
            (self.untimed, "without a date: --date says the day of the first line"),
        ];
        let notes = notes.into_iter().filter(|(count, _)| *count > 0);
        notes.map(|(count, what)| format!("{} {what}", format_count_of(count, "line"))).collect()
    }

    fn show(&mut self, entry: &LogEntry, file: &str) -> anyhow::Result<()> {
        self.report.entry(LogRow { entry, file }).context(output::CANNOT_WRITE)
    }
}

fn report(args: &Args) -> Box<dyn LogReport> {
    let pace = if args.follow { Pace::AsTheyCome } else { Pace::AllThere };
    let (out, look) = (output::stdout(pace), args.presentation.look(pace));
    match args.presentation.format {
        Format::Table if args.list || args.follow => Box::new(LogTable::new(out, &look)),
        Format::Table => Box::new(LogOverview::new(out, &look)),
        Format::Json => Box::new(LogJson(out)),
        Format::Csv => Box::new(LogCsv::new(out)),
    }
}

/// A slow request as one line of the list.
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
