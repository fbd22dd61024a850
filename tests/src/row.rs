//! The output of `brokerscope requests --format json`: rows and the summary. Does not judge them.

use std::collections::HashMap;

use serde_json::Value;

/// The key of a request in a run: the client's end, its correlation id, and a count of equal ids (a client may use one
/// twice, and a port may be reused).
pub type Key = (String, i64, usize);

/// The rows and the summary of one run.
#[derive(Clone, Debug)]
pub struct Output {
    /// One object per request, in the order printed.
    pub rows: Vec<Value>,
    /// The last line.
    pub summary: Value,
}

impl Output {
    /// Reads the output of `requests --format json`.
    ///
    /// # Panics
    /// If a line is not an object of a known type or the summary is not the last line.
    pub fn parse(stdout: &str) -> Self {
        let mut objects: Vec<Value> = stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}")))
            .collect();
        let summary = objects.pop().expect("a summary is printed also where there is no row");
        assert_eq!(summary["type"], "summary", "the last line is the summary");
        for row in &objects {
            assert_eq!(row["type"], "request", "{row}");
        }
        Self { rows: objects, summary }
    }

    /// A counter of the summary.
    ///
    /// # Panics
    /// If the summary lacks it.
    pub fn count(&self, name: &str) -> u64 {
        self.summary[name].as_u64().unwrap_or_else(|| panic!("no count {name} in {}", self.summary))
    }

    /// The rows by key, in order of arrival within a connection.
    pub fn by_key(&self) -> HashMap<Key, &Value> {
        by_key(self.rows.iter())
    }
}

/// Assigns keys to rows; [`Key`] counts equal correlation ids in order of arrival.
pub fn by_key<'a>(rows: impl Iterator<Item = &'a Value>) -> HashMap<Key, &'a Value> {
    let mut rows: Vec<&Value> = rows.collect();
    rows.sort_by_key(|row| row["arrival_ns"].as_i64());
    let mut numbers = Numbering::default();
    rows.into_iter().map(|row| (numbers.key(&client(row), correlation_id(row)), row)).collect()
}

/// Assigns keys in order.
#[derive(Debug, Default)]
pub struct Numbering(HashMap<(String, i64), usize>);

impl Numbering {
    /// The key of the next request of that client with that number.
    pub fn key(&mut self, client: &str, correlation_id: i64) -> Key {
        let seen = self.0.entry((client.to_owned(), correlation_id)).or_default();
        *seen += 1;
        (client.to_owned(), correlation_id, *seen - 1)
    }
}

/// The client's end of a row's connection.
pub fn client(row: &Value) -> String {
    row["client"].as_str().unwrap_or_else(|| panic!("no client in {row}")).to_owned()
}

/// A row's correlation id.
pub fn correlation_id(row: &Value) -> i64 {
    row["correlation_id"].as_i64().unwrap_or_else(|| panic!("no correlation id in {row}"))
}
