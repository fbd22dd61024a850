//! The order of the runs of an experiment, how long they take, and how far it is.

use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::session::Interrupt;

/// One run: which configuration, and which time it is, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Run {
    pub(crate) setup: usize,
    pub(crate) repetition: u32,
}

/// All runs: every configuration once before any is run again, so that what changes on the machine meanwhile changes
/// for all alike, and each time another one first, so that none always follows the same one's remains.
pub(crate) fn order(setups: usize, repetitions: u32) -> Vec<Run> {
    let round = |repetition: u32| {
        let mut indices: VecDeque<usize> = (0..setups).collect();
        indices.rotate_left((repetition as usize - 1).checked_rem(setups).unwrap_or(0));
        indices.into_iter().map(move |setup| Run { setup, repetition })
    };
    (1..=repetitions).flat_map(round).collect()
}

/// How long a run takes: a guess until some have been made.
#[derive(Clone, Debug)]
pub(crate) struct Estimate {
    guess: Duration,
    took: Vec<Duration>,
}

impl Estimate {
    /// What is known before the first run: the load's time, and what setting up and taking down takes.
    pub(crate) fn of(load: Duration, took: Vec<Duration>) -> Self {
        Self { guess: load + AROUND, took }
    }

    /// A run has taken so long.
    pub(crate) fn learn(&mut self, took: Duration) {
        self.took.push(took);
    }

    /// One run.
    pub(crate) fn each(&self) -> Duration {
        let count = u32::try_from(self.took.len()).unwrap_or(u32::MAX);
        self.took.iter().sum::<Duration>().checked_div(count).unwrap_or(self.guess)
    }

    /// So many runs.
    pub(crate) fn of_runs(&self, count: usize) -> Duration {
        self.each() * u32::try_from(count).unwrap_or(u32::MAX)
    }
}

/// What a run takes beside its load: making a file system, starting a broker, warming it up, a recorder, and the end.
pub(crate) const AROUND: Duration = Duration::from_secs(16);

/// How often the bar is drawn again.
const REDRAWN: Duration = Duration::from_millis(500);
const WIDTH: usize = 30;

/// Sleeps for `time`, with a bar where stderr is a terminal.
///
/// # Errors
/// [`Error::Interrupted`], and what `check` fails with.
pub(crate) fn watch(
    time: Duration,
    interrupt: &Interrupt,
    mut check: impl FnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    let shown = std::io::stderr().is_terminal();
    let started = Instant::now();
    let watched = loop {
        let passed = started.elapsed();
        if passed >= time {
            break Ok(());
        }
        if shown {
            let _ = write!(std::io::stderr(), "\r{}", bar(passed, time));
        }
        if let Err(error) = check().and_then(|()| interrupt.sleep(REDRAWN.min(time.saturating_sub(passed)))) {
            break Err(error);
        }
    };
    if shown {
        let _ = write!(std::io::stderr(), "\r{:1$}\r", "", WIDTH + 24);
    }
    watched
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
mod course_tests {
    use super::*;

    #[test]
    fn each_configuration_is_run_once_before_any_is_run_again() {
        let runs = order(3, 2);
        let of = |repetition| -> Vec<usize> {
            runs.iter().filter(|run| run.repetition == repetition).map(|run| run.setup).collect()
        };
        assert_eq!(runs.len(), 6);
        assert!(runs.windows(2).all(|pair| pair[0].repetition <= pair[1].repetition));
        assert_eq!((of(1), of(2)), (vec![0, 1, 2], vec![1, 2, 0]));
        assert!(order(0, 3).is_empty() && order(3, 0).is_empty());
    }

    #[test]
    fn a_guess_gives_way_to_what_runs_took() {
        let mut estimate = Estimate::of(Duration::from_secs(24), Vec::new());
        assert_eq!(estimate.of_runs(3), Duration::from_secs(3 * (24 + AROUND.as_secs())));
        estimate.learn(Duration::from_secs(30));
        estimate.learn(Duration::from_secs(50));
        assert_eq!(estimate.each(), Duration::from_secs(40));
        assert_eq!(estimate.of_runs(0), Duration::ZERO);
    }
}

#[cfg(test)]
mod progress_tests {
    use super::*;

    #[test]
    fn a_bar_fills() {
        let whole = Duration::from_secs(20);
        assert_eq!(bar(Duration::ZERO, whole), format!("  [{}] 0 of 20 s", ".".repeat(30)));
        assert!(bar(Duration::from_secs(10), whole).starts_with("  [###############..............."));
        assert_eq!(bar(Duration::from_secs(30), whole), format!("  [{}] 30 of 20 s", "#".repeat(30)));
    }

    #[test]
    fn times_are_said_roughly() {
        assert_eq!(roughly(Duration::from_secs(42)), "about 42 s");
        assert_eq!(roughly(Duration::from_secs(840)), "about 14 min");
        assert_eq!(roughly(Duration::from_secs(841)), "about 15 min");
    }

    #[test]
    fn what_is_checked_meanwhile_ends_it() {
        let failed = watch(Duration::from_secs(60), &Interrupt::never(), || Err(Error::Interrupted));
        assert!(matches!(failed, Err(Error::Interrupted)));
    }
}
