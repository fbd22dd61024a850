//! A recording's tables as any Parquet reader sees them: rows of named values.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;

/// One row. Values that are neither numbers nor text are left out.
#[derive(Clone, Debug, Default)]
pub struct Row {
    numbers: BTreeMap<String, f64>,
    texts: BTreeMap<String, String>,
}

impl Row {
    /// A number; `None` if it is null.
    pub fn number(&self, column: &str) -> Option<f64> {
        self.numbers.get(column).copied()
    }

    /// A text; empty if it is null.
    pub fn text(&self, column: &str) -> &str {
        self.texts.get(column).map_or("", String::as_str)
    }

    fn add(&mut self, column: &str, field: &Field) {
        let number = match field {
            Field::Int(number) => f64::from(*number),
            Field::UInt(number) => f64::from(*number),
            Field::Long(number) => *number as f64,
            Field::ULong(number) => *number as f64,
            Field::Double(number) => *number,
            Field::Str(text) => {
                self.texts.insert(column.to_owned(), text.clone());
                return;
            }
            _ => return,
        };
        self.numbers.insert(column.to_owned(), number);
    }
}

/// All rows of a table of a finished recording.
///
/// # Panics
/// If there is no such table or it cannot be read.
pub fn rows(recording: &Path, table: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for entry in fs::read_dir(recording.join(table)).unwrap_or_else(|error| panic!("{table}: {error}")) {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "parquet") {
            continue;
        }
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        for read in reader.get_row_iter(None).unwrap() {
            let mut row = Row::default();
            read.unwrap().get_column_iter().for_each(|(column, field)| row.add(column, field));
            rows.push(row);
        }
    }
    rows
}
