//! Stretches of time, joined where they touch. Knows nothing of events.

use model::Nanos;

/// Stretches in order, none touching another.
#[derive(Debug, Default)]
pub(super) struct Intervals(Vec<(Nanos, Nanos)>);

impl Intervals {
    /// Adds a stretch.
    pub(super) fn add(&mut self, start: Nanos, end: Nanos) {
        let first = self.0.partition_point(|&(_, kept_end)| kept_end < start);
        let last = self.0.partition_point(|&(kept_start, _)| kept_start <= end);
        let joined = self.0.drain(first..last.max(first));
        let whole = joined.fold((start, end), |whole, kept| (whole.0.min(kept.0), whole.1.max(kept.1)));
        self.0.insert(first, whole);
    }

    /// Whether a stretch, which may be a moment, shares a moment with any.
    pub(super) fn touches(&self, start: Nanos, end: Nanos) -> bool {
        let first = self.0.partition_point(|&(_, kept_end)| kept_end < start);
        self.0.get(first).is_some_and(|&(kept_start, _)| kept_start <= end)
    }

    /// Whether a stretch lies within one of them.
    pub(super) fn covers(&self, start: Nanos, end: Nanos) -> bool {
        let first = self.0.partition_point(|&(_, kept_end)| kept_end < end);
        self.0.get(first).is_some_and(|&(kept_start, _)| kept_start <= start)
    }

    /// Forgets those that ended before.
    pub(super) fn forget_before(&mut self, time: Nanos) {
        if self.0.first().is_some_and(|&(_, end)| end < time) {
            self.0.retain(|&(_, end)| end >= time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Intervals;
    use model::Nanos;

    fn of(stretches: &[(i64, i64)]) -> Intervals {
        let mut intervals = Intervals::default();
        for &(start, end) in stretches {
            intervals.add(Nanos(start), Nanos(end));
        }
        intervals
    }

    #[test]
    fn stretches_that_touch_become_one() {
        for (stretches, expected) in [
            (vec![(1, 3), (5, 7)], vec![(1, 3), (5, 7)]),
            (vec![(5, 7), (1, 3)], vec![(1, 3), (5, 7)]),
            (vec![(1, 3), (5, 7), (3, 5)], vec![(1, 7)]),
            (vec![(1, 9), (2, 3)], vec![(1, 9)]),
            (vec![(4, 5), (6, 7), (8, 9), (0, 8)], vec![(0, 9)]),
        ] {
            let found: Vec<_> = of(&stretches).0.iter().map(|(start, end)| (start.0, end.0)).collect();
            assert_eq!(found, expected, "{stretches:?}");
        }
    }

    #[test]
    fn a_stretch_touches_what_it_shares_a_moment_with() {
        let mut intervals = of(&[(10, 20), (30, 40)]);
        for (start, end, touches) in
            [(0, 9, false), (0, 10, true), (20, 20, true), (21, 29, false), (25, 35, true), (41, 50, false)]
        {
            assert_eq!(intervals.touches(Nanos(start), Nanos(end)), touches, "{start} to {end}");
        }
        for (start, end, covers) in
            [(10, 20, true), (12, 13, true), (9, 12, false), (18, 31, false), (41, 42, false)]
        {
            assert_eq!(intervals.covers(Nanos(start), Nanos(end)), covers, "{start} to {end}");
        }
        intervals.forget_before(Nanos(21));
        assert!(!intervals.touches(Nanos(15), Nanos(15)));
        assert!(intervals.touches(Nanos(30), Nanos(30)));
    }
}
