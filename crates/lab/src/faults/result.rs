//! What is kept of a run: its windows, so that its recording can be explained and scored again, and its score.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::ground_truth::Observation;
use super::plan::Window;
use super::run::Run;
use super::score::{Score, score};
use crate::error::Error;
use crate::files;
use crate::observer::Observer;

/// The recording, in a run's directory.
pub(super) const RECORDING: &str = "recording";
const RESULT: &str = "result.json";
const VERDICTS: &str = "verdicts.jsonl";
/// Lower than any threshold of a window: what a gap's requests are judged by too.
const LOWEST_MS: u64 = 40;

/// What is recorded before the first window.
const BEFORE_NS: i64 = 10_000_000_000;

/// A run's result.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct FaultResult {
    /// The fault's name.
    pub(super) fault: String,
    /// The first seed.
    pub(super) seed: u64,
    /// How many windows were asked for.
    pub(super) seeds: u32,
    /// What was injected.
    pub(super) windows: Vec<Window>,
    /// From when until when others were injected in the same recording, UTC nanoseconds.
    #[serde(default)]
    pub(super) others: Vec<(i64, i64)>,
    /// What was observed meanwhile.
    #[serde(default, alias = "told")]
    pub(super) observed: Vec<Observation>,
    /// How often the verdicts were right; none where the run did not get there.
    pub(super) score: Option<Score>,
    /// Why the run did not get to its end.
    pub(super) failure: Option<String>,
}

impl FaultResult {
    /// What was observed is kept from the first window on.
    pub(super) fn of(fault: &str, run: &Run, windows: Vec<Window>, mut observed: Vec<Observation>) -> Self {
        let first = windows.first().map_or(i64::MAX, |window| window.start_ns);
        observed.retain(|observed| observed.end_ns >= first.saturating_sub(BEFORE_NS));
        Self {
            fault: fault.to_owned(),
            seed: run.seed,
            seeds: run.seeds,
            windows,
            observed,
            ..Self::default()
        }
    }

    pub(super) fn failed(fault: &str, run: &Run, failure: String) -> Self {
        Self { failure: Some(failure), ..Self::of(fault, run, Vec::new(), Vec::new()) }
    }

    /// What an earlier run left, if it can be read.
    pub(super) fn read(directory: &Path) -> Option<Self> {
        files::read_json(&directory.join(RESULT)).ok()?
    }

    /// Whether it is the whole result of such a run.
    pub(super) fn is_of(&self, seed: u64, seeds: u32) -> bool {
        (self.seed, self.seeds) == (seed, seeds) && self.score.is_some()
    }

    /// Has the recording explained, and scores that.
    pub(super) fn explained_again(mut self, directory: &Path, observer: &Observer) -> Result<Self, Error> {
        let verdicts = directory.join(VERDICTS);
        let lowest = self.windows.iter().map(|window| window.threshold_ms).min();
        let said =
            observer.judge("explain", &directory.join(RECORDING), lowest.unwrap_or(LOWEST_MS), &verdicts)?;
        self.score = Some(score(&said, &self)?);
        files::write_json(&directory.join(RESULT), &self)?;
        Ok(self)
    }

    /// The windows that nothing shows to have been injected.
    pub(super) fn not_injected(&self) -> impl Iterator<Item = &Window> {
        self.windows.iter().filter(|window| window.failure.is_some())
    }

    /// One line.
    pub(super) fn in_short(&self) -> String {
        match (&self.score, &self.failure) {
            (Some(score), _) => score.in_short(self.not_injected().count()),
            (None, Some(failure)) => format!("failed: {failure}"),
            (None, None) => "not scored".to_owned(),
        }
    }
}
