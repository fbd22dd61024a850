//! One declaration of a report's columns. Its table, CSV and JSON lines follow from it.
//!
//! A [`Report`] names its row type and lists its [`Column`]s; a column declares its heading for people, its name for
//! programs and how a [`Cell`] is made from a row; [`Column::row`] stands for all columns that `model` declares for a row.
//! [`Writer`] writes rows in any [`Format`]. A format is implemented here once, and a new column is one line in its
//! report, or none if `model` declares it.

use std::borrow::Cow;
use std::io::{self, Write};

use model::{ColumnType, Row, Value as RowValue};
use serde::Serialize;

pub use crate::cell::Cell;
use crate::cell::push_name;
use crate::distribution::Distribution;
use crate::table::{Heading, Table};
use crate::time_of_day::TimesOfDay;
use crate::{Style, csv, json};

/// Rows of one type and their columns.
pub trait Report: Sized {
    /// One row.
    type Row<'a>;
    /// The `type` of its JSON objects.
    const TYPE: &'static str;

    /// The columns in the order of CSV and JSON.
    /// Tables show them in this order too, the wide ones last.
    fn columns(&self) -> Vec<Column<Self>>;
}

/// The form of an output.
#[derive(Clone, Debug)]
pub enum Format {
    /// Aligned columns for people.
    Table(Style),
    /// One JSON object per line.
    Json,
    /// Comma-separated values with one line of names.
    Csv,
}

impl Format {
    /// Holds back all rows, so that the columns of a table fit every row.
    #[must_use]
    pub fn aligned(&self) -> Self {
        match self {
            Self::Table(style) => Self::Table(style.aligned()),
            other => other.clone(),
        }
    }
}

/// Takes rows one by one.
pub trait Sink<R: Report> {
    /// Takes one row.
    fn row<'a>(&mut self, row: &'a R::Row<'a>) -> io::Result<()>;

    /// Ends the output.
    fn finish(&mut self) -> io::Result<()>;
}

/// Makes a column's cell from a row.
type MakeCell<R> = Box<dyn for<'a> Fn(&'a <R as Report>::Row<'a>) -> Cell<'a>>;
/// Visits the values of a declared row.
type Visit<R> = Box<dyn for<'a> Fn(&'a <R as Report>::Row<'a>, model::ValueVisitor<'_>)>;

/// One column, or all columns of a declared row: its names for people and programs, and how its cells are made.
pub struct Column<R: Report> {
    heading: Heading,
    wide: bool,
    place: u8,
    in_json: bool,
    in_csv: bool,
    content: Content<R>,
}

enum Content<R: Report> {
    /// One cell.
    /// Its name is empty if only tables have the column; `lock.kind` is `kind` of the object `lock` in JSON and
    /// `lock_kind` in CSV.
    Cell(Cow<'static, str>, MakeCell<R>),
    /// The columns that `model` declares, some under other names or with other cells.
    Row {
        columns: Vec<model::Column>,
        visit: Visit<R>,
        renames: Vec<(&'static str, &'static str)>,
        replacements: Vec<(&'static str, MakeCell<R>)>,
    },
}

/// Default place of columns that only wide tables have.
const WIDE_PLACE: u8 = 100;

impl<R: Report> Column<R> {
    /// A column of text, at least `width` wide in tables.
    pub fn text(
        heading: &'static str,
        width: usize,
        field: impl Into<Cow<'static, str>>,
        cell: impl for<'a> Fn(&'a R::Row<'a>) -> Cell<'a> + 'static,
    ) -> Self {
        Self::new(Heading::text(heading, width), Content::Cell(field.into(), Box::new(cell)))
    }

    /// A column of numbers, right-aligned.
    pub fn number(
        heading: &'static str,
        width: usize,
        field: impl Into<Cow<'static, str>>,
        cell: impl for<'a> Fn(&'a R::Row<'a>) -> Cell<'a> + 'static,
    ) -> Self {
        Self::new(Heading::number(heading, width), Content::Cell(field.into(), Box::new(cell)))
    }

    /// A column for programs only.
    pub fn data(
        field: impl Into<Cow<'static, str>>,
        cell: impl for<'a> Fn(&'a R::Row<'a>) -> Cell<'a> + 'static,
    ) -> Self {
        Self::text("", 0, field, cell)
    }

    /// A column with a quantile (0 to 1) of a distribution of durations.
    pub(crate) fn percentile(
        heading: &'static str,
        field: &'static str,
        share: f64,
        of: impl for<'a> Fn(&'a R::Row<'a>) -> &'a Distribution + 'static,
    ) -> Self {
        Self::number(heading, 7, field, move |row| of(row).length_at(share).map(Cell::Length).into())
    }

    /// All columns that `model` declares for a row, for programs; they are empty without the row.
    pub fn row<M: Row + 'static>(row: impl for<'a> Fn(&'a R::Row<'a>) -> Option<&'a M> + 'static) -> Self {
        let columns = M::columns();
        let names = columns.iter().map(|column| column.name).collect::<Vec<_>>();
        let visit: Visit<R> = Box::new(move |of, out| match row(of) {
            Some(row) => row.visit(out),
            None => names.iter().for_each(|name| out(name, RowValue::Null)),
        });
        let content = Content::Row { columns, visit, renames: Vec::new(), replacements: Vec::new() };
        Self { in_json: true, in_csv: true, ..Self::new(Heading::text("", 0), content) }
    }

    fn new(heading: Heading, content: Content<R>) -> Self {
        let for_programs = matches!(&content, Content::Cell(field, _) if !field.is_empty());
        Self { heading, wide: false, place: 0, in_json: for_programs, in_csv: for_programs, content }
    }

    /// Gives one of the columns another name.
    #[must_use]
    pub fn rename(mut self, name: &'static str, to: &'static str) -> Self {
        if let Content::Row { renames, .. } = &mut self.content {
            renames.push((name, to));
        }
        self
    }

    /// Gives one of the columns other cells.
    #[must_use]
    pub fn replace(
        mut self,
        name: &'static str,
        cell: impl for<'a> Fn(&'a R::Row<'a>) -> Cell<'a> + 'static,
    ) -> Self {
        if let Content::Row { replacements, .. } = &mut self.content {
            replacements.push((name, Box::new(cell)));
        }
        self
    }

    /// Shows the column only in wide tables, on the right.
    #[must_use]
    pub fn wide(self) -> Self {
        Self { wide: true, place: WIDE_PLACE, ..self }
    }

    /// Shows the column in every table, at this place.
    #[must_use]
    pub fn always(self, place: u8) -> Self {
        Self { wide: false, place, ..self }
    }

    /// Sets the column's place in tables: lower places come first; columns of the same place keep their order.
    #[must_use]
    pub fn place(self, place: u8) -> Self {
        Self { place, ..self }
    }

    /// Omits the column from CSV.
    #[must_use]
    pub fn not_in_csv(self) -> Self {
        Self { in_csv: false, ..self }
    }

    /// Omits the column from JSON.
    #[must_use]
    pub fn not_in_json(self) -> Self {
        Self { in_json: false, ..self }
    }

    /// Its heading in tables; empty if no table has it.
    pub fn heading(&self) -> &'static str {
        self.heading.text
    }

    /// Its column names in CSV; rows within rows have none.
    fn csv_names(&self) -> Vec<String> {
        match &self.content {
            Content::Cell(field, _) => vec![field.replace('.', "_")],
            Content::Row { columns, .. } => {
                let flat = columns.iter().filter(|column| !matches!(column.column_type, ColumnType::Rows(_)));
                flat.map(|column| self.name_of(column.name).to_owned()).collect()
            }
        }
    }

    fn name_of(&self, name: &'static str) -> &'static str {
        let Content::Row { renames, .. } = &self.content else { return name };
        renames.iter().find(|(of, _)| *of == name).map_or(name, |(_, to)| to)
    }

    /// Passes its cells with their names to `take`.
    fn each<'a>(
        &self,
        row: &'a R::Row<'a>,
        take: &mut dyn FnMut(&str, &Cell<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        match &self.content {
            Content::Cell(field, cell) => take(field, &cell(row)),
            Content::Row { visit, replacements, .. } => {
                let mut result = Ok(());
                visit(row, &mut |name, value| {
                    if result.is_ok() {
                        let replacement = replacements.iter().find(|(of, _)| *of == name);
                        let cell = replacement.map_or_else(|| Cell::from(value), |(_, cell)| cell(row));
                        result = take(self.name_of(name), &cell);
                    }
                });
                result
            }
        }
    }
}

/// Writes rows in one format.
pub struct Writer<R: Report, W> {
    columns: Vec<Column<R>>,
    form: Form<W>,
}

enum Form<W> {
    Table { table: Table<W>, times: TimesOfDay, cells: Vec<String> },
    Json { out: W, line: Vec<u8>, object: JsonObject },
    Csv { out: W, line: Vec<u8>, has_names: bool },
}

impl<R: Report, W: Write> Writer<R, W> {
    /// Creates a writer of this report's rows to this output.
    pub fn new(out: W, report: &R, format: &Format) -> Self {
        let mut columns = report.columns();
        let form = match format {
            Format::Table(style) => return Self::table(out, report, style, 0),
            Format::Json => {
                columns.retain(|column| column.in_json);
                Form::Json { out, line: Vec::new(), object: JsonObject::new(R::TYPE, &columns) }
            }
            Format::Csv => {
                columns.retain(|column| column.in_csv);
                Form::Csv { out, line: Vec::new(), has_names: false }
            }
        };
        Self { columns, form }
    }

    /// Creates a table `indent` columns from the left.
    pub fn table(out: W, report: &R, style: &Style, indent: usize) -> Self {
        let mut columns = report.columns();
        columns.retain(|column| !column.heading().is_empty() && (style.wide || !column.wide));
        columns.sort_by_key(|column| column.place);
        let headings = columns.iter().map(|column| column.heading).collect();
        let mut table = Table::new(out, headings, style.lookahead);
        (table.colour, table.indent) = (style.colour, indent);
        let (times, cells) = (TimesOfDay::new(style.zone.clone()), vec![String::new(); columns.len()]);
        Self { columns, form: Form::Table { table, times, cells } }
    }

    /// Whether it writes a table.
    pub(crate) fn is_table(&self) -> bool {
        matches!(self.form, Form::Table { .. })
    }

    /// Whether it writes JSON.
    pub(crate) fn is_json(&self) -> bool {
        matches!(self.form, Form::Json { .. })
    }

    /// Writes the summary of the rows in JSON; other formats have no place for it.
    pub(crate) fn summary(&mut self, summary: &impl Serialize) -> io::Result<()> {
        if let Form::Json { out, .. } = &mut self.form { json::write_line(out, summary) } else { Ok(()) }
    }

    /// Writes one row.
    pub fn row<'a>(&mut self, row: &'a R::Row<'a>) -> io::Result<()> {
        self.start()?;
        match &mut self.form {
            Form::Table { table, times, cells } => {
                fill(&self.columns, row, times, cells);
                table.row(cells)
            }
            Form::Json { out, line, object } => {
                line.clear();
                object.write(line, &self.columns, row)?;
                line.push(b'\n');
                out.write_all(line)
            }
            Form::Csv { out, line, .. } => {
                line.clear();
                for column in &self.columns {
                    column.each(row, &mut |_, cell| match cell {
                        Cell::Rows(_) => Ok(()),
                        cell => {
                            cell.write_csv(line)?;
                            line.push(b',');
                            Ok(())
                        }
                    })?;
                }
                line.pop();
                line.push(b'\n');
                out.write_all(line)
            }
        }
    }

    /// Makes the columns of a table wide enough for a row that comes later.
    pub fn measure<'a>(&mut self, row: &'a R::Row<'a>) {
        if let Form::Table { table, times, cells } = &mut self.form {
            fill(&self.columns, row, times, cells);
            table.measure(cells);
        }
    }

    /// Writes these rows and ends the output.
    pub fn write_all<'a>(mut self, rows: impl IntoIterator<Item = &'a R::Row<'a>>) -> io::Result<()>
    where
        R::Row<'a>: 'a,
    {
        rows.into_iter().try_for_each(|row| self.row(row))?;
        self.finish()
    }

    /// The output, for lines that are not rows of this report.
    pub(crate) fn output(&mut self) -> &mut W {
        match &mut self.form {
            Form::Table { table, .. } => table.output(),
            Form::Json { out, .. } | Form::Csv { out, .. } => out,
        }
    }

    /// Writes a line of text below the last row of a table.
    pub fn note(&mut self, indent: usize, text: &str) -> io::Result<()> {
        if let Form::Table { table, .. } = &mut self.form { table.note(indent, text) } else { Ok(()) }
    }

    /// Writes the rows held back, and the line of names even without rows.
    pub fn finish(&mut self) -> io::Result<()> {
        self.start()?;
        match &mut self.form {
            Form::Table { table, .. } => table.finish(),
            Form::Json { out, .. } | Form::Csv { out, .. } => out.flush(),
        }
    }

    /// Writes the line of names that CSV starts with.
    fn start(&mut self) -> io::Result<()> {
        let Form::Csv { out, has_names, .. } = &mut self.form else { return Ok(()) };
        if std::mem::replace(has_names, true) {
            return Ok(());
        }
        let names = self.columns.iter().flat_map(Column::csv_names).collect::<Vec<_>>();
        csv::write_line(out, names.iter().map(String::as_str))
    }
}

/// Writes the text of each column.
fn fill<'a, R: Report>(
    columns: &[Column<R>],
    row: &'a R::Row<'a>,
    times: &mut TimesOfDay,
    texts: &mut [String],
) {
    for (column, text) in columns.iter().zip(texts) {
        text.clear();
        if let Content::Cell(_, cell) = &column.content {
            cell(row).write_text(times, text);
        }
    }
}

impl<R: Report, W: Write> Sink<R> for Writer<R, W> {
    fn row<'a>(&mut self, row: &'a R::Row<'a>) -> io::Result<()> {
        Writer::row(self, row)
    }

    fn finish(&mut self) -> io::Result<()> {
        Writer::finish(self)
    }
}

/// Writes rows of two reports as one CSV with the columns of both; fields that a row does not have are empty.
pub(crate) fn write_union<'r, A: Report, B: Report>(
    mut out: impl Write,
    (first, first_rows): (&A, &'r [A::Row<'r>]),
    (second, second_rows): (&B, &'r [B::Row<'r>]),
) -> io::Result<()> {
    let (first, second) = (csv_columns(first), csv_columns(second));
    let mut names = Vec::new();
    for name in first.iter().flat_map(Column::csv_names).chain(second.iter().flat_map(Column::csv_names)) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    csv::write_line(&mut out, names.iter().map(String::as_str))?;
    first_rows.iter().try_for_each(|row| write_known(&mut out, &names, &first, row))?;
    second_rows.iter().try_for_each(|row| write_known(&mut out, &names, &second, row))?;
    out.flush()
}

fn csv_columns<R: Report>(report: &R) -> Vec<Column<R>> {
    report.columns().into_iter().filter(|column| column.in_csv).collect()
}

/// Writes the fields of a row in the order of `names`.
fn write_known<'a, R: Report>(
    out: &mut impl Write,
    names: &[String],
    columns: &[Column<R>],
    row: &'a R::Row<'a>,
) -> io::Result<()> {
    let mut line = Vec::new();
    for name in names {
        let known =
            columns.iter().find(|column| matches!(&column.content, Content::Cell(field, _) if field == name));
        known.map_or(Ok(()), |column| column.each(row, &mut |_, cell| cell.write_csv(&mut line)))?;
        line.push(b',');
    }
    line.pop();
    line.push(b'\n');
    out.write_all(&line)
}

/// A row as the JSON object that its report writes, for use within another.
pub(crate) fn to_json<'a, R: Report>(report: &R, row: &'a R::Row<'a>) -> Vec<u8> {
    let mut columns = report.columns();
    columns.retain(|column| column.in_json);
    let mut line = Vec::new();
    // Writing to a vector cannot fail.
    let _ = JsonObject::new(R::TYPE, &columns).write(&mut line, &columns, row);
    line
}

/// The parts of a report's JSON objects that are the same in every row: a listing may have millions.
struct JsonObject {
    /// `{"type":"request"`.
    head: Vec<u8>,
    /// `,"name":` of each column that is one cell outside any object; empty for the others.
    names: Vec<Vec<u8>>,
}

impl JsonObject {
    fn new<R: Report>(kind: &str, columns: &[Column<R>]) -> Self {
        let mut head = b"{".to_vec();
        push_name(&mut head, "type");
        // Writing to a vector cannot fail.
        let _ = json::write(&mut head, &kind);
        let names = columns.iter().map(|column| match &column.content {
            Content::Cell(name, _) if !name.contains('.') => {
                let mut text = b",".to_vec();
                push_name(&mut text, name);
                text
            }
            _ => Vec::new(),
        });
        Self { head, names: names.collect() }
    }

    fn write<'a, R: Report>(
        &self,
        line: &mut Vec<u8>,
        columns: &[Column<R>],
        row: &'a R::Row<'a>,
    ) -> io::Result<()> {
        line.extend_from_slice(&self.head);
        let mut objects = Objects { open: None };
        for (column, name) in columns.iter().zip(&self.names) {
            match &column.content {
                Content::Cell(_, cell) if !name.is_empty() => {
                    let cell = cell(row);
                    if !matches!(cell, Cell::Absent) {
                        objects.close(line);
                        line.extend_from_slice(name);
                        cell.write_json(line)?;
                    }
                }
                _ => column.each(row, &mut |name, cell| objects.cell(line, name, cell))?,
            }
        }
        objects.close(line);
        line.push(b'}');
        Ok(())
    }
}

/// Objects within a row's: `lock.kind` is `kind` of the object `lock`.
struct Objects {
    open: Option<String>,
}

impl Objects {
    fn cell(&mut self, line: &mut Vec<u8>, name: &str, cell: &Cell<'_>) -> io::Result<()> {
        if matches!(cell, Cell::Absent) {
            return Ok(());
        }
        let (object, name) = name.split_once('.').map_or((None, name), |(object, name)| (Some(object), name));
        if self.open.as_deref() == object {
            line.push(b',');
        } else {
            self.close(line);
            self.open(line, object);
        }
        push_name(line, name);
        cell.write_json(line)
    }

    fn open(&mut self, line: &mut Vec<u8>, object: Option<&str>) {
        line.push(b',');
        if let Some(object) = object {
            push_name(line, object);
            line.push(b'{');
        }
        self.open = object.map(str::to_owned);
    }

    fn close(&mut self, line: &mut Vec<u8>) {
        if self.open.take().is_some() {
            line.push(b'}');
        }
    }
}
