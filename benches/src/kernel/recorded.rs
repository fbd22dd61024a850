//! What a recording has of a run, beside what really happened, and what it says it lost.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::{TOPIC, producer};

/// What was recorded of a run.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// File operations.
    pub(crate) file_ops: u64,
    /// Writes of the topic's records.
    pub(crate) appends: u64,
    /// How many there really were.
    pub(crate) appended: u64,
    /// Events that the recording says were lost.
    pub(crate) lost: u64,
    /// What the recorder said in the end.
    pub(crate) said: String,
}

impl Recorded {
    /// Reads a recording as a user does; `appended` bytes is how much the topic's segments grew.
    pub(crate) fn read(
        brokerscope: &Path,
        recording: &Path,
        appended: u64,
        said: String,
    ) -> anyhow::Result<Self> {
        let (file_ops, appends) = file_ops(brokerscope, recording, |op| {
            text(op, "topic") == TOPIC && text(op, "kind") == "log" && text(op, "op") == "write"
        })?;
        let batch = producer::batch_bytes();
        ensure!(appended % batch == 0, "{appended} bytes were appended, in batches of {batch}");
        Ok(Self { file_ops, appends, appended: appended / batch, lost: lost(recording)?, said })
    }

    /// Appends that were not recorded, or recorded twice.
    pub(crate) fn wrong(&self) -> u64 {
        self.appended.abs_diff(self.appends)
    }
}

/// Counts a recording's file operations: all, and those that are wanted.
pub(crate) fn file_ops(
    brokerscope: &Path,
    recording: &Path,
    wanted: impl Fn(&Value) -> bool,
) -> anyhow::Result<(u64, u64)> {
    let mut io = Command::new(brokerscope);
    io.args(["io", "--slower-than", "0", "--format", "json", "--from"]).arg(recording);
    let mut io = io.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let (mut all, mut counted) = (0, 0);
    for line in BufReader::new(io.stdout.take().context("no pipe")?).lines() {
        let op: Value = serde_json::from_str(&line?)?;
        if text(&op, "type") == "file-op" {
            all += 1;
            counted += u64::from(wanted(&op));
        }
    }
    let status = io.wait()?;
    ensure!(status.success(), "brokerscope io: {status}");
    Ok((all, counted))
}

/// A field that is text; empty where it is not.
pub(crate) fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The sum of all losses in a recording's manifest.
pub(crate) fn lost(recording: &Path) -> anyhow::Result<u64> {
    let path = recording.join("manifest.json");
    let manifest: Value = serde_json::from_str(&fs::read_to_string(&path)?)?;
    let losses = manifest
        .get("losses")
        .and_then(Value::as_object)
        .with_context(|| format!("{}: no losses", path.display()))?;
    Ok(losses.values().filter_map(Value::as_u64).sum())
}
