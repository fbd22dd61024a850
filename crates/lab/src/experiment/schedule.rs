//! The order of an experiment's runs, their estimated time, and progress.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use super::run_log::RunLog;
use crate::error::Result;
use crate::session::interrupt;

/// All runs, each a configuration and its repetition from 1 on. Every configuration runs once before any runs again, so
/// that changes on the machine affect all alike. Each round starts with another one, so that none always follows the
/// remains of the same one.
pub(crate) fn order<T>(setups: &[T], repetitions: u32) -> Vec<(&T, u32)> {
    let round = |repetition: u32| {
        let (behind, first) = setups.split_at((repetition as usize - 1) % setups.len().max(1));
        first.iter().chain(behind).map(move |setup| (setup, repetition))
    };
    (1..=repetitions).flat_map(round).collect()
}

/// Estimates how long a run takes: a guess until some are done.
#[derive(Clone, Debug)]
pub(crate) struct Estimate {
    guess: Duration,
    /// How long each finished run took.
    pub(crate) took: Vec<Duration>,
}

impl Estimate {
    /// Creates an estimate from the runs in the log. Without any, from the load's time plus setup and teardown.
    pub(crate) fn of(load: Duration, run_log: &RunLog) -> Self {
        let took = run_log.runs.iter().map(|done| Duration::from_secs_f64(done.took_s.clamp(0.0, 1e6)));
        Self { guess: load + AROUND, took: took.collect() }
    }

    /// Estimates the time of `count` runs.
    pub(crate) fn of_runs(&self, count: usize) -> Duration {
        let made = u32::try_from(self.took.len()).unwrap_or(u32::MAX);
        let each = self.took.iter().sum::<Duration>().checked_div(made).unwrap_or(self.guess);
        each * u32::try_from(count).unwrap_or(u32::MAX)
    }
}

/// Time of a run in addition to its load: making a file system, starting and warming up a broker, a recorder, and the
/// end.
const AROUND: Duration = Duration::from_secs(16);

/// How often the bar is drawn again.
const REDRAW_INTERVAL: Duration = Duration::from_millis(500);
const WIDTH: usize = 30;

/// Sleeps for `time`, with a progress bar if stderr is a terminal.
///
/// # Errors
/// [`Error::Interrupted`], and the errors of `check`.
pub(crate) fn watch(time: Duration, mut check: impl FnMut() -> Result<()>) -> Result<()> {
    let is_shown = std::io::stderr().is_terminal();
    let started = Instant::now();
    let result = loop {
        let passed = started.elapsed();
        if passed >= time {
            break Ok(());
        }
        if is_shown {
            let _ = write!(std::io::stderr(), "\r{}", bar(passed, time));
        }
        if let Err(error) =
            check().and_then(|()| interrupt().sleep(REDRAW_INTERVAL.min(time.saturating_sub(passed))))
        {
            break Err(error);
        }
    };
    if is_shown {
        let _ = write!(std::io::stderr(), "\r{:1$}\r", "", WIDTH + 24);
    }
    result
}

fn bar(passed: Duration, whole: Duration) -> String {
    let share = (passed.as_secs_f64() / whole.as_secs_f64()).clamp(0.0, 1.0);
    let done = (share * WIDTH as f64) as usize;
    format!(
        "  [{}{}] {} of {} s",
        "#".repeat(done),
        ".".repeat(WIDTH - done),
        passed.as_secs(),
        whole.as_secs()
    )
}

/// `about 14 min`, `about 40 s`.
pub(crate) fn roughly(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=90 => format!("about {seconds} s"),
        seconds => format!("about {} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod order_tests {
    use super::*;

    #[test]
    fn runs_each_configuration_once_before_any_repetition() {
        let runs = order(&['a', 'b', 'c'], 2);
        assert_eq!(runs, [(&'a', 1), (&'b', 1), (&'c', 1), (&'b', 2), (&'c', 2), (&'a', 2)]);
        assert!(order::<char>(&[], 3).is_empty() && order(&['a'], 0).is_empty());
    }

    #[test]
    fn finished_runs_replace_the_guess() {
        let mut estimate = Estimate { guess: Duration::from_secs(40), took: Vec::new() };
        assert_eq!(estimate.of_runs(3), Duration::from_secs(120));
        estimate.took = vec![Duration::from_secs(30), Duration::from_secs(50)];
        assert_eq!(estimate.of_runs(2), Duration::from_secs(80));
        assert_eq!(estimate.of_runs(0), Duration::ZERO);
    }
}

#[cfg(test)]
mod progress_tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn progress_bar_fills() {
        let whole = Duration::from_secs(20);
        assert_eq!(bar(Duration::ZERO, whole), format!("  [{}] 0 of 20 s", ".".repeat(30)));
        assert!(bar(Duration::from_secs(10), whole).starts_with("  [###############..............."));
        assert_eq!(bar(Duration::from_secs(30), whole), format!("  [{}] 30 of 20 s", "#".repeat(30)));
    }

    #[test]
    fn rounds_times_to_seconds_or_minutes() {
        assert_eq!(roughly(Duration::from_secs(42)), "about 42 s");
        assert_eq!(roughly(Duration::from_secs(840)), "about 14 min");
        assert_eq!(roughly(Duration::from_secs(841)), "about 15 min");
    }

    #[test]
    fn failed_check_ends_the_wait() {
        let failed = watch(Duration::from_secs(60), || Err(Error::Interrupted));
        assert!(matches!(failed, Err(Error::Interrupted)));
    }
}
