//! Short turns on a CPU.
//!
//! A broker's thread that wakes on the recorder's CPU waits until the recorder yields: the scheduler's policies and
//! weights shorten that only within one group. So the recorder yields by itself, often. Knows nothing of what its
//! callers do.

use std::time::{Duration, Instant};

/// Length of a rest.
///
/// Any rest, however short, gives the CPU to a waiting thread; after this one, a thread with slices of 0.1 ms still has
/// a sixth of a CPU.
const REST: Duration = Duration::from_micros(500);

/// Source of time and of rests for a slice.
pub trait Timer {
    /// The current time.
    fn now(&mut self) -> Instant;
    /// Sleeps for that long, so that other threads run.
    fn sleep(&mut self, time: Duration);
}

/// Uses the clock and the sleep of the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadTimer;

impl Timer for ThreadTimer {
    fn now(&mut self) -> Instant {
        Instant::now()
    }

    fn sleep(&mut self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// How long a thread runs before it rests, and since when it has run.
///
/// Time without a CPU counts too: the thread then rests sooner.
#[derive(Debug)]
pub struct Slice<T = ThreadTimer> {
    length: Duration,
    start: Instant,
    timer: T,
}

impl Slice {
    /// For work on each packet and each event.
    pub const SHORT: Duration = Duration::from_micros(100);
    /// For work done once or twice a second.
    pub const LONG: Duration = Duration::from_micros(200);

    /// Starts a slice now.
    pub fn new(length: Duration) -> Self {
        Self::with_timer(length, ThreadTimer)
    }
}

impl<T: Timer> Slice<T> {
    /// Starts a slice now, with this timer.
    pub fn with_timer(length: Duration, mut timer: T) -> Self {
        Self { length, start: timer.now(), timer }
    }

    /// Rests if the slice is over, unless the work is `urgent`. Starts the next slice in both cases.
    ///
    /// Returns whether it rested.
    pub fn rest_if_over(&mut self, urgent: impl FnOnce() -> bool) -> bool {
        if self.timer.now().saturating_duration_since(self.start) < self.length {
            return false;
        }
        let rests = !urgent();
        if rests {
            self.timer.sleep(REST);
        }
        self.start = self.timer.now();
        rests
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{REST, Slice, Timer};

    /// Advances by a step on each reading; sleeps without waiting.
    struct Steps {
        now: Instant,
        step: Duration,
        slept: Duration,
    }

    impl Timer for &mut Steps {
        fn now(&mut self) -> Instant {
            self.now += self.step;
            self.now
        }

        fn sleep(&mut self, time: Duration) {
            self.now += time;
            self.slept += time;
        }
    }

    fn rests(count: usize, step_us: u64, urgent: bool) -> (Vec<bool>, Duration) {
        let step = Duration::from_micros(step_us);
        let mut steps = Steps { now: Instant::now(), step, slept: Duration::ZERO };
        let mut slice = Slice::with_timer(Slice::SHORT, &mut steps);
        let rested = (0..count).map(|_| slice.rest_if_over(|| urgent)).collect();
        (rested, steps.slept)
    }

    #[test]
    fn thread_rests_after_each_slice() {
        let (rested, slept) = rests(9, 40, false);
        assert_eq!(rested, [false, false, true, false, false, true, false, false, true]);
        assert_eq!(slept, 3 * REST);
        assert_eq!(rests(9, 11, false), ([&[false; 9][..]].concat(), Duration::ZERO));
    }

    #[test]
    fn urgent_work_does_not_rest() {
        assert_eq!(rests(9, 40, true), (vec![false; 9], Duration::ZERO));
    }

    #[test]
    fn urgency_is_checked_only_at_the_end_of_a_slice() {
        let step = Duration::from_micros(40);
        let mut steps = Steps { now: Instant::now(), step, slept: Duration::ZERO };
        let mut slice = Slice::with_timer(Slice::SHORT, &mut steps);
        let mut calls = 0;
        for _ in 0..9 {
            slice.rest_if_over(|| {
                calls += 1;
                calls == 2
            });
        }
        assert_eq!((calls, steps.slept), (3, 2 * REST));
    }
}
