//! Verdicts for people: the finding in one sentence, the totals, what to change first; every root with its evidence and the
//! requests it slowed, the one that took the most time first; then what else to change and the basis of the report.

use std::collections::HashSet;
use std::io::{self, Write};

use diagnose::{JoinStats, LossDetail, RootTotal, Summary};
use model::{Cause, Evidence, LossKind, Nanos, Partition, Verdict};

use super::chain::{describe_chain, describe_chain_and_holder};
use super::finding::{describe_finding, percent};
use super::groups::{Advice, Group, Groups, Limits, Question, Questions};
use super::story::{self, Line, describe_agreement};
use super::{Conclusion, ExplanationReport, Lag, Unobservable};
use crate::Style;
use crate::escape::escape;
use crate::paint::{Role, paint};
use crate::quantity::{NONE, format_count, format_count_of, or_dash};
use crate::requests::topic_name;
use crate::rows::{Cell, Column, Report, Writer};
use crate::text_writer::{INDENT, TextWriter};
use crate::tls::tls_lines;

/// Roots shown in full, besides the first of each cause.
const MAX_FULL_ROOTS: usize = 3;
/// Roots shown without `--wide`.
const MAX_ROOTS: usize = 20;

/// Verdicts as text.
pub struct ExplanationText<W> {
    text: TextWriter<W>,
    groups: Groups,
    questions: Questions,
    needed: NeededSources,
    verdicts: u64,
    /// Set if each verdict is also written as a line at once; true after the first.
    rows: Option<bool>,
}

impl<W: Write> ExplanationText<W> {
    /// Creates an output in this style.
    pub fn new(out: W, style: &Style) -> Self {
        let limits = if style.wide { Limits::LONG } else { Limits::SHORT };
        Self {
            text: TextWriter::new(out, style),
            groups: Groups::new(limits),
            questions: Questions::default(),
            needed: NeededSources::default(),
            verdicts: 0,
            rows: None,
        }
    }

    /// Like [`Self::new`], with a line for each verdict as it arrives.
    pub fn streaming(out: W, style: &Style) -> Self {
        Self { rows: Some(false), ..Self::new(out, style) }
    }

    fn row(&mut self, verdict: &Verdict) -> io::Result<()> {
        let Some(has_head) = self.rows else { return Ok(()) };
        if !has_head {
            self.rows = Some(true);
            writeln!(self.text.out, "{}", row_head(&self.text.style))?;
        }
        writeln!(self.text.out, "{}", row(&self.text.style, verdict))
    }
}

impl<W: Write> ExplanationReport for ExplanationText<W> {
    fn verdict(&mut self, verdict: Verdict) -> io::Result<()> {
        self.row(&verdict)?;
        self.questions.add(&verdict);
        self.needed.add(&verdict);
        self.verdicts += 1;
        self.groups.add(verdict);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.text.out.flush()
    }

    fn finish(&mut self, conclusion: &Conclusion) -> io::Result<()> {
        let (groups, mut advice) = self.groups.take();
        let (text, summary) = (&mut self.text, &conclusion.summary);
        if self.rows == Some(true) {
            writeln!(text.out)?;
        }
        totals(text, conclusion)?;
        let first = summary.by_cause.iter().find(|total| advice.has(total.cause));
        advice.write(text, "What to change first:", first.map(|total| total.cause))?;
        let roots_kept = summary.by_root.iter().filter_map(|total| Some((total, groups.get(&total.root)?)));
        let max = if text.style.wide { usize::MAX } else { MAX_ROOTS };
        let top_roots = roots_kept.take(max).collect::<Vec<_>>();
        roots(text, &top_roots)?;
        hidden_roots(text, summary, &top_roots, groups.len())?;
        advice.write(text, "What to change about", summary.by_cause.iter().map(|total| total.cause))?;
        let all = if self.verdicts < summary.slow { " about the requests shown" } else { "" };
        open_questions(text, &self.questions.take(), conclusion, all)?;
        basis(text, conclusion, &self.needed)?;
        text.out.flush()
    }
}

/// Writes the finding and the totals.
fn totals<W: Write>(text: &mut TextWriter<W>, conclusion: &Conclusion) -> io::Result<()> {
    let summary = &conclusion.summary;
    let finding = describe_finding(conclusion);
    text.wrap("", (0, INDENT), &finding, Some(Role::Heading))?;
    for line in tls_lines(&summary.tls) {
        text.wrap("", (0, INDENT), &line, Some(Role::Bad))?;
    }
    if summary.slow > 0 {
        let (slow, requests) = (format_count(summary.slow), format_count_of(summary.requests, "request"));
        writeln!(text.out, "{slow} of {requests} took {} or longer", conclusion.slower_than)?;
    }
    if !summary.not_judged.is_empty() {
        let apis = summary.not_judged.iter().map(|(api, count)| format!("{api} {}", format_count(*count)));
        let apis = apis.collect::<Vec<_>>().join(", ");
        writeln!(text.out, "also slow, but excluded because their wait may be intended: {}", escape(&apis))?;
    }
    if summary.by_cause.is_empty() {
        return Ok(());
    }
    let all = summary.by_cause.iter().map(|total| total.time).sum::<Nanos>();
    let rows = summary.by_cause.iter().map(|total| {
        let roots = summary.by_root.iter().filter(|root| root.cause == total.cause).count();
        CauseRow { total, roots, all }
    });
    text.table(&Causes, &rows.collect::<Vec<_>>())
}

fn roots<W: Write>(text: &mut TextWriter<W>, top_roots: &[(&RootTotal, &Group)]) -> io::Result<()> {
    let mut causes = HashSet::new();
    let mut after_line = false;
    for (number, &(total, group)) in (1..).zip(top_roots) {
        let first = causes.insert(total.cause);
        let in_full = text.style.wide || number <= MAX_FULL_ROOTS || first;
        if in_full || !after_line {
            writeln!(text.out)?;
        }
        root_heading(text, number, total, group, in_full)?;
        if in_full {
            root_evidence(text, total, group)?;
            requests(text, total, group)?;
            examples(total.cause, group, text.style.wide)
                .into_iter()
                .try_for_each(|verdict| story::write(text, verdict))?;
        }
        after_line = !in_full;
    }
    Ok(())
}

/// The requests shown in detail. Unexplained requests have no story in common.
fn examples(cause: Cause, group: &Group, wide: bool) -> Vec<&Verdict> {
    match cause {
        Cause::Unobserved => group.verdicts.iter().take(if wide { 100 } else { 3 }).collect(),
        _ => group.examples().into_iter().take(if wide { usize::MAX } else { 2 }).collect(),
    }
}

/// Writes how many roots are not shown. No flag shows roots that were not kept.
fn hidden_roots<W: Write>(
    text: &mut TextWriter<W>,
    summary: &Summary,
    top_roots: &[(&RootTotal, &Group)],
    kept: usize,
) -> io::Result<()> {
    let how = if kept > top_roots.len() { text.style.flag_for_all() } else { "" };
    let top_roots = top_roots.iter().map(|(total, _)| &total.root).collect::<HashSet<_>>();
    let hidden = summary.by_root.iter().filter(|total| !top_roots.contains(&total.root)).collect::<Vec<_>>();
    if hidden.is_empty() {
        return Ok(());
    }
    let requests = hidden.iter().map(|total| total.requests).sum();
    let roots = format_count_of(hidden.len() as u64, "more root");
    writeln!(text.out, "\n… and {roots} → {}{how}", format_count_of(requests, "request"))
}

/// Causes with their totals.
struct Causes;

struct CauseRow<'a> {
    total: &'a diagnose::CauseTotal,
    roots: usize,
    /// The time of all causes.
    all: Nanos,
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
            Col::number("SHARE", 0, "", |row| percent(row.total.time, row.all).into()),
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
            Col::text("TOPIC", 0, "", |verdict| topic_name(partition(verdict)).into()),
            Col::text("PARTITION", 0, "", |verdict| {
                let more = and_more(verdict.request.partitions.len());
                partition(verdict).map(|of| format!("{}{more}", of.partition)).into()
            }),
            Col::text("WAITED FOR", 0, "", |verdict| describe_chain_and_holder(verdict).into()),
            Col::text("CONFIDENCE", 0, "", |verdict| {
                // Without a cause there is no confidence.
                (verdict.cause != Cause::Unobserved).then(|| verdict.confidence.as_str()).into()
            }),
            Col::text("API", 0, "", |verdict| verdict.request.api.into()).wide(),
            Col::number("CORRELATION", 0, "", |verdict| verdict.request.correlation_id.into()).wide(),
            Col::text("CLIENT", 0, "", |verdict| Cell::display(verdict.request.client)).wide(),
            Col::text("CLIENT_ID", 0, "", |verdict| verdict.request.client_id.as_deref().into()).wide(),
        ]
    }
}

/// Writes the requests, and how many are left out.
fn requests<W: Write>(text: &mut TextWriter<W>, total: &RootTotal, group: &Group) -> io::Result<()> {
    let plain = Style { colour: false, lookahead: 0, ..text.style.clone() };
    let mut table = Writer::table(&mut text.out, &SlowRequests, &plain, INDENT);
    group.verdicts.iter().for_each(|verdict| table.measure(verdict));
    for verdict in &group.verdicts {
        table.row(verdict)?;
        let limits = story::limits(verdict).collect::<Vec<_>>();
        limits.iter().try_for_each(|limit| table.note(INDENT, &escape(limit)))?;
    }
    text.more(total.requests.saturating_sub(group.verdicts.len() as u64) as usize)
}

/// Message ids of the partition on which the time was lost, else of all partitions.
fn message_ids(verdict: &Verdict) -> Vec<&str> {
    match (&verdict.partition, partition(verdict)) {
        (Some(_), Some(partition)) => partition.message_ids.iter().map(|id| &**id).collect(),
        _ => verdict.request.partitions.iter().flat_map(|of| of.message_ids.iter().map(|id| &**id)).collect(),
    }
}

/// The partition on which the time was lost, else the first.
fn partition(verdict: &Verdict) -> Option<&Partition> {
    let partitions = &verdict.request.partitions;
    let lost_on = verdict.partition.as_ref().and_then(|lost_on| {
        partitions.iter().find(|partition| {
            partition.topic.as_ref() == Some(&lost_on.topic) && partition.partition == lost_on.partition
        })
    });
    lost_on.or_else(|| partitions.first())
}

/// ` +3` if three more follow the one shown.
fn and_more(count: usize) -> String {
    if count > 1 { format!(" +{}", count - 1) } else { String::new() }
}

/// Writes a root's number, name and impact.
fn root_heading<W: Write>(
    text: &mut TextWriter<W>,
    number: usize,
    total: &RootTotal,
    group: &Group,
    in_full: bool,
) -> io::Result<()> {
    let when = match start_of(group) {
        Some(at) if !in_full => format!(", from {}", text.style.zone.time_of_day(at)),
        _ => String::new(),
    };
    let (name, requests) = (root_name(total), format_count_of(total.requests, "request"));
    let heading = format!("{number}. {} → {requests}, {}{when}", escape(&name), total.time);
    // Only roots shown in full stand out.
    let heading = if in_full { text.style.heading(&heading) } else { heading };
    writeln!(text.out, "{heading}")
}

fn root_name(total: &RootTotal) -> String {
    match total.cause {
        Cause::Unobserved => "unobserved: no cause explains most of their time".to_owned(),
        _ if total.text.is_empty() => total.root.to_string(),
        _ => total.text.clone(),
    }
}

fn start_of(group: &Group) -> Option<Nanos> {
    group.root.values().map(|seen| seen.start).min().or(group.first)
}

/// Writes the commit, the device's part in it, and the longest delayed write.
fn root_evidence<W: Write>(text: &mut TextWriter<W>, total: &RootTotal, group: &Group) -> io::Result<()> {
    for seen in group.root.values() {
        // The heading already names the event.
        let what = if seen.text == total.text {
            format!("it began; it ended at {}", text.style.zone.time_of_day(seen.end))
        } else {
            seen.text.clone()
        };
        Line::of(seen, &what).write(text, INDENT)?;
    }
    let longest = group.writes.values().max_by_key(|parts| parts.first().map(length));
    if let Some(line) = longest.and_then(|parts| Line::of_write(parts)) {
        line.write(text, INDENT)?;
    }
    match group.writes.len() {
        0 | 1 => Ok(()),
        writes => writeln!(text.out, "  and {} like it", format_count_of(writes as u64 - 1, "more write")),
    }
}

fn length(evidence: &Evidence) -> Nanos {
    evidence.end - evidence.start
}

const HEADINGS: [&str; 5] = ["ANSWERED AT", "LATENCY", "PARTITION", "CAUSE", "WAITED FOR"];

/// The headings, aligned with the rows.
fn row_head(style: &Style) -> String {
    let [answered, latency, partition, cause, waited] = HEADINGS;
    style.heading(&line(answered, latency, partition, cause, waited))
}

/// A verdict as one line.
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
        (Cause::Unobserved, _) => "not observed".to_owned(),
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

/// Questions shown without `--wide`.
const MAX_QUESTIONS: usize = 10;

/// Writes the open questions. If there are none, says so if doubts were requested.
pub(super) fn open_questions<W: Write>(
    text: &mut TextWriter<W>,
    questions: &[Question],
    conclusion: &Conclusion,
    about: &str,
) -> io::Result<()> {
    if questions.is_empty() {
        if conclusion.asks_why_not {
            writeln!(text.out, "\nNothing was left undecided{about}.")?;
        }
        return Ok(());
    }
    text.heading("What could not be decided, and what would show it")?;
    let max = if text.style.wide { usize::MAX } else { MAX_QUESTIONS };
    for Question { doubt, requests, time } in questions.iter().take(max) {
        let (stage, requests) = (story::stage_name(doubt.stage), format_count_of(*requests, "request"));
        let (what, tells) = (&doubt.what, &doubt.tells);
        text.bullet(&format!("{stage}, {time} of {requests}: {what}. What would show it: {tells}"))?;
    }
    text.more(questions.len().saturating_sub(max))
}

impl Advice {
    /// Writes what to change about these causes, each sentence once.
    fn write<W: Write>(
        &mut self,
        text: &mut TextWriter<W>,
        heading: &str,
        causes: impl IntoIterator<Item = Cause>,
    ) -> io::Result<()> {
        for cause in causes {
            let sentences = self.take(cause);
            if !sentences.is_empty() {
                text.heading(&format!("{heading} {cause}"))?;
            }
            sentences.into_iter().try_for_each(|sentence| text.bullet(sentence))?;
        }
        Ok(())
    }
}

/// Legend of the column CONFIDENCE.
const CONFIDENCE: &str = "confidence: exact = every link of the chain is joined by a key, and it took half of \
                          the time or more; strong = one link is inferred from the order of events, or others \
                          took more of the time; weak = only the times agree";

/// Writes the basis of the report: joins, agreement, losses and what could not be observed.
pub(super) fn basis<W: Write>(
    text: &mut TextWriter<W>,
    conclusion: &Conclusion,
    needed: &NeededSources,
) -> io::Result<()> {
    let summary = &conclusion.summary;
    text.heading("What this rests on")?;
    let mut sentences = Vec::new();
    sentences.extend(joins(&summary.joins));
    if summary.slow > 0 {
        sentences.push(CONFIDENCE.to_owned());
    }
    sentences.extend(conclusion.agreement.iter().flat_map(describe_agreement));
    sentences.extend(losses(summary));
    sentences.extend(conclusion.lag.map(lag));
    sentences.extend(conclusion.notes.iter().cloned());
    sentences.iter().try_for_each(|sentence| text.bullet(sentence))?;
    unobservable(text, &conclusion.unobservable, needed)
}

/// Sources that would have shown more about requests whose cause is uncertain.
#[derive(Debug, Default)]
pub(super) struct NeededSources(HashSet<&'static str>);

impl NeededSources {
    pub(super) fn add(&mut self, verdict: &Verdict) {
        self.0.extend(diagnose::purposes(verdict));
    }

    /// Whether this source would have shown more.
    /// A description in words belongs to no hook and might always have.
    fn has(&self, what: &str) -> bool {
        self.0.contains(what) || (!self.0.is_empty() && what.contains(' '))
    }
}

/// Writes what could not be observed, one per line.
/// Writes all of it, or only what would have shown more and a count of the others.
fn unobservable<W: Write>(
    text: &mut TextWriter<W>,
    unobservable: &[Unobservable],
    needed: &NeededSources,
) -> io::Result<()> {
    let all = text.style.wide || text.style.verbose;
    let relevant = unobservable.iter().filter(|one| all || needed.has(&one.what)).collect::<Vec<_>>();
    let others = unobservable.len() - relevant.len();
    if relevant.is_empty() {
        return match others {
            0 => Ok(()),
            _ => text.bullet(&format!(
                "{} could not be observed (--verbose shows all)",
                format_count_of(others as u64, "thing")
            )),
        };
    }
    let how = if all { "" } else { " (--verbose shows all)" };
    text.heading(&format!("What could not be observed, and why{how}"))?;
    for Unobservable { what, why } in relevant {
        let why = if all { why } else { why.split("; ").next().unwrap_or(why) };
        text.bullet(&format!("{what}: {why}"))?;
    }
    match others {
        0 => Ok(()),
        _ => text.bullet(&format!("{others} more (--verbose shows all)")),
    }
}

fn lag(lag: Lag) -> String {
    format!(
        "delay from the end of a request to its verdict: median {}, p99 {}, max {}",
        lag.median, lag.p99, lag.longest
    )
}

/// Describes the joins; `None` if there are none, as with packets alone.
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
            "{} of {} matched to their write: {}",
            format_count(found),
            format_count_of(all, "produce partition"),
            ways.join(", ")
        )
    })
}

fn losses(summary: &Summary) -> Vec<String> {
    let lost = summary.losses.iter().filter(|(_, count)| *count > 0);
    let mut lines: Vec<String> = lost.map(|&(kind, count)| loss_line(kind, count, summary)).collect();
    if lines.is_empty() {
        return vec!["nothing was lost".to_owned()];
    }
    let outages = summary.outages();
    lines.extend(outages.map(|(why, seconds)| format!("saw nothing for {} s: {why}", format_count(seconds))));
    lines
}

/// A kind of loss, and what was lost.
fn loss_line(kind: LossKind, count: u64, summary: &Summary) -> String {
    let total = format!("lost: {} {}", format_count(count), kind.as_str());
    let is_detail = |loss: &&LossDetail| loss.kind == kind && kind != LossKind::SourceDown;
    let details: Vec<&LossDetail> = summary.loss_details.iter().filter(is_detail).collect();
    match details.as_slice() {
        [] => total,
        [all] if all.count == count => format!("{total}: {}", all.detail),
        some => {
            let some = some.iter().map(|loss| format!("{} ({})", loss.detail, format_count(loss.count)));
            format!("{total}: {}", some.collect::<Vec<_>>().join("; "))
        }
    }
}
