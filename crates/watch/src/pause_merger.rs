//! Reports each JVM pause once.
//! Both the JVM's probes and its Flight Recorder see it: the recorder's report comes later and has more detail. Shared
//! by the threads that read the two.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use model::{JvmPause, Nanos};

use crate::queue::lock;

/// How long to wait for the recorder's report.
/// The JVM writes once a second, and `jvm::jfr` holds a pause back until all of it is written, or for two flushes.
const MAX_DELAY: Nanos = Nanos::from_millis(4_000);
/// Limit of remembered pauses from either source: a JVM pauses a few times a second.
const MAX_PAUSES: usize = 256;

/// Merges the pauses of both sources.
#[derive(Clone, Debug, Default)]
pub(crate) struct PauseMerger(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    expects_recorded: bool,
    /// Pauses from the probes that are not reported yet.
    pending: VecDeque<JvmPause>,
    /// Pauses from the recorder, already reported.
    recorded: VecDeque<JvmPause>,
}

impl PauseMerger {
    /// Sets whether the recorder reports pauses from now on.
    pub(crate) fn expect_recorded(&self, expected: bool) {
        lock(&self.0).expects_recorded = expected;
    }

    /// Adds a pause from the probes; returns a pause to report now.
    pub(crate) fn add_probed(&self, pause: JvmPause) -> Option<JvmPause> {
        let inner = &mut *lock(&self.0);
        if inner.recorded.iter().any(|recorded| recorded.is_same_pause(&pause)) {
            return None;
        }
        if !inner.expects_recorded {
            return Some(pause);
        }
        inner.pending.push_back(pause);
        if inner.pending.len() > MAX_PAUSES { inner.pending.pop_front() } else { None }
    }

    /// Adds a pause from the recorder; returns it with details that only the probes saw.
    pub(crate) fn add_recorded(&self, pause: JvmPause) -> JvmPause {
        let inner = &mut *lock(&self.0);
        let same = inner.pending.iter().position(|pending| pending.is_same_pause(&pause));
        let pause = match same.and_then(|index| inner.pending.remove(index)) {
            Some(probed) => pause.merge(probed),
            None => pause,
        };
        inner.recorded.push_back(pause.clone());
        if inner.recorded.len() > MAX_PAUSES {
            inner.recorded.pop_front();
        }
        pause
    }

    /// Takes the probes' pauses that the recorder has not reported in time.
    pub(crate) fn overdue(&self, now: Nanos) -> Vec<JvmPause> {
        let inner = &mut *lock(&self.0);
        let until = if inner.expects_recorded { now - MAX_DELAY } else { Nanos::MAX };
        let due = inner.pending.iter().take_while(|pause| pause.end <= until).count();
        inner.pending.drain(..due).collect()
    }

    /// Takes all remaining pauses, when both sources have ended.
    pub(crate) fn rest(&self) -> Vec<JvmPause> {
        lock(&self.0).pending.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::PauseMerger;
    use model::{JvmPause, JvmPauseKind, Nanos, Row};

    fn pause(start_ms: i64, gc_id: Option<u32>) -> JvmPause {
        JvmPause {
            start: Nanos::from_millis(start_ms),
            end: Nanos::from_millis(start_ms + 10),
            pid: 7,
            kind: JvmPauseKind::Gc,
            operation: "G1New".into(),
            cause: "".into(),
            gc_id,
            ..Row::empty()
        }
    }

    #[test]
    fn pause_from_both_sources_is_reported_once_in_any_order() {
        let pauses = PauseMerger::default();
        pauses.expect_recorded(true);
        assert_eq!(pauses.add_probed(pause(100, None)), None);
        assert_eq!(pauses.add_recorded(pause(101, Some(1))), pause(101, Some(1)));
        assert_eq!(pauses.add_recorded(pause(500, Some(2))), pause(500, Some(2)));
        assert_eq!(pauses.add_probed(pause(499, None)), None);
        assert!(pauses.rest().is_empty());
    }

    #[test]
    fn unrecorded_pauses_are_reported_after_a_delay_and_at_the_end() {
        let pauses = PauseMerger::default();
        assert_eq!(pauses.add_probed(pause(50, None)), Some(pause(50, None)), "no recorder");
        pauses.expect_recorded(true);
        assert_eq!(pauses.add_probed(pause(100, None)), None);
        assert_eq!(pauses.add_probed(pause(3_000, None)), None);
        assert!(pauses.overdue(Nanos::from_millis(4_000)).is_empty());
        assert_eq!(pauses.overdue(Nanos::from_millis(4_200)), [pause(100, None)]);
        assert_eq!(pauses.rest(), [pause(3_000, None)]);
        assert_eq!(pauses.add_probed(pause(5_000, None)), None);
        pauses.expect_recorded(false);
        assert_eq!(pauses.overdue(Nanos::from_millis(5_020)), [pause(5_000, None)]);
    }

    #[test]
    fn pending_pauses_are_bounded() {
        let pauses = PauseMerger::default();
        pauses.expect_recorded(true);
        let reported = (0..300).filter_map(|number| pauses.add_probed(pause(number * 20, None))).count();
        assert_eq!((reported, pauses.rest().len()), (300 - super::MAX_PAUSES, super::MAX_PAUSES));
    }
}
