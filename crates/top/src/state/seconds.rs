//! Values for each of the last seconds. Does not know what they count.

use std::collections::VecDeque;

use model::Nanos;

const SECOND_NS: i64 = 1_000_000_000;

/// The last seconds, each with a value.
#[derive(Clone, Debug)]
pub(crate) struct Seconds<T> {
    /// Oldest first; the last one is the current second.
    cells: VecDeque<T>,
    /// The second of the last cell, since 1970; `None` before the first value.
    newest: Option<i64>,
    most: usize,
}

impl<T: Default> Seconds<T> {
    /// Creates `most` seconds, including the current one.
    pub(crate) fn new(most: usize) -> Self {
        Self { cells: VecDeque::new(), newest: None, most: most.max(1) }
    }

    /// Like `new`, for events that may start before the first one.
    pub(crate) fn with_room_before(most: usize) -> Self {
        let most = most.max(1);
        Self { cells: std::iter::repeat_with(T::default).take(most).collect(), newest: None, most }
    }

    /// Advances to that moment.
    pub(crate) fn reach(&mut self, time: Nanos) {
        let second = time.0.div_euclid(SECOND_NS);
        let Some(newest) = self.newest else {
            self.newest = Some(second);
            if self.cells.is_empty() {
                self.cells.push_back(T::default());
            }
            return;
        };
        let ahead = usize::try_from(second.saturating_sub(newest)).unwrap_or(0);
        if ahead == 0 {
            return;
        }
        self.newest = Some(second);
        for _ in 0..ahead.min(self.most) {
            if self.cells.len() >= self.most {
                self.cells.pop_front();
            }
            self.cells.push_back(T::default());
        }
    }

    /// The cell of that moment; `None` if it is too long ago.
    pub(crate) fn at(&mut self, time: Nanos) -> Option<&mut T> {
        self.reach(time);
        let ago = self.newest?.saturating_sub(time.0.div_euclid(SECOND_NS));
        let from_the_end = usize::try_from(ago).ok()?.checked_add(1)?;
        let index = self.cells.len().checked_sub(from_the_end)?;
        self.cells.get_mut(index)
    }

    /// Passes each cell that an interval overlaps to `each`. Also passes the overlap in nanoseconds. An interval that
    /// starts before the first cell counts from there.
    pub(crate) fn share_out(&mut self, start: Nanos, end: Nanos, each: &mut dyn FnMut(&mut T, i64)) {
        self.reach(end);
        let Some(newest) = self.newest else { return };
        let count = i64::try_from(self.cells.len()).unwrap_or(i64::MAX);
        let first = newest.saturating_sub(count - 1);
        for (second, cell) in (first..).zip(&mut self.cells) {
            let from = Nanos(second.saturating_mul(SECOND_NS));
            let share = (end.min(from + Nanos(SECOND_NS)) - start.max(from)).0;
            if share > 0 {
                each(cell, share);
            }
        }
    }

    /// The last complete seconds, oldest first, at most `most`; fewer if less time has passed.
    pub(crate) fn over(&self, most: usize) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        let over = self.cells.len().saturating_sub(1);
        self.cells.range(over.saturating_sub(most)..over)
    }
}

#[cfg(test)]
mod tests {
    use super::Seconds;
    use model::Nanos;

    fn at(ms: i64) -> Nanos {
        Nanos::from_millis(1_000_000 + ms)
    }

    #[test]
    fn excludes_old_seconds_and_the_current_one() {
        let mut seconds = Seconds::<u32>::new(3);
        for ms in [0, 999, 1_000, 2_500, 500] {
            *seconds.at(at(ms)).unwrap() += 1;
        }
        assert_eq!(seconds.over(9).copied().collect::<Vec<_>>(), [3, 1]);
        assert_eq!(seconds.over(1).copied().collect::<Vec<_>>(), [1]);
        seconds.reach(at(3_000));
        assert_eq!(seconds.at(at(999)), None);
        assert_eq!(seconds.over(9).copied().collect::<Vec<_>>(), [1, 1]);
        // A clock that jumps clears everything, in constant time.
        seconds.reach(Nanos::MAX);
        assert_eq!(seconds.over(9).copied().collect::<Vec<_>>(), [0, 0]);
    }

    #[test]
    fn splits_an_interval_over_the_retained_seconds() {
        let mut seconds = Seconds::<i64>::with_room_before(3);
        seconds.reach(at(2_000));
        seconds.share_out(at(-5_000), at(1_250), &mut |cell, ns| *cell += ns / 1_000_000);
        assert_eq!(seconds.over(9).copied().collect::<Vec<_>>(), [1_000, 250]);
    }
}
