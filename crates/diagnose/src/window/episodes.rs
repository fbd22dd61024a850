//! Stretches of the same trouble that follow each other closely, as one: a device that is slow for a while holds up
//! many requests and is one root. Does not know what the trouble is.

use std::collections::VecDeque;

use model::Nanos;

/// Stretches no further apart than this belong together.
const CLOSE: Nanos = Nanos::from_millis(1_000);

/// Episodes, in order and apart from each other.
#[derive(Debug, Default)]
pub(crate) struct Episodes(VecDeque<(Nanos, Nanos)>);

impl Episodes {
    /// Takes a stretch of the trouble.
    pub(crate) fn add(&mut self, start: Nanos, end: Nanos) {
        let mut whole = (start, end.max(start));
        let first = self.0.partition_point(|&(_, ended)| ended + CLOSE < whole.0);
        while let Some(&(from, until)) = self.0.get(first).filter(|(from, _)| *from <= whole.1 + CLOSE) {
            whole = (whole.0.min(from), whole.1.max(until));
            self.0.remove(first);
        }
        self.0.insert(first, whole);
    }

    /// When the episode began that the stretch is of.
    pub(crate) fn began(&self, start: Nanos, end: Nanos) -> Option<Nanos> {
        let at = self.0.partition_point(|&(_, ended)| ended < start);
        self.0.get(at).filter(|(from, _)| *from <= end).map(|&(from, _)| from)
    }

    pub(crate) fn forget(&mut self, horizon: Nanos) {
        while self.0.front().is_some_and(|&(_, ended)| ended < horizon) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use model::Nanos;
    use proptest::prelude::*;

    use super::{CLOSE, Episodes};

    fn ms(n: i64) -> Nanos {
        Nanos::from_millis(n)
    }

    #[test]
    fn what_is_close_is_one_episode_whose_start_stays() {
        let mut episodes = Episodes::default();
        for (start, end) in [(0, 100), (900, 1_500), (2_500, 2_600), (9_000, 9_100)] {
            episodes.add(ms(start), ms(end));
        }
        assert_eq!(episodes.began(ms(2_550), ms(2_560)), Some(ms(0)));
        assert_eq!(episodes.began(ms(9_050), ms(9_200)), Some(ms(9_000)));
        assert_eq!(episodes.began(ms(5_000), ms(5_100)), None);
        episodes.forget(ms(2_000));
        assert_eq!(episodes.began(ms(2_550), ms(2_560)), Some(ms(0)), "it is not over");
        episodes.forget(ms(5_000));
        assert_eq!(episodes.began(ms(2_550), ms(2_560)), None);
    }

    proptest! {
        /// As a model that marks every millisecond says, in whatever order stretches come.
        #[test]
        fn the_order_of_arrival_changes_nothing(spans in proptest::collection::vec((0_i64..9_000, 0_i64..900), 0..20)) {
            let mut episodes = Episodes::default();
            for &(start, length) in &spans {
                episodes.add(ms(start), ms(start + length));
            }
            let mut sorted = spans.clone();
            sorted.sort_unstable();
            let mut expected: Vec<(Nanos, Nanos)> = Vec::new();
            for (start, length) in sorted {
                let (start, end) = (ms(start), ms(start + length));
                match expected.last_mut().filter(|last| start <= last.1 + CLOSE) {
                    Some(last) => last.1 = last.1.max(end),
                    None => expected.push((start, end)),
                }
            }
            prop_assert_eq!(episodes.0.into_iter().collect::<Vec<_>>(), expected);
        }
    }
}
