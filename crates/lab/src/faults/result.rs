//! Saved result of a run: its windows, so that its recording can be explained and scored again, and its score.

use std::fmt::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::ground_truth::Observation;
use super::plan::Window;
use super::score::{Score, percent, score};
use super::{RequestSource, Run};
use crate::error::Result;
use crate::files;
use crate::session::Observer;

/// The recording, in a run's directory.
pub(super) const RECORDING: &str = "recording";
const RESULT: &str = "result.json";
const VERDICTS: &str = "verdicts.jsonl";
/// Lower than any threshold of a window; also used for requests in gaps.
const LOWEST_MS: u64 = 40;

/// Recorded time before the first window.
const BEFORE_NS: i64 = 10_000_000_000;

/// A run's result.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct FaultResult {
    /// The fault's name.
    pub(super) fault: String,
    /// The first seed.
    pub(super) seed: u64,
    /// Number of windows requested.
    pub(super) seeds: u32,
    #[serde(default)]
    pub(super) source: RequestSource,
    /// The injected windows.
    pub(super) windows: Vec<Window>,
    /// Start and end of other faults' windows in the same recording, UTC nanoseconds.
    #[serde(default)]
    pub(super) others: Vec<(i64, i64)>,
    /// Independent observations.
    #[serde(default, alias = "told")]
    pub(super) observed: Vec<Observation>,
    /// How often the verdicts were right; `None` if the run did not get there.
    pub(super) score: Option<Score>,
    /// Why the run did not finish.
    pub(super) failure: Option<String>,
}

impl FaultResult {
    /// Makes a result; keeps observations from the first window on.
    pub(super) fn of(fault: &str, run: &Run, windows: Vec<Window>, mut observed: Vec<Observation>) -> Self {
        let first = windows.first().map_or(i64::MAX, |window| window.start_ns);
        observed.retain(|observed| observed.end_ns >= first.saturating_sub(BEFORE_NS));
        Self {
            fault: fault.to_owned(),
            seed: run.seed,
            seeds: run.seeds,
            source: run.source,
            windows,
            observed,
            ..Self::default()
        }
    }

    pub(super) fn failed(fault: &str, run: &Run, failure: String) -> Self {
        Self { failure: Some(failure), ..Self::of(fault, run, Vec::new(), Vec::new()) }
    }

    /// Reads the result of an earlier run, if that is possible.
    pub(super) fn read(directory: &Path) -> Option<Self> {
        files::read_json(&directory.join(RESULT)).ok()?
    }

    /// Whether it is the complete result of such a run.
    pub(super) fn is_of(&self, run: &Run) -> bool {
        let own = (self.seed, self.seeds, self.source);
        own == (run.seed, run.seeds, run.source) && self.score.is_some()
    }

    /// Explains the recording again, and scores the verdicts.
    pub(super) fn explain_again(mut self, directory: &Path, observer: &Observer) -> Result<Self> {
        let verdicts = directory.join(VERDICTS);
        let lowest = self.windows.iter().map(|window| window.threshold_ms).min();
        let output =
            observer.judge("explain", &directory.join(RECORDING), lowest.unwrap_or(LOWEST_MS), &verdicts)?;
        self.score = Some(score(&output, &self)?);
        files::write_json(&directory.join(RESULT), &self)?;
        Ok(self)
    }

    /// Windows without evidence that the fault was injected.
    pub(super) fn not_injected(&self) -> impl Iterator<Item = &Window> {
        self.windows.iter().filter(|window| window.failure.is_some())
    }

    /// Windows with failed attempts, whether injected in the end or not.
    pub(super) fn tried_again(&self) -> impl Iterator<Item = &Window> {
        self.windows.iter().filter(|window| !window.failed_attempts.is_empty())
    }

    /// Summarizes it in one line.
    pub(super) fn in_short(&self) -> String {
        match (&self.score, &self.failure) {
            (Some(score), _) => {
                let attempts = self.tried_again().map(|window| window.failed_attempts.len()).sum();
                score.in_short(self.not_injected().count(), attempts)
            }
            (None, Some(failure)) => format!("failed: {failure}"),
            (None, None) => "not scored".to_owned(),
        }
    }
}

/// Required shares of right verdicts, in per cent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// For each fault.
    each: f64,
    /// For all faults together.
    overall: f64,
    /// Maximum number of a fault's verdicts that may be wrong, if one is right. Their share does not matter: a window
    /// may have three requests.
    forgiven: u64,
    /// Maximum share of a quiet run's slowest requests with a cause that nothing else shows. The ground truth lacks
    /// what happens to threads that it does not read.
    spurious: f64,
    /// Whether a verdict without a cause is good enough, and a window in which no request looks slow.
    allows_unobserved: bool,
}

impl Bounds {
    /// The project's goals.
    pub(super) const FULL: Self =
        Self { each: 95.0, overall: 98.0, forgiven: 0, spurious: 0.0, allows_unobserved: false };
    /// For one window per fault, on a machine that may do other things. Such a window has some tens of requests or
    /// fewer.
    pub(super) const SHORT: Self =
        Self { each: 75.0, overall: 90.0, forgiven: 1, spurious: 10.0, ..Self::FULL };

    pub(super) fn of(is_short: bool, source: RequestSource) -> Self {
        // A line of the log begins when the broker has read the request, and does not name the threads.
        let allows_unobserved = source == RequestSource::RequestLog;
        Self { allows_unobserved, ..if is_short { Self::SHORT } else { Self::FULL } }
    }

    /// What is counted as good, for people.
    fn good(self) -> &'static str {
        if self.allows_unobserved { "right or without a cause" } else { "right" }
    }

    fn count_good(self, score: &Score) -> u64 {
        score.right + if self.allows_unobserved { score.without_cause } else { 0 }
    }
}

/// A target and its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Target {
    /// The requirement.
    pub(super) what: String,
    /// The result.
    pub(super) found: String,
    pub(super) reached: bool,
}

/// Computes all targets.
pub(super) fn targets(results: &[FaultResult], bounds: Bounds) -> Vec<Target> {
    let Bounds { overall, .. } = bounds;
    let good = bounds.good();
    let mut targets: Vec<Target> = results.iter().map(|result| of_fault(result, bounds)).collect();
    let scores = || results.iter().filter_map(|result| result.score.as_ref());
    let sum = |of: fn(&Score) -> u64| -> u64 { scores().map(of).sum() };
    let victims = sum(|score| score.victims);
    if victims > 0 {
        let count: u64 = scores().map(|score| bounds.count_good(score)).sum();
        targets.push(Target {
            what: format!("all faults: at least {overall:.0} % {good}"),
            found: format!("{count} of {victims} requests, {:.1} %", percent(count, victims)),
            reached: percent(count, victims) >= overall,
        });
    }
    let wrong_exact = sum(|score| score.wrong_exact);
    targets.push(Target {
        what: "no verdict that is wrong and exact".to_owned(),
        found: wrong_exact.to_string(),
        reached: wrong_exact == 0,
    });
    let unobserved_waits = sum(|score| score.unobserved_waits);
    targets.push(Target {
        what: "no request is unobserved whose thread was seen waiting".to_owned(),
        found: unobserved_waits.to_string(),
        reached: unobserved_waits == 0,
    });
    targets
}

fn of_fault(result: &FaultResult, bounds: Bounds) -> Target {
    let Bounds { each, forgiven, spurious, allows_unobserved, .. } = bounds;
    let Some(score) = &result.score else {
        let what = format!("{}: runs to its end", result.fault);
        return Target { what, found: result.in_short(), reached: false };
    };
    if is_quiet(result) {
        let (given, observed, without) =
            (score.spurious_count(), score.observed_outside_count(), score.unexplained);
        let all = given + observed + without;
        return Target {
            what: format!(
                "{}: at most {spurious:.0} % of requests are given a cause that nothing else shows",
                result.fault
            ),
            found: format!(
                "{given} of its {} slowest ({observed} were given a cause that the JVM's log or the kernel's statistics show, \
                 {without} none; {} took 100 ms, which is slow by default)",
                all, score.slow_by_default
            ),
            reached: percent(given, all) <= spurious
                && all > 0
                && result.windows.len() == result.seeds as usize,
        };
    }
    let not_injected = result.not_injected().count();
    let idle = score.of_windows.iter().filter(|requests| **requests == 0).count();
    let good = bounds.count_good(score);
    let good_percent = percent(good, score.victims);
    let is_forgiven = good > 0 && score.victims.saturating_sub(good) <= forgiven;
    let is_unfelt = allows_unobserved && score.victims == 0;
    let is_enough = good_percent >= each || is_forgiven || is_unfelt;
    let mut found = format!("{good} of {} requests, {good_percent:.1} %", score.victims);
    let tried_again = result.tried_again().count();
    let counts =
        [(not_injected, "not injected"), (tried_again, "tried again"), (idle, "without a slow request")];
    for (count, what) in counts {
        if count > 0 {
            let _ = write!(found, "; {count} of {} windows {what}", result.windows.len());
        }
    }
    let (injected, idle) = if allows_unobserved { ("injected", 0) } else { ("injected and felt", idle) };
    Target {
        what: format!("{}: at least {each:.0} % {}, every window {injected}", result.fault, bounds.good()),
        found,
        reached: is_enough && not_injected + idle == 0,
    }
}

/// Whether nothing was meant to be injected.
pub(super) fn is_quiet(result: &FaultResult) -> bool {
    !result.windows.is_empty() && result.windows.iter().all(|window| window.truths.is_empty())
}

#[cfg(test)]
mod targets_tests {
    use super::*;
    use crate::faults::plan::{FailedAttempt, Truth, Window};
    use crate::faults::score::Score;

    fn missed(results: &[FaultResult]) -> usize {
        missed_of(results, Bounds::FULL)
    }

    fn missed_of(results: &[FaultResult], bounds: Bounds) -> usize {
        targets(results, bounds).iter().filter(|target| !target.reached).count()
    }

    fn result(right: u64, victims: u64) -> FaultResult {
        let window = Window { truths: vec![Truth::of(&["x"])], ..Window::default() };
        let score = Score { right, victims, of_windows: vec![victims], ..Score::default() };
        FaultResult { seeds: 1, windows: vec![window], score: Some(score), ..FaultResult::default() }
    }

    #[test]
    fn targets_cover_each_fault_the_total_and_exactness() {
        assert_eq!(missed(&[result(95, 100)]), 1, "the whole");
        assert_eq!(missed(&[result(99, 100), result(94, 100)]), 2);
        assert_eq!(missed(&[result(100, 100)]), 0);
        assert_eq!(missed_of(&[result(92, 100)], Bounds::SHORT), 0);
        assert_eq!(missed_of(&[result(70, 100), result(900, 900)], Bounds::SHORT), 1);
        assert_eq!(missed_of(&[result(2, 3), result(90, 90)], Bounds::SHORT), 0);
        assert_eq!(missed_of(&[result(0, 1), result(90, 90)], Bounds::SHORT), 1);
        assert_eq!(missed(&[result(2, 3), result(900, 900)]), 1);
        let mut odd = result(100, 100);
        odd.score.as_mut().unwrap().wrong_exact = 1;
        assert_eq!(missed(&[odd.clone()]), 1);
        odd.score.as_mut().unwrap().unobserved_waits = 1;
        assert_eq!(missed(&[odd]), 2);
    }

    #[test]
    fn windows_without_effect_or_injection_miss_the_target() {
        let mut idle = result(100, 100);
        idle.windows.push(idle.windows[0].clone());
        idle.score.as_mut().unwrap().of_windows.push(0);
        assert_eq!(missed(&[idle]), 1);
        let mut failed = result(100, 100);
        failed.windows[0].failure = Some("no".to_owned());
        assert_eq!(missed(&[failed]), 1);
        assert_eq!(missed(&[FaultResult::default()]), 1, "no score");
    }

    #[test]
    fn log_may_leave_requests_without_a_cause_but_not_name_another() {
        let bounds = Bounds::of(false, RequestSource::RequestLog);
        let mut silent = result(60, 100);
        silent.score.as_mut().unwrap().without_cause = 40;
        silent.windows.push(silent.windows[0].clone());
        silent.score.as_mut().unwrap().of_windows.push(0);
        assert_eq!(missed_of(&[silent.clone(), result(0, 0)], bounds), 0);
        silent.score.as_mut().unwrap().without_cause = 30;
        assert_eq!(missed_of(&[silent], bounds), 2);
    }

    #[test]
    fn retried_window_reaches_the_target_and_is_reported() {
        let mut late = result(100, 100);
        late.windows[0].failed_attempts = vec![FailedAttempt::default(); 2];
        assert_eq!(missed(&[late.clone()]), 0);
        let found = &targets(&[late.clone()], Bounds::FULL)[0].found;
        assert!(found.ends_with("; 1 of 1 windows tried again"), "{found}");
        assert!(late.in_short().contains("2 attempt(s) that were not injected, and tried again"));
    }

    #[test]
    fn quiet_run_misses_the_target_on_spurious_blame() {
        let mut quiet = result(0, 0);
        quiet.windows[0].truths.clear();
        assert_eq!(missed(&[quiet.clone()]), 1, "nobody was slow");
        quiet.score.as_mut().unwrap().observed_outside.insert("gc-pause".to_owned(), 1);
        quiet.score.as_mut().unwrap().unexplained = 1;
        assert_eq!(missed(&[quiet.clone()]), 0);
        quiet.score.as_mut().unwrap().spurious.insert("gc-pause".to_owned(), 1);
        assert_eq!(missed(&[quiet.clone()]), 1);
        let is_reached = |quiet: &FaultResult| targets(std::slice::from_ref(quiet), Bounds::SHORT)[0].reached;
        assert!(!is_reached(&quiet), "a third");
        quiet.score.as_mut().unwrap().unexplained = 8;
        assert!(is_reached(&quiet), "a tenth");
    }
}
