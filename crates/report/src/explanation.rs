//! Why requests were slow: verdicts, then what they add up to. Does not reach verdicts.

pub mod csv;
pub mod json;
pub mod text;
pub mod top;

mod group;
mod lag;
mod way;
mod why_not;

use std::io;

use diagnose::Summary;
use diagnose::request_log_check::Agreement;
use model::{Nanos, Verdict};
use serde::Serialize;

pub use csv::ExplanationCsv;
pub use json::ExplanationJson;
pub use lag::{Lag, Lags};
pub use text::ExplanationText;
pub use text::timeline::{RequestText, write_request};
pub use top::TopVerdicts;
pub use way::brief;

/// What all verdicts add up to, and what they were reached from.
#[derive(Clone, Debug, Default)]
pub struct Conclusion {
    /// The engine's totals.
    pub summary: Summary,
    /// From which latency on a request counted as slow.
    pub slower_than: Nanos,
    /// What could not be observed, and why.
    pub unobservable: Vec<Unobservable>,
    /// How far Kafka's own request log agrees, where one was given.
    pub agreement: Option<Agreement>,
    /// How far behind verdicts were, where requests were explained as they came.
    pub lag: Option<Lag>,
    /// What else is to be known about the input: that it is unfinished, that it holds packets only.
    pub notes: Vec<String>,
}

/// Something that no source watched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unobservable {
    /// What could not be observed.
    pub what: String,
    /// Why, and what would change that.
    pub why: String,
}

/// An output of verdicts, one after the other, and of their conclusion.
pub trait ExplanationReport {
    /// Takes one verdict; an output that groups them writes nothing yet.
    fn verdict(&mut self, verdict: Verdict) -> io::Result<()>;

    /// Hands on what was written so far; there is nothing of an output that groups verdicts.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Ends the output.
    fn finish(&mut self, conclusion: &Conclusion) -> io::Result<()>;
}
