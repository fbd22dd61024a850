//! The confusion matrix: rows are injected causes, columns named ones. As text, JSON and Markdown.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::accuracy::{ACCURACY, Accuracy};
use super::result::{Bounds, FaultResult, Target, is_quiet, targets};
use super::score::{Score, UNOBSERVED, percent};
use crate::error::Result;
use crate::files;

/// Output format.
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

/// Headings of the first three columns.
const JUDGEMENTS: [&str; 3] = ["RIGHT", "SEEN", "WRONG"];
const JUDGED: &str = "\
RIGHT: the verdict names what was injected. SEEN: it names something that was not injected, but that other data shows for at
least half of the request's time: a pause in the JVM's own log; slow requests of the machine's own disk in the kernel's
counters, if the broker's logs are on that disk; for quiet also a wait for a CPU or the device in the kernel's statistics; in
the short form, which is for busy machines too, such a wait for a CPU for every fault. SEEN counts as right. WRONG: the
verdict names anything else, or nothing; also a pause that the JVM's log does not have, and what was injected if all threads
were stopped for so much of the time that the rest was not slow. The other data does not come from brokerscope.";

/// The output of all runs.
pub(super) struct Matrix<'a> {
    results: &'a [FaultResult],
    rows: Vec<Row>,
    /// Named causes, the injected ones first.
    columns: Vec<String>,
    targets: Vec<Target>,
}

/// The injected cause of one fault, for one kind of its requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) fault: String,
    pub(super) injected: String,
    /// Number of requests.
    pub(super) requests: u64,
    pub(super) judged: JudgementCounts,
    /// Number of requests by named cause.
    named: BTreeMap<String, u64>,
}

/// Number of verdicts by judgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JudgementCounts {
    /// Verdicts that named the injected cause.
    pub(super) injected: u64,
    /// Verdicts that named a cause that was observed independently.
    pub(super) observed: u64,
    /// Verdicts that named another cause, or none.
    pub(super) wrong: u64,
}

impl<'a> Matrix<'a> {
    pub(super) fn of(results: &'a [FaultResult], bounds: Bounds) -> Self {
        let columns = columns(results);
        let rows = results.iter().flat_map(rows).collect();
        Self { results, rows, columns, targets: targets(results, bounds) }
    }

    /// Number of missed targets.
    pub(super) fn missed(&self) -> usize {
        self.targets.iter().filter(|target| !target.reached).count()
    }

    pub(super) fn render(&self, form: Form) -> String {
        match form {
            Form::Table => self.text(),
            Form::Json => format!("{:#}\n", self.json()),
            Form::Markdown => self.markdown(),
        }
    }

    /// Writes all formats into a directory, and the data that the documents quote.
    pub(super) fn write(&self, directory: &Path) -> Result<()> {
        files::write_json(&directory.join(ACCURACY), &self.accuracy())?;
        for (name, form) in
            [("matrix.txt", Form::Table), ("matrix.json", Form::Json), ("matrix.md", Form::Markdown)]
        {
            files::write(&directory.join(name), self.render(form))?;
        }
        Ok(())
    }

    fn accuracy(&self) -> Accuracy {
        let first = self.results.first();
        let begun_ns = first.and_then(|result| result.windows.first()).map_or(0, |window| window.start_ns);
        let begun = Timestamp::from_nanosecond(begun_ns.into()).unwrap_or_default();
        Accuracy {
            date: begun.strftime("%Y-%m-%d").to_string(),
            seed: first.map_or(0, |result| result.seed),
            seeds: first.map_or(0, |result| result.seeds),
            matrix: self.rows.clone(),
            targets: self.targets.clone(),
        }
    }

    /// Columns have letters: with names, the matrix would be wider than any terminal.
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
            let whole = row.requests;
            let _ = write!(text, "{:fault$}  {:injected$}  {whole:>8}", row.fault, row.injected);
            let JudgementCounts { injected, observed, wrong } = row.judged;
            let named = self.columns.iter().map(|cause| row.named.get(cause).copied().unwrap_or(0));
            for count in [injected, observed, wrong].into_iter().chain(named) {
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

    /// Appends what is not a cell of the matrix, and examples of wrong verdicts.
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

    fn markdown(&self) -> String {
        let mut text = markdown_table(&self.rows);
        let _ = writeln!(text, "\n{JUDGED}\n");
        for Target { what, found, reached } in &self.targets {
            let _ = writeln!(text, "- {}: {what}: {found}", if *reached { "reached" } else { "**missed**" });
        }
        text
    }

    fn json(&self) -> serde_json::Value {
        json!({"matrix": self.rows, "targets": self.targets, "faults": self.results})
    }

    fn letters(&self) -> impl Iterator<Item = String> {
        // a … z, then aa, ab, …
        (0..self.columns.len()).map(|at| {
            let letter = |at: usize| char::from(b'a' + (at % 26) as u8);
            if at < 26 { letter(at).to_string() } else { format!("{}{}", letter(at / 26 - 1), letter(at)) }
        })
    }
}

/// Lists named causes in each row, the most frequent first: a column each would not fit on a page.
pub(super) fn markdown_table(rows: &[Row]) -> String {
    let mut text = String::from(
        "| fault | injected | slow requests | right: injected, % | right: observed, % | wrong or none, % | named, % |\n\
         |---|---|--:|--:|--:|--:|---|\n",
    );
    for Row { fault, injected, requests, judged, named } in rows {
        let mut named: Vec<_> = named.iter().collect();
        named.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let share =
            |(cause, count): &(&String, &u64)| format!("`{cause}` {:.1}", percent(**count, *requests));
        let named = named.iter().map(share).collect::<Vec<_>>().join(", ");
        let JudgementCounts { injected: right, observed, wrong } = *judged;
        let [right, observed, wrong] = [right, observed, wrong].map(|count| percent(count, *requests));
        let _ = writeln!(
            text,
            "| `{fault}` | `{injected}` | {requests} | {right:.1} | {observed:.1} | {wrong:.1} | {named} |"
        );
    }
    text
}

/// Injected causes, in the faults' order; then other named ones; unobserved last.
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

fn rows(result: &FaultResult) -> Vec<Row> {
    let Some(score) = &result.score else { return Vec::new() };
    let row = |injected: &str, judged, named: BTreeMap<String, u64>| Row {
        fault: result.fault.clone(),
        injected: injected.to_owned(),
        requests: named.values().sum(),
        judged,
        named,
    };
    if is_quiet(result) {
        // Where nothing was injected, a verdict without a cause is right.
        let judged = JudgementCounts {
            injected: score.unexplained,
            observed: score.observed_outside_count(),
            wrong: score.spurious_count(),
        };
        let unexplained = (UNOBSERVED.to_owned(), score.unexplained);
        let mut named = BTreeMap::new();
        for (cause, count) in
            score.spurious.clone().into_iter().chain(score.observed_outside.clone()).chain([unexplained])
        {
            *named.entry(cause).or_default() += count;
        }
        named.retain(|_, count| *count > 0);
        return vec![row("nothing", judged, named)];
    }
    let of = |counts: &BTreeMap<String, u64>, name: &String| counts.get(name).copied().unwrap_or(0);
    let named = score.named.iter();
    named
        .map(|(injected, named)| {
            let (observed, wrong) = (of(&score.observed, injected), of(&score.wrong, injected));
            let right = named.values().sum::<u64>().saturating_sub(observed + wrong);
            row(injected, JudgementCounts { injected: right, observed, wrong }, named.clone())
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
    fn rows_are_injected_causes_and_columns_are_named_causes() {
        let results = [
            result("stall", "journal-commit", &[("journal-commit", 3), ("unobserved", 1)]),
            result("lock", "log-lock", &[("log-lock", 4)]),
        ];
        let matrix = Matrix::of(&results, Bounds::FULL);
        assert_eq!(matrix.columns, ["journal-commit", "log-lock", "unobserved"]);
        let text = matrix.render(Form::Table);
        assert!(
            text.contains("stall  journal-commit         4   75.0      ·   25.0   75.0      ·   25.0\n"),
            "{text}"
        );
        assert!(text.contains("MISSED   stall: at least 95 % right"), "{text}");
        let markdown = matrix.render(Form::Markdown);
        assert!(
            markdown.contains(
                "| `stall` | `journal-commit` | 4 | 75.0 | 0.0 | 25.0 | `journal-commit` 75.0, `unobserved` 25.0 |\n"
            ),
            "{markdown}"
        );
        let json = matrix.json();
        assert_eq!(json["matrix"][0]["named"]["unobserved"], 1);
        assert_eq!(json["matrix"][0]["judged"]["wrong"], 1);
    }

    #[test]
    fn counts_observed_causes_apart_from_injected_ones() {
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
        let matrix = Matrix::of(&results, Bounds::FULL);
        let judged = |injected, observed, wrong| JudgementCounts { injected, observed, wrong };
        assert_eq!(matrix.rows[0].judged, judged(3, 1, 0));
        assert_eq!(matrix.rows[1].judged, judged(2, 1, 1));
        assert_eq!(matrix.rows[1].requests, 4);
    }

    #[test]
    fn every_column_has_a_letter() {
        let named: Vec<(String, u64)> = (0..30).map(|at| (format!("cause-{at}"), 1)).collect();
        let named: Vec<(&str, u64)> = named.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        let results = [result("many", "x", &named)];
        let letters: Vec<String> = Matrix::of(&results, Bounds::FULL).letters().collect();
        assert_eq!((letters[25].as_str(), letters[26].as_str()), ("z", "aa"));
    }
}
