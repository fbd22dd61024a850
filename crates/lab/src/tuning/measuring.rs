//! Configurations measured for real: each a broker with its producers, recorded, and judged by `brokerscope advise` and
//! `brokerscope compare` as a user has them. Decides nothing.

use serde::Deserialize;

use super::advised::{self, Advice};
use super::course::{Bench, Compared, Outcome};
use super::knob::Tuned;
use crate::error::Error;
use crate::experiment::Adaptive;
use crate::experiment::setup::Ground;

/// The experiment, and the device that all of it is on.
pub(super) struct Measuring {
    pub(super) adaptive: Adaptive,
    pub(super) device: Ground,
    /// Requests that took so long are judged.
    pub(super) slower_than_ms: u64,
}

/// The lines of a comparison that matter here.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum Line {
    Configuration {
        base: bool,
        latency_p99_ns: Option<f64>,
    },
    Difference {
        figure: String,
        outcome: String,
    },
    #[serde(other)]
    Other,
}

impl Bench for Measuring {
    fn measure(&mut self, tuned: &Tuned, what: &str, runs: u32) -> Result<(), Error> {
        let setup = tuned.setup(&tuned.id(), &tuned.described(), None, &self.device);
        self.adaptive.measure(&setup, what, runs)
    }

    fn records_per_s(&self, tuned: &Tuned) -> Vec<f64> {
        self.adaptive.records_per_s(&tuned.id())
    }

    fn advice(&mut self, tuned: &Tuned) -> Result<Vec<Advice>, Error> {
        let said = self.adaptive.advise(&tuned.id(), self.slower_than_ms)?;
        advised::read(&said).map_err(|error| Error::Unusable(format!("what advise said: {error}")))
    }

    fn compare(&mut self, before: &Tuned, after: &Tuned) -> Result<Compared, Error> {
        let said = self.adaptive.compare(&before.id(), &after.id())?;
        compared(&said).map_err(|error| Error::Unusable(format!("what compare said: {error}")))
    }

    fn say(&self, line: &str) {
        self.adaptive.say(line);
    }
}

fn compared(said: &str) -> Result<Compared, serde_json::Error> {
    let mut compared = Compared::default();
    for line in said.lines() {
        match serde_json::from_str(line)? {
            Line::Configuration { base, latency_p99_ns } => {
                let p99_ms = latency_p99_ns.map(|ns| ns / 1e6);
                *(if base { &mut compared.p99_before_ms } else { &mut compared.p99_after_ms }) = p99_ms;
            }
            Line::Difference { figure, outcome } => match figure.as_str() {
                "record_bytes_per_s" => compared.throughput = seen(&outcome),
                "latency_p99_ns" => compared.p99 = seen(&outcome),
                _ => {}
            },
            Line::Other => {}
        }
    }
    Ok(compared)
}

fn seen(outcome: &str) -> Outcome {
    match outcome {
        "lower" => Outcome::Lower,
        "higher" => Outcome::Higher,
        "no-difference" => Outcome::Same,
        _ => Outcome::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_is_read_as_compare_prints_it() {
        let said = r#"{"type":"configuration","configuration":"a","base":true,"latency_p99_ns":69000000,"runs":[]}
{"type":"configuration","configuration":"b","base":false,"latency_p99_ns":null}
{"type":"difference","figure":"record_bytes_per_s","outcome":"higher","why":null}
{"type":"difference","figure":"latency_p99_ns","outcome":"too-short","why":"too few"}
{"type":"difference","figure":"latency_p50_ns","outcome":"lower"}
{"type":"over-time","cells":[1,null]}
{"type":"summary","notes":[]}"#;
        let read = compared(said).unwrap();
        let wanted = Compared {
            throughput: Outcome::Higher,
            p99: Outcome::Unknown,
            p99_before_ms: Some(69.0),
            p99_after_ms: None,
        };
        assert_eq!(read, wanted);
        assert!(compared("no JSON").is_err());
    }
}
