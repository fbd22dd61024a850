//! What others than brokerscope tell of a run, of things that nobody planted: the JVM's own log of when it stopped its
//! threads. A real collection during a planted stall is as true a cause of what it slowed as the stall.
//!
//! Does not tell whom it slowed: that is for [`super::score`] to say, by time.

use serde::{Deserialize, Serialize};

use super::plan::Truth;
use crate::jvm::Stop;

/// The JVM's log has whole milliseconds.
const STAMP_NS: i64 = 1_000_000;
/// What is shorter slows nobody over any threshold.
const SHORTEST_NS: i64 = 1_000_000;

/// A stretch of time of which a witness tells what went on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    /// From when, UTC nanoseconds.
    pub(super) start_ns: i64,
    /// Until when.
    pub(super) end_ns: i64,
    /// What a request may be blamed on that mostly lies in it.
    pub(super) truth: Truth,
    /// Whether nothing else can have gone on in it: all threads stood still, for what the witness says.
    pub(super) alone: bool,
    /// In the witness's words.
    pub(super) said: String,
}

impl Told {
    /// What the broker's own JVM logged.
    pub(super) fn by_jvm(stops: &[Stop]) -> Vec<Self> {
        stops.iter().filter(|stop| stop.length_ns() >= SHORTEST_NS).map(Self::of_stop).collect()
    }

    fn of_stop(stop: &Stop) -> Self {
        let (gc, safepoint) = ("gc-pause", "safepoint");
        // The log does not say which thread was late, nor what it was at.
        let truth = match (stop.was_long_to_reach(), stop.is_collection()) {
            (true, true) => Truth::of(&[safepoint, gc]).through(&[safepoint]),
            (true, false) => Truth::of(&[safepoint]).through(&[safepoint]),
            (false, true) => Truth::of(&[gc]),
            (false, false) => Truth::of(&[safepoint]),
        };
        Self { truth, alone: !stop.was_long_to_reach(), ..Self::during(stop, "the JVM's log") }
    }

    /// What the JVM of a follower logged: it fetches nothing meanwhile.
    pub(super) fn by_follower(stops: &[Stop]) -> Vec<Self> {
        let truth = || Truth::of(&["replication-wait"]).through(&["replication-wait"]);
        let long = stops.iter().filter(|stop| stop.length_ns() >= SHORTEST_NS);
        long.map(|stop| Self { truth: truth(), ..Self::during(stop, "a follower's log") }).collect()
    }

    fn during(stop: &Stop, by: &str) -> Self {
        let Stop { operation, start_ns, end_ns, reaching_ns } = stop;
        let ms = |ns: i64| ns / 1_000_000;
        Self {
            start_ns: *start_ns,
            end_ns: end_ns.saturating_add(STAMP_NS),
            truth: Truth::default(),
            alone: false,
            said: format!(
                "{by}: {operation}, {} ms, {} ms of it until all had stopped",
                ms(stop.length_ns()),
                ms(*reaching_ns)
            ),
        }
    }

    /// How much of a stretch it takes, in nanoseconds.
    fn part_of(&self, start_ns: i64, end_ns: i64) -> Option<(i64, i64)> {
        let part = (self.start_ns.max(start_ns), self.end_ns.min(end_ns));
        (part.0 < part.1).then_some(part)
    }
}

/// How much of a stretch is told of by those that `wanted` picks, each moment once; nanoseconds.
pub(super) fn told_ns(told: &[Told], start_ns: i64, end_ns: i64, wanted: impl Fn(&Told) -> bool) -> i64 {
    let picked = told.iter().filter(|told| wanted(told));
    let mut parts: Vec<(i64, i64)> = picked.filter_map(|told| told.part_of(start_ns, end_ns)).collect();
    parts.sort_unstable();
    let mut until = start_ns;
    let mut sum = 0_i64;
    for (start, end) in parts {
        sum = sum.saturating_add(end.saturating_sub(start.max(until)).max(0));
        until = until.max(end);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(operation: &str, begin: i64, end: i64, reached_after: i64) -> Stop {
        let [start_ns, end_ns, reaching_ns] = [begin, end, reached_after].map(|ms| ms * 1_000_000);
        Stop { operation: operation.to_owned(), start_ns, end_ns, reaching_ns }
    }

    #[test]
    fn a_stop_is_what_the_log_says() {
        let told = Told::by_jvm(&[
            stop("G1CollectForAllocation", 0, 40, 1),
            stop("Cleanup", 50, 90, 1),
            stop("G1CollectFull", 100, 140, 39),
        ]);
        let chain = |name: &str| vec![name.to_owned()];
        let allows = |at: usize, cause: &str| told[at].truth.allows(cause, &chain(cause));
        assert!(allows(0, "gc-pause") && !allows(0, "safepoint") && !allows(0, "journal-commit"));
        assert!(allows(1, "safepoint") && !allows(1, "gc-pause"));
        assert!(allows(2, "safepoint") && allows(2, "gc-pause"));
        let held_up = ["safepoint".to_owned(), "run-queue".to_owned()];
        assert!(told[2].truth.allows("run-queue", &held_up) && !told[0].truth.allows("run-queue", &held_up));
        assert!(told[0].alone && told[1].alone && !told[2].alone);
        assert!(
            Told::by_follower(&[stop("G1CollectFull", 0, 9, 0)])[0].truth.allows("replication-wait", &[])
        );
    }

    #[test]
    fn what_is_short_slows_nobody() {
        let short = Stop { end_ns: 900_000, ..stop("Cleanup", 0, 0, 0) };
        assert_eq!(Told::by_jvm(&[short]), []);
    }

    #[test]
    fn a_moment_that_is_told_of_twice_counts_once() {
        // The stamp's millisecond is added to each.
        let told =
            Told::by_jvm(&[stop("G1A", 10, 20, 0), stop("G1B", 15, 29, 0), stop("Cleanup", 50, 59, 0)]);
        let ms = |from: i64, to: i64, of: &dyn Fn(&Told) -> bool| {
            told_ns(&told, from * 1_000_000, to * 1_000_000, of) / 1_000_000
        };
        assert_eq!(ms(0, 100, &|_| true), 30);
        assert_eq!(ms(12, 55, &|_| true), 23);
        assert_eq!(ms(0, 100, &|told| told.truth.allows("gc-pause", &[])), 20);
        assert_eq!(ms(31, 49, &|_| true), 0);
    }
}
