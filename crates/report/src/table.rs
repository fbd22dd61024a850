//! Columns of text for people. Rows stream: a column is as wide as its heading, the first rows (which are held back)
//! and the widest cell so far; it never shrinks. Does not escape: cells are escaped when they are made.

use std::io::{self, Write};

use crate::paint::{Role, paint};

/// A cell wider than this does not widen its column: one odd name must not push every row off the screen.
const WIDEST: usize = 64;
/// Separator of columns.
const GAP: &str = "  ";

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
}

/// Heading and layout of a column.
#[derive(Clone, Copy, Debug)]
pub struct Heading {
    /// Its text.
    pub text: &'static str,
    align: Align,
    width: usize,
}

impl Heading {
    /// Heading of a column of text, at least `width` wide.
    pub const fn text(text: &'static str, width: usize) -> Self {
        Self { text, align: Align::Left, width }
    }

    /// Heading of a column of numbers, at least `width` wide.
    pub const fn number(text: &'static str, width: usize) -> Self {
        Self { text, align: Align::Right, width }
    }
}

/// A table that writes its rows as they arrive.
pub struct Table<W> {
    out: W,
    columns: Vec<Heading>,
    pending: Vec<Vec<String>>,
    lookahead: usize,
    /// Spaces before each line.
    pub(crate) indent: usize,
    /// Whether headings are in colour.
    pub(crate) colour: bool,
    has_headings: bool,
    /// The line being written.
    line: Vec<u8>,
}

impl<W: Write> Table<W> {
    /// Creates a table of these columns. It holds back `lookahead` rows to learn their widths.
    pub fn new(out: W, columns: Vec<Heading>, lookahead: usize) -> Self {
        let columns = columns
            .into_iter()
            .map(|column| Heading { width: column.width.max(column.text.chars().count()), ..column })
            .collect();
        Self {
            out,
            columns,
            pending: Vec::new(),
            lookahead,
            indent: 0,
            colour: false,
            has_headings: false,
            line: Vec::new(),
        }
    }

    /// Makes the columns wide enough for a row that comes later.
    pub fn measure(&mut self, cells: &[impl AsRef<str>]) {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.width = column.width.max(width(cell.as_ref()).min(WIDEST));
        }
    }

    /// Adds a row: one cell per column, in order.
    /// Allocates nothing after the first rows are written.
    pub fn row(&mut self, cells: &[impl AsRef<str>]) -> io::Result<()> {
        if !self.has_headings {
            self.measure(cells);
            if self.pending.len() < self.lookahead {
                self.pending.push(cells.iter().map(|cell| cell.as_ref().to_owned()).collect());
                return Ok(());
            }
            self.release()?;
        }
        self.print(cells)
    }

    /// Writes the headings and the rows held back. A table without rows still has its headings.
    pub fn release(&mut self) -> io::Result<()> {
        if !self.has_headings {
            self.has_headings = true;
            let headings = self.columns.iter().map(|column| column.text).collect::<Vec<_>>();
            self.lay_out(&headings);
            let headings = String::from_utf8_lossy(&self.line);
            writeln!(self.out, "{}", paint(self.colour, Role::Heading, &headings))?;
        }
        for cells in std::mem::take(&mut self.pending) {
            self.print(&cells)?;
        }
        Ok(())
    }

    /// Writes a line of text below the previous row, indented by `blanks` spaces.
    pub fn note(&mut self, blanks: usize, text: &str) -> io::Result<()> {
        self.release()?;
        writeln!(self.out, "{:indent$}{text}", "", indent = self.indent + blanks)
    }

    /// Writes the rows held back and flushes the output.
    pub fn finish(&mut self) -> io::Result<()> {
        self.release()?;
        self.out.flush()
    }

    /// The output.
    pub(crate) fn output(&mut self) -> &mut W {
        &mut self.out
    }

    fn print(&mut self, cells: &[impl AsRef<str>]) -> io::Result<()> {
        self.lay_out(cells);
        self.line.push(b'\n');
        self.out.write_all(&self.line)
    }

    /// Makes the columns wide enough for the row and puts it into `line`.
    fn lay_out(&mut self, cells: &[impl AsRef<str>]) {
        self.line.clear();
        pad(&mut self.line, self.indent);
        if !self.lay_out_narrow(cells) {
            self.lay_out_any(cells);
        }
        let used = self.line.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
        self.line.truncate(used);
    }

    /// Lays out a row of ASCII cells that fit the current columns: spaces, overwritten by the cells. Returns false for
    /// any other row.
    fn lay_out_narrow(&mut self, cells: &[impl AsRef<str>]) -> bool {
        let fits = |(column, cell): (&Heading, &str)| cell.len() <= column.width && cell.is_ascii();
        if !self.columns.iter().zip(cells.iter().map(AsRef::as_ref)).all(fits) {
            return false;
        }
        let whole = self.columns.iter().map(|column| column.width + GAP.len()).sum();
        pad(&mut self.line, whole);
        let (_, mut left) = self.line.split_at_mut(self.indent);
        for (column, cell) in self.columns.iter().zip(cells) {
            let cell = cell.as_ref().as_bytes();
            let Some((here, rest)) = left.split_at_mut_checked(column.width + GAP.len()) else { break };
            let from = if column.align == Align::Left { 0 } else { column.width - cell.len() };
            if let Some(place) = here.get_mut(from..from + cell.len()) {
                place.copy_from_slice(cell);
            }
            left = rest;
        }
        true
    }

    fn lay_out_any(&mut self, cells: &[impl AsRef<str>]) {
        let Self { line, columns, .. } = self;
        for (i, (column, cell)) in columns.iter_mut().zip(cells).enumerate() {
            if i > 0 {
                line.extend_from_slice(GAP.as_bytes());
            }
            let cell = cell.as_ref();
            let width = width(cell);
            column.width = column.width.max(width.min(WIDEST));
            let padding = column.width.saturating_sub(width);
            match column.align {
                Align::Left => {
                    line.extend_from_slice(cell.as_bytes());
                    pad(line, padding);
                }
                Align::Right => {
                    pad(line, padding);
                    line.extend_from_slice(cell.as_bytes());
                }
            }
        }
    }
}

/// Number of characters; ASCII text has as many as bytes.
fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

fn pad(line: &mut Vec<u8>, blanks: usize) {
    line.resize(line.len() + blanks, b' ');
}

#[cfg(test)]
mod tests {
    use super::{Heading, Table};

    fn render(lookahead: usize) -> String {
        let mut out = Vec::new();
        let mut table =
            Table::new(&mut out, vec![Heading::text("NAME", 0), Heading::number("N", 2)], lookahead);
        for (name, n) in [("a", "1"), ("longer", "100"), ("b", "2")] {
            table.row(&[name, n]).unwrap();
        }
        table.finish().unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lookahead_rows_align_with_later_rows() {
        assert_eq!(render(9), "NAME      N\na         1\nlonger  100\nb         2\n");
    }

    #[test]
    fn columns_widen_without_lookahead() {
        assert_eq!(render(0), "NAME   N\na      1\nlonger  100\nb         2\n");
    }

    #[test]
    fn width_of_a_long_cell_is_limited() {
        let mut out = Vec::new();
        let mut table = Table::new(&mut out, vec![Heading::text("A", 1), Heading::text("B", 1)], 9);
        table.row(&["x".repeat(5_000), "y".to_owned()]).unwrap();
        table.row(&["x", "y"]).unwrap();
        table.finish().unwrap();
        let last = String::from_utf8(out).unwrap().lines().last().unwrap().len();
        assert_eq!(last, super::WIDEST + 3);
    }
}
