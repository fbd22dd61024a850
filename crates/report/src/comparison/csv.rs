//! A comparison as CSV: one row for each figure of each configuration but the base, which every row holds too.

use std::io::{self, Write};

use super::{ComparisonReport, view};

/// Writes all of it.
///
/// # Errors
/// Those of `out`.
pub fn write(mut out: &mut dyn Write, compared: &ComparisonReport) -> io::Result<()> {
    for (at, of) in compared.comparison.differences.iter().enumerate() {
        let row = view::difference(compared, of);
        if at == 0 {
            row.write_csv_names(&mut out)?;
        }
        row.write_csv(&mut out)?;
    }
    out.flush()
}
