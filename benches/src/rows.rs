//! Counts of the output of `requests --format json`. Does not judge it.

use std::io::BufRead;

use anyhow::{Context as _, bail};
use serde_json::Value;

/// Counts of one output.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// Requests, all of them without an error and answered.
    pub(crate) requests: u64,
    pub(crate) message_ids: u64,
    /// From the summary.
    pub(crate) packets: u64,
    /// From the summary.
    pub(crate) kernel_drops: u64,
}

impl Rows {
    /// Reads an output to its end.
    ///
    /// # Errors
    /// A request that could not be read or has no answer, or an output without its summary.
    pub(crate) fn count(output: impl BufRead) -> anyhow::Result<Self> {
        let mut rows = Self::default();
        for line in output.lines() {
            let line = line?;
            let row: Value = serde_json::from_str(&line)?;
            if row.get("type").and_then(Value::as_str) == Some("summary") {
                let number = |name| row.get(name).and_then(Value::as_u64).context("a number in the summary");
                rows.packets = number("packets")?;
                rows.kernel_drops = number("kernel_drops")?;
                return Ok(rows);
            }
            if !row.get("error").is_some_and(Value::is_null)
                || !row.get("latency_ns").is_some_and(Value::is_i64)
            {
                bail!("not read whole: {line}");
            }
            rows.requests += 1;
            rows.message_ids += message_ids(&row);
        }
        bail!("the output has no summary")
    }
}

fn message_ids(request: &Value) -> u64 {
    let partitions = request.get("partitions").and_then(Value::as_array);
    let of = |partition: &Value| partition.get("message_ids")?.as_array().map(Vec::len);
    partitions.into_iter().flatten().filter_map(of).sum::<usize>() as u64
}
