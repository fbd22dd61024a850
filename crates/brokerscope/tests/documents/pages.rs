//! The documents, for every test that reads them.

use std::fs;
use std::path::{Path, PathBuf};

/// The path of a file of the project.
pub(crate) fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// README.md, and every Markdown file of the documentation.
pub(crate) fn documents() -> Vec<PathBuf> {
    let mut documents = files("docs", "md");
    documents.push(project("README.md"));
    documents.sort();
    documents
}

/// The files below a directory of the project that have this extension.
pub(crate) fn files(directory: &str, extension: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut directories = vec![project(directory)];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|of_path| of_path == extension) {
                files.push(path);
            }
        }
    }
    files
}
