//! Verdicts for people: the totals; every root with what was seen of it and the requests it slowed, the one
//! that took most time first; then what to change and what all of it rests on.

use std::collections::HashSet;
use std::io::{self, Write};

use diagnose::{JoinStats, RootTotal, Summary};
use model::{Cause, Evidence, Nanos, Partition, Verdict};

use super::chain::{describe_chain, describe_chain_and_holder};
use super::groups::{Advice, Group, Groups, Limits, Question, Questions};
use super::story::{self, Line, describe_agreement};
use super::{Conclusion, ExplanationReport, Lag, Unobservable};
use crate::Style;
use crate::escape::escape;
use crate::paint::{Role, paint};
use crate::quantity::{NONE, format_count, format_count_of, or_dash};
use crate::requests::topic_shown;
use crate::rows::{Cell, Column, Report, Writer};
use crate::wrap::bullet;

/// Roots shown in full; of the others, the first of each cause is.
const MAX_FULL_ROOTS: usize = 3;
/// Roots named at all.
const MAX_ROOTS: usize = 20;

/// Verdicts as text.
pub struct ExplanationText<W> {
    out: W,
    groups: Groups,
    questions: Questions,
    style: Style,
    /// Whether each verdict is shown at once, in a line, and whether one was.
    rows: Option<bool>,
}

impl<W: Write> ExplanationText<W> {
    /// Text that looks like this.
    pub fn new(out: W, look: &Style) -> Self {
        let limits = if look.wide { Limits::LONG } else { Limits::SHORT };
        let (groups, questions, style) = (Groups::new(limits), Questions::default(), look.clone());
        Self { out, groups, questions, style, rows: None }
    }

    /// The same, with a line for each verdict when it comes.
    pub fn as_they_come(out: W, look: &Style) -> Self {
        Self { rows: Some(false), ..Self::new(out, look) }
    }

    fn row(&mut self, verdict: &Verdict) -> io::Result<()> {
        let Some(begun) = self.rows else { return Ok(()) };
        if !begun {
            self.rows = Some(true);
            writeln!(self.out, "{}", row_head(&self.style))?;
        }
        writeln!(self.out, "{}", row(&self.style, verdict))
    }

    fn totals(&mut self, conclusion: &Conclusion) -> io::Result<()> {
        let summary = &conclusion.summary;
        writeln!(
            self.out,
            "{} of {} took {} or longer",
            format_count(summary.slow),
            format_count_of(summary.requests, "request"),
            conclusion.slower_than,
        )?;
        if !summary.not_judged.is_empty() {
            let apis =
                summary.not_judged.iter().map(|(api, count)| format!("{api} {}", format_count(*count)));
            let apis = apis.collect::<Vec<_>>().join(", ");
            writeln!(
                self.out,
                "as slow, but not judged (their waiting may be on purpose): {}",
                escape(&apis)
            )?;
        }
        if summary.by_cause.is_empty() { Ok(()) } else { self.causes(summary) }
    }

    fn causes(&mut self, summary: &Summary) -> io::Result<()> {
        let rows = summary.by_cause.iter().map(|total| {
            let roots = summary.by_root.iter().filter(|root| root.cause == total.cause).count();
            CauseRow { total, roots }
        });
        let rows = rows.collect::<Vec<_>>();
        Writer::table(&mut self.out, &Causes, &self.style.aligned(), INDENT).write_all(&rows)
    }

    fn roots(&mut self, told: &[(&RootTotal, &Group)]) -> io::Result<()> {
        let mut causes = HashSet::new();
        let mut after_line = false;
        for (number, &(total, group)) in (1..).zip(told) {
            let first = causes.insert(total.cause);
            let in_full = self.style.wide || number <= MAX_FULL_ROOTS || first;
            if in_full || !after_line {
                writeln!(self.out)?;
            }
            root_heading(&mut self.out, &self.style, number, total, group, in_full)?;
            if in_full {
                self.in_full(total, group)?;
            }
            after_line = !in_full;
        }
        Ok(())
    }

    fn in_full(&mut self, total: &RootTotal, group: &Group) -> io::Result<()> {
        root_evidence(&mut self.out, &self.style, total, group)?;
        requests(&mut self.out, &self.style, total, group)?;
        self.examples(total.cause, group)
            .into_iter()
            .try_for_each(|verdict| story::tell(&mut self.out, &self.style, verdict))
    }

    /// The requests shown in detail. Those that nothing explains have no story in common.
    fn examples<'g>(&self, cause: Cause, group: &'g Group) -> Vec<&'g Verdict> {
        match cause {
            Cause::Unobserved => group.verdicts.iter().take(if self.style.wide { 100 } else { 3 }).collect(),
            _ => group.examples().into_iter().take(if self.style.wide { usize::MAX } else { 2 }).collect(),
        }
    }

    /// How many roots there are beside those told; what was not asked for no flag tells.
    fn untold_roots(
        &mut self,
        summary: &Summary,
        told: &[(&RootTotal, &Group)],
        asked_for: usize,
    ) -> io::Result<()> {
        let how = if asked_for > told.len() { self.style.how_to_see_all() } else { "" };
        let told = told.iter().map(|(total, _)| &total.root).collect::<HashSet<_>>();
        let untold = summary.by_root.iter().filter(|total| !told.contains(&total.root)).collect::<Vec<_>>();
        if untold.is_empty() {
            return Ok(());
        }
        let requests = untold.iter().map(|total| total.requests).sum();
        let roots = format_count_of(untold.len() as u64, "more root");
        writeln!(self.out, "\n… and {roots} → {}{how}", format_count_of(requests, "request"))
    }
}

impl<W: Write> ExplanationReport for ExplanationText<W> {
    fn verdict(&mut self, verdict: Verdict) -> io::Result<()> {
        self.row(&verdict)?;
        self.questions.add(&verdict);
        self.groups.add(verdict);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, conclusion: &Conclusion) -> io::Result<()> {
        let (groups, advice) = self.groups.take();
        let summary = &conclusion.summary;
        if self.rows == Some(true) {
            writeln!(self.out)?;
        }
        self.totals(conclusion)?;
        let told = summary.by_root.iter().filter_map(|total| Some((total, groups.get(&total.root)?)));
        let told = told.take(if self.style.wide { usize::MAX } else { MAX_ROOTS }).collect::<Vec<_>>();
        self.roots(&told)?;
        self.untold_roots(summary, &told, groups.len())?;
        write_advice(&mut self.out, &self.style, summary, &advice)?;
        tell_questions(&mut self.out, &self.style, &self.questions.take())?;
        basis(&mut self.out, &self.style, conclusion)?;
        self.out.flush()
    }
}

/// Causes with what they took.
struct Causes;

struct CauseRow<'a> {
    total: &'a diagnose::CauseTotal,
    roots: usize,
}

impl Report for Causes {
    type Row<'a> = CauseRow<'a>;
    const TYPE: &'static str = "cause";

    fn columns(&self) -> Vec<Column<Self>> {
        type Col = Column<Causes>;
        vec![
            Col::text("CAUSE", 0, "", |row| row.total.cause.as_str().into()),
            Col::number("ROOTS", 0, "", |row| Cell::Count(row.roots as u64)),
            Col::number("REQUESTS", 0, "", |row| Cell::Count(row.total.requests)),
            Col::number("TIME", 0, "", |row| Cell::Length(row.total.time)),
        ]
    }
}

/// The requests that one root slowed: one line each, the slowest first.
struct SlowRequests;

impl Report for SlowRequests {
    type Row<'a> = Verdict;
    const TYPE: &'static str = "slow-request";

    fn columns(&self) -> Vec<Column<Self>> {
        type Col = Column<SlowRequests>;
        vec![
            Col::text("ARRIVAL TIME", 12, "", |verdict| Cell::Time(verdict.request.arrival)),
            Col::text("END TIME", 12, "", |verdict| verdict.request.end.map(Cell::Time).into()),
            Col::text("LATENCY(ms)", 0, "", |verdict| verdict.request.latency().map(Cell::BareMillis).into()),
            Col::text("MESSAGE_ID", 0, "", |verdict| {
                let ids = message_ids(verdict);
                ids.first().map(|id| format!("{id}{}", and_more(ids.len()))).into()
            }),
            Col::text("TOPIC", 0, "", |verdict| topic_shown(partition(verdict)).into()),
            Col::text("PARTITION", 0, "", |verdict| {
                let more = and_more(verdict.request.partitions.len());
                partition(verdict).map(|of| format!("{}{more}", of.partition)).into()
            }),
            Col::text("WAITED FOR", 0, "", |verdict| describe_chain_and_holder(verdict).into()),
            Col::text("CONFIDENCE", 0, "", |verdict| {
                // There is nothing to be confident of where nothing was found.
                (verdict.cause != Cause::Unobserved).then(|| verdict.confidence.as_str()).into()
            }),
            Col::text("API", 0, "", |verdict| verdict.request.api.into()).wide(),
            Col::number("CORRELATION", 0, "", |verdict| verdict.request.correlation_id.into()).wide(),
            Col::text("CLIENT", 0, "", |verdict| Cell::display(verdict.request.client)).wide(),
            Col::text("CLIENT_ID", 0, "", |verdict| verdict.request.client_id.as_deref().into()).wide(),
        ]
    }
}

/// The requests, and how many are left out.
fn requests<W: Write>(out: &mut W, style: &Style, total: &RootTotal, group: &Group) -> io::Result<()> {
    let plain = Style { colour: false, lookahead: 0, ..style.clone() };
    let mut table = Writer::table(&mut *out, &SlowRequests, &plain, INDENT);
    group.verdicts.iter().for_each(|verdict| table.measure(verdict));
    for verdict in &group.verdicts {
        table.row(verdict)?;
        notes(verdict).iter().try_for_each(|note| table.note(INDENT, note))?;
    }
    let untold = total.requests.saturating_sub(group.verdicts.len() as u64);
    if untold > 0 {
        writeln!(out, "  … and {} more{}", format_count(untold), style.how_to_see_all())?;
    }
    Ok(())
}

/// Message ids of the partition that the time was lost on, else of all.
fn message_ids(verdict: &Verdict) -> Vec<&str> {
    match (&verdict.partition, partition(verdict)) {
        (Some(_), Some(partition)) => partition.message_ids.iter().map(|id| &**id).collect(),
        _ => verdict.request.partitions.iter().flat_map(|of| of.message_ids.iter().map(|id| &**id)).collect(),
    }
}

/// The partition that the time was lost on, else the first.
fn partition(verdict: &Verdict) -> Option<&Partition> {
    let partitions = &verdict.request.partitions;
    let lost_on = verdict.partition.as_ref().and_then(|lost_on| {
        partitions.iter().find(|partition| {
            partition.topic.as_ref() == Some(&lost_on.topic) && partition.partition == lost_on.partition
        })
    });
    lost_on.or_else(|| partitions.first())
}

/// ` +3` where three more follow the one shown.
fn and_more(count: usize) -> String {
    if count > 1 { format!(" +{}", count - 1) } else { String::new() }
}

/// What makes this request's verdict less certain.
fn notes(verdict: &Verdict) -> Vec<String> {
    let losses = verdict.losses.iter().map(|loss| format!("near a loss: {}", escape(loss)));
    let errors = verdict.request.error.iter().map(|error| format!("unreadable: {}", escape(error)));
    losses.chain(errors).collect()
}

/// Columns before what was seen of a root.
const INDENT: usize = 2;

/// The number, the root, and how much it did.
fn root_heading<W: Write>(
    out: &mut W,
    style: &Style,
    number: usize,
    total: &RootTotal,
    group: &Group,
    in_full: bool,
) -> io::Result<()> {
    let when = match began(group) {
        Some(at) if !in_full => format!(", from {}", style.zone.time_of_day(at)),
        _ => String::new(),
    };
    let heading = format!(
        "{number}. {} → {}, {}{when}",
        escape(&root_name(total)),
        format_count_of(total.requests, "request"),
        total.time
    );
    // Only roots shown in full stand out.
    if in_full { writeln!(out, "{}", style.heading(&heading)) } else { writeln!(out, "{heading}") }
}

fn root_name(total: &RootTotal) -> String {
    match total.cause {
        Cause::Unobserved => "unobserved: nothing that was seen explains most of their time".to_owned(),
        _ if total.text.is_empty() => total.root.to_string(),
        _ => total.text.clone(),
    }
}

fn began(group: &Group) -> Option<Nanos> {
    group.root.values().map(|seen| seen.start).min().or(group.first)
}

/// The commit, the device's part in it, and the longest of the writes that it held.
fn root_evidence<W: Write>(out: &mut W, style: &Style, total: &RootTotal, group: &Group) -> io::Result<()> {
    for seen in group.root.values() {
        // The heading has said what it was.
        let text = if seen.text == total.text {
            format!("it began; it ended at {}", style.zone.time_of_day(seen.end))
        } else {
            seen.text.clone()
        };
        story::print(out, style, INDENT, &Line::of(seen, &text))?;
    }
    let longest = group.writes.values().max_by_key(|parts| parts.first().map(length));
    if let Some(line) = longest.and_then(|parts| Line::of_write(parts)) {
        story::print(out, style, INDENT, &line)?;
    }
    match group.writes.len() {
        0 | 1 => Ok(()),
        writes => writeln!(out, "  and {} like it", format_count_of(writes as u64 - 1, "more write")),
    }
}

fn length(evidence: &Evidence) -> Nanos {
    evidence.end - evidence.start
}

const HEADINGS: [&str; 5] = ["ANSWERED AT", "LATENCY", "PARTITION", "CAUSE", "WAITED FOR"];

/// The headings, as wide as the rows.
fn row_head(style: &Style) -> String {
    let [answered, latency, partition, cause, waited] = HEADINGS;
    style.heading(&line(answered, latency, partition, cause, waited))
}

/// The verdict.
fn row(style: &Style, verdict: &Verdict) -> String {
    let request = &verdict.request;
    let answered = or_dash(request.end.map(|end| style.zone.time_of_day(end)));
    let latency = or_dash(request.latency());
    let first = request.partitions.first();
    let named = verdict.partition.as_ref().map(ToString::to_string);
    let partition = named.or_else(|| {
        first.map(|first| format!("{}-{}", first.topic.as_deref().unwrap_or(NONE), first.partition))
    });
    let waited = match (verdict.cause, verdict.losses.is_empty()) {
        (Cause::Unobserved, _) => "nothing that was seen".to_owned(),
        (_, true) => format!("{} ({})", describe_chain(verdict), verdict.confidence),
        (_, false) => format!("{} ({}; near a loss)", describe_chain(verdict), verdict.confidence),
    };
    let partition = partition.as_deref().unwrap_or(request.api);
    let text = line(&answered, &latency, &escape(partition), verdict.cause.as_str(), &escape(&waited));
    if verdict.cause == Cause::Unobserved { paint(style.colour, Role::Faint, &text) } else { text }
}

fn line(answered: &str, latency: &str, partition: &str, cause: &str, waited: &str) -> String {
    format!("{answered:<12}  {latency:>8}  {partition:<24}  {cause:<18}  {waited}").trim_end().to_owned()
}

/// Questions told without `--wide`.
const MAX_QUESTIONS: usize = 10;

/// The questions that are open; nothing where none is.
fn tell_questions<W: Write>(out: &mut W, style: &Style, questions: &[Question]) -> io::Result<()> {
    if questions.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", style.heading("What could not be decided, and what would have told"))?;
    let told = if style.wide { questions.len() } else { MAX_QUESTIONS };
    for Question { doubt, requests, time } in questions.iter().take(told) {
        let stage = doubt.stage.as_str().replace('_', " ");
        let text = format!(
            "{stage}, {time} of {}: {}. It would have told: {}",
            format_count_of(*requests, "request"),
            doubt.what,
            doubt.tells
        );
        writeln!(out, "{}", bullet(&escape(&text), 2))?;
    }
    let untold = questions.len().saturating_sub(told) as u64;
    if untold > 0 {
        writeln!(out, "  … and {} more{}", untold, style.how_to_see_all())?;
    }
    Ok(())
}

/// What the words of the column CONFIDENCE mean.
const CONFIDENCE: &str = "confidence: exact = every link of the chain is joined by a key, and it took half of \
                          the time or more; strong = one link is inferred from the order of events, or others \
                          took more of the time; weak = only the times agree";

/// What to change, once a cause, the costliest first.
fn write_advice<W: Write>(out: &mut W, style: &Style, summary: &Summary, advice: &Advice) -> io::Result<()> {
    let mut told = HashSet::new();
    for total in &summary.by_cause {
        let sentences = advice.get(&total.cause).into_iter().flatten();
        let new = sentences.filter(|sentence| told.insert(**sentence)).collect::<Vec<_>>();
        if !new.is_empty() {
            writeln!(out, "\n{}", style.heading(&format!("What to change about {}", total.cause)))?;
        }
        for sentence in new {
            writeln!(out, "{}", bullet(sentence, 2))?;
        }
    }
    Ok(())
}

/// How far all of it can be trusted.
pub(super) fn basis<W: Write>(out: &mut W, style: &Style, conclusion: &Conclusion) -> io::Result<()> {
    let summary = &conclusion.summary;
    writeln!(out, "\n{}", style.heading("What this rests on"))?;
    let mut sentences = Vec::new();
    sentences.extend(joins(&summary.joins));
    if summary.slow > 0 {
        sentences.push(CONFIDENCE.to_owned());
    }
    sentences.extend(conclusion.agreement.iter().flat_map(describe_agreement));
    sentences.extend(losses(summary));
    sentences.extend(conclusion.lag.map(lag));
    sentences.extend(conclusion.notes.iter().cloned());
    for sentence in sentences {
        writeln!(out, "{}", bullet(&escape(&sentence), 2))?;
    }
    if conclusion.unobservable.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", style.heading("What could not be observed, and why"))?;
    for Unobservable { what, why } in &conclusion.unobservable {
        writeln!(out, "{}", bullet(&escape(&format!("{what}: {why}")), 2))?;
    }
    Ok(())
}

fn lag(lag: Lag) -> String {
    format!(
        "verdicts came {} after their requests had ended (median), 99 in a hundred within {}, the last after {}",
        lag.median, lag.p99, lag.longest
    )
}

/// From packets alone there is nothing to join with.
fn joins(joins: &JoinStats) -> Option<String> {
    let found = joins.by_crc + joins.by_base_offset;
    let all = found + joins.unjoined;
    let mut ways = vec![format!("{} by batch CRC", format_count(joins.by_crc))];
    if joins.by_base_offset > 0 {
        ways.push(format!("{} by base offset", format_count(joins.by_base_offset)));
    }
    if joins.unjoined > 0 {
        ways.push(format!("{} not found", format_count(joins.unjoined)));
    }
    if joins.not_written > 0 {
        ways.push(format!("{} more were refused or empty", format_count(joins.not_written)));
    }
    (found > 0).then(|| {
        format!(
            "{} of {} found their write: {}",
            format_count(found),
            format_count_of(all, "produce partition"),
            ways.join(", ")
        )
    })
}

fn losses(summary: &Summary) -> Vec<String> {
    let lost = summary.losses.iter().filter(|(_, count)| *count > 0);
    let lost = lost
        .map(|(kind, count)| format!("lost: {} {}", format_count(*count), kind.as_str()))
        .collect::<Vec<_>>();
    if lost.is_empty() { vec!["nothing was lost".to_owned()] } else { lost }
}
