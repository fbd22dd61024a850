//! Tests `explain --follow`: explaining a recording while it is written gives the same result as afterwards. Needs no
//! privilege.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use model::{Event, Nanos};
use recording::{Manifest, Recording, Writer, WriterOptions};
use serde_json::Value;

/// Half a second of events is written at once, as by a recorder.
const FLUSHED: Nanos = Nanos::from_millis(500);
/// Timeout for verdicts; a process that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);
const JSON: [&str; 4] = ["--format", "json", "--slower-than", "50ms"];

fn sample() -> Recording {
    Recording::open(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/journal-stall")).unwrap()
}

fn command(dir: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_brokerscope"));
    command.arg("explain").arg(dir).args(JSON).args(more).stdin(Stdio::null());
    command
}

/// Explains a recording as it is.
fn explained(dir: &Path) -> Vec<Value> {
    let output = command(dir, &[]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Writes the sample's events again, in the order in which a recorder gets them.
struct Replay {
    events: std::vec::IntoIter<Event>,
    writer: Writer,
    manifest: Manifest,
    start: Nanos,
}

impl Replay {
    fn into(dir: &Path) -> Self {
        let sample = sample();
        let manifest = Manifest { ended_ns: None, ..sample.manifest().clone() };
        // Small parts: some are complete, some are completed meanwhile, some are read as they grow.
        let options = WriterOptions { rotate_rows: 300, ..WriterOptions::default() };
        let writer = Writer::create(dir, &manifest, options).unwrap();
        let events: Vec<Event> = sample.events().map(Result::unwrap).collect();
        let start = events.first().unwrap().time();
        Self { events: events.into_iter(), writer, manifest, start }
    }

    /// Writes events up to this many seconds after the start.
    fn write_until(&mut self, seconds: i64) {
        let end = self.start + Nanos::from_millis(seconds * 1_000);
        let mut flush = self.start;
        while self.events.as_slice().first().is_some_and(|event| event.time() <= end) {
            let event = self.events.next().unwrap();
            self.writer.write(&event).unwrap();
            if event.time() >= flush {
                flush = event.time() + FLUSHED;
                self.writer.flush().unwrap();
            }
        }
        self.writer.flush().unwrap();
    }

    fn finish(mut self) {
        self.write_until(3_600);
        self.manifest.ended_ns = sample().manifest().ended_ns;
        self.writer.finish(&self.manifest).unwrap();
    }
}

/// The running command and its lines as they appear.
struct Following {
    child: Child,
    lines: Receiver<Value>,
}

impl Following {
    fn start(dir: &Path) -> Self {
        let mut child =
            command(dir, &["--follow"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = lines(child.stdout.take().unwrap());
        Self { child, lines }
    }

    fn next(&self) -> Value {
        self.lines.recv_timeout(PATIENCE).unwrap()
    }

    fn rest(mut self) -> Vec<Value> {
        let rest: Vec<_> = std::iter::from_fn(|| self.lines.recv_timeout(PATIENCE).ok()).collect();
        assert!(self.child.wait().unwrap().success());
        rest
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // Both fail if it has already ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(stdout: ChildStdout) -> Receiver<Value> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(serde_json::from_str(&line).unwrap()).is_err() {
                return;
            }
        }
    });
    lines
}

fn directory() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let recording = dir.path().join("recording");
    (dir, recording)
}

#[test]
fn growing_recording_is_explained_as_when_finished() {
    let (_dir, recording) = directory();
    let mut replayed = Replay::into(&recording);
    replayed.write_until(2);
    let following = Following::start(&recording);
    // After the sample's first slow requests, by more than it takes until they are certain.
    replayed.write_until(16);
    let mut printed = vec![following.next()];
    assert_eq!(printed[0]["type"], "verdict", "told before the recording has ended");
    replayed.finish();
    printed.extend(following.rest());

    let afterwards = explained(&recording);
    assert!(afterwards.len() > 10, "{}", afterwards.len());
    assert_eq!(printed.len(), afterwards.len());
    for (line, after) in printed.iter().zip(&afterwards) {
        assert_eq!(line, after);
    }
    // And as the recording from which it was written.
    let original: Vec<Value> = explained(sample().dir());
    assert_eq!(afterwards[..afterwards.len() - 1], original[..original.len() - 1]);
}

#[test]
fn unfinished_recording_is_explained_up_to_its_end() {
    let (_dir, recording) = directory();
    let mut replayed = Replay::into(&recording);
    replayed.write_until(18);
    drop(replayed);
    let half = explained(&recording);
    let (summary, verdicts) = half.split_last().unwrap();
    assert!(summary["notes"].to_string().contains("not finished"), "{summary}");
    assert!(!verdicts.is_empty());
    let all = explained(sample().dir());
    // Verdicts whose evidence was complete by then.
    let newest = verdicts.iter().filter_map(|verdict| verdict["request"]["end_ns"].as_i64()).max().unwrap();
    let early =
        |line: &&Value| line["request"]["end_ns"].as_i64().is_some_and(|end| end < newest - 5_000_000_000);
    let early_of = |lines: &[Value]| lines.iter().filter(early).cloned().collect::<Vec<_>>();
    assert!(!early_of(verdicts).is_empty());
    assert_eq!(early_of(verdicts), early_of(&all));
}

#[test]
fn refuses_to_follow_input_that_cannot_grow() {
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/sample.pcap");
    for input in [capture.as_path(), Path::new("live")] {
        let output = command(input, &["--follow"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let messages = String::from_utf8(output.stderr).unwrap();
        assert!(messages.contains("--follow") && messages.lines().count() == 1, "{messages}");
    }
    // A finished recording is followed to its end.
    let output = command(sample().dir(), &["--follow"]).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed.lines().count(), explained(sample().dir()).len());
}
