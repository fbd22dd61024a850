//! A JVM's own log of the pauses of its threads (`-Xlog:safepoint`). Does not attribute them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lab::jvm::{Pause, pauses, pauses_argument};

use crate::table;

/// Its file in the JVM's working directory.
const FILE: &str = "safepoint.log";

/// The JVM's argument for it.
pub(super) fn argument() -> String {
    pauses_argument(Path::new(FILE))
}

/// The log of one JVM, read piece by piece.
pub(super) struct Log {
    path: PathBuf,
    read_count: usize,
}

impl Log {
    /// The log of a JVM that runs in this directory.
    pub(super) fn of(directory: &Path) -> Self {
        Self { path: directory.join(FILE), read_count: 0 }
    }

    /// The pauses since the last call.
    pub(super) fn next(&mut self) -> anyhow::Result<Vec<Pause>> {
        let mut all = pauses(&self.path)?;
        let new = all.split_off(self.read_count.min(all.len()));
        self.read_count += new.len();
        Ok(new)
    }
}

/// Whether the JVM pauses for this by itself, without requests: collections, and its housekeeping.
pub(super) fn is_its_own(stop: &Pause) -> bool {
    let name = stop.operation.as_str();
    name.starts_with("G1") || name.starts_with("Collect") || name == "Cleanup"
}

fn length(stop: &Pause) -> Duration {
    Duration::from_nanos(stop.end_ns.abs_diff(stop.start_ns))
}

/// The longest of some pauses in milliseconds; 0 if there are none.
pub(super) fn longest_ms<'s>(pauses: impl IntoIterator<Item = &'s Pause>) -> f64 {
    let longest = pauses.into_iter().map(length).max();
    longest.map_or(f64::NAN, |length| length.as_secs_f64() * 1e3)
}

/// Prints a row for each operation, the longest first.
pub(super) fn print(pauses: &[&Pause]) {
    let mut by_operation: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    for stop in pauses {
        by_operation.entry(&stop.operation).or_default().push(length(stop));
    }
    let mut rows: Vec<(&str, Vec<Duration>)> = by_operation.into_iter().collect();
    for (_, lengths) in &mut rows {
        lengths.sort_unstable();
    }
    rows.sort_by_key(|(_, lengths)| std::cmp::Reverse(lengths.last().copied()));
    let millis = |length: Option<&Duration>| {
        length.map_or_else(String::new, |length| format!("{:.3}", length.as_secs_f64() * 1e3))
    };
    table::print(
        &["stop for", "times", "median ms", "longest ms"],
        rows.iter().map(|(operation, lengths)| {
            let (middle, last) = (lengths.get(lengths.len() / 2), lengths.last());
            vec![(*operation).to_owned(), lengths.len().to_string(), millis(middle), millis(last)]
        }),
    );
}
