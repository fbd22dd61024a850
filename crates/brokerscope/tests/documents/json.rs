//! Generates `docs/reference/json.md`: every field of every JSON object that commands print. Types and fields are those
//! of the goldens of `report` and of the commands' output for the sample. The meaning of a column comes from `model`;
//! the meaning of any other field is written in the page, and preserved by `BLESS=1`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use model::row::Row as _;
use model::{Column, ColumnType, Table, Verdict};
use serde_json::Value;

use super::{brokerscope, cell, hold, project};

const PAGE: &str = "docs/reference/json.md";
const GOLDENS: &str = "crates/report/tests/goldens/expected";
const SAMPLE: &str = "samples/journal-stall";
/// Commands that print objects, with the names of their goldens.
const GOLDEN_COMMANDS: [(&str, &str); 19] = [
    ("blocked", "locks --dump"),
    ("compare", "compare"),
    ("doctor", "doctor"),
    ("explain", "explain"),
    ("explain-live", "explain"),
    ("files", "files"),
    ("files-unsent", "files"),
    ("fleet", "fleet"),
    ("fleet-figures", "fleet --figures"),
    ("io", "io"),
    ("io-summary", "io --summary"),
    ("kernel", "kernel"),
    ("locks", "locks"),
    ("locks-summary", "locks --summary"),
    ("logs", "logs"),
    ("overview", "requests --summary"),
    ("pauses", "locks --pauses"),
    ("requests", "requests"),
    ("segment", "segment"),
];
/// Commands whose goldens lack something, or that have none.
const RUN: [(&str, &[&str]); 5] = [
    ("advise", &["advise", SAMPLE, "--all"]),
    ("advise", &["advise", SAMPLE, "--dump", "crates/jvm/tests/dumps/hotspot-17-sigquit.txt"]),
    ("explain", &["explain", SAMPLE, "--why-not", "--slower-than", "80ms"]),
    ("logs", &["logs", "tests/data/sample-request.log"]),
    (
        "explain",
        &[
            "explain",
            "tests/data/sample.pcap",
            "--slower-than",
            "1ms",
            "--request-log",
            "tests/data/sample-request.log",
        ],
    ),
];
/// Objects whose fields are names from data. Also objects that another command documents.
const OPEN: [(&str, &str); 17] = [
    ("reasons", "name of a reason"),
    ("functions", "name of a reason"),
    ("by_cause", "name of a cause"),
    ("requests_by_api", "name of an API"),
    ("losses", "kind of loss"),
    ("not_judged", "name of an API"),
    ("stages", "name of a stage"),
    ("intervals", "name of a figure"),
    ("holder_op", "field of `file-op`"),
    ("request", "field of `request`"),
    ("total", "statistic"),
    ("queue", "statistic"),
    ("local", "statistic"),
    ("remote", "statistic"),
    ("response_queue", "statistic"),
    ("send", "statistic"),
    ("throttle", "statistic"),
];

/// Fields by command and type.
type Objects = BTreeMap<(String, String), BTreeSet<String>>;

#[test]
fn the_reference_has_every_json_field() {
    let objects = objects();
    let known = meanings(&fs::read_to_string(project(PAGE)).unwrap());
    let mut text = HEAD.to_owned();
    let mut missing = Vec::new();
    for ((command, kind), fields) in &objects {
        write!(text, "\n## {}\n\n| field | meaning |\n|---|---|\n", heading(command, kind)).unwrap();
        for field in fields.iter().filter(|field| *field != "type") {
            let by_hand = known.get(&(heading(command, kind), field.clone())).cloned();
            let meaning = declared(kind, field).or(by_hand).unwrap_or_default();
            if meaning.is_empty() {
                missing.push(format!("{command}: {kind}: {field}"));
            }
            writeln!(text, "| `{field}` | {meaning} |").unwrap();
        }
    }
    hold(PAGE, &text);
    assert!(
        missing.is_empty(),
        "{PAGE} needs the meaning of {} fields:\n{}",
        missing.len(),
        missing.join("\n")
    );
}

const HEAD: &str = "\
# JSON fields

`--format json` prints one object a line. `type` says what it is; the last line of most commands has the type `summary`. Names of fields
are a contract: fields may be added, none changes its meaning. Times are UTC nanoseconds, lengths of time nanoseconds, sizes bytes. A value
that is not known is `null`.

A field with a dot is inside an object, or inside each object of a list: `partitions.topic` is the topic of each partition. `*` stands for any
name.

Types and fields are held by a test: `BLESS=1 cargo test -p brokerscope --test documents` adds new ones.
";

fn heading(command: &str, kind: &str) -> String {
    format!("`{kind}` of `{command}`")
}

fn objects() -> Objects {
    let mut objects = Objects::new();
    for (golden, command) in GOLDEN_COMMANDS {
        let file = ["jsonl", "json"].map(|suffix| project(GOLDENS).join(format!("{golden}.{suffix}")));
        let text = file.iter().find_map(|file| fs::read_to_string(file).ok()).unwrap();
        add(command, &text, &mut objects);
    }
    for (command, arguments) in RUN {
        add(command, &brokerscope(&[arguments, &["--format", "json"][..]].concat()), &mut objects);
    }
    objects
}

fn add(command: &str, lines: &str, to: &mut Objects) {
    for line in lines.lines().filter(|line| !line.is_empty()) {
        let object: Value = serde_json::from_str(line).unwrap();
        let kind = object["type"].as_str().unwrap().to_owned();
        let command = if kind == "summary" { command.split(' ').next().unwrap() } else { command };
        add_fields("", &object, to.entry((command.to_owned(), kind)).or_default());
    }
}

fn add_fields(prefix: &str, value: &Value, to: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = format!("{prefix}{name}");
                if value.is_object() && OPEN.iter().any(|(open, _)| open == name) {
                    to.insert(format!("{path}.*"));
                } else {
                    add_fields(&format!("{path}."), value, to);
                    to.insert(path);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| add_fields(prefix, item, to)),
        _ => {}
    }
}

/// Meanings in the page, by heading and field.
fn meanings(page: &str) -> BTreeMap<(String, String), String> {
    let mut heading = String::new();
    let mut meanings = BTreeMap::new();
    for line in page.lines() {
        if let Some(text) = line.strip_prefix("## ") {
            text.clone_into(&mut heading);
        } else if let Some((field, meaning)) = line.strip_prefix("| `").and_then(|row| row.split_once("` | "))
        {
            meanings
                .insert((heading.clone(), field.to_owned()), meaning.trim_end_matches('|').trim().to_owned());
        }
    }
    meanings
}

/// The meaning of a field in `model`, from the table whose rows such objects are.
fn declared(kind: &str, field: &str) -> Option<String> {
    let table = match kind {
        "request" => Table::Requests.columns(),
        "file-op" => Table::FileOps.columns(),
        "verdict" => Verdict::columns(),
        "jvm-pause" => Table::JvmPauses.columns(),
        "lock-wait" => Table::LockWaits.columns(),
        _ => return open(field),
    };
    find("", field, &table).or_else(|| open(field))
}

fn find(prefix: &str, field: &str, columns: &[Column]) -> Option<String> {
    columns.iter().find_map(|column| {
        let name = format!("{prefix}{}", column.name);
        if name == field {
            return Some(cell(column.doc));
        }
        match &column.column_type {
            ColumnType::Rows(within) => find(&format!("{name}."), field, within),
            _ => None,
        }
    })
}

fn open(field: &str) -> Option<String> {
    let name = field.strip_suffix(".*")?.rsplit('.').next()?;
    let (_, keys) = OPEN.iter().find(|(open, _)| *open == name)?;
    keys.starts_with("field of").then(|| format!("Each {keys}."))
}
