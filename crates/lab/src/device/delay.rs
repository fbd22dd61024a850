//! Which reads and writes are held back, and for how long: ranges of offsets, windows of time and seeded
//! chance. Knows nothing of FUSE or of clocks: times are milliseconds since the server's start.

use fastrand::Rng;

/// Whether bytes come from the device or go to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the device.
    Read,
    /// To the device.
    Write,
}

/// One rule: operations of `direction` that touch `offset..offset + length` take `least_ms..=most_ms` longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Which operations.
    pub direction: Direction,
    /// First byte of the range on the device.
    pub offset: u64,
    /// Size of the range in bytes.
    pub length: u64,
    /// Shortest extra time.
    pub least_ms: u64,
    /// Longest extra time.
    pub most_ms: u64,
    /// From when (inclusive) to when (exclusive) it holds; `None` is always.
    pub window_ms: Option<(u64, u64)>,
}

impl Delay {
    fn applies(&self, direction: Direction, offset: u64, length: u64, now_ms: u64) -> bool {
        let overlaps =
            offset < self.offset.saturating_add(self.length) && self.offset < offset.saturating_add(length);
        let open = self.window_ms.is_none_or(|(from, until)| (from..until).contains(&now_ms));
        self.direction == direction && overlaps && open
    }
}

/// The rules in force and the chance they draw from.
#[derive(Debug)]
pub struct Delays {
    rules: Vec<Delay>,
    chance: Rng,
}

impl Delays {
    /// No rules; draws follow from `seed` alone.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { rules: Vec::new(), chance: Rng::with_seed(seed) }
    }

    /// Adds a rule.
    pub fn plant(&mut self, rule: Delay) {
        self.rules.push(rule);
    }

    /// Drops all rules.
    pub fn clear(&mut self) {
        self.rules.clear();
    }

    /// How long this operation is held back, in milliseconds: the longest of the rules that apply.
    pub fn hold_ms(&mut self, direction: Direction, offset: u64, length: u64, now_ms: u64) -> u64 {
        let Self { rules, chance } = self;
        let applying = rules.iter().filter(|rule| rule.applies(direction, offset, length, now_ms));
        applying.map(|rule| chance.u64(rule.least_ms..=rule.most_ms.max(rule.least_ms))).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Delay {
        let direction = Direction::Write;
        Delay { direction, offset: 4096, length: 8192, least_ms: 120, most_ms: 400, window_ms: None }
    }

    #[test]
    fn only_operations_that_touch_the_range_are_held_back() {
        let mut delays = Delays::new(1);
        delays.plant(journal());
        for (offset, length, held) in
            [(0, 4096, false), (0, 4097, true), (4096, 1, true), (12_287, 1, true), (12_288, 4096, false)]
        {
            assert_eq!(delays.hold_ms(Direction::Write, offset, length, 0) > 0, held, "{offset}+{length}");
            assert_eq!(delays.hold_ms(Direction::Read, offset, length, 0), 0);
        }
        delays.clear();
        assert_eq!(delays.hold_ms(Direction::Write, 4096, 1, 0), 0);
    }

    #[test]
    fn a_window_opens_and_closes() {
        let mut delays = Delays::new(1);
        delays.plant(Delay { window_ms: Some((10, 20)), ..journal() });
        let held: Vec<bool> =
            [9, 10, 19, 20].map(|now| delays.hold_ms(Direction::Write, 4096, 1, now) > 0).to_vec();
        assert_eq!(held, [false, true, true, false]);
    }

    #[test]
    fn delays_stay_in_bounds_and_follow_from_the_seed() {
        let draw = |seed| {
            let mut delays = Delays::new(seed);
            delays.plant(journal());
            (0..500).map(|_| delays.hold_ms(Direction::Write, 5000, 10, 0)).collect::<Vec<_>>()
        };
        assert!(draw(7).iter().all(|ms| (120..=400).contains(ms)));
        assert!(draw(7).iter().any(|ms| *ms < 200) && draw(7).iter().any(|ms| *ms > 320));
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn of_several_rules_the_longest_counts_and_huge_ranges_do_not_overflow() {
        let mut delays = Delays::new(1);
        delays.plant(Delay { length: u64::MAX, least_ms: 5, most_ms: 5, ..journal() });
        delays.plant(Delay { least_ms: 9, most_ms: 9, ..journal() });
        assert_eq!(delays.hold_ms(Direction::Write, u64::MAX - 1, u64::MAX, 0), 5);
        assert_eq!(delays.hold_ms(Direction::Write, 4096, 1, 0), 9);
        delays.plant(Delay { least_ms: 0, most_ms: u64::MAX, ..journal() });
        delays.hold_ms(Direction::Write, 4096, 1, 0);
    }
}
