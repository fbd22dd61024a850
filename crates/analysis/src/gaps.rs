//! Gaps of a source: what it could not see, and what it lost.

use diagnose::{Config, JoinStats, Summary};
use model::LossKind;
use report::explanation::{Conclusion, Lag, Unobservable};

use crate::cross_check::Agreement;

/// Gaps of a source.
#[derive(Clone, Debug, Default)]
pub struct Gaps {
    /// What could not be observed, and why.
    pub unobservable: Vec<Unobservable>,
    /// Other notes.
    pub notes: Vec<String>,
    /// Losses that no event reports.
    pub losses: Vec<(LossKind, u64)>,
    /// Counts over all events, if only a selection was read.
    pub rest: Option<RestCounts>,
    /// Delay of the verdicts in a live watch.
    pub lag: Option<Lag>,
}

/// The engine's counts over all events, not just the selection.
#[derive(Clone, Copy, Debug)]
pub struct RestCounts {
    pub(crate) requests: u64,
    /// `None` if file operations were not watched: then the engine's counts are kept.
    pub(crate) joins: Option<JoinStats>,
}

impl RestCounts {
    /// Replaces the counts of the selection by the counts of all events.
    pub(crate) fn add_to(&self, summary: &mut Summary) {
        summary.requests = self.requests;
        summary.joins = self.joins.unwrap_or(summary.joins);
    }
}

impl Gaps {
    /// Losses as sentences.
    pub fn loss_notes(&self) -> impl Iterator<Item = String> + '_ {
        loss_notes(&self.losses)
    }

    /// Combines the gaps with the engine's totals.
    pub fn conclude(self, mut summary: Summary, config: &Config, agreement: Option<Agreement>) -> Conclusion {
        let Self { unobservable, mut notes, losses, rest, lag } = self;
        if let Some(rest) = rest {
            rest.add_to(&mut summary);
        }
        if summary.requests == 0 {
            notes.push(NO_REQUEST.to_owned());
        }
        summary.losses.extend(losses.into_iter().filter(|(_, count)| *count > 0));
        let is_of_one_request = config.only_request.is_some();
        let slower_than = config.slower_than;
        let asks_why_not = false;
        Conclusion {
            summary,
            slower_than,
            is_of_one_request,
            asks_why_not,
            unobservable,
            agreement,
            lag,
            notes,
        }
    }
}

pub(crate) fn loss_notes<'l>(
    losses: impl IntoIterator<Item = &'l (LossKind, u64)>,
) -> impl Iterator<Item = String> {
    let losses = losses.into_iter().filter(|(_, lost)| *lost > 0);
    losses.map(|(kind, lost)| format!("lost {lost} {}", kind.as_str()))
}

/// Missing from a recording without JVM events, and why.
pub(crate) const JVM: (&str, &str) = (
    "what the broker's JVM did (collections, queues, locks)",
    "the recording holds nothing of the JVM; waits for a log's lock are inferred from the order of writes, and time \
     spent elsewhere in the JVM is unobserved",
);
/// Missing from every recording.
pub(crate) const QUEUES: (&str, &str) = (
    "when a request handler took a request out of the queue",
    "nothing watches the queue itself; the time is inferred from the last known work of the handler's thread",
);
/// Missing from every capture.
pub(crate) const BROKER: (&str, &str) = (
    "what the broker, its kernel and its disk did",
    "a packet capture holds no kernel events; `brokerscope record -o DIR` on the broker's host, as root, collects them",
);
/// Note if there was nothing to explain.
const NO_REQUEST: &str =
    "no request was seen: there was no Kafka traffic, or it was encrypted or on a port that was not captured";

pub(crate) fn unobservable((what, why): (&str, &str)) -> Unobservable {
    Unobservable { what: what.to_owned(), why: why.to_owned() }
}
