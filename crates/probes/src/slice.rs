//! Short turns on a processor. A thread of the broker that wakes where the recorder runs waits until the recorder gives the
//! processor away: the scheduler's policies and weights shorten that within one group only. So the recorder gives it away by
//! itself, often. Knows nothing of what its callers do.

use std::time::{Duration, Instant};

/// How long a thread rests: long enough for a thread that waits to get the processor, however short that is. A thread with
/// slices of 0.1 ms still has a sixth of a processor.
const REST: Duration = Duration::from_micros(500);

/// Where a slice has the time from, and what a rest is.
pub trait Timer {
    /// The time now.
    fn now(&mut self) -> Instant;
    /// Lets other threads run for that long.
    fn sleep(&mut self, time: Duration);
}

/// The calling thread's.
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

/// How long a thread runs before it rests, and since when it runs. Time in which it did not get a processor counts too: it
/// rests sooner then.
#[derive(Debug)]
pub struct Slice<T = ThreadTimer> {
    length: Duration,
    begun: Instant,
    timer: T,
}

impl Slice {
    /// For what comes with each packet and each event.
    pub const SHORT: Duration = Duration::from_micros(100);
    /// For what comes once or twice a second.
    pub const LONG: Duration = Duration::from_micros(200);

    /// One that begins now.
    pub fn new(length: Duration) -> Self {
        Self::with_timer(length, ThreadTimer)
    }
}

impl<T: Timer> Slice<T> {
    /// One that begins now, by this timer.
    pub fn with_timer(length: Duration, mut timer: T) -> Self {
        Self { length, begun: timer.now(), timer }
    }

    /// Rests if the slice is over, unless the work is `urgent`; the next one begins then. Whether it rested.
    pub fn rest_if_over(&mut self, urgent: impl FnOnce() -> bool) -> bool {
        if self.timer.now().saturating_duration_since(self.begun) < self.length {
            return false;
        }
        let rests = !urgent();
        if rests {
            self.timer.sleep(REST);
        }
        self.begun = self.timer.now();
        rests
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{REST, Slice, Timer};

    /// Goes on by a step each time that it is looked at; sleeps without waiting.
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
    fn a_thread_rests_after_each_slice() {
        let (rested, slept) = rests(9, 40, false);
        assert_eq!(rested, [false, false, true, false, false, true, false, false, true]);
        assert_eq!(slept, 3 * REST);
        assert_eq!(rests(9, 11, false), ([&[false; 9][..]].concat(), Duration::ZERO));
    }

    #[test]
    fn urgent_work_goes_on() {
        assert_eq!(rests(9, 40, true), (vec![false; 9], Duration::ZERO));
    }

    #[test]
    fn whether_work_is_urgent_is_asked_at_the_end_of_a_slice_only() {
        let step = Duration::from_micros(40);
        let mut steps = Steps { now: Instant::now(), step, slept: Duration::ZERO };
        let mut slice = Slice::with_timer(Slice::SHORT, &mut steps);
        let mut asked = 0;
        for _ in 0..9 {
            slice.rest_if_over(|| {
                asked += 1;
                asked == 2
            });
        }
        assert_eq!((asked, steps.slept), (3, 2 * REST));
    }
}
