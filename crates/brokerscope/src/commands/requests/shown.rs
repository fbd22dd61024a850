//! What `requests` shows: rows as they come, the slowest ones, or one view of all. Does not read packets.

use anyhow::Context as _;
use capture::Counters;
use model::{IntendedWait, Request};
use report::quantity::format_count_of;
use report::requests::overview::{Overview, OverviewCsv, OverviewJson, OverviewTable};
use report::requests::{RequestCsv, RequestJson, RequestReport, RequestSummary, RequestTable, TopRequests};

use crate::cli::Requests;
use crate::filter::Wanted;
use crate::options::Format;
use crate::output::{self, Pace};
use crate::packets;

/// The output and how many requests went to it.
pub(super) struct Shown<'a> {
    form: Form,
    args: &'a Requests,
    pace: Pace,
    seen: u64,
    count: u64,
}

enum Form {
    Rows(Box<dyn RequestReport>),
    Top(TopRequests),
    Overview(Box<Overview>),
}

impl<'a> Shown<'a> {
    /// What the flags say. Only rows are shown as they come: the rest is shown when the input has ended.
    pub(super) fn new(args: &'a Requests, pace: Pace) -> Self {
        let form = match args.top {
            _ if args.summary => Form::Overview(Box::default()),
            Some(most) => {
                let top = TopRequests::new(most as usize, rows(args, Pace::AllThere));
                Form::Top(top.less_waits(args.selection.no_waits))
            }
            None => Form::Rows(rows(args, pace)),
        };
        if pace == Pace::AsTheyCome && !matches!(form, Form::Rows(_)) && args.duration.is_none() {
            args.presentation.say("Ctrl-C ends it and shows what was found");
        }
        Self { form, args, pace, seen: 0, count: 0 }
    }

    /// Takes every request that was read.
    pub(super) fn request(&mut self, mut request: Request) -> anyhow::Result<()> {
        let args = self.args;
        if let Form::Overview(overview) = &mut self.form {
            overview.saw(&request);
        }
        self.seen += 1;
        let hold = request.intended_wait();
        if Wanted::new(&args.filter, &args.selection, args.slower_than).admit(&mut request) {
            self.count += 1;
            self.show(&request, hold)?;
        }
        Ok(())
    }

    fn show(&mut self, request: &Request, hold: Option<IntendedWait>) -> anyhow::Result<()> {
        match &mut self.form {
            Form::Rows(rows) => rows.request(request).context(output::CANNOT_WRITE)?,
            Form::Top(top) => top.request(request),
            Form::Overview(overview) => overview.request(request, hold),
        }
        Ok(())
    }

    /// Shows what is left to show, and says what was read and what is missing.
    pub(super) fn finish(self, counters: &Counters, notes: Vec<String>) -> anyhow::Result<()> {
        let Self { form, args, pace, count, .. } = self;
        let mut summary = packets::summary(counters, count, notes);
        match form {
            Form::Rows(mut rows) => rows.finish(&summary).context(output::CANNOT_WRITE)?,
            Form::Top(top) => {
                summary.shown = top.held();
                summary.notes.extend(unranked(top.unranked()));
                top.finish(&summary).context(output::CANNOT_WRITE)?;
            }
            Form::Overview(overview) => write(args, pace, *overview, &summary)?,
        }
        if args.presentation.format != Format::Json {
            for sentence in summary.sentences() {
                args.presentation.say(&sentence);
            }
        }
        Ok(())
    }
}

fn rows(args: &Requests, pace: Pace) -> Box<dyn RequestReport> {
    let out = output::stdout(pace);
    match args.presentation.format {
        Format::Table => Box::new(RequestTable::with(out, &args.presentation.look(pace), &beside(args))),
        Format::Json => Box::new(RequestJson(out)),
        Format::Csv => Box::new(RequestCsv::new(out)),
    }
}

/// Columns that answer the question of a flag. Who waited behind another is a victim, not the culprit.
fn beside(args: &Requests) -> Vec<&'static str> {
    let mut headings = Vec::new();
    if args.top.is_some() || args.selection.errors {
        headings.push("API");
    }
    if args.top.is_some() {
        headings.push("HEAD_OF_LINE(ms)");
    }
    if args.selection.errors {
        headings.extend(["ERROR_CODE", "ERROR_NAME", "ERROR"]);
    }
    headings
}

fn write(args: &Requests, pace: Pace, overview: Overview, summary: &RequestSummary) -> anyhow::Result<()> {
    let groups = overview.finish();
    let out = output::stdout(Pace::AllThere);
    let written = match args.presentation.format {
        Format::Table => OverviewTable::new(out, &args.presentation.look(pace)).write(&groups),
        Format::Json => OverviewJson(out).write(&groups, summary),
        Format::Csv => OverviewCsv(out).write(&groups),
    };
    written.context(output::CANNOT_WRITE)
}

/// A request without a latency is neither slow nor quick.
fn unranked(count: u64) -> Option<String> {
    (count > 0).then(|| format!("{} without a latency not ranked", format_count_of(count, "request")))
}
