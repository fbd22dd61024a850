//! Checks that `segment --records` and `DumpLogSegments` agree on every record.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::Value;

/// Offset, timestamp, bytes of key and value.
type Record = [i64; 4];

/// A tool's output for a segment.
#[derive(Default)]
struct DumpedBatch {
    batches: u64,
    records: Vec<Record>,
}

/// Runs both on the segment.
///
/// # Errors
/// If they differ, a CRC is wrong, or they do not find this many batches and records.
pub(crate) fn check(ours: Command, theirs: Command, batches: u64, records: u64) -> anyhow::Result<()> {
    let ours = lines(ours, DumpedBatch::json)?;
    let theirs = lines(theirs, DumpedBatch::dump)?;
    for (name, dump) in [("brokerscope", &ours), ("DumpLogSegments", &theirs)] {
        let found = (dump.batches, dump.records.len() as u64);
        ensure!(
            found == (batches, records),
            "{name}: {found:?} batches and records of {:?}",
            (batches, records)
        );
    }
    let differs = ours.records.iter().zip(&theirs.records).find(|(ours, theirs)| ours != theirs);
    ensure!(differs.is_none(), "brokerscope and DumpLogSegments differ: {differs:?}");
    Ok(())
}

fn lines(
    mut command: Command,
    take: fn(&mut DumpedBatch, &str) -> anyhow::Result<()>,
) -> anyhow::Result<DumpedBatch> {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let output = child.stdout.take().context("a pipe")?;
    let mut dump = DumpedBatch::default();
    for line in BufReader::with_capacity(1 << 16, output).lines() {
        let line = line?;
        take(&mut dump, &line).with_context(|| line.clone())?;
    }
    let status = child.wait()?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(dump)
}

impl DumpedBatch {
    /// Parses a line of ours.
    fn json(&mut self, line: &str) -> anyhow::Result<()> {
        let row: Value = serde_json::from_str(line)?;
        if row.get("type").and_then(Value::as_str) == Some("batch") {
            ensure!(row.get("crc_ok") == Some(&Value::Bool(true)), "a wrong CRC");
            self.batches += 1;
            return Ok(());
        }
        let number = |name| row.get(name).and_then(Value::as_i64).context(name);
        self.records.push([
            number("offset")?,
            number("timestamp_ms")?,
            number("key_bytes")?,
            number("value_bytes")?,
        ]);
        Ok(())
    }

    /// Parses a line of Kafka's: `baseOffset: 0 … isvalid: true`, and below it
    /// `| offset: 0 CreateTime: 1760000000000 keySize: 8 valueSize: 139 …`.
    fn dump(&mut self, line: &str) -> anyhow::Result<()> {
        if line.starts_with("baseOffset:") {
            ensure!(line.contains("isvalid: true"), "a wrong CRC");
            self.batches += 1;
        }
        let Some(line) = line.strip_prefix("| ") else { return Ok(()) };
        let number = |name: &'static str| -> anyhow::Result<i64> {
            let after = line.split(name).nth(1).and_then(|after| after.split_whitespace().next());
            Ok(after.context(name)?.parse()?)
        };
        self.records.push([
            number("offset: ")?,
            number("CreateTime: ")?,
            number("keySize: ")?,
            number("valueSize: ")?,
        ]);
        Ok(())
    }
}
