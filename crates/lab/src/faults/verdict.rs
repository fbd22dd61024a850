//! What a verdict is worth: right by what was planted, right by what a witness tells of that nobody planted, or wrong.
//!
//! What was planted is a true cause of what its window slowed, unless a witness says that everything stood still for
//! something else, and what is left of the request's time would not have been slow. What a witness tells of is a true
//! cause of a request at least half of whose latency lies in it. A verdict that names a stop of which the JVM's own log
//! knows nothing is wrong, whatever was planted.

use super::ground_truth::{Observation, observed_ns};
use super::plan::Truth;

/// What piled up while the JVM stood still is served within this time after it.
const PILED_UP_NS: i64 = 250_000_000;
/// Stops of the JVM, as brokerscope names them.
const STOPS: [&str; 2] = ["gc-pause", "safepoint"];

/// A verdict, as far as it is compared.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) start_ns: i64,
    pub(super) end_ns: i64,
    pub(super) client: String,
    pub(super) api: String,
    pub(super) cause: String,
    pub(super) chain: Vec<String>,
    pub(super) exact: bool,
}

/// What it is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    /// It names what was planted.
    Planted,
    /// It names what a witness tells of.
    Observation,
    /// It names something else, or nothing.
    Wrong,
}

impl Verdict {
    pub(super) fn latency_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Within a window, where `truth` was planted and so much is slow.
    pub(super) fn worth(&self, truth: &Truth, threshold_ns: i64, observed: &[Observation]) -> Judgement {
        if self.names_unobserved_pause(observed) {
            Judgement::Wrong
        } else if truth.allows(&self.cause, &self.chain) && self.leaves_room(truth, threshold_ns, observed) {
            Judgement::Planted
        } else if self.is_observed(observed) {
            Judgement::Observation
        } else {
            Judgement::Wrong
        }
    }

    /// Whether a witness tells of what it names for at least half of its time.
    pub(super) fn is_observed(&self, observed: &[Observation]) -> bool {
        let named = |observed: &Observation| observed.truth.allows(&self.cause, &self.chain);
        observed_ns(observed, self.start_ns, self.end_ns, named).saturating_mul(2) >= self.latency_ns()
    }

    fn names_unobserved_pause(&self, observed: &[Observation]) -> bool {
        let named = |observed: &Observation| observed.truth.allows(&self.cause, &self.chain);
        let from_ns = self.start_ns.saturating_sub(PILED_UP_NS);
        STOPS.contains(&self.cause.as_str()) && observed_ns(observed, from_ns, self.end_ns, named) == 0
    }

    /// Whether what was planted can be what slowed it, beside what stood still for another reason.
    fn leaves_room(&self, truth: &Truth, threshold_ns: i64, observed: &[Observation]) -> bool {
        let alone_ns = observed_ns(observed, self.start_ns, self.end_ns, |observed| observed.alone);
        let rest_ns = self.latency_ns().saturating_sub(alone_ns);
        truth.slows_pauses || rest_ns > alone_ns || rest_ns >= threshold_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jvm::Pause;

    const MS: i64 = 1_000_000;

    fn said(cause: &str, start_ms: i64, end_ms: i64) -> Verdict {
        Verdict {
            start_ns: start_ms * MS,
            end_ns: end_ms * MS,
            client: String::new(),
            api: String::new(),
            cause: cause.to_owned(),
            chain: vec![cause.to_owned()],
            exact: true,
        }
    }

    fn collection(begin: i64, end: i64, reached_after: i64) -> Vec<Observation> {
        let [start_ns, end_ns, reaching_ns] = [begin, end, reached_after].map(|ms| ms * MS);
        Observation::by_jvm(&[Pause { operation: "G1CollectFull".to_owned(), start_ns, end_ns, reaching_ns }])
    }

    fn worth(cause: &str, observed: &[Observation]) -> Judgement {
        said(cause, 0, 100).worth(&Truth::of(&["journal-commit"]), 50 * MS, observed)
    }

    #[test]
    fn without_a_witness_only_what_was_planted_is_right() {
        assert_eq!(worth("journal-commit", &[]), Judgement::Planted);
        assert_eq!(worth("slow-device", &[]), Judgement::Wrong);
        assert_eq!(worth("unobserved", &[]), Judgement::Wrong);
        assert_eq!(worth("gc-pause", &[]), Judgement::Wrong);
    }

    #[test]
    fn a_collection_that_took_most_of_a_request_is_a_true_cause_and_the_plant_is_none() {
        let observed = collection(10, 70, 1);
        assert_eq!(worth("gc-pause", &observed), Judgement::Observation);
        assert_eq!(worth("safepoint", &observed), Judgement::Wrong);
        assert_eq!(
            worth("journal-commit", &observed),
            Judgement::Wrong,
            "39 ms are left, of 50 that are slow"
        );
        assert_eq!(worth("unobserved", &observed), Judgement::Wrong);
    }

    #[test]
    fn both_are_true_where_what_is_left_is_slow_by_itself() {
        let observed = collection(-20, 49, 1);
        assert_eq!(worth("gc-pause", &observed), Judgement::Observation);
        assert_eq!(worth("journal-commit", &observed), Judgement::Planted);
    }

    #[test]
    fn a_collection_of_less_than_half_of_a_request_is_no_cause_of_it() {
        let observed = collection(10, 50, 1);
        assert_eq!(worth("gc-pause", &observed), Judgement::Wrong);
        assert_eq!(worth("journal-commit", &observed), Judgement::Planted);
    }

    #[test]
    fn what_is_planted_may_be_what_held_up_or_lengthened_a_stop() {
        let held_up = collection(10, 90, 70);
        assert_eq!(worth("journal-commit", &held_up), Judgement::Planted);
        assert_eq!(worth("safepoint", &held_up), Judgement::Observation);
        let lengthened = Truth::of(&["cpu-throttled"]).slows_pauses();
        let verdict = said("cpu-throttled", 0, 100);
        assert_eq!(verdict.worth(&lengthened, 50 * MS, &collection(10, 90, 1)), Judgement::Planted);
    }

    #[test]
    fn a_stop_that_was_planted_must_be_in_the_log_too() {
        let planted = Truth::of(&["gc-pause"]).slows_pauses();
        let verdict = said("gc-pause", 0, 100);
        assert_eq!(verdict.worth(&planted, 50 * MS, &collection(10, 40, 0)), Judgement::Planted);
        let behind = collection(-300, -200, 0);
        assert_eq!(verdict.worth(&planted, 50 * MS, &behind), Judgement::Planted, "of what piled up");
        for (begin, end) in [(200, 300), (-400, -300)] {
            assert_eq!(verdict.worth(&planted, 50 * MS, &collection(begin, end, 0)), Judgement::Wrong);
        }
    }

    #[test]
    fn outside_windows_a_witness_is_all_there_is() {
        let observed = collection(10, 90, 0);
        assert!(said("gc-pause", 0, 100).is_observed(&observed));
        assert!(!said("run-queue", 0, 100).is_observed(&observed));
        assert!(!said("gc-pause", 80, 180).is_observed(&observed));
    }
}
