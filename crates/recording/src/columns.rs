//! A table's columns in Arrow's terms, from the declarations of rows in `model`.
//! Does not build or read them.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema};
use model::{Column, ColumnType};

/// The schema of a table with these columns.
pub(crate) fn schema(columns: &[Column]) -> Arc<Schema> {
    Arc::new(Schema::new(fields(columns)))
}

/// Names and types of columns, in order.
pub(crate) fn fields(columns: &[Column]) -> Fields {
    columns
        .iter()
        .map(|column| Field::new(column.name, data_type(&column.column_type), column.nullable))
        .collect()
}

/// The element of a list of rows with these columns.
pub(crate) fn item(columns: &[Column]) -> Arc<Field> {
    Arc::new(Field::new_list_field(DataType::Struct(fields(columns)), false))
}

/// The Arrow type of a column.
/// Dictionary keys of text have 32 bits: there may be more topics and stacks than 16 bits can count.
pub(crate) fn data_type(column_type: &ColumnType) -> DataType {
    match column_type {
        ColumnType::Bool => DataType::Boolean,
        ColumnType::I8 => DataType::Int8,
        ColumnType::I16 => DataType::Int16,
        ColumnType::I32 => DataType::Int32,
        ColumnType::I64 => DataType::Int64,
        ColumnType::U32 => DataType::UInt32,
        ColumnType::U64 => DataType::UInt64,
        ColumnType::F64 => DataType::Float64,
        ColumnType::Text => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        ColumnType::Texts => DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))),
        ColumnType::Rows(columns) => DataType::List(item(columns)),
    }
}

/// The columns that are read, by path: in lists of rows, the path starts with the names of the lists
/// (`partitions.batches.crc`). Derived columns are not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Projection(Vec<String>);

impl Projection {
    /// All of these columns that are not derived.
    pub(crate) fn of(columns: &[Column]) -> Self {
        let mut paths = Vec::new();
        add_paths("", columns, &mut paths);
        Self(paths)
    }

    /// Whether a column is read, by its path.
    pub(crate) fn contains(&self, path: &str) -> bool {
        self.0.iter().any(|known| known == path)
    }
}

fn add_paths(prefix: &str, columns: &[Column], to: &mut Vec<String>) {
    for column in columns.iter().filter(|column| !column.derived) {
        let path = format!("{prefix}{}", column.name);
        match &column.column_type {
            ColumnType::Rows(within) => add_paths(&format!("{path}."), within, to),
            _ => to.push(path),
        }
    }
}
