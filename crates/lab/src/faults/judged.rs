//! What a verdict is worth: right by what was planted, right by what a witness tells of that nobody planted, or wrong.
//!
//! What was planted is a true cause of what its window slowed, unless a witness says that everything stood still for
//! something else, and what is left of the request's time would not have been slow. What a witness tells of is a true
//! cause of a request at least half of whose latency lies in it. A verdict that names a stop of which the JVM's own log
//! knows nothing is wrong, whatever was planted.

use super::plan::Truth;
use super::told::{Told, told_ns};

/// What piled up while the JVM stood still is served within this time after it.
const PILED_UP_NS: i64 = 250_000_000;
/// Stops of the JVM, as brokerscope names them.
const STOPS: [&str; 2] = ["gc-pause", "safepoint"];

/// A verdict, as far as it is compared.
#[derive(Debug)]
pub(super) struct Said {
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
pub(super) enum Worth {
    /// It names what was planted.
    Planted,
    /// It names what a witness tells of.
    Told,
    /// It names something else, or nothing.
    Wrong,
}

impl Said {
    pub(super) fn latency_ns(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Within a window, where `truth` was planted and so much is slow.
    pub(super) fn worth(&self, truth: &Truth, threshold_ns: i64, told: &[Told]) -> Worth {
        if self.names_untold_stop(told) {
            Worth::Wrong
        } else if truth.allows(&self.cause, &self.chain) && self.leaves_room(truth, threshold_ns, told) {
            Worth::Planted
        } else if self.is_told(told) {
            Worth::Told
        } else {
            Worth::Wrong
        }
    }

    /// Whether a witness tells of what it names for at least half of its time.
    pub(super) fn is_told(&self, told: &[Told]) -> bool {
        let named = |told: &Told| told.truth.allows(&self.cause, &self.chain);
        told_ns(told, self.start_ns, self.end_ns, named).saturating_mul(2) >= self.latency_ns()
    }

    fn names_untold_stop(&self, told: &[Told]) -> bool {
        let named = |told: &Told| told.truth.allows(&self.cause, &self.chain);
        let from_ns = self.start_ns.saturating_sub(PILED_UP_NS);
        STOPS.contains(&self.cause.as_str()) && told_ns(told, from_ns, self.end_ns, named) == 0
    }

    /// Whether what was planted can be what slowed it, beside what stood still for another reason.
    fn leaves_room(&self, truth: &Truth, threshold_ns: i64, told: &[Told]) -> bool {
        let alone_ns = told_ns(told, self.start_ns, self.end_ns, |told| told.alone);
        let rest_ns = self.latency_ns().saturating_sub(alone_ns);
        truth.slows_stops || rest_ns > alone_ns || rest_ns >= threshold_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jvm::Stop;

    const MS: i64 = 1_000_000;

    fn said(cause: &str, start_ms: i64, end_ms: i64) -> Said {
        Said {
            start_ns: start_ms * MS,
            end_ns: end_ms * MS,
            client: String::new(),
            api: String::new(),
            cause: cause.to_owned(),
            chain: vec![cause.to_owned()],
            exact: true,
        }
    }

    fn collection(begin: i64, end: i64, reached_after: i64) -> Vec<Told> {
        let [start_ns, end_ns, reaching_ns] = [begin, end, reached_after].map(|ms| ms * MS);
        Told::by_jvm(&[Stop { operation: "G1CollectFull".to_owned(), start_ns, end_ns, reaching_ns }])
    }

    fn worth(cause: &str, told: &[Told]) -> Worth {
        said(cause, 0, 100).worth(&Truth::of(&["journal-commit"]), 50 * MS, told)
    }

    #[test]
    fn without_a_witness_only_what_was_planted_is_right() {
        assert_eq!(worth("journal-commit", &[]), Worth::Planted);
        assert_eq!(worth("slow-device", &[]), Worth::Wrong);
        assert_eq!(worth("unobserved", &[]), Worth::Wrong);
        assert_eq!(worth("gc-pause", &[]), Worth::Wrong);
    }

    #[test]
    fn a_collection_that_took_most_of_a_request_is_a_true_cause_and_the_plant_is_none() {
        let told = collection(10, 70, 1);
        assert_eq!(worth("gc-pause", &told), Worth::Told);
        assert_eq!(worth("safepoint", &told), Worth::Wrong);
        assert_eq!(worth("journal-commit", &told), Worth::Wrong, "39 ms are left, of 50 that are slow");
        assert_eq!(worth("unobserved", &told), Worth::Wrong);
    }

    #[test]
    fn both_are_true_where_what_is_left_is_slow_by_itself() {
        let told = collection(-20, 49, 1);
        assert_eq!(worth("gc-pause", &told), Worth::Told);
        assert_eq!(worth("journal-commit", &told), Worth::Planted);
    }

    #[test]
    fn a_collection_of_less_than_half_of_a_request_is_no_cause_of_it() {
        let told = collection(10, 50, 1);
        assert_eq!(worth("gc-pause", &told), Worth::Wrong);
        assert_eq!(worth("journal-commit", &told), Worth::Planted);
    }

    #[test]
    fn what_is_planted_may_be_what_held_up_or_lengthened_a_stop() {
        let held_up = collection(10, 90, 70);
        assert_eq!(worth("journal-commit", &held_up), Worth::Planted);
        assert_eq!(worth("safepoint", &held_up), Worth::Told);
        let lengthened = Truth::of(&["cpu-throttled"]).slows_stops();
        let verdict = said("cpu-throttled", 0, 100);
        assert_eq!(verdict.worth(&lengthened, 50 * MS, &collection(10, 90, 1)), Worth::Planted);
    }

    #[test]
    fn a_stop_that_was_planted_must_be_in_the_log_too() {
        let planted = Truth::of(&["gc-pause"]).slows_stops();
        let verdict = said("gc-pause", 0, 100);
        assert_eq!(verdict.worth(&planted, 50 * MS, &collection(10, 40, 0)), Worth::Planted);
        let behind = collection(-300, -200, 0);
        assert_eq!(verdict.worth(&planted, 50 * MS, &behind), Worth::Planted, "of what piled up");
        for (begin, end) in [(200, 300), (-400, -300)] {
            assert_eq!(verdict.worth(&planted, 50 * MS, &collection(begin, end, 0)), Worth::Wrong);
        }
    }

    #[test]
    fn outside_windows_a_witness_is_all_there_is() {
        let told = collection(10, 90, 0);
        assert!(said("gc-pause", 0, 100).is_told(&told));
        assert!(!said("run-queue", 0, 100).is_told(&told));
        assert!(!said("gc-pause", 80, 180).is_told(&told));
    }
}
