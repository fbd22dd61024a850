//! Text for people, line by line: headings, bullets, wrapped text, and tables with the number of rows left out. Does not
//! know the content.

use std::borrow::Cow;
use std::io::{self, Write};

use crate::Style;
use crate::escape::escape;
use crate::paint::{Role, paint};
use crate::quantity::format_count;
use crate::rows::{Report, Writer};
use crate::wrap::{WIDTH, wrap_to};

/// Columns before tables and bullets.
pub(crate) const INDENT: usize = 2;

/// Writes text in one style.
pub(crate) struct TextWriter<W> {
    pub(crate) out: W,
    pub(crate) style: Style,
    /// Columns of a line.
    pub(crate) width: usize,
}

impl<W: Write> TextWriter<W> {
    pub(crate) fn new(out: W, style: &Style) -> Self {
        Self { out, style: style.clone(), width: WIDTH }
    }

    /// Writes a heading below an empty line.
    pub(crate) fn heading(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "\n{}", self.style.heading(text))
    }

    /// Writes wrapped text in the colour of its role. The first line follows the prefix `before`. The text starts at
    /// column `first` of the first line, and at column `rest` of the others.
    pub(crate) fn wrap(
        &mut self,
        before: &str,
        (first, rest): (usize, usize),
        text: &str,
        role: Option<Role>,
    ) -> io::Result<()> {
        let mut before = Cow::Borrowed(before);
        for line in wrap_to(self.width, &escape(text), first, rest) {
            let line = role.map_or(line.clone(), |role| paint(self.style.colour, role, &line));
            writeln!(self.out, "{before}{line}")?;
            before = " ".repeat(rest).into();
        }
        Ok(())
    }

    /// Writes text behind a bullet.
    pub(crate) fn bullet(&mut self, text: &str) -> io::Result<()> {
        self.wrap("  - ", (INDENT + 2, INDENT + 2), text, None)
    }

    /// Writes a table of all these rows.
    pub(crate) fn table<'r, R: Report>(
        &mut self,
        report: &R,
        rows: impl IntoIterator<Item = &'r R::Row<'r>>,
    ) -> io::Result<()>
    where
        R::Row<'r>: 'r,
    {
        Writer::table(&mut self.out, report, &self.style.aligned(), INDENT).write_all(rows)
    }

    /// Writes how many more there are, if any.
    pub(crate) fn more(&mut self, count: usize) -> io::Result<()> {
        if count == 0 {
            return Ok(());
        }
        let (count, how) = (format_count(count as u64), self.style.flag_for_all());
        writeln!(self.out, "{:INDENT$}… and {count} more{how}", "")
    }
}

#[cfg(test)]
mod tests {
    use super::TextWriter;
    use crate::Style;

    #[test]
    fn wrapped_bullet_text_is_indented() {
        let mut text = TextWriter::new(Vec::new(), &Style::default());
        text.bullet(&"word ".repeat(30)).unwrap();
        let shown = String::from_utf8(text.out).unwrap();
        assert!(shown.starts_with("  - word") && shown.contains("\n    word"), "{shown}");
    }
}
