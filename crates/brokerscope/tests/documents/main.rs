//! The book's reference is what the code declares, each shown command can be run, and help texts keep their rules.
//! Needs no privilege; `BLESS=1` writes the generated pages.
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

use pages::{documents, project};

/// A page is this text; `BLESS=1` makes it so.
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

/// What a command prints in the project's directory.
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

/// Text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
