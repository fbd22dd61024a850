//! The confusion matrix: rows are what was injected, columns what was named. As text, JSON and Markdown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use serde_json::json;

use super::result::{Bounds, FaultResult, Target, is_quiet, targets};
use super::score::{Score, UNOBSERVED, percent};
use crate::error::Result;
use crate::files;

/// How it is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// For a terminal
    #[default]
    Table,
    /// One object
    Json,
    /// For a README
    Markdown,
}

/// What the first three columns say.
const JUDGEMENTS: [&str; 3] = ["RIGHT", "SEEN", "WRONG"];
const JUDGED: &str = "\
RIGHT: the verdict names what was injected. SEEN: it names something that was not injected, but that other data shows for at
least half of the request's time: a pause in the JVM's own log; slow requests of the machine's own disk in the kernel's
counters, if the broker's logs are on that disk; for quiet also a wait for a CPU or the device in the kernel's statistics; in
the short form, which is for busy machines too, such a wait for a CPU for every fault. SEEN counts as right. WRONG: the
verdict names anything else, or nothing; also a pause that the JVM's log does not have, and what was injected if all threads
were stopped for so much of the time that the rest was not slow. The other data does not come from brokerscope.";

/// What is printed of all runs.
pub(super) struct Matrix<'a> {
    results: &'a [FaultResult],
    rows: Vec<Row>,
    /// Causes that were named, those that were injected first.
    columns: Vec<String>,
    targets: Vec<Target>,
}

/// What was injected by one fault, for one kind of its requests.
struct Row {
    fault: String,
    injected: String,
    /// Named as injected, observed, and wrong or not at all.
    judged: [u64; 3],
    /// By column.
    counts: Vec<u64>,
}

impl<'a> Matrix<'a> {
    pub(super) fn of(results: &'a [FaultResult], bounds: Bounds) -> Self {
        let columns = columns(results);
        let rows = results.iter().flat_map(|result| rows(result, &columns)).collect();
        Self { results, rows, columns, targets: targets(results, bounds) }
    }

    /// How many targets are missed.
    pub(super) fn missed(&self) -> usize {
        self.targets.iter().filter(|target| !target.reached).count()
    }

    pub(super) fn printed(&self, form: Form) -> String {
        match form {
            Form::Table => self.text(),
            Form::Json => format!("{:#}\n", self.json()),
            Form::Markdown => self.markdown(),
        }
    }

    /// Writes all forms into a directory.
    pub(super) fn keep(&self, directory: &Path) -> Result<()> {
        for (name, form) in
            [("matrix.txt", Form::Table), ("matrix.json", Form::Json), ("matrix.md", Form::Markdown)]
        {
            files::write(&directory.join(name), self.printed(form))?;
        }
        Ok(())
    }

    /// Columns have letters: their names would make it wider than any terminal.
    fn text(&self) -> String {
        let width = |of: fn(&Row) -> &str, least: usize| {
            self.rows.iter().map(|row| of(row).len()).max().unwrap_or(0).max(least)
        };
        let (fault, injected) = (width(|row| &row.fault, 5), width(|row| &row.injected, 8));
        let mut text = format!(
            "Per cent of the slow requests of each fault, by the cause that was named.\n{JUDGED}\n\n"
        );
        let _ = write!(text, "{:fault$}  {:injected$}  REQUESTS", "FAULT", "INJECTED");
        for heading in JUDGEMENTS {
            let _ = write!(text, "{heading:>7}");
        }
        for letter in self.letters() {
            let _ = write!(text, "{letter:>7}");
        }
        text.push('\n');
        for row in &self.rows {
            let whole = row.requests();
            let _ = write!(text, "{:fault$}  {:injected$}  {whole:>8}", row.fault, row.injected);
            for &count in row.judged.iter().chain(&row.counts) {
                let cell = if count == 0 { "·".to_owned() } else { format!("{:.1}", percent(count, whole)) };
                let _ = write!(text, "{cell:>7}");
            }
            text.push('\n');
        }
        text.push('\n');
        for (letter, cause) in self.letters().zip(&self.columns) {
            let _ = writeln!(text, "  {letter}  {cause}");
        }
        self.append_others(&mut text);
        self.append_targets(&mut text);
        text
    }

    /// What is no cell of the matrix, and some of what was wrong.
    fn append_others(&self, text: &mut String) {
        text.push('\n');
        for result in self.results {
            let _ = writeln!(text, "{} (seed {}): {}", result.fault, result.seed, result.in_short());
            for attempt in result.tried_again().flat_map(|window| &window.failed_attempts) {
                let _ = writeln!(text, "  tried again: {} ({})", attempt.failure, attempt.parameters);
            }
            for window in result.not_injected() {
                let why = window.failure.as_deref().unwrap_or_default();
                let _ = writeln!(text, "  not injected: {why} ({})", window.parameters);
            }
            for example in result.score.iter().flat_map(|score| &score.examples) {
                let _ = writeln!(text, "  {example}");
            }
        }
    }

    fn append_targets(&self, text: &mut String) {
        text.push('\n');
        for Target { what, found, reached } in &self.targets {
            let verdict = if *reached { "reached" } else { "MISSED" };
            let _ = writeln!(text, "{verdict:<7}  {what}: {found}");
        }
    }

    /// A list for each row, the most often named first: so many columns are too many for a page.
    fn markdown(&self) -> String {
        let mut text = String::from(
            "| fault | injected | slow requests | right: injected, % | right: observed, % | wrong or none, % | named, % |\n\
             |---|---|--:|--:|--:|--:|---|\n",
        );
        for row in &self.rows {
            let mut named: Vec<(u64, &String)> = row.counts.iter().copied().zip(&self.columns).collect();
            named.retain(|(count, _)| *count > 0);
            named.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
            let share =
                |(count, cause): &(u64, &String)| format!("{cause} {:.1}", percent(*count, row.requests()));
            let named: Vec<String> = named.iter().map(share).collect();
            let (whole, named) = (row.requests(), named.join(", "));
            let [injected, observed, wrong] = row.judged.map(|count| format!("{:.1}", percent(count, whole)));
            let _ = writeln!(
                text,
                "| {} | {} | {whole} | {injected} | {observed} | {wrong} | {named} |",
                row.fault, row.injected
            );
        }
        let _ = writeln!(text, "\n{JUDGED}\n");
        for Target { what, found, reached } in &self.targets {
            let _ = writeln!(text, "- {}: {what}: {found}", if *reached { "reached" } else { "**missed**" });
        }
        text
    }

    fn json(&self) -> serde_json::Value {
        let rows = self.rows.iter().map(|row| {
            let named: serde_json::Map<String, serde_json::Value> =
                self.columns.iter().cloned().zip(row.counts.iter().map(|&count| count.into())).collect();
            let [injected, observed, wrong] = row.judged;
            json!({
                "fault": row.fault,
                "injected": row.injected,
                "requests": row.requests(),
                "judged": {"injected": injected, "observed": observed, "wrong": wrong},
                "named": named,
            })
        });
        json!({"matrix": rows.collect::<Vec<_>>(), "targets": self.targets, "faults": self.results})
    }

    fn letters(&self) -> impl Iterator<Item = String> {
        // a … z, then aa, ab, …
        (0..self.columns.len()).map(|at| {
            let letter = |at: usize| char::from(b'a' + (at % 26) as u8);
            if at < 26 { letter(at).to_string() } else { format!("{}{}", letter(at / 26 - 1), letter(at)) }
        })
    }
}

impl Row {
    fn requests(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// What was injected, in the faults' order; then what else was named; unobserved last.
fn columns(results: &[FaultResult]) -> Vec<String> {
    let scores = || results.iter().filter_map(|result| result.score.as_ref());
    let injected = scores().flat_map(|score| score.named.keys());
    let named = |score: &Score| -> Vec<String> {
        let named = score.named.values().flat_map(BTreeMap::keys);
        named.chain(score.spurious.keys()).chain(score.observed_outside.keys()).cloned().collect()
    };
    let others: BTreeSet<String> = scores().flat_map(named).collect();
    let mut columns: Vec<String> = Vec::new();
    for cause in injected.cloned().chain(others) {
        if cause != UNOBSERVED && !columns.contains(&cause) {
            columns.push(cause);
        }
    }
    columns.push(UNOBSERVED.to_owned());
    columns
}

fn rows(result: &FaultResult, columns: &[String]) -> Vec<Row> {
    let Some(score) = &result.score else { return Vec::new() };
    let row = |injected: &str, judged, count: &dyn Fn(&String) -> u64| Row {
        fault: result.fault.clone(),
        injected: injected.to_owned(),
        judged,
        counts: columns.iter().map(count).collect(),
    };
    let of = |counts: &BTreeMap<String, u64>, name: &String| counts.get(name).copied().unwrap_or(0);
    if is_quiet(result) {
        // Who is given no cause where nothing was injected is judged rightly.
        let judged = [score.unexplained, score.observed_outside_count(), score.spurious_count()];
        let count = |cause: &String| {
            let unexplained = if cause == UNOBSERVED { score.unexplained } else { 0 };
            of(&score.spurious, cause) + of(&score.observed_outside, cause) + unexplained
        };
        return vec![row("nothing", judged, &count)];
    }
    let named = score.named.iter();
    named
        .map(|(injected, named)| {
            let (observed, wrong) = (of(&score.observed, injected), of(&score.wrong, injected));
            let right = named.values().sum::<u64>().saturating_sub(observed + wrong);
            row(injected, [right, observed, wrong], &|cause| of(named, cause))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::plan::{Truth, Window};

    fn result(fault: &str, injected: &str, named: &[(&str, u64)]) -> FaultResult {
        let counts: BTreeMap<String, u64> =
            named.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        let victims = counts.values().sum();
        let right = counts.get(injected).copied().unwrap_or(0);
        let score = Score {
            right,
            wrong: BTreeMap::from([(injected.to_owned(), victims - right)]),
            named: BTreeMap::from([(injected.to_owned(), counts)]),
            victims,
            of_windows: vec![victims],
            ..Score::default()
        };
        let window = Window { truths: vec![Truth::of(&[injected])], ..Window::default() };
        FaultResult {
            fault: fault.to_owned(),
            seeds: 1,
            windows: vec![window],
            score: Some(score),
            ..FaultResult::default()
        }
    }

    #[test]
    fn rows_are_injected_and_columns_named() {
        let results = [
            result("stall", "journal-commit", &[("journal-commit", 3), ("unobserved", 1)]),
            result("lock", "log-lock", &[("log-lock", 4)]),
        ];
        let matrix = Matrix::of(&results, Bounds::WANTED);
        assert_eq!(matrix.columns, ["journal-commit", "log-lock", "unobserved"]);
        let text = matrix.printed(Form::Table);
        assert!(
            text.contains("stall  journal-commit         4   75.0      ·   25.0   75.0      ·   25.0\n"),
            "{text}"
        );
        assert!(text.contains("MISSED   stall: at least 95 % right"), "{text}");
        let markdown = matrix.printed(Form::Markdown);
        assert!(
            markdown.contains(
                "| stall | journal-commit | 4 | 75.0 | 0.0 | 25.0 | journal-commit 75.0, unobserved 25.0 |\n"
            ),
            "{markdown}"
        );
        let json = matrix.json();
        assert_eq!(json["matrix"][0]["named"]["unobserved"], 1);
        assert_eq!(json["matrix"][0]["judged"]["wrong"], 1);
    }

    #[test]
    fn what_was_observed_is_a_column() {
        let mut observed = result("stall", "journal-commit", &[("journal-commit", 3), ("gc-pause", 1)]);
        let score = observed.score.as_mut().unwrap();
        score.observed.insert("journal-commit".to_owned(), 1);
        score.wrong.clear();
        let mut quiet = result("quiet", "nothing", &[]);
        quiet.windows[0].truths.clear();
        let score = quiet.score.as_mut().unwrap();
        score.unexplained = 2;
        score.observed_outside.insert("run-queue".to_owned(), 1);
        score.spurious.insert("run-queue".to_owned(), 1);
        let results = [observed, quiet];
        let matrix = Matrix::of(&results, Bounds::WANTED);
        let judged: Vec<[u64; 3]> = matrix.rows.iter().map(|row| row.judged).collect();
        assert_eq!(judged, [[3, 1, 0], [2, 1, 1]]);
        assert_eq!(matrix.rows[1].requests(), 4);
    }

    #[test]
    fn there_is_a_letter_for_every_column() {
        let named: Vec<(String, u64)> = (0..30).map(|at| (format!("cause-{at}"), 1)).collect();
        let named: Vec<(&str, u64)> = named.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        let results = [result("many", "x", &named)];
        let letters: Vec<String> = Matrix::of(&results, Bounds::WANTED).letters().collect();
        assert_eq!((letters[25].as_str(), letters[26].as_str()), ("z", "aa"));
    }
}
