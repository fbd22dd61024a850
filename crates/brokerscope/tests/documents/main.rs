//! Checks the documents and help texts. The book's reference must match the code's declarations, each quoted command
//! must run, and help texts must keep their rules. Needs no privilege; `BLESS=1` writes the generated pages.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

mod commands;
mod help;
mod json;
mod pages;
mod reference;
mod shown;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use pages::{documents, files, project};

/// Checks that a page has this text; `BLESS=1` writes it.
fn hold(page: &str, text: &str) {
    let path = project(page);
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, text).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap();
    assert!(written == text, "{page} is out of date: BLESS=1 cargo test -p brokerscope --test documents");
}

/// Every document with its text.
fn pages() -> Vec<(PathBuf, String)> {
    documents().into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn tests_named_by_the_security_page_exist() {
    let page = fs::read_to_string(project("SECURITY.md")).unwrap();
    let (_, threats) = page.split_once("## Threats").unwrap();
    let shown_by =
        threats.lines().filter(|line| line.starts_with("| ")).filter_map(|row| row.split('|').nth(4));
    let names: Vec<&str> = shown_by.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    assert!(names.len() > 20, "{names:?}");
    let sources = ["crates", "fuzz", "tests"].map(|directory| files(directory, "rs")).concat();
    let sources: String = sources.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let missing: Vec<_> = names.iter().filter(|name| !sources.contains(&format!("fn {name}("))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// The output of a command in the project's directory.
fn brokerscope(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_brokerscope"))
        .args(arguments)
        .current_dir(project(""))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Escapes text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
