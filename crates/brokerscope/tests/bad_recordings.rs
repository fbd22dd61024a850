//! Tests recordings that lack something, and places that cannot be written: what exists is shown, and one line reports
//! the rest.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// A copy of the sample to be damaged.
struct Spoilt {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Spoilt {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("recording");
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/journal-stall");
        copy(&sample, &path);
        Self { _dir: dir, path }
    }

    fn text(&self) -> &str {
        self.path.to_str().unwrap()
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_brokerscope"));
    let output = command.args(arguments).stdin(Stdio::null()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn outputs_the_rest_and_fails_if_a_part_is_damaged() {
    let spoilt = Spoilt::new();
    fs::write(spoilt.path.join("file_ops/part-00001.parquet"), "no Parquet").unwrap();
    let (recording, page) = (spoilt.text(), spoilt.path.with_extension("html"));
    for arguments in [
        &["explain", recording][..],
        &["io", "--from", recording],
        &["files", "--from", recording],
        &["kernel", "--from", recording],
        &["locks", "--from", recording],
        &["compare", recording, &format!("again={recording}@1s-")],
        &["report", recording, "-o", page.to_str().unwrap()],
    ] {
        let (status, stdout, stderr) = run(arguments);
        assert_eq!(status, Some(1), "{arguments:?}: {stderr}");
        assert!(!stdout.is_empty() || page.exists(), "{arguments:?}: the rest is shown");
        let last = stderr.lines().last().unwrap();
        assert!(last.starts_with("brokerscope: ") && last.contains("damaged"), "{arguments:?}: {stderr}");
    }
    // A command does not miss tables that it does not read.
    assert_eq!(run(&["stacks", "--from", recording, "--folded", "-"]).0, Some(0));
}

#[test]
fn missing_table_is_reported_with_its_row_count() {
    let spoilt = Spoilt::new();
    let file = spoilt.path.join("manifest.json");
    let mut manifest: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    manifest["rows"]["requests"] = 14_585.into();
    fs::write(&file, manifest.to_string()).unwrap();
    fs::remove_dir_all(spoilt.path.join("requests")).unwrap();
    let (status, stdout, _) = run(&["explain", spoilt.text()]);
    assert_eq!(status, Some(0));
    assert!(stdout.starts_with("no request was seen\n"), "{stdout}");
    assert!(stdout.contains("requests/ is missing: 14585 rows were recorded there"), "{stdout}");
    assert!(stdout.contains("no request was seen"), "{stdout}");
}

#[test]
fn io_reports_a_recording_without_file_operations() {
    let spoilt = Spoilt::new();
    for folder in ["file_ops", "off_cpu", "dirty_throttles", "block_ios"] {
        let _ = fs::remove_dir_all(spoilt.path.join(folder));
    }
    let (status, _, stderr) = run(&["io", "--from", spoilt.text()]);
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("the recording holds no such events"), "{stderr}");
}

#[test]
fn refuses_a_non_recording_or_an_old_version_in_one_line() {
    let spoilt = Spoilt::new();
    let manifest = spoilt.path.join("manifest.json");
    let nothing = spoilt.path.with_extension("gone");
    let older = Spoilt::new();
    let text = fs::read_to_string(&manifest).unwrap().replace("\"version\": 2", "\"version\": 1");
    fs::write(older.path.join("manifest.json"), text).unwrap();
    for (path, said) in [
        (manifest.as_path(), "it is not a directory"),
        (nothing.as_path(), "check the path"),
        (older.path.as_path(), "use an older brokerscope"),
    ] {
        for command in ["io", "files", "kernel", "locks", "stacks"] {
            let (status, stdout, stderr) = run(&[command, "--from", path.to_str().unwrap()]);
            assert_eq!(
                (status, stdout.as_str(), stderr.lines().count()),
                (Some(1), "", 1),
                "{command}: {stderr}"
            );
            assert!(stderr.contains(said), "{command}: {stderr}");
        }
    }
}

#[test]
fn refuses_an_unwritable_output_path_before_reading() {
    let spoilt = Spoilt::new();
    let recording = spoilt.text();
    for (place, said) in
        [("/no/such/directory/file", "its directory does not exist"), (recording, "it is a directory")]
    {
        for arguments in [
            &["report", recording, "-o", place][..],
            &["stacks", "--from", recording, "-o", place],
            &["stacks", "--from", recording, "--folded", place],
            &["locks", "--from", recording, "--flame", place],
            &["compare", "a/", "b/", "-o", place],
            &["compare", "a/", "b/", "--md", place],
        ] {
            let (status, stdout, stderr) = run(arguments);
            assert_eq!(
                (status, stdout.as_str(), stderr.lines().count()),
                (Some(1), "", 1),
                "{arguments:?}: {stderr}"
            );
            assert!(stderr.contains(said), "{arguments:?}: {stderr}");
        }
    }
}

#[test]
fn refuses_files_that_are_missing_or_of_the_wrong_kind() {
    let dir = tempfile::tempdir().unwrap();
    let words = dir.path().join("words");
    fs::write(&words, "neither a segment nor a dump".repeat(20)).unwrap();
    let (words, directory) = (words.to_str().unwrap(), dir.path().to_str().unwrap());
    let gone = format!("{words}.gone");
    let (status, _, stderr) = run(&["segment", words]);
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stderr.lines().last().unwrap().ends_with("name the .log file of a segment"), "{stderr}");
    for flag in ["--dump", "--jfr", "--gc-log"] {
        for file in [words, directory, &gone] {
            let (status, stdout, stderr) = run(&["locks", flag, file]);
            assert_eq!(
                (status, stdout.as_str(), stderr.lines().count()),
                (Some(1), "", 1),
                "{flag}: {stderr}"
            );
            assert!(stderr.contains(file), "{stderr}");
        }
    }
}
