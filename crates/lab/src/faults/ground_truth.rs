//! What others than brokerscope observe of a run, of things that nobody injected: the JVM's own log of when it stopped its
//! threads. A real collection during an injected stall is as true a cause of what it slowed as the stall.
//!
//! Does not tell whom it slowed: that is for [`super::score`] to say, by time.

use serde::{Deserialize, Serialize};

use super::plan::Truth;
use crate::jvm::Pause;

/// The JVM's log has whole milliseconds.
const STAMP_NS: i64 = 1_000_000;
/// What is shorter slows nobody over any threshold.
const SHORTEST_NS: i64 = 1_000_000;

/// A stretch of time that was observed what went on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Observation {
    /// From when, UTC nanoseconds.
    pub(super) start_ns: i64,
    /// Until when.
    pub(super) end_ns: i64,
    /// What a request may be blamed on that mostly lies in it.
    pub(super) truth: Truth,
    /// Whether nothing else can have gone on in it: all threads stood still, for what it says.
    pub(super) alone: bool,
    /// In its words.
    pub(super) said: String,
}

impl Observation {
    /// What the broker's own JVM logged.
    pub(super) fn by_jvm(pauses: &[Pause]) -> Vec<Self> {
        pauses.iter().filter(|stop| stop.length_ns() >= SHORTEST_NS).map(Self::of_pause).collect()
    }

    fn of_pause(stop: &Pause) -> Self {
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
    pub(super) fn by_follower(pauses: &[Pause]) -> Vec<Self> {
        let truth = || Truth::of(&["replication-wait"]).through(&["replication-wait"]);
        let long = pauses.iter().filter(|stop| stop.length_ns() >= SHORTEST_NS);
        long.map(|stop| Self { truth: truth(), ..Self::during(stop, "a follower's log") }).collect()
    }

    fn during(stop: &Pause, by: &str) -> Self {
        let Pause { operation, start_ns, end_ns, reaching_ns } = stop;
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

/// How much of a stretch is observed of by those that `wanted` picks, each moment once; nanoseconds.
pub(super) fn observed_ns(
    observed: &[Observation],
    start_ns: i64,
    end_ns: i64,
    wanted: impl Fn(&Observation) -> bool,
) -> i64 {
    let picked = observed.iter().filter(|observed| wanted(observed));
    let mut parts: Vec<(i64, i64)> =
        picked.filter_map(|observed| observed.part_of(start_ns, end_ns)).collect();
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

    fn pause(operation: &str, begin: i64, end: i64, reached_after: i64) -> Pause {
        let [start_ns, end_ns, reaching_ns] = [begin, end, reached_after].map(|ms| ms * 1_000_000);
        Pause { operation: operation.to_owned(), start_ns, end_ns, reaching_ns }
    }

    #[test]
    fn a_stop_is_what_the_log_says() {
        let observed = Observation::by_jvm(&[
            pause("G1CollectForAllocation", 0, 40, 1),
            pause("Cleanup", 50, 90, 1),
            pause("G1CollectFull", 100, 140, 39),
        ]);
        let chain = |name: &str| vec![name.to_owned()];
        let allows = |at: usize, cause: &str| observed[at].truth.allows(cause, &chain(cause));
        assert!(allows(0, "gc-pause") && !allows(0, "safepoint") && !allows(0, "journal-commit"));
        assert!(allows(1, "safepoint") && !allows(1, "gc-pause"));
        assert!(allows(2, "safepoint") && allows(2, "gc-pause"));
        let held_up = ["safepoint".to_owned(), "run-queue".to_owned()];
        assert!(
            observed[2].truth.allows("run-queue", &held_up)
                && !observed[0].truth.allows("run-queue", &held_up)
        );
        assert!(observed[0].alone && observed[1].alone && !observed[2].alone);
        assert!(
            Observation::by_follower(&[pause("G1CollectFull", 0, 9, 0)])[0]
                .truth
                .allows("replication-wait", &[])
        );
    }

    #[test]
    fn what_is_short_slows_nobody() {
        let short = Pause { end_ns: 900_000, ..pause("Cleanup", 0, 0, 0) };
        assert_eq!(Observation::by_jvm(&[short]), []);
    }

    #[test]
    fn a_moment_that_is_told_of_twice_counts_once() {
        // The stamp's millisecond is added to each.
        let observed = Observation::by_jvm(&[
            pause("G1A", 10, 20, 0),
            pause("G1B", 15, 29, 0),
            pause("Cleanup", 50, 59, 0),
        ]);
        let ms = |from: i64, to: i64, of: &dyn Fn(&Observation) -> bool| {
            observed_ns(&observed, from * 1_000_000, to * 1_000_000, of) / 1_000_000
        };
        assert_eq!(ms(0, 100, &|_| true), 30);
        assert_eq!(ms(12, 55, &|_| true), 23);
        assert_eq!(ms(0, 100, &|observed| observed.truth.allows("gc-pause", &[])), 20);
        assert_eq!(ms(31, 49, &|_| true), 0);
    }
}
