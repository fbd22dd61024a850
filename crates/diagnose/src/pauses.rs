//! Merges several accounts of one JVM pause: of a recording, a flight recording, a collector's log.

use std::collections::VecDeque;

use model::{JvmPause, Nanos};

/// Collects accounts and hands out stops, nearly in the order of their ends.
#[derive(Debug)]
pub struct PauseMerger {
    lateness: Nanos,
    newest: Nanos,
    held: VecDeque<JvmPause>,
}

impl PauseMerger {
    /// One whose accounts of the same stop come at most so far apart, in recorded time.
    pub fn new(lateness: Nanos) -> Self {
        Self { lateness, newest: Nanos::MIN, held: VecDeque::new() }
    }

    /// Takes an account of a stop.
    pub fn push(&mut self, pause: JvmPause) {
        self.newest = self.newest.max(pause.end);
        match self.held.iter_mut().find(|held| held.is_same_pause(&pause)) {
            Some(held) => *held = held.clone().merge(pause),
            None => self.held.push_back(pause),
        }
    }

    /// The next stop of which nothing more is to be expected; any that is left, where `all` are asked for.
    pub fn take(&mut self, all: bool) -> Option<JvmPause> {
        let due = self.held.front()?.end + self.lateness <= self.newest;
        if all || due { self.held.pop_front() } else { None }
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
    fn a_stop_that_is_told_twice_is_one_and_its_kinds_are_two() {
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
    fn without_lateness_each_is_told_at_once() {
        let mut stops = PauseMerger::new(Nanos::ZERO);
        stops.push(pause(JvmPauseKind::Gc, 1, 2));
        assert_eq!(stops.take(false).map(|pause| pause.end), Some(Nanos(2)));
    }
}
