//! A table for a terminal, with columns as wide as their contents.

/// Prints a table; every row has as many cells as there are headings.
pub(crate) fn print(headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    let mut lines = vec![headings.iter().map(|&heading| heading.to_owned()).collect::<Vec<_>>()];
    lines.extend(rows);
    let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(String::len).max();
    let widths: Vec<usize> = (0..headings.len()).map(|column| width(column).unwrap_or(0)).collect();
    for line in &lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        println!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}
