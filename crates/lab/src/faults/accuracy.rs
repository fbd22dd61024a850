//! Results of a run of the whole matrix, as the repository keeps them: README and the accuracy page quote them.

use serde::{Deserialize, Serialize};

use super::matrix::Row;
use super::result::Target;

/// File name in a run's directory.
pub(super) const ACCURACY: &str = "accuracy.json";

/// A run of the matrix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Accuracy {
    /// The day on which it started, UTC.
    pub(super) date: String,
    /// The first seed.
    pub(super) seed: u64,
    /// Number of windows of each fault.
    pub(super) seeds: u32,
    pub(super) matrix: Vec<Row>,
    pub(super) targets: Vec<Target>,
}

/// The documents quote the saved run; `BLESS=1` updates them.
#[cfg(test)]
mod documents {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::faults::ALL;
    use crate::faults::matrix::markdown_table;
    use crate::faults::score::percent;

    const PAGE: &str = "docs/explanation/accuracy.md";

    fn project(path: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
    }

    fn load_accuracy() -> Accuracy {
        let text = fs::read_to_string(project("docs/explanation/accuracy.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Checks that a part of a page, between comments, is this text.
    fn check_part(page: &str, text: &str) {
        let written = fs::read_to_string(project(page)).unwrap();
        let begin = format!("<!-- begin: {ACCURACY} -->\n");
        let (before, rest) = written.split_once(&begin).unwrap();
        let (_, after) = rest.split_once("<!-- end -->").unwrap();
        let expected = [before, &begin, "\n", text, "\n<!-- end -->", after].concat();
        if std::env::var_os("BLESS").is_some() {
            fs::write(project(page), &expected).unwrap();
        }
        let written = fs::read_to_string(project(page)).unwrap();
        assert!(written == expected, "{page} is not what the kept run says: make accuracy");
    }

    /// Every cause that brokerscope names, from its own reference.
    fn causes() -> BTreeSet<String> {
        let text = fs::read_to_string(project("docs/reference/causes.md")).unwrap();
        let headings = text.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'));
        // Two of the headings stand for no cause.
        headings.filter(|name| !["long-poll", "unobserved"].contains(name)).map(str::to_owned).collect()
    }

    impl Accuracy {
        /// Right verdicts and all verdicts, over the windows of faults.
        fn of_faults(&self) -> (u64, u64) {
            let rows = || self.rows_of_faults();
            (rows().map(|row| row.requests - row.judged.wrong).sum(), rows().map(|row| row.requests).sum())
        }

        fn rows_of_faults(&self) -> impl Iterator<Item = &Row> {
            self.matrix.iter().filter(|row| row.injected != "nothing")
        }

        fn faults(&self) -> BTreeSet<&str> {
            self.rows_of_faults().map(|row| row.fault.as_str()).collect()
        }

        /// The injected causes; `unobserved` is not one.
        fn injected(&self) -> BTreeSet<&str> {
            let known = causes();
            let rows = self.rows_of_faults().map(|row| row.injected.as_str());
            rows.filter(|injected| known.contains(*injected)).collect()
        }

        /// Faults of the lab that the run did not have.
        fn left_out(&self) -> String {
            let ran: BTreeSet<&str> = self.matrix.iter().map(|row| row.fault.as_str()).collect();
            let left_out = ALL.iter().filter(|fault| !ran.contains(fault.name));
            let left_out: Vec<String> = left_out.map(|fault| format!("`{}`", fault.name)).collect();
            if left_out.is_empty() { "none".to_owned() } else { left_out.join(", ") }
        }

        fn missed(&self) -> Vec<&Target> {
            self.targets.iter().filter(|target| !target.reached).collect()
        }

        /// The text in README.
        fn in_short(&self) -> String {
            let (right, all) = self.of_faults();
            let missed = match self.missed().len() {
                0 => "No target was missed.".to_owned(),
                1 => "One target was missed.".to_owned(),
                count => format!("{count} targets were missed."),
            };
            format!(
                "- {} of {} slow requests of {} injected faults ({:.2} %) got the right cause: the injected one, or one behind\n  \
                 it in the same chain. They cover {} of the {} causes. {missed}\n",
                group_thousands(right),
                group_thousands(all),
                self.faults().len(),
                percent(right, all),
                self.injected().len(),
                causes().len(),
            )
        }

        /// The text of the page.
        fn in_full(&self) -> String {
            let Self { date, seed, seeds, .. } = self;
            let (right, all) = self.of_faults();
            let missed: Vec<String> = self
                .missed()
                .iter()
                .map(|missed| format!("- Missed: {}: {}\n", missed.what, missed.found))
                .collect();
            let missed =
                if missed.is_empty() { "- No target was missed.\n".to_owned() } else { missed.concat() };
            let injected = self.injected();
            let others: Vec<String> = causes()
                .iter()
                .filter(|cause| !injected.contains(cause.as_str()))
                .map(|cause| format!("`{cause}`"))
                .collect();
            format!(
                "The run of {date} with `SEEDS={seeds} SEED={seed}`: {} of {} slow requests of injected faults \
                 ({:.2} %) were right. Faults that it did not have: {}.\n\n{missed}\n{}\nNone of its faults injects \
                 {}: the table measures these only as links of chains.\n",
                group_thousands(right),
                group_thousands(all),
                percent(right, all),
                self.left_out(),
                markdown_table(&self.matrix),
                others.join(", "),
            )
        }
    }

    /// Formats a number with commas between thousands.
    fn group_thousands(number: u64) -> String {
        let digits = number.to_string();
        let first = digits.len() % 3;
        let mut text = String::new();
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && at % 3 == first {
                text.push(',');
            }
            text.push(digit);
        }
        text
    }

    #[test]
    fn groups_thousands() {
        for (number, text) in
            [(0, "0"), (999, "999"), (1_000, "1,000"), (13_534, "13,534"), (1_234_567, "1,234,567")]
        {
            assert_eq!(group_thousands(number), text);
        }
    }

    #[test]
    fn documents_quote_the_stored_accuracy_run() {
        let accuracy = load_accuracy();
        check_part("README.md", &accuracy.in_short());
        check_part(PAGE, &accuracy.in_full());
    }

    #[test]
    fn stored_accuracy_run_has_only_known_faults() {
        let names: BTreeSet<&str> = ALL.iter().map(|fault| fault.name).collect();
        for row in load_accuracy().matrix {
            assert!(names.contains(row.fault.as_str()), "{}", row.fault);
        }
    }
}
