//! The order of an experiment's runs, and how long what is left of them takes.

use std::collections::VecDeque;
use std::time::Duration;

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

#[cfg(test)]
mod tests {
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
