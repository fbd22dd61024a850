//! Tests messages on standard error: levels, and priorities for the journal.

// clippy.toml allows these in test functions only; this whole crate is tests.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::linux::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn capture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/sample.pcap")
}

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/journal-stall")
}

/// Runs with standard error as a stream. Tells the program which stream is the journal's.
fn run(arguments: &[&str], journal: impl FnOnce(&File) -> String) -> String {
    let (mut messages, stream) = UnixStream::pair().unwrap();
    let stream = File::from(OwnedFd::from(stream));
    let mut child = Command::new(env!("CARGO_BIN_EXE_brokerscope"))
        .args(arguments)
        .env("JOURNAL_STREAM", journal(&stream))
        .stdout(Stdio::null())
        .stderr(Stdio::from(stream))
        .spawn()
        .unwrap();
    let mut text = String::new();
    messages.read_to_string(&mut text).unwrap();
    child.wait().unwrap();
    text
}

fn stream_of(file: &File) -> String {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let metadata = std::fs::metadata(path).unwrap();
    format!("{}:{}", metadata.st_dev(), metadata.st_ino())
}

#[test]
fn journal_lines_start_with_their_priority() {
    let capture = capture();
    let capture = capture.to_str().unwrap();
    let messages = run(&["requests", capture], stream_of);
    assert!(!messages.is_empty() && messages.lines().all(|line| line.starts_with("<6>")), "{messages}");
    let messages = run(&["requests", "/no/such/file"], stream_of);
    assert!(messages.starts_with("<3>brokerscope: /no/such/file"), "{messages}");
    let messages = run(&["requests", capture], |_| "1:1".to_owned());
    assert!(!messages.is_empty() && !messages.contains('<'), "another stream is the journal's: {messages}");
}

#[test]
fn quiet_and_verbose_apply_before_or_after_the_command() {
    let sample = sample();
    let explain = ["explain", sample.to_str().unwrap()];
    let none = |_: &File| String::new();
    let verbose = run(&[&["--verbose"], &explain[..]].concat(), none);
    assert!(verbose.contains("reading everything"), "{verbose}");
    assert!(!run(&explain, none).contains("reading"));
    let (io, quiet) = (["io", "--from", explain[1], "--top", "1"], ["--quiet"]);
    assert!(!run(&io, none).is_empty());
    assert_eq!(run(&[&io[..], &quiet].concat(), none), "");
    assert_eq!(run(&[&quiet, &io[..]].concat(), none), "");
}
