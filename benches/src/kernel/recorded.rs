//! A run's recorded events, what really happened, and the recording's loss count.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::TOPIC;

/// The recorded events of a run.
#[derive(Debug)]
pub(crate) struct RecordingStats {
    /// Operations on files and on connections.
    pub(crate) operations: u64,
    /// Writes of the topic's records.
    pub(crate) appends: u64,
    /// The real number of them.
    pub(crate) appended: u64,
    /// Losses in the recording, by kind.
    pub(crate) lost: BTreeMap<String, u64>,
    /// The recorder's output.
    pub(crate) log: String,
}

impl RecordingStats {
    /// Reads a recording as a user does; `appended` is the number of batches that the broker accepted.
    pub(crate) fn read(
        brokerscope: &Path,
        recording: &Path,
        appended: u64,
        log: String,
    ) -> anyhow::Result<Self> {
        let (_, appends) = file_ops(brokerscope, recording, |op| {
            text(op, "topic") == TOPIC && text(op, "kind") == "log" && text(op, "op") == "write"
        })?;
        let manifest = manifest(recording)?;
        let operations = sum_of(&manifest, "rows", |table| ["file_ops", "socket_ops"].contains(&table))?;
        Ok(Self { operations, appends, appended, lost: nonzero_losses(&manifest)?, log })
    }

    /// Sum of all losses.
    pub(crate) fn all_lost(&self) -> u64 {
        self.lost.values().sum()
    }

    /// Formats the losses for a table.
    pub(crate) fn lost_of_each_kind(&self) -> String {
        of_each_kind(&self.lost)
    }

    /// Appends that are neither recorded nor counted as lost.
    pub(crate) fn unaccounted(&self) -> u64 {
        self.wrong().saturating_sub(self.all_lost())
    }

    /// Appends that were not recorded, or recorded twice.
    pub(crate) fn wrong(&self) -> u64 {
        self.appended.abs_diff(self.appends)
    }
}

/// Counts a recording's file operations: all, and the selected ones.
pub(crate) fn file_ops(
    brokerscope: &Path,
    recording: &Path,
    is_selected: impl Fn(&Value) -> bool,
) -> anyhow::Result<(u64, u64)> {
    let mut io = Command::new(brokerscope);
    io.args(["io", "--slower-than", "0", "--format", "json", "--from"]).arg(recording);
    let mut io = io.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let (mut all, mut counted) = (0, 0);
    for line in BufReader::new(io.stdout.take().context("no pipe")?).lines() {
        let op: Value = serde_json::from_str(&line?)?;
        if text(&op, "type") == "file-op" {
            all += 1;
            counted += u64::from(is_selected(&op));
        }
    }
    let status = io.wait()?;
    ensure!(status.success(), "brokerscope io: {status}");
    Ok((all, counted))
}

/// A text field; empty if it is not text.
pub(crate) fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// A manifest's losses that are not zero, by kind.
fn nonzero_losses(manifest: &Value) -> anyhow::Result<BTreeMap<String, u64>> {
    let losses = manifest.get("losses").and_then(Value::as_object).context("the manifest has no losses")?;
    let counts = losses.iter().filter_map(|(kind, count)| Some((kind.clone(), count.as_u64()?)));
    Ok(counts.filter(|(_, count)| *count > 0).collect())
}

/// Formats the losses in a recording's manifest; "0" if there are none.
pub(crate) fn lost_of_each_kind(recording: &Path) -> anyhow::Result<String> {
    Ok(of_each_kind(&nonzero_losses(&manifest(recording)?)?))
}

fn of_each_kind(lost: &BTreeMap<String, u64>) -> String {
    if lost.is_empty() {
        return "0".to_owned();
    }
    let kinds: Vec<String> = lost.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    kinds.join(", ")
}

/// The sum of all losses in a recording's manifest.
pub(crate) fn all_lost(recording: &Path) -> anyhow::Result<u64> {
    Ok(nonzero_losses(&manifest(recording)?)?.values().sum())
}

fn manifest(recording: &Path) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(&fs::read_to_string(recording.join("manifest.json"))?)?)
}

/// The sum of a manifest's numbers, selected by name.
fn sum_of(manifest: &Value, field: &str, is_selected: impl Fn(&str) -> bool) -> anyhow::Result<u64> {
    let numbers = manifest.get(field).and_then(Value::as_object);
    let numbers = numbers.with_context(|| format!("the manifest has no {field}"))?;
    Ok(numbers.iter().filter(|(name, _)| is_selected(name)).filter_map(|(_, number)| number.as_u64()).sum())
}
