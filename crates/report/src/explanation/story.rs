//! What happened around one request, in order of time, and how its latency adds up.

use std::io::{self, Write};

use diagnose::request_log_check::{Agreement, Differences, TOLERANCE, TimesComparison};
use model::{Cause, Evidence, EvidenceKind, KafkaTimes, Nanos, Request, Stage, Verdict};

use super::chain::describe_chain;
use crate::quantity::{format_count, format_count_of};
use crate::text_writer::TextWriter;

/// Columns before a line's text besides its indentation: a time of day and two spaces.
const HANG: usize = 14;
/// Columns before a line of a story.
const INDENT: usize = 4;
/// A write that took less than a tenth of the latency is ruled out as the reason.
const RULED_OUT: i64 = 10;

/// An event of a story.
pub(super) struct Line {
    at: Nanos,
    pub(super) text: String,
}

impl Line {
    /// A line about one piece of evidence.
    pub(super) fn of(evidence: &Evidence, text: &str) -> Self {
        let thread = match evidence.kind {
            // Their text names the thread, or they have none.
            EvidenceKind::BlockIo
            | EvidenceKind::LockWait
            | EvidenceKind::Request
            | EvidenceKind::Network
            | EvidenceKind::Host => String::new(),
            _ => thread(evidence),
        };
        Self { at: evidence.start, text: format!("{text}{thread}") }
    }

    /// A line about a write and what its thread did meanwhile; `None` without parts.
    pub(super) fn of_write(parts: &[Evidence]) -> Option<Self> {
        let write = parts.first()?;
        let texts = parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>();
        Some(Self { at: write.start, text: texts.join(", ") + &thread(write) })
    }

    /// Writes the line, indented by `indent` columns.
    pub(super) fn write<W: Write>(&self, text: &mut TextWriter<W>, indent: usize) -> io::Result<()> {
        let before = format!("{:indent$}{}  ", "", text.style.zone.time_of_day(self.at));
        text.wrap(&before, (indent + HANG, indent + HANG), &self.text, None)
    }
}

fn thread(evidence: &Evidence) -> String {
    match (&evidence.thread, evidence.tid) {
        (Some(name), Some(tid)) => format!(" ({name} {tid})"),
        (Some(name), None) => format!(" ({name})"),
        (None, Some(tid)) => format!(" (thread {tid})"),
        (None, None) => String::new(),
    }
}

/// What makes a request's verdict less certain.
pub(super) fn limits(verdict: &Verdict) -> impl Iterator<Item = String> + '_ {
    let losses = verdict.losses.iter().map(|loss| format!("near a loss: {loss}"));
    losses.chain(verdict.request.error.iter().map(|error| format!("unreadable: {error}")))
}

/// Writes one request's story.
pub(super) fn write<W: Write>(text: &mut TextWriter<W>, verdict: &Verdict) -> io::Result<()> {
    let title = format!("In detail: {}, {}", describe_chain(verdict), describe_stages(verdict));
    text.wrap("  ", (2, INDENT), &title, None)?;
    if let Some(times) = request_log(verdict) {
        text.wrap("    ", (INDENT, INDENT), &times, None)?;
    }
    lines(verdict).iter().try_for_each(|line| line.write(text, INDENT))
}

fn describe_stages(verdict: &Verdict) -> String {
    let stages = verdict.stages.iter().filter(|(_, length)| *length > Nanos::ZERO);
    let stages = stages.map(|(stage, length)| format!("{} {length}", stage_name(stage))).collect::<Vec<_>>();
    format!("{} = {}", verdict.stages.total(), stages.join(" + "))
}

pub(super) fn stage_name(stage: Stage) -> String {
    stage.as_str().replace('_', " ")
}

fn lines(verdict: &Verdict) -> Vec<Line> {
    let request = &verdict.request;
    let mut lines = vec![Line { at: request.arrival, text: describe_arrival(request) }];
    lines.extend(evidence_lines(verdict));
    if let (Cause::Unobserved, Some((at, length))) = (verdict.cause, longest_gap(verdict)) {
        lines.push(Line { at, text: format!("nothing of this request was observed for the next {length}") });
    }
    lines.extend(request.end.map(|end| Line { at: end, text: "it was answered".to_owned() }));
    // The sort is stable: at equal times, causes stay before their effects.
    lines.sort_by_key(|line| line.at);
    lines
}

/// The evidence, the root first.
fn evidence_lines(verdict: &Verdict) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut rest = verdict.evidence.as_slice();
    while let Some(first) = rest.first() {
        let of_write = first.kind == EvidenceKind::FileOp;
        let off_cpu = rest.get(1).is_some_and(|next| next.kind == EvidenceKind::OffCpu);
        let (parts, after) = rest.split_at(if of_write && off_cpu { 2 } else { 1 });
        if of_write {
            lines.extend(Line::of_write(parts).map(|line| mark_ruled_out(verdict, first, line)));
        } else {
            lines.push(Line::of(first, &first.text));
        }
        rest = after;
    }
    lines.reverse();
    lines
}

/// Marks a write that was too quick to be the reason.
fn mark_ruled_out(verdict: &Verdict, write: &Evidence, line: Line) -> Line {
    let quick = (write.end - write.start).0.saturating_mul(RULED_OUT) < verdict.stages.total().0;
    if verdict.cause == Cause::Unobserved && quick {
        return Line { text: format!("ruled out: {}", line.text), ..line };
    }
    line
}

fn describe_arrival(request: &Request) -> String {
    let client = request.client_id.as_deref().map(|id| format!(" of {id}")).unwrap_or_default();
    format!("{} {}{client} arrived from {}", request.api, request.correlation_id, request.client)
}

/// The longest part of the request without a running write. `None` unless it is most of the latency.
fn longest_gap(verdict: &Verdict) -> Option<(Nanos, Nanos)> {
    let request = &verdict.request;
    let mut writes =
        verdict.evidence.iter().filter(|seen| seen.kind == EvidenceKind::FileOp).collect::<Vec<_>>();
    writes.sort_by_key(|write| write.start);
    let mut from = request.arrival_end + verdict.stages.of(Stage::HeadOfLine);
    let mut longest = (from, Nanos::ZERO);
    let ends = writes.iter().map(|write| (write.start, write.end));
    for (start, end) in ends.chain(request.response.map(|response| (response, response))) {
        if start - from > longest.1 {
            longest = (from, start - from);
        }
        from = from.max(end);
    }
    (longest.1.0.saturating_mul(2) > verdict.stages.total().0).then_some(longest)
}

/// Describes the request's times in Kafka's request log.
fn request_log(verdict: &Verdict) -> Option<String> {
    let KafkaTimes { queue, local, remote, response_queue, send, total, .. } = verdict.kafka?;
    let parts = [
        ("queue", queue),
        ("local", local),
        ("remote", remote),
        ("response queue", response_queue),
        ("send", send),
    ];
    let parts = parts.into_iter().filter(|(_, time)| *time > Nanos::ZERO);
    let parts = parts.map(|(name, time)| format!("{name} {time}")).collect::<Vec<_>>().join(" + ");
    let text = format!("Kafka's request log says {total} = {parts}");
    Some(match TimesComparison::of(verdict).filter(TimesComparison::disagrees) {
        Some(TimesComparison { local, after, .. }) => format!(
            "{text}; this disagrees: up to the end of the write {} here, {} in the log; after it {} here, {} in the log",
            local.0, local.1, after.0, after.1
        ),
        None => text,
    })
}

/// Describes how far Kafka's request log agrees overall.
pub(super) fn describe_agreement(agreement: &Agreement) -> Vec<String> {
    let mut sentences = vec![format!(
        "{} of these produce requests are in Kafka's request log{}, {} disagree with it by more than {TOLERANCE}",
        format_count(agreement.compared),
        if agreement.not_in_log > 0 {
            format!(" ({} are not)", format_count(agreement.not_in_log))
        } else {
            String::new()
        },
        format_count(agreement.disagreeing),
    )];
    for (what, differences) in [
        ("queue, handler, lock and append against its queue and local time", &agreement.local),
        ("remote and respond against its remote, response-queue and send time", &agreement.after),
    ] {
        sentences.extend(describe_differences(what, differences));
    }
    if agreement.partly_seen > 0 {
        sentences.push(format!(
            "{} in the log: the read, the write or the response was not observed",
            format_count_of(agreement.partly_seen, "request")
        ));
    }
    sentences
}

fn describe_differences(what: &str, differences: &Differences) -> Option<String> {
    let [least, median, most] = [0.01, 0.5, 0.99].map(|share| differences.quantile(share));
    Some(format!(
        "{what}: {:.2} % within {TOLERANCE}; difference (ours minus Kafka's): p1 {}, median {}, p99 {}",
        differences.within() * 100.0,
        least?,
        median?,
        most?
    ))
}
