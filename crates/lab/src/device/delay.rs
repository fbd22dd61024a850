//! Decides which reads and writes are delayed, and for how long: ranges of offsets, and seeded chance. Does not know
//! FUSE or clocks.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// Whether bytes come from the device or go to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Direction {
    /// From the device.
    Read,
    /// To the device.
    Write,
}

/// One rule: operations of `direction` that touch `offset..offset + length` take `least_ms..=most_ms` longer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delay {
    /// The delayed operations.
    pub direction: Direction,
    /// First byte of the range on the device.
    pub offset: u64,
    /// Size of the range in bytes.
    pub length: u64,
    /// Shortest extra time.
    pub least_ms: u64,
    /// Longest extra time.
    pub most_ms: u64,
}

impl Delay {
    fn applies(&self, direction: Direction, offset: u64, length: u64) -> bool {
        let overlaps =
            offset < self.offset.saturating_add(self.length) && self.offset < offset.saturating_add(length);
        self.direction == direction && overlaps
    }
}

/// Write speed of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Pace {
    /// Time of every write, however small, in microseconds.
    pub write_us: u64,
    /// Throughput, in bytes per second, on top of that.
    pub bytes_per_second: u64,
}

impl Pace {
    fn service_us(self, length: u64) -> u64 {
        let moving = length.saturating_mul(1_000_000).checked_div(self.bytes_per_second).unwrap_or(0);
        self.write_us.saturating_add(moving)
    }
}

/// The rules in force, and their random generator.
#[derive(Debug)]
pub(super) struct Delays {
    pub(super) rules: Vec<Delay>,
    pub(super) pace: Option<Pace>,
    chance: Rng,
    /// Until when earlier writes keep the disk busy, if it has a pace.
    pub(super) busy_until_us: u64,
}

impl Delays {
    /// No rules; draws depend on `seed` alone.
    pub(super) fn new(seed: u64) -> Self {
        Self { rules: Vec::new(), pace: None, chance: Rng::with_seed(seed), busy_until_us: 0 }
    }

    /// How long to delay an operation that comes now, including its wait for the disk. Reads do not wait for it.
    pub(super) fn hold(&mut self, direction: Direction, offset: u64, length: u64, now_us: u64) -> Duration {
        let rules = Duration::from_millis(self.hold_ms(direction, offset, length));
        match self.pace {
            Some(pace) if direction == Direction::Write => rules.max(self.turn(pace, length, now_us)),
            _ => rules,
        }
    }

    /// The longest delay of the rules that apply, in milliseconds.
    fn hold_ms(&mut self, direction: Direction, offset: u64, length: u64) -> u64 {
        let Self { rules, chance, .. } = self;
        let applying = rules.iter().filter(|rule| rule.applies(direction, offset, length));
        applying.map(|rule| chance.u64(rule.least_ms..=rule.most_ms.max(rule.least_ms))).max().unwrap_or(0)
    }

    fn turn(&mut self, pace: Pace, length: u64, now_us: u64) -> Duration {
        self.busy_until_us = self.busy_until_us.max(now_us).saturating_add(pace.service_us(length));
        Duration::from_micros(self.busy_until_us - now_us)
    }
}

type Finish = Box<dyn FnOnce() + Send>;
/// Due time first, then order of arrival.
type Waiting = BTreeMap<(Instant, u64), Finish>;

/// A handle to the thread that finishes delayed operations.
#[derive(Clone)]
pub(crate) struct DelayLine(Arc<Queue>);

struct Queue {
    waiting: Mutex<(Waiting, u64)>,
    news: Condvar,
}

impl DelayLine {
    /// Starts the thread; it lives as long as the process.
    pub(crate) fn start() -> Self {
        let line = Self(Arc::new(Queue { waiting: Mutex::default(), news: Condvar::new() }));
        let runner = line.clone();
        thread::spawn(move || runner.run());
        line
    }

    /// Calls `finish` after `hold`, or at once if that is zero.
    pub(crate) fn after(&self, hold: Duration, finish: impl FnOnce() + Send + 'static) {
        if hold.is_zero() {
            return finish();
        }
        let mut guard = self.lock();
        guard.1 += 1;
        let key = (Instant::now() + hold, guard.1);
        guard.0.insert(key, Box::new(finish));
        self.0.news.notify_one();
    }

    fn run(&self) {
        let mut guard = self.lock();
        loop {
            let now = Instant::now();
            let due = guard.0.first_key_value().map(|((due, _), _)| *due);
            guard = match due {
                None => self.0.news.wait(guard).unwrap_or_else(PoisonError::into_inner),
                Some(due) if due > now => {
                    let timed = self.0.news.wait_timeout(guard, due - now);
                    timed.unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    let first = guard.0.pop_first();
                    drop(guard);
                    if let Some((_, finish)) = first {
                        finish();
                    }
                    self.lock()
                }
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, (Waiting, u64)> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Delay {
        let direction = Direction::Write;
        Delay { direction, offset: 4096, length: 8192, least_ms: 120, most_ms: 400 }
    }

    #[test]
    fn delays_only_operations_that_overlap_the_range() {
        let mut delays = Delays::new(1);
        delays.rules.push(journal());
        for (offset, length, held) in
            [(0, 4096, false), (0, 4097, true), (4096, 1, true), (12_287, 1, true), (12_288, 4096, false)]
        {
            assert_eq!(delays.hold_ms(Direction::Write, offset, length) > 0, held, "{offset}+{length}");
            assert_eq!(delays.hold_ms(Direction::Read, offset, length), 0);
        }
        delays.rules.clear();
        assert_eq!(delays.hold_ms(Direction::Write, 4096, 1), 0);
    }

    #[test]
    fn delays_are_within_bounds_and_depend_on_the_seed() {
        let draw = |seed| {
            let mut delays = Delays::new(seed);
            delays.rules.push(journal());
            (0..500).map(|_| delays.hold_ms(Direction::Write, 5000, 10)).collect::<Vec<_>>()
        };
        assert!(draw(7).iter().all(|ms| (120..=400).contains(ms)));
        assert!(draw(7).iter().any(|ms| *ms < 200) && draw(7).iter().any(|ms| *ms > 320));
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn longest_delay_applies_and_huge_ranges_do_not_overflow() {
        let mut delays = Delays::new(1);
        delays.rules.push(Delay { length: u64::MAX, least_ms: 5, most_ms: 5, ..journal() });
        delays.rules.push(Delay { least_ms: 9, most_ms: 9, ..journal() });
        assert_eq!(delays.hold_ms(Direction::Write, u64::MAX - 1, u64::MAX), 5);
        assert_eq!(delays.hold_ms(Direction::Write, 4096, 1), 9);
        delays.rules.push(Delay { least_ms: 0, most_ms: u64::MAX, ..journal() });
        delays.hold_ms(Direction::Write, 4096, 1);
    }
}

#[cfg(test)]
mod pace_tests {
    use super::*;

    #[test]
    fn paced_writes_wait_for_earlier_writes_only() {
        let mut delays = Delays::new(1);
        delays.pace = Some(Pace { write_us: 2_000, bytes_per_second: 1_000_000 });
        let mut hold_us = |direction, length, now_us| delays.hold(direction, 0, length, now_us).as_micros();
        assert_eq!(hold_us(Direction::Write, 4_000, 100), 6_000);
        assert_eq!(hold_us(Direction::Write, 1_000, 100), 9_000, "behind the first");
        assert_eq!(hold_us(Direction::Read, 1_000, 100), 0, "reads need no turn");
        assert_eq!(hold_us(Direction::Write, 0, 8_100), 3_000, "behind what is left of it");
        assert_eq!(hold_us(Direction::Write, 0, 50_000), 2_000, "nothing is left");
    }

    #[test]
    fn extreme_paces_do_not_overflow() {
        let mut delays = Delays::new(1);
        delays.pace = Some(Pace { write_us: u64::MAX, bytes_per_second: 0 });
        let mut hold_us = |now_us| delays.hold(Direction::Write, 0, u64::MAX, now_us).as_micros();
        assert_eq!(hold_us(5), u128::from(u64::MAX - 5));
        assert_eq!(hold_us(u64::MAX), 0);
    }
}

#[cfg(test)]
mod delay_line_tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn finishes_operations_in_the_order_of_their_due_time() {
        let line = DelayLine::start();
        let (sender, receiver) = mpsc::channel();
        for (hold_ms, name) in [(60, "late"), (0, "at once"), (20, "soon")] {
            let sender = sender.clone();
            line.after(Duration::from_millis(hold_ms), move || sender.send(name).unwrap());
        }
        let order: Vec<_> = receiver.iter().take(3).collect();
        assert_eq!(order, ["at once", "soon", "late"]);
    }
}
