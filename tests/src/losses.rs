//! Losses that no recorder can prevent, so that a test may allow a few of them.

use serde_json::Value;

const KIND: &str = "probe-events-dropped";
/// A thread that the host hides from tracing hands over the CPU without a tracepoint (`crates/probes/tests/reasons.rs`);
/// the JVM changes its mappings during an msync.
const REASONS: [&str; 2] =
    ["a thread's time off the CPU was not seen", "the file of an msync could not be seen"];
/// Limit in one test, which has tens of thousands of events.
const MAX_LOSSES: u64 = 5;

/// Whether the summary of an explanation has only such losses, and few of them.
pub fn are_unpreventable(summary: &Value) -> bool {
    let details = summary["loss_details"].as_array().unwrap();
    let is_one =
        |loss: &Value| loss["kind"] == KIND && REASONS.iter().any(|&reason| loss["detail"] == reason);
    details.iter().all(is_one)
        && details.iter().map(|loss| loss["count"].as_u64().unwrap()).sum::<u64>() <= MAX_LOSSES
}

/// Whether an export that lost so many probe events has logged only such reasons; it logs each once.
pub fn is_unpreventable_in(log: &str, count: f64) -> bool {
    let logged = log.lines().filter_map(|line| line.split_once(&format!("lost: {KIND}: ")));
    let reasons: Vec<_> = logged.map(|(_, reason)| reason.trim_end()).collect();
    let is_known = reasons.iter().all(|reason| REASONS.contains(reason));
    count <= MAX_LOSSES as f64 && is_known && reasons.is_empty() == (count == 0.0)
}
