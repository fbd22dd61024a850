//! `docs/reference/columns.md` is generated from the declarations of rows; `BLESS=1` writes it.

// clippy.toml allows these in test functions; a test crate is nothing else.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::path::Path;

use model::{Column, ColumnType, Event, Row as _, Table, Verdict};

const HEAD: &str = "\
# Columns of a recording

Generated from the declarations in `crates/model` (`BLESS=1 cargo test -p model`). Each table is a folder of Parquet
files. A dot marks a column of the rows in a list: `partitions.topic` is the topic of each partition of a request. A derived
column follows from others and is there for queries.
";

fn type_of(column: &Column) -> &'static str {
    match &column.column_type {
        ColumnType::Bool => "boolean",
        ColumnType::I8 => "int8",
        ColumnType::I16 => "int16",
        ColumnType::I32 => "int32",
        ColumnType::I64 => "int64",
        ColumnType::U32 => "uint32",
        ColumnType::U64 => "uint64",
        ColumnType::F64 => "float64",
        ColumnType::Text => "text",
        ColumnType::Texts => "list of text",
        ColumnType::Rows(_) => "list of rows",
    }
}

fn add_rows(prefix: &str, columns: &[Column], to: &mut String) {
    for column in columns {
        let name = format!("{prefix}{}", column.name);
        let nullable = if column.nullable { "yes" } else { "" };
        let derived = if column.derived { "Derived. " } else { "" };
        let doc = column.doc.replace('|', "\\|");
        let unit = column.unit().unwrap_or_default();
        writeln!(to, "| `{name}` | {} | {unit} | {nullable} | {derived}{doc} |", type_of(column)).unwrap();
        if let ColumnType::Rows(within) = &column.column_type {
            add_rows(&format!("{name}."), within, to);
        }
    }
}

fn add_table(name: &str, doc: &str, columns: &[Column], to: &mut String) {
    write!(
        to,
        "\n## {name}\n\n{doc}\n\n| column | type | unit | nullable | meaning |\n|---|---|---|---|---|\n"
    )
    .unwrap();
    add_rows("", columns, to);
}

#[test]
fn column_reference_matches_the_declarations() {
    let mut text = HEAD.to_owned();
    for table in Table::ALL {
        add_table(table.as_str(), table.doc(), &table.columns(), &mut text);
    }
    add_table(
        "verdicts",
        "Why each slow request was slow; written by `explain --save`.",
        &Verdict::columns(),
        &mut text,
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/columns.md");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap();
    assert!(found == text, "docs/reference/columns.md is out of date: run BLESS=1 cargo test -p model");
}

#[test]
fn column_names_are_unique_and_documented() {
    for columns in Table::ALL.map(Table::columns).into_iter().chain([Verdict::columns()]) {
        for (at, column) in columns.iter().enumerate() {
            assert!(columns.iter().skip(at + 1).all(|other| other.name != column.name), "{}", column.name);
            assert!(!column.doc.is_empty() && !column.doc.starts_with(' '), "{}", column.name);
        }
    }
}

/// Values come in the order of the columns, including those of absent groups.
#[test]
fn row_visits_one_value_per_column() {
    let request = model::Request::new(([10, 0, 0, 7], 41_234).into(), ([10, 0, 0, 1], 9_092).into());
    let mut names = Vec::new();
    request.visit(&mut |name, _| names.push(name));
    assert_eq!(names, model::Request::columns().iter().map(|column| column.name).collect::<Vec<_>>());
    assert_eq!(Table::of(&Event::from(request)), Table::Requests);
    let commit = model::JournalCommit {
        start: model::Nanos(1),
        end: model::Nanos(4),
        device: model::Device { name: "".into(), major: 8, minor: 1 },
        transaction: 7,
        phases: None,
    };
    let (mut names, mut present) = (Vec::new(), Vec::new());
    commit.visit(&mut |name, value| {
        names.push(name);
        if !matches!(value, model::Value::Null) {
            present.push(name);
        }
    });
    assert_eq!(names, model::JournalCommit::columns().iter().map(|column| column.name).collect::<Vec<_>>());
    assert_eq!(present, ["start_ns", "end_ns", "latency_ns", "device_major", "device_minor", "transaction"]);
}
