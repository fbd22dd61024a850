//! Merges several reports of one JVM pause: from a recording, Flight Recorder, a collector's log.

use std::collections::VecDeque;

use model::{JvmPause, Nanos};

/// Collects reports and gives out pauses, nearly in the order of their ends.
#[derive(Debug)]
pub struct PauseMerger {
    lateness: Nanos,
    newest: Nanos,
    pending: VecDeque<JvmPause>,
}

impl PauseMerger {
    /// Creates a merger. `lateness` is the maximum time between two reports of the same pause, in recorded time.
    pub fn new(lateness: Nanos) -> Self {
        Self { lateness, newest: Nanos::MIN, pending: VecDeque::new() }
    }

    /// Takes a report of a pause.
    pub fn push(&mut self, pause: JvmPause) {
        self.newest = self.newest.max(pause.end);
        match self.pending.iter_mut().find(|known| known.is_same_pause(&pause)) {
            Some(known) => *known = known.clone().merge(pause),
            None => self.pending.push_back(pause),
        }
    }

    /// The next pause for which no more reports are expected; any that is left if `all` is set.
    pub fn take(&mut self, all: bool) -> Option<JvmPause> {
        let due = self.pending.front()?.end + self.lateness <= self.newest;
        if all || due { self.pending.pop_front() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use model::{JvmPause, JvmPauseKind, Nanos};

    use super::PauseMerger;

    fn pause(kind: JvmPauseKind, start: i64, end: i64) -> JvmPause {
        let (operation, cause) = ("G1New".into(), "".into());
        let (start, end) = (Nanos(start), Nanos(end));
        JvmPause { start, end, pid: 7, kind, operation, cause, gc_id: None, time_to_safepoint: None }
    }

    #[test]
    fn merges_two_reports_of_a_pause_but_not_gc_with_safepoint() {
        let mut stops = PauseMerger::new(Nanos(100));
        for (kind, start, end) in [
            (JvmPauseKind::Gc, 12, 18),
            (JvmPauseKind::Safepoint, 10, 20),
            (JvmPauseKind::Safepoint, 11, 21),
            (JvmPauseKind::Gc, 13, 19),
            (JvmPauseKind::Safepoint, 30, 40),
        ] {
            stops.push(pause(kind, start, end));
            assert_eq!(stops.take(false), None);
        }
        stops.push(pause(JvmPauseKind::Gc, 200, 210));
        let mut rest = Vec::new();
        while let Some(next) = stops.take(false) {
            rest.push((next.kind, next.start.0));
        }
        let expected = [(JvmPauseKind::Gc, 12), (JvmPauseKind::Safepoint, 10), (JvmPauseKind::Safepoint, 30)];
        assert_eq!(rest, expected);
        assert_eq!(stops.take(true).map(|last| last.start), Some(Nanos(200)));
        assert_eq!(stops.take(true), None);
    }

    #[test]
    fn without_lateness_each_pause_is_returned_at_once() {
        let mut stops = PauseMerger::new(Nanos::ZERO);
        stops.push(pause(JvmPauseKind::Gc, 1, 2));
        assert_eq!(stops.take(false).map(|pause| pause.end), Some(Nanos(2)));
    }
}
