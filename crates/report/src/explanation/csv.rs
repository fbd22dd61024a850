//! Verdicts as CSV: one line a slow request, one column a stage (nanoseconds). Evidence stays with JSON.

use std::io::{self, Write};

use model::{Stage, Verdict};

use super::{Conclusion, ExplanationReport};
use crate::csv::{self, known};

const HEADINGS: [&str; 12] = [
    "arrival_ns",
    "end_ns",
    "latency_ns",
    "api",
    "correlation_id",
    "client",
    "broker",
    "topic_partitions",
    "cause",
    "chain",
    "root",
    "confidence",
];

/// Verdicts as CSV.
pub struct ExplanationCsv<W> {
    out: W,
    headed: bool,
}

impl<W: Write> ExplanationCsv<W> {
    /// CSV to this output.
    pub fn new(out: W) -> Self {
        Self { out, headed: false }
    }

    fn head(&mut self) -> io::Result<()> {
        if self.headed {
            return Ok(());
        }
        self.headed = true;
        let stages = Stage::ALL.map(|stage| format!("{}_ns", stage.as_str()));
        csv::write_line(&mut self.out, HEADINGS.into_iter().chain(stages.iter().map(String::as_str)))
    }
}

fn fields(verdict: &Verdict) -> Vec<String> {
    let request = &verdict.request;
    let partitions = request.partitions.iter().map(|partition| {
        let topic = known(partition.topic.as_deref());
        format!("{topic}-{}", partition.partition)
    });
    let mut fields = vec![
        request.arrival.0.to_string(),
        known(request.end.map(|end| end.0)),
        known(request.latency().map(|length| length.0)),
        request.api.to_owned(),
        request.correlation_id.to_string(),
        request.client.to_string(),
        request.broker.to_string(),
        partitions.collect::<Vec<_>>().join(" "),
        verdict.cause.to_string(),
        verdict.chain.iter().map(|cause| cause.as_str()).collect::<Vec<_>>().join(" "),
        verdict.root.to_string(),
        verdict.confidence.to_string(),
    ];
    fields.extend(verdict.stages.iter().map(|(_, length)| length.0.to_string()));
    fields
}

impl<W: Write> ExplanationReport for ExplanationCsv<W> {
    fn verdict(&mut self, verdict: Verdict) -> io::Result<()> {
        self.head()?;
        csv::write_line(&mut self.out, fields(&verdict).iter().map(String::as_str))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn finish(&mut self, _conclusion: &Conclusion) -> io::Result<()> {
        self.head()?;
        self.out.flush()
    }
}
