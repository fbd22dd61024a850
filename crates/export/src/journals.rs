//! Commits of journals, with their phases. Does not know who waited for them.

use model::CommitPhases;
use model::{JournalCommit, Nanos};

use crate::catalog;
use crate::encoding::Encoder;
use crate::histogram::{Histogram, seconds};
use crate::label::ByLabel;
use crate::peak::Peak;

/// More journals than any host has that are of a broker.
const MOST_DEVICES: usize = 64;

type LengthOf = fn(&CommitPhases) -> Nanos;

/// The phases, in the order in which a transaction goes through them.
const PHASES: [(&str, LengthOf); 5] = [
    ("wait", |phases| phases.wait),
    ("running", |phases| phases.running),
    ("locked", |phases| phases.locked),
    ("flushing", |phases| phases.flushing),
    ("logging", |phases| phases.logging),
];

/// Commits by device.
#[derive(Debug)]
pub(crate) struct Journals(ByLabel<Journal>);

#[derive(Debug, Default)]
struct Journal {
    commits: Histogram,
    longest: Peak,
    phases: [Histogram; PHASES.len()],
}

impl Default for Journals {
    fn default() -> Self {
        Self(ByLabel::of_at_most(MOST_DEVICES))
    }
}

impl Journals {
    pub(crate) fn commit(&mut self, commit: &JournalCommit) {
        let journal = self.0.at(&commit.device.to_string());
        journal.commits.observe_time(commit.latency());
        journal.longest.add(commit.latency(), commit.end);
        let Some(phases) = &commit.phases else { return };
        for (histogram, (_, length)) in journal.phases.iter_mut().zip(PHASES) {
            histogram.observe_time(length(phases));
        }
    }

    pub(crate) fn encode(&self, out: &mut dyn Encoder, now: Nanos) {
        out.family(&catalog::COMMIT);
        for (device, journal) in self.0.iter() {
            out.histogram(&[device], &journal.commits);
        }
        let longest = |journal: &Journal| seconds(journal.longest.within_a_minute(now));
        out.each(&catalog::COMMIT_MAX, self.0.iter().map(|(device, journal)| (device, longest(journal))));
        out.family(&catalog::COMMIT_PHASE);
        for (device, journal) in self.0.iter() {
            for ((phase, _), histogram) in PHASES.iter().zip(&journal.phases) {
                out.histogram(&[device, phase], histogram);
            }
        }
    }
}
