//! A comparison as JSON lines: configurations, then differences, then the rows of the heat map, and a summary at last.

use std::io::{self, Write};

use super::{ComparisonReport, view};

/// Cells of a row of the heat map, at most.
const CELLS: usize = 256;

/// Writes all of it.
///
/// # Errors
/// Those of `out`.
pub fn write(mut out: &mut dyn Write, compared: &ComparisonReport) -> io::Result<()> {
    let comparison = &compared.comparison;
    for (at, of) in comparison.configurations.iter().enumerate() {
        view::configuration(compared, at, of).write_json(&mut out)?;
    }
    for of in &comparison.differences {
        view::difference(compared, of).write_json(&mut out)?;
    }
    for row in view::rows(compared, &comparison.over_time(CELLS)) {
        row.write_json(&mut out)?;
    }
    view::summary(compared).write_json(&mut out)?;
    out.flush()
}
