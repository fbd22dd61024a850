//! One declaration of a report's columns, from which its table, CSV and JSON lines follow.
//!
//! A [`Report`] names its row type and lists its [`Column`]s; a column says its heading for people, its name for
//! programs and how a [`Cell`] is made of a row; [`Column::row`] stands for all columns that `model` declares of a row.
//! [`Writer`] writes rows in any [`Format`]. A format is written here once, and a new column is one line in its
//! report, or none where `model` declares it.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, Write};

use model::row::Rows;
use model::{ColumnType, Nanos, Row, Value as RowValue};
use serde::Serialize;
use serde_json::Value;

use crate::escape::escape;
use crate::quantity::{NONE, format_bytes, format_count};
use crate::table::{Heading, Table};
use crate::time_of_day::TimesOfDay;
use crate::{Style, csv, json};

/// Rows of one type and their columns.
pub trait Report: Sized {
    /// One row.
    type Row<'a>;
    /// The `type` of its JSON objects.
    const TYPE: &'static str;

    /// The columns in the order of CSV and JSON. Tables show them in this order too, the wide ones last.
    fn columns(&self) -> Vec<Column<Self>>;
}

/// The form of an output.
#[derive(Clone, Debug)]
pub enum Format {
    /// Aligned columns for people.
    Table(Style),
    /// One JSON object a line.
    Json,
    /// Comma-separated values with one line of names.
    Csv,
}

impl Format {
    /// The same, for rows that are all there: the columns of a table fit every row.
    #[must_use]
    pub fn aligned(&self) -> Self {
        match self {
            Self::Table(style) => Self::Table(style.aligned()),
            other => other.clone(),
        }
    }
}

/// Takes rows one after the other.
pub trait Sink<R: Report> {
    /// Takes one row.
    fn row<'a>(&mut self, row: &'a R::Row<'a>) -> io::Result<()>;

    /// Ends the output.
    fn finish(&mut self) -> io::Result<()>;
}

/// How a column makes a cell of a row.
type MakeCell<R> = Box<dyn for<'a> Fn(&'a <R as Report>::Row<'a>) -> Cell<'a>>;
/// Hands out the values of a declared row.
type Visit<R> = Box<dyn for<'a> Fn(&'a <R as Report>::Row<'a>, model::ValueVisitor<'_>)>;

/// One column, or all that a declared row has: what people and programs call it, and how its cells are made.
pub struct Column<R: Report> {
    heading: Heading,
    wide: bool,
    place: u8,
    in_json: bool,
    in_csv: bool,
    content: Content<R>,
}

enum Content<R: Report> {
    /// One cell. Its name is empty for a column of tables only; `lock.kind` is `kind` of the object `lock` in JSON and
    /// `lock_kind` in CSV.
    Cell(Cow<'static, str>, MakeCell<R>),
    /// The columns that `model` declares, some under other names or with other cells.
    Row {
        columns: Vec<model::Column>,
        visit: Visit<R>,
        renamed: Vec<(&'static str, &'static str)>,
        replaced: Vec<(&'static str, MakeCell<R>)>,
    },
}

/// Where columns stand that only wide tables have, unless they say where.
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

    /// A column of numbers, which align at the right.
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

    /// All columns that `model` declares of a row, for programs; without the row they are empty.
    pub fn row<M: Row + 'static>(row: impl for<'a> Fn(&'a R::Row<'a>) -> Option<&'a M> + 'static) -> Self {
        let columns = M::columns();
        let names = columns.iter().map(|column| column.name).collect::<Vec<_>>();
        let visit: Visit<R> = Box::new(move |of, out| match row(of) {
            Some(row) => row.visit(out),
            None => names.iter().for_each(|name| out(name, RowValue::Null)),
        });
        let content = Content::Row { columns, visit, renamed: Vec::new(), replaced: Vec::new() };
        Self { in_json: true, in_csv: true, ..Self::new(Heading::text("", 0), content) }
    }

    fn new(heading: Heading, content: Content<R>) -> Self {
        let for_programs = matches!(&content, Content::Cell(field, _) if !field.is_empty());
        Self { heading, wide: false, place: 0, in_json: for_programs, in_csv: for_programs, content }
    }

    /// The same columns, this one under another name.
    #[must_use]
    pub fn rename(mut self, name: &'static str, to: &'static str) -> Self {
        if let Content::Row { renamed, .. } = &mut self.content {
            renamed.push((name, to));
        }
        self
    }

    /// The same columns, this one with other cells.
    #[must_use]
    pub fn replace(
        mut self,
        name: &'static str,
        cell: impl for<'a> Fn(&'a R::Row<'a>) -> Cell<'a> + 'static,
    ) -> Self {
        if let Content::Row { replaced, .. } = &mut self.content {
            replaced.push((name, Box::new(cell)));
        }
        self
    }

    /// The same column, in wide tables only and there at the right.
    #[must_use]
    pub fn wide(self) -> Self {
        Self { wide: true, place: WIDE_PLACE, ..self }
    }

    /// The same column, in every table, at this place.
    #[must_use]
    pub fn always(self, place: u8) -> Self {
        Self { wide: false, place, ..self }
    }

    /// The same column, in tables after all of a lower place; those of the same place keep their order.
    #[must_use]
    pub fn place(self, place: u8) -> Self {
        Self { place, ..self }
    }

    /// The same column, not in CSV.
    #[must_use]
    pub fn not_in_csv(self) -> Self {
        Self { in_csv: false, ..self }
    }

    /// The same column, not in JSON.
    #[must_use]
    pub fn not_in_json(self) -> Self {
        Self { in_json: false, ..self }
    }

    /// What stands above it in tables; empty where it is in none.
    pub fn heading(&self) -> &'static str {
        self.heading.text
    }

    /// Names of its columns in CSV; rows within rows have none.
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
        let Content::Row { renamed, .. } = &self.content else { return name };
        renamed.iter().find(|(of, _)| *of == name).map_or(name, |(_, to)| to)
    }

    /// Hands out its cells with their names.
    fn each<'a>(
        &self,
        row: &'a R::Row<'a>,
        take: &mut dyn FnMut(&str, &Cell<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        match &self.content {
            Content::Cell(field, cell) => take(field, &cell(row)),
            Content::Row { visit, replaced, .. } => {
                let mut result = Ok(());
                visit(row, &mut |name, value| {
                    if result.is_ok() {
                        let replaced = replaced.iter().find(|(of, _)| *of == name);
                        let cell = replaced.map_or_else(|| Cell::from(value), |(_, cell)| cell(row));
                        result = take(self.name_of(name), &cell);
                    }
                });
                result
            }
        }
    }
}

/// The content of one column of one row, from which every format follows.
pub enum Cell<'a> {
    /// Left out of JSON, else as what is not known.
    Absent,
    /// Not known: `-`, `null`, an empty field.
    None,
    /// `yes` or `no` for people.
    Bool(bool),
    /// A number as it is.
    Int(i64),
    /// A number as it is.
    Uint(u64),
    /// A number with a fraction.
    Float(f64),
    /// Text, escaped for terminals.
    Text(Cow<'a, str>),
    /// Text that is escaped or painted already.
    Escaped(String),
    /// An instant: the time of day for people, UTC nanoseconds for programs.
    Time(Nanos),
    /// An instant: date and time of day for people.
    DateTime(Nanos),
    /// A length of time with its unit for people, nanoseconds for programs.
    Length(Nanos),
    /// A length of time as whole milliseconds with their unit for people.
    WholeMillis(Nanos),
    /// A length of time as whole milliseconds for people; the heading names the unit.
    BareMillis(Nanos),
    /// A count with separated thousands for people.
    Count(u64),
    /// Bytes with a unit for people.
    Bytes(u64),
    /// A number in hexadecimal for people.
    Hex(u64),
    /// Several texts, separated by blanks in CSV.
    List(Vec<Cow<'a, str>>),
    /// Named values: an object in JSON, `name=value` with blanks between elsewhere.
    Pairs(Vec<(Cow<'a, str>, Value)>),
    /// A value inside of which others may be; `name=value` with blanks between in CSV.
    Value(Value),
    /// Rows within a row; not for CSV.
    Rows(&'a dyn Rows),
    /// A JSON text as it is; not for CSV.
    Json(Vec<u8>),
}

impl<'a> Cell<'a> {
    /// Anything that has a text.
    #[expect(clippy::needless_pass_by_value, reason = "a column hands over what it has just made")]
    pub fn display(value: impl ToString) -> Self {
        Cell::Text(Cow::Owned(value.to_string()))
    }

    /// Text, where empty text is not known.
    pub fn known(text: &'a str) -> Self {
        if text.is_empty() { Cell::None } else { Cell::Text(Cow::Borrowed(text)) }
    }

    /// What serialises, for JSON only.
    pub fn json(value: &impl Serialize) -> Self {
        let mut text = Vec::new();
        // Nothing of ours fails to serialise, and a vector takes everything.
        json::write(&mut text, value).map_or(Cell::None, |()| Cell::Json(text))
    }

    fn write_json(&self, line: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Cell::None | Cell::Absent => line.extend_from_slice(b"null"),
            Cell::Int(number) => push_number(line, *number),
            Cell::Uint(number) | Cell::Count(number) | Cell::Bytes(number) | Cell::Hex(number) => {
                push_number(line, *number);
            }
            Cell::Time(Nanos(ns))
            | Cell::DateTime(Nanos(ns))
            | Cell::Length(Nanos(ns))
            | Cell::WholeMillis(Nanos(ns))
            | Cell::BareMillis(Nanos(ns)) => push_number(line, *ns),
            Cell::Bool(value) => json::write(line, value)?,
            Cell::Float(number) => json::write(line, number)?,
            Cell::Text(text) => json::write(line, text)?,
            Cell::Escaped(text) => json::write(line, text)?,
            Cell::List(texts) => json::write(line, texts)?,
            Cell::Pairs(pairs) => {
                let pairs = pairs.iter().map(|(name, value)| (name.to_string(), value.clone()));
                json::write(line, &pairs.collect::<serde_json::Map<_, _>>())?;
            }
            Cell::Value(value) => json::write(line, value)?,
            Cell::Rows(rows) => write_rows(line, *rows)?,
            Cell::Json(text) => line.extend_from_slice(text),
        }
        Ok(())
    }

    fn write_csv(&self, text: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Cell::None | Cell::Absent | Cell::Rows(_) | Cell::Json(_) => Ok(()),
            Cell::Text(value) => csv::write_field(text, value),
            Cell::Escaped(value) => csv::write_field(text, value),
            Cell::List(texts) => csv::write_field(text, &texts.join(" ")),
            Cell::Pairs(pairs) => {
                csv::write_field(text, &plain_pairs(pairs.iter().map(|(name, value)| (name, value))))
            }
            Cell::Value(value) => csv::write_field(text, &plain(value)),
            number => number.write_json(text),
        }
    }

    fn write_text(&self, times: &mut TimesOfDay, text: &mut String) {
        let mut digits = itoa::Buffer::new();
        text.push_str(match self {
            Cell::None | Cell::Absent => NONE,
            Cell::Bool(true) => "yes",
            Cell::Bool(false) => "no",
            Cell::Int(number) => digits.format(*number),
            Cell::Uint(number) => digits.format(*number),
            Cell::BareMillis(length) => digits.format(length.as_millis_rounded()),
            Cell::Text(value) => return text.push_str(&escape(value)),
            Cell::Escaped(value) => value,
            Cell::Time(at) => times.text(*at),
            other => return text.push_str(&other.long_text(times)),
        });
    }

    /// The text of cells that tables of very many rows do not have.
    fn long_text(&self, times: &TimesOfDay) -> String {
        match self {
            Cell::Float(number) => number.to_string(),
            Cell::DateTime(at) => times.zone().date_and_time(*at),
            Cell::Length(length) => length.to_string(),
            Cell::WholeMillis(length) => format!("{} ms", length.as_millis_rounded()),
            Cell::Count(count) => format_count(*count),
            Cell::Bytes(bytes) => format_bytes(*bytes),
            Cell::Hex(number) => format!("{number:#010x}"),
            Cell::List(texts) => escape(&texts.join(" ")).into_owned(),
            Cell::Pairs(pairs) => {
                escape(&plain_pairs(pairs.iter().map(|(name, value)| (name, value)))).into_owned()
            }
            Cell::Value(value) => escape(&plain(value)).into_owned(),
            _ => String::new(),
        }
    }
}

fn push_number(line: &mut Vec<u8>, number: impl itoa::Integer) {
    line.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// A value without quotes; several are `name=value` with blanks between.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(" "),
        Value::Object(values) => plain_pairs(values),
        other => other.to_string(),
    }
}

fn plain_pairs<'p, N: Display + 'p>(pairs: impl IntoIterator<Item = (N, &'p Value)>) -> String {
    let pairs = pairs.into_iter().map(|(name, value)| format!("{name}={}", plain(value)));
    pairs.collect::<Vec<_>>().join(" ")
}

macro_rules! cell_from {
    ($($type:ty => $variant:ident as $wide:ty),*) => {
        $(impl From<$type> for Cell<'_> {
            fn from(number: $type) -> Self {
                Cell::$variant(number as $wide)
            }
        })*
    };
}

cell_from!(i8 => Int as i64, i16 => Int as i64, i32 => Int as i64, i64 => Int as i64, u32 => Uint as u64,
    u64 => Uint as u64, usize => Uint as u64, f64 => Float as f64, bool => Bool as bool, Value => Value as Value);

impl<'a> From<RowValue<'a>> for Cell<'a> {
    fn from(value: RowValue<'a>) -> Self {
        match value {
            RowValue::Null => Cell::None,
            RowValue::Bool(value) => Cell::Bool(value),
            RowValue::Int(number) => Cell::Int(number),
            RowValue::Uint(number) => Cell::Uint(number),
            RowValue::Float(number) => Cell::Float(number),
            RowValue::Nanos(length) => Cell::Length(length),
            RowValue::Text(text) => Cell::from(text),
            RowValue::Shown(value) => Cell::display(value),
            RowValue::Texts(texts) => Cell::List(texts.map(Cow::Borrowed).collect()),
            RowValue::Rows(rows) => Cell::Rows(rows),
        }
    }
}

impl<'a> From<&'a str> for Cell<'a> {
    fn from(text: &'a str) -> Self {
        Cell::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Cell<'_> {
    fn from(text: String) -> Self {
        Cell::Text(Cow::Owned(text))
    }
}

impl<'a, T: Into<Cell<'a>>> From<Option<T>> for Cell<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::None, Into::into)
    }
}

/// Writes rows in one format.
pub struct Writer<R: Report, W> {
    columns: Vec<Column<R>>,
    form: Form<W>,
}

enum Form<W> {
    Table { table: Table<W>, times: TimesOfDay, cells: Vec<String> },
    Json { out: W, line: Vec<u8> },
    Csv { out: W, line: Vec<u8>, has_names: bool },
}

impl<R: Report, W: Write> Writer<R, W> {
    /// A writer of this report's rows to this output.
    pub fn new(out: W, report: &R, format: &Format) -> Self {
        match format {
            Format::Table(style) => Self::table(out, report, style, 0),
            Format::Json => {
                Self::of(report.columns(), |column| column.in_json, |_| Form::Json { out, line: Vec::new() })
            }
            Format::Csv => Self::of(
                report.columns(),
                |column| column.in_csv,
                |_| Form::Csv { out, line: Vec::new(), has_names: false },
            ),
        }
    }

    /// A table `indent` columns from the left.
    pub fn table(out: W, report: &R, style: &Style, indent: usize) -> Self {
        let mut columns = report.columns();
        columns.sort_by_key(|column| column.place);
        let is_shown = |column: &Column<R>| !column.heading().is_empty() && (style.wide || !column.wide);
        Self::of(columns, is_shown, |columns| {
            let headings = columns.iter().map(|column| column.heading).collect();
            let table = Table::new(out, headings, style.lookahead).coloured(style.colour).indented(indent);
            let cells = vec![String::new(); columns.len()];
            Form::Table { table, times: TimesOfDay::new(style.zone.clone()), cells }
        })
    }

    fn of(
        mut columns: Vec<Column<R>>,
        is_wanted: impl Fn(&Column<R>) -> bool,
        form: impl FnOnce(&[Column<R>]) -> Form<W>,
    ) -> Self {
        columns.retain(is_wanted);
        let form = form(&columns);
        Self { columns, form }
    }

    /// Writes one row.
    pub fn row<'a>(&mut self, row: &'a R::Row<'a>) -> io::Result<()> {
        self.start()?;
        match &mut self.form {
            Form::Table { table, times, cells } => {
                fill(&self.columns, row, times, cells);
                table.row(cells)
            }
            Form::Json { out, line } => {
                line.clear();
                write_object(line, R::TYPE, &self.columns, row)?;
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

    /// Where rows of JSON and CSV go, for lines that are no rows of this report.
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

    /// Writes what is held back, and the names also where no row followed.
    pub fn finish(&mut self) -> io::Result<()> {
        self.start()?;
        match &mut self.form {
            Form::Table { table, .. } => table.finish(),
            Form::Json { out, .. } | Form::Csv { out, .. } => out.flush(),
        }
    }

    /// Writes the line of names that CSV begins with.
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

/// Writes rows of two reports as one CSV with the columns of both; what a row does not have is empty.
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

/// Writes what a row has of these names.
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
    // A vector takes everything.
    let _ = write_object(&mut line, R::TYPE, &columns, row);
    line
}

fn write_object<'a, R: Report>(
    line: &mut Vec<u8>,
    kind: &str,
    columns: &[Column<R>],
    row: &'a R::Row<'a>,
) -> io::Result<()> {
    line.extend_from_slice(br#"{"type":"#);
    json::write(line, &kind)?;
    let mut object = String::new();
    for column in columns {
        column.each(row, &mut |field, cell| {
            if matches!(cell, Cell::Absent) {
                return Ok(());
            }
            let (outer, name) = field.split_once('.').unwrap_or(("", field));
            if outer != object && !object.is_empty() {
                line.push(b'}');
            }
            line.push(b',');
            if outer != object && !outer.is_empty() {
                push_name(line, outer);
                line.push(b'{');
            }
            if outer != object {
                outer.clone_into(&mut object);
            }
            push_name(line, name);
            cell.write_json(line)
        })?;
    }
    if !object.is_empty() {
        line.push(b'}');
    }
    line.push(b'}');
    Ok(())
}

/// Rows within a row, as an array of objects.
fn write_rows(line: &mut Vec<u8>, rows: &dyn Rows) -> io::Result<()> {
    line.push(b'[');
    for at in 0..rows.count() {
        line.extend_from_slice(if at > 0 { b",{" } else { b"{" });
        let (mut result, mut is_first) = (Ok(()), true);
        rows.visit(at, &mut |name, value| {
            if !std::mem::take(&mut is_first) {
                line.push(b',');
            }
            push_name(line, name);
            if result.is_ok() {
                result = Cell::from(value).write_json(line);
            }
        });
        result?;
        line.push(b'}');
    }
    line.push(b']');
    Ok(())
}

/// Names are ours: nothing in them needs an escape.
fn push_name(line: &mut Vec<u8>, name: &str) {
    line.push(b'"');
    line.extend_from_slice(name.as_bytes());
    line.extend_from_slice(b"\":");
}
