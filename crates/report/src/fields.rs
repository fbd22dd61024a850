//! One row as named values, for the outputs that programs read: the same names in JSON and in CSV. Does not choose
//! them.

use std::io::{self, Write};

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::{csv, json};

/// Names and values, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(pub(crate) Vec<(&'static str, Value)>);

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Fields {
    /// Writes them as one JSON object.
    pub(crate) fn write_json<W: Write>(&self, out: &mut W) -> io::Result<()> {
        json::write_line(out, self)
    }

    /// Writes their names as CSV; there are no types in CSV.
    pub(crate) fn write_csv_names<W: Write>(&self, out: &mut W) -> io::Result<()> {
        csv::write_line(out, self.of_csv().map(|(name, _)| *name))
    }

    /// Writes their values as CSV.
    pub(crate) fn write_csv<W: Write>(&self, out: &mut W) -> io::Result<()> {
        let values = self.of_csv().map(|(_, value)| plain(value)).collect::<Vec<_>>();
        csv::write_line(out, values.iter().map(String::as_str))
    }

    fn of_csv(&self) -> impl Iterator<Item = &(&'static str, Value)> {
        self.0.iter().filter(|(name, _)| *name != "type")
    }
}

/// Rows with the same names as CSV: the names come first, also where no row follows.
pub(crate) struct CsvRows<W> {
    out: W,
    names: fn() -> Fields,
    headed: bool,
}

impl<W: Write> CsvRows<W> {
    /// CSV to this output; `names` gives fields of no row in particular.
    pub(crate) fn new(out: W, names: fn() -> Fields) -> Self {
        Self { out, names, headed: false }
    }

    /// Writes one row.
    pub(crate) fn row(&mut self, row: &Fields) -> io::Result<()> {
        self.head()?;
        row.write_csv(&mut self.out)
    }

    /// Ends the output.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.head()?;
        self.out.flush()
    }

    fn head(&mut self) -> io::Result<()> {
        if !self.headed {
            self.headed = true;
            (self.names)().write_csv_names(&mut self.out)?;
        }
        Ok(())
    }
}

/// A value without quotes; several are `name=value` with blanks between.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(" "),
        Value::Object(values) => {
            let pairs = values.iter().map(|(name, value)| format!("{name}={}", plain(value)));
            pairs.collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}
