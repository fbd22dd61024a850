//! Verdicts for people: slowest first, grouped by the root they share, each with its stages and its
//! evidence in sentences; then advice once a cause, what was lost and what could not be seen.

use std::collections::HashSet;
use std::io::{self, Write};

use diagnose::{RootTotal, Summary};
use model::{Evidence, Nanos, Request, Verdict};

use super::group::{Advice, Group, Groups, Limits, Roots};
use super::{Conclusion, ExplanationReport, Unobservable};
use crate::escape::escape;
use crate::numbers::{NONE, counted, grouped, millis, or_none};
use crate::paint::{Role, paint};
use crate::requests::table::topic_shown;
use crate::table::{Column, Table};
use crate::{Look, Zone};

const COLUMNS: [Column; 8] = [
    Column::text("ARRIVAL TIME", 12),
    Column::text("END TIME", 12),
    Column::text("LATENCY(ms)", 0),
    Column::text("MESSAGE_ID", 0),
    Column::text("TOPIC", 0),
    Column::text("PARTITION", 0),
    Column::text("WAITED FOR", 0),
    Column::text("CONFIDENCE", 0),
];

/// How far below a request's row its sentences stand.
const SENTENCE_INDENT: usize = 4;

/// Verdicts as text.
pub struct ExplanationText<W> {
    out: W,
    groups: Groups,
    zone: Zone,
    wide: bool,
    colour: bool,
}

impl<W: Write> ExplanationText<W> {
    /// Text that looks like this.
    pub fn new(out: W, look: &Look) -> Self {
        let limits = if look.wide { Limits::LONG } else { Limits::SHORT };
        let groups = Groups::new(limits);
        Self { out, groups, zone: look.zone.clone(), wide: look.wide, colour: look.colour }
    }

    fn heading(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "\n{}", paint(self.colour, Role::Heading, text))
    }

    fn totals(&mut self, conclusion: &Conclusion) -> io::Result<()> {
        let summary = &conclusion.summary;
        writeln!(
            self.out,
            "{} of {} took {} or longer",
            grouped(summary.slow),
            counted(summary.requests, "request"),
            conclusion.slower_than,
        )?;
        if !summary.not_judged.is_empty() {
            let apis = summary.not_judged.iter().map(|(api, count)| format!("{api} {}", grouped(*count)));
            let apis = apis.collect::<Vec<_>>().join(", ");
            writeln!(
                self.out,
                "as slow, but not judged (their waiting may be on purpose): {}",
                escape(&apis)
            )?;
        }
        if summary.by_cause.is_empty() {
            return Ok(());
        }
        let columns = vec![
            Column::text("CAUSE", 0),
            Column::number("ROOTS", 0),
            Column::number("REQUESTS", 0),
            Column::number("TIME", 0),
        ];
        let mut table = Table::new(&mut self.out, columns, usize::MAX).indented(2).coloured(self.colour);
        for total in &summary.by_cause {
            let roots = summary.by_root.iter().filter(|root| root.cause == total.cause).count();
            let cells = [grouped(roots as u64), grouped(total.requests), total.time.to_string()];
            table.row([total.cause.to_string()].into_iter().chain(cells).collect())?;
        }
        table.finish()
    }

    fn group(&mut self, root: &str, group: &Group, total: Option<&RootTotal>) -> io::Result<()> {
        let told = group.verdicts.len() as u64;
        let requests = total.map_or(told, |total| total.requests);
        let time = total.map_or_else(|| latency_sum(group), |total| total.time);
        let text = total.map(|total| total.text.as_str()).filter(|text| !text.is_empty()).unwrap_or(root);
        self.heading(&format!("{} → {}, {time}", escape(text), counted(requests, "request")))?;
        self.requests(group)?;
        let untold = requests.saturating_sub(told);
        if untold > 0 {
            writeln!(self.out, "  … and {} more{}", grouped(untold), self.how_to_see_all())?;
        }
        Ok(())
    }

    fn requests(&mut self, group: &Group) -> io::Result<()> {
        let mut table = Table::new(&mut self.out, COLUMNS.to_vec(), 0).indented(2);
        let rows = group.verdicts.iter().map(|verdict| cells(verdict, &self.zone)).collect::<Vec<_>>();
        for row in &rows {
            table.measure(row);
        }
        for (verdict, row) in group.verdicts.iter().zip(rows) {
            table.row(row)?;
            for sentence in sentences(verdict, &self.zone, self.wide) {
                table.note(SENTENCE_INDENT, &sentence)?;
            }
        }
        Ok(())
    }

    fn how_to_see_all(&self) -> &'static str {
        if self.wide { "" } else { " (--wide shows all, --format json even more)" }
    }

    fn untold_roots(&mut self, summary: &Summary, told: &Roots) -> io::Result<()> {
        let told = told.iter().map(|(root, _)| root).collect::<HashSet<_>>();
        let untold = summary.by_root.iter().filter(|total| !told.contains(&total.root)).collect::<Vec<_>>();
        if untold.is_empty() {
            return Ok(());
        }
        let requests = untold.iter().map(|total| total.requests).sum();
        let roots = counted(untold.len() as u64, "more root");
        let all = self.how_to_see_all();
        writeln!(self.out, "\n… and {roots} → {}{all}", counted(requests, "request"))
    }

    fn advice(&mut self, advice: &Advice) -> io::Result<()> {
        let mut told = HashSet::new();
        for (cause, sentences) in advice {
            let new = sentences.iter().filter(|sentence| told.insert(**sentence)).collect::<Vec<_>>();
            if new.is_empty() {
                continue;
            }
            self.heading(&format!("What to change about {cause}"))?;
            for sentence in new {
                writeln!(self.out, "  - {sentence}")?;
            }
        }
        Ok(())
    }

    fn losses(&mut self, conclusion: &Conclusion) -> io::Result<()> {
        let summary = &conclusion.summary;
        let lost = summary.losses.iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>();
        if !lost.is_empty() {
            self.heading("What was lost")?;
        }
        for (kind, count) in lost {
            writeln!(self.out, "  - {}: {}", kind.as_str(), grouped(*count))?;
        }
        if !conclusion.unobservable.is_empty() {
            self.heading("What could not be observed, and why")?;
        }
        for Unobservable { what, why } in &conclusion.unobservable {
            writeln!(self.out, "  - {}: {}", escape(what), escape(why))?;
        }
        if !conclusion.notes.is_empty() {
            self.heading("To be known")?;
        }
        for note in &conclusion.notes {
            writeln!(self.out, "  - {}", escape(note))?;
        }
        Ok(())
    }

    fn joins(&mut self, summary: &Summary) -> io::Result<()> {
        let joins = &summary.joins;
        // From packets alone there was nothing to join with.
        if joins.by_crc + joins.by_base_offset == 0 {
            return Ok(());
        }
        self.heading("How writes were found for requests")?;
        writeln!(
            self.out,
            "  {} by batch CRC, {} by base offset, {} not found",
            grouped(joins.by_crc),
            grouped(joins.by_base_offset),
            grouped(joins.unjoined),
        )
    }
}

impl<W: Write> ExplanationReport for ExplanationText<W> {
    fn verdict(&mut self, verdict: Verdict) -> io::Result<()> {
        self.groups.add(verdict);
        Ok(())
    }

    fn finish(&mut self, conclusion: &Conclusion) -> io::Result<()> {
        let (groups, advice) = self.groups.take();
        self.totals(conclusion)?;
        for (root, group) in &groups {
            let total = conclusion.summary.by_root.iter().find(|total| total.root == *root);
            self.group(root, group, total)?;
        }
        self.untold_roots(&conclusion.summary, &groups)?;
        self.advice(&advice)?;
        self.joins(&conclusion.summary)?;
        self.losses(conclusion)?;
        self.out.flush()
    }
}

fn latency_sum(group: &Group) -> Nanos {
    group.verdicts.iter().filter_map(|verdict| verdict.request.latency()).sum()
}

fn cells(verdict: &Verdict, zone: &Zone) -> Vec<String> {
    let request = &verdict.request;
    let chain = verdict.chain.iter().map(|cause| cause.as_str()).collect::<Vec<_>>();
    let first = request.partitions.first();
    let ids = request.partitions.iter().flat_map(|partition| &partition.message_ids).collect::<Vec<_>>();
    vec![
        zone.time_of_day(request.arrival),
        or_none(request.end.map(|end| zone.time_of_day(end))),
        or_none(request.latency().map(millis)),
        ids.first().map_or_else(|| NONE.to_owned(), |id| format!("{}{}", escape(id), and_more(ids.len()))),
        first.map_or_else(|| NONE.to_owned(), topic_shown),
        or_none(first.map(|first| format!("{}{}", first.partition, and_more(request.partitions.len())))),
        if chain.is_empty() { verdict.cause.to_string() } else { chain.join(" ← ") },
        verdict.confidence.to_string(),
    ]
}

/// ` +3` where three more follow the one shown.
fn and_more(count: usize) -> String {
    if count > 1 { format!(" +{}", count - 1) } else { String::new() }
}

/// What is told of one request below its row.
fn sentences(verdict: &Verdict, zone: &Zone, wide: bool) -> Vec<String> {
    let mut sentences = vec![stages(verdict)];
    if wide {
        sentences.push(origin(&verdict.request));
    }
    sentences.extend(verdict.evidence.iter().map(|evidence| evidence_sentence(evidence, zone)));
    sentences.extend(verdict.losses.iter().map(|loss| format!("near a loss: {}", escape(loss))));
    sentences.extend(verdict.request.error.iter().map(|error| format!("unreadable: {}", escape(error))));
    sentences
}

fn stages(verdict: &Verdict) -> String {
    let spent = verdict.stages.iter().filter(|(_, length)| *length > Nanos::ZERO);
    let spent = spent.map(|(stage, length)| format!("{} {length}", stage.as_str())).collect::<Vec<_>>();
    format!("stages: {}", if spent.is_empty() { NONE.to_owned() } else { spent.join(", ") })
}

fn origin(request: &Request) -> String {
    let client = request.client_id.as_deref().map(|id| format!(" \"{}\"", escape(id))).unwrap_or_default();
    format!(
        "{} v{} number {} from {}{client}",
        escape(request.api),
        request.api_version,
        request.correlation_id,
        request.client,
    )
}

fn evidence_sentence(evidence: &Evidence, zone: &Zone) -> String {
    let thread = match (&evidence.thread, evidence.tid) {
        (Some(name), Some(tid)) => format!(" [{} {tid}]", escape(name)),
        (Some(name), None) => format!(" [{}]", escape(name)),
        (None, Some(tid)) => format!(" [thread {tid}]"),
        (None, None) => String::new(),
    };
    format!("{}  {}{thread}", zone.time_of_day(evidence.start), escape(&evidence.text))
}
