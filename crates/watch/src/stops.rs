//! Stops of the JVM that both its probes and its Flight Recorder tell of, each told once: the recorder's account, which
//! comes later and says more. Shared by the threads that read the two.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{JvmPause, Nanos};

/// How long the recorder's account is waited for: its JVM writes once a second, and holds a stop back until all of it
/// has been written, or two seconds.
const PATIENCE: Nanos = Nanos::from_millis(4_000);
/// How many are remembered on either side: a JVM stops a few times a second.
const MOST: usize = 256;

/// What either source told of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stops(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    recorder_tells: bool,
    /// Of the probes, not told yet.
    held: VecDeque<JvmPause>,
    /// Of the recorder, told.
    recorded: VecDeque<JvmPause>,
}

impl Stops {
    /// Says whether the recorder tells of stops from now on.
    pub(crate) fn recorder_tells(&self, tells: bool) {
        self.lock().recorder_tells = tells;
    }

    /// Takes what the probes saw; what is to be told of it at once comes back.
    pub(crate) fn probed(&self, pause: JvmPause) -> Option<JvmPause> {
        let inner = &mut *self.lock();
        if inner.recorded.iter().any(|told| told.is_same_pause(&pause)) {
            return None;
        }
        if !inner.recorder_tells {
            return Some(pause);
        }
        inner.held.push_back(pause);
        if inner.held.len() > MOST { inner.held.pop_front() } else { None }
    }

    /// Takes what the recorder told; that, with what the probes alone saw of it, is to be told.
    pub(crate) fn recorded(&self, pause: JvmPause) -> JvmPause {
        let inner = &mut *self.lock();
        let same = inner.held.iter().position(|held| held.is_same_pause(&pause));
        let pause = match same.and_then(|index| inner.held.remove(index)) {
            Some(probed) => pause.merge(probed),
            None => pause,
        };
        inner.recorded.push_back(pause.clone());
        if inner.recorded.len() > MOST {
            inner.recorded.pop_front();
        }
        pause
    }

    /// The probes' stops of which the recorder has told nothing in time.
    pub(crate) fn overdue(&self, now: Nanos) -> Vec<JvmPause> {
        let inner = &mut *self.lock();
        let until = if inner.recorder_tells { now - PATIENCE } else { Nanos::MAX };
        let due = inner.held.iter().take_while(|pause| pause.end <= until).count();
        inner.held.drain(..due).collect()
    }

    /// All that are left, when neither tells any more.
    pub(crate) fn rest(&self) -> Vec<JvmPause> {
        self.lock().held.drain(..).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::Stops;
    use model::{JvmPause, JvmPauseKind, Nanos};

    fn pause(start_ms: i64, gc_id: Option<u32>) -> JvmPause {
        JvmPause {
            start: Nanos::from_millis(start_ms),
            end: Nanos::from_millis(start_ms + 10),
            pid: 7,
            kind: JvmPauseKind::Gc,
            operation: "G1New".into(),
            cause: "".into(),
            gc_id,
            time_to_safepoint: None,
        }
    }

    #[test]
    fn a_stop_that_both_saw_is_told_once_whoever_was_first() {
        let stops = Stops::default();
        stops.recorder_tells(true);
        assert_eq!(stops.probed(pause(100, None)), None);
        assert_eq!(stops.recorded(pause(101, Some(1))), pause(101, Some(1)));
        assert_eq!(stops.recorded(pause(500, Some(2))), pause(500, Some(2)));
        assert_eq!(stops.probed(pause(499, None)), None);
        assert!(stops.rest().is_empty());
    }

    #[test]
    fn what_the_recorder_does_not_tell_of_is_told_in_time_and_at_the_end() {
        let stops = Stops::default();
        assert_eq!(stops.probed(pause(50, None)), Some(pause(50, None)), "no recorder");
        stops.recorder_tells(true);
        assert_eq!(stops.probed(pause(100, None)), None);
        assert_eq!(stops.probed(pause(3_000, None)), None);
        assert!(stops.overdue(Nanos::from_millis(4_000)).is_empty());
        assert_eq!(stops.overdue(Nanos::from_millis(4_200)), [pause(100, None)]);
        assert_eq!(stops.rest(), [pause(3_000, None)]);
        assert_eq!(stops.probed(pause(5_000, None)), None);
        stops.recorder_tells(false);
        assert_eq!(stops.overdue(Nanos::from_millis(5_020)), [pause(5_000, None)]);
    }

    #[test]
    fn no_more_is_held_than_there_is_room_for() {
        let stops = Stops::default();
        stops.recorder_tells(true);
        let told = (0..300).filter_map(|number| stops.probed(pause(number * 20, None))).count();
        assert_eq!((told, stops.rest().len()), (300 - super::MOST, super::MOST));
    }
}
