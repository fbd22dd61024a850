//! One cell of a table, as text for people, JSON or CSV. Does not know its column.

use std::borrow::Cow;
use std::fmt::Display;
use std::io;

use model::row::Rows;
use model::{Nanos, Value as RowValue};
use serde::Serialize;
use serde_json::Value;

use crate::escape::escape;
use crate::quantity::{NONE, format_bytes, format_count};
use crate::time_of_day::TimesOfDay;
use crate::{csv, json};

/// The content of one column of one row, from which every format follows.
pub enum Cell<'a> {
    /// Omitted from JSON, elsewhere like [`Cell::None`].
    Absent,
    /// Unknown: `-` for people, `null` in JSON, an empty field in CSV.
    None,
    /// `yes` or `no` for people.
    Bool(bool),
    /// A plain number.
    Int(i64),
    /// A plain number.
    Uint(u64),
    /// A number with a fraction.
    Float(f64),
    /// Text, escaped for terminals.
    Text(Cow<'a, str>),
    /// Text that is already escaped or coloured.
    Escaped(String),
    /// An instant: the time of day for people, UTC nanoseconds for programs.
    Time(Nanos),
    /// An instant: date and time of day for people.
    DateTime(Nanos),
    /// A duration: with its unit for people, nanoseconds for programs.
    Length(Nanos),
    /// A duration: whole milliseconds with the unit for people.
    WholeMillis(Nanos),
    /// A duration: whole milliseconds for people, without the unit because the heading names it.
    BareMillis(Nanos),
    /// A count, with thousands separators for people.
    Count(u64),
    /// A number of bytes, with a unit for people.
    Bytes(u64),
    /// A number in hexadecimal for people.
    Hex(u64),
    /// Several texts, separated by spaces in CSV.
    List(Vec<Cow<'a, str>>),
    /// Named values: an object in JSON, elsewhere `name=value` separated by spaces.
    Pairs(Vec<(Cow<'a, str>, Value)>),
    /// A value that may be nested; `name=value` separated by spaces in CSV.
    Value(Value),
    /// Rows within a row; not for CSV.
    Rows(&'a dyn Rows),
    /// Raw JSON text; not for CSV.
    Json(Vec<u8>),
}

impl<'a> Cell<'a> {
    /// Text of any displayable value.
    #[expect(clippy::needless_pass_by_value, reason = "columns pass values that they have just made")]
    pub fn display(value: impl ToString) -> Self {
        Cell::Text(Cow::Owned(value.to_string()))
    }

    /// Text; empty text is unknown.
    pub fn known(text: &'a str) -> Self {
        if text.is_empty() { Cell::None } else { Cell::Text(Cow::Borrowed(text)) }
    }

    /// A serializable value, for JSON only.
    pub fn json(value: &impl Serialize) -> Self {
        let mut text = Vec::new();
        // None of our types fails to serialize, and writing to a vector cannot fail.
        json::write(&mut text, value).map_or(Cell::None, |()| Cell::Json(text))
    }

    pub(crate) fn write_json(&self, line: &mut Vec<u8>) -> io::Result<()> {
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

    pub(crate) fn write_csv(&self, text: &mut Vec<u8>) -> io::Result<()> {
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

    pub(crate) fn write_text(&self, times: &mut TimesOfDay, text: &mut String) {
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

    /// Text of the cell types that very long tables do not contain.
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

/// A value without quotes; an object is `name=value` separated by spaces.
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
            RowValue::Display(value) => Cell::display(value),
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

/// Appends a name. Names are ours: nothing in them needs escaping.
pub(crate) fn push_name(line: &mut Vec<u8>, name: &str) {
    line.push(b'"');
    line.extend_from_slice(name.as_bytes());
    line.extend_from_slice(b"\":");
}
