//! Verdicts for people: the totals; every root with what was seen of it and the requests it slowed, the one
//! that took most time first; then what to change and what all of it rests on.

mod closing;
mod doubts;
mod requests;
mod root;
mod row;
mod story;
pub(super) mod timeline;
mod witness;

use std::collections::HashSet;
use std::io::{self, Write};

use diagnose::{RootTotal, Summary};
use model::{Cause, Verdict};

use super::group::{Group, Groups, Limits};
use super::why_not::Questions;
use super::{Conclusion, ExplanationReport};
use crate::Style;
use crate::escape::escape;
use crate::quantity::{format_count, format_count_of};
use crate::table::{Column, Table};

/// Roots told in full; of the others, the first of each cause is.
const TOLD_IN_FULL: usize = 3;
/// Roots named at all.
const NAMED: usize = 20;

/// Verdicts as text.
pub struct ExplanationText<W> {
    out: W,
    groups: Groups,
    questions: Questions,
    style: Style,
    /// Whether each verdict is told at once, in a line, and whether one was.
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
            writeln!(self.out, "{}", row::head(&self.style))?;
        }
        writeln!(self.out, "{}", row::of(&self.style, verdict))
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
        let columns = vec![
            Column::text("CAUSE", 0),
            Column::number("ROOTS", 0),
            Column::number("REQUESTS", 0),
            Column::number("TIME", 0),
        ];
        let mut table =
            Table::new(&mut self.out, columns, usize::MAX).indented(2).coloured(self.style.colour);
        for total in &summary.by_cause {
            let roots = summary.by_root.iter().filter(|root| root.cause == total.cause).count();
            let cells = [format_count(roots as u64), format_count(total.requests), total.time.to_string()];
            table.row([total.cause.to_string()].into_iter().chain(cells).collect())?;
        }
        table.finish()
    }

    fn roots(&mut self, told: &[(&RootTotal, &Group)]) -> io::Result<()> {
        let mut causes = HashSet::new();
        let mut after_line = false;
        for (number, &(total, group)) in (1..).zip(told) {
            let first = causes.insert(total.cause);
            let in_full = self.style.wide || number <= TOLD_IN_FULL || first;
            if in_full || !after_line {
                writeln!(self.out)?;
            }
            root::heading(&mut self.out, &self.style, number, total, group, in_full)?;
            if in_full {
                self.in_full(total, group)?;
            }
            after_line = !in_full;
        }
        Ok(())
    }

    fn in_full(&mut self, total: &RootTotal, group: &Group) -> io::Result<()> {
        root::evidence(&mut self.out, &self.style, total, group)?;
        requests::table(&mut self.out, &self.style, total, group)?;
        self.examples(total.cause, group)
            .into_iter()
            .try_for_each(|verdict| story::tell(&mut self.out, &self.style, verdict))
    }

    /// The requests whose whole story is told. Those that nothing explains have no story in common.
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
        let told = told.take(if self.style.wide { usize::MAX } else { NAMED }).collect::<Vec<_>>();
        self.roots(&told)?;
        self.untold_roots(summary, &told, groups.len())?;
        closing::advice(&mut self.out, &self.style, summary, &advice)?;
        doubts::tell(&mut self.out, &self.style, &self.questions.take())?;
        closing::basis(&mut self.out, &self.style, conclusion)?;
        self.out.flush()
    }
}
