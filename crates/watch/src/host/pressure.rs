//! Pressure stall information (Documentation/accounting/psi.rst), of the host or of a cgroup.

use std::path::Path;

use super::figures::Figure;
use super::text;

/// What is waited for, and the figures for some tasks and for all tasks waiting.
const RESOURCES: [(&str, &str, &str); 3] = [
    ("cpu", "pressure_cpu_some_ratio", "pressure_cpu_full_ratio"),
    ("memory", "pressure_memory_some_ratio", "pressure_memory_full_ratio"),
    ("io", "pressure_io_some_ratio", "pressure_io_full_ratio"),
];

/// Adds the figures of the files `cpu`, `memory` and `io` in a directory, their names ended by `suffix`.
pub(super) fn sample(dir: &Path, suffix: &str, figure: &mut Figure<'_>) {
    for (resource, some, full) in RESOURCES {
        let Some(text) = text::read(&dir.join(format!("{resource}{suffix}"))) else { continue };
        figure.rate(some, total_us(&text, "some"), 1e-6);
        figure.rate(full, total_us(&text, "full"), 1e-6);
    }
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234`, in microseconds.
fn total_us(text: &str, line: &str) -> Option<u64> {
    let line = text.lines().find(|candidate| candidate.split(' ').next() == Some(line))?;
    line.split(' ').find_map(|word| word.strip_prefix("total="))?.parse().ok()
}
