//! A stretch of time of which each instant is given away once, so that what is explained never adds up to more than
//! there was.

use model::Nanos;

/// What is left of a stretch, in order.
#[derive(Clone, Debug)]
pub(crate) struct TimeBudget(Vec<(Nanos, Nanos)>);

impl TimeBudget {
    /// All of it.
    pub(crate) fn new(start: Nanos, end: Nanos) -> Self {
        Self(if start < end { vec![(start, end)] } else { Vec::new() })
    }

    /// Takes what is left between two instants; how much that was.
    pub(crate) fn take(&mut self, start: Nanos, end: Nanos) -> Nanos {
        let first = self.0.partition_point(|&(_, until)| until <= start);
        let past = self.0.partition_point(|&(from, _)| from < end);
        let met = if start < end { self.0.get(first..past).unwrap_or_default() } else { &[] };
        let (Some(&(from, _)), Some(&(_, until))) = (met.first(), met.last()) else { return Nanos::ZERO };
        let taken = met.iter().map(|&(from, until)| until.min(end) - from.max(start)).sum();
        let rest = [(from, start), (end, until)];
        self.0.splice(first..past, rest.into_iter().filter(|(from, until)| from < until));
        taken
    }

    /// What is left between two instants.
    pub(crate) fn within(&self, start: Nanos, end: Nanos) -> Self {
        let pieces = self.0.iter().map(|&(from, until)| (from.max(start), until.min(end)));
        Self(pieces.filter(|(from, until)| from < until).collect())
    }

    /// The pieces that are left between two instants, in order.
    pub(crate) fn pieces(&self, start: Nanos, end: Nanos) -> impl Iterator<Item = (Nanos, Nanos)> + '_ {
        let pieces = self.0.iter().map(move |&(from, until)| (from.max(start), until.min(end)));
        pieces.filter(|(from, until)| from < until)
    }

    /// How much is left.
    pub(crate) fn left(&self) -> Nanos {
        self.0.iter().map(|&(from, until)| until - from).sum()
    }

    /// The last piece that is left.
    pub(crate) fn last(&self) -> Option<(Nanos, Nanos)> {
        self.0.last().copied()
    }
}

#[cfg(test)]
mod tests {
    use model::Nanos;
    use proptest::prelude::*;

    use super::TimeBudget;

    #[test]
    fn what_was_taken_is_not_there_again() {
        let mut free = TimeBudget::new(Nanos(10), Nanos(20));
        assert_eq!(free.take(Nanos(0), Nanos(12)), Nanos(2));
        assert_eq!(free.take(Nanos(14), Nanos(16)), Nanos(2));
        assert_eq!(free.take(Nanos(11), Nanos(15)), Nanos(2));
        assert_eq!(free.last(), Some((Nanos(16), Nanos(20))));
        assert_eq!(free.pieces(Nanos(13), Nanos(18)).collect::<Vec<_>>(), [(Nanos(16), Nanos(18))]);
        assert_eq!(free.take(Nanos(17), Nanos(17)), Nanos(0));
        assert_eq!(free.take(Nanos::MIN, Nanos::MAX), Nanos(4));
        assert_eq!((free.left(), free.last()), (Nanos(0), None));
    }

    proptest! {
        #[test]
        fn an_instant_is_taken_once(takes in proptest::collection::vec((-5_i64..40, -5_i64..40), 0..20)) {
            let mut free = TimeBudget::new(Nanos(0), Nanos(30));
            let mut instants = [true; 30];
            for (start, end) in takes {
                let (from, until) = (start.max(0), end.min(30));
                let mut expected = 0;
                for at in from..until {
                    expected += i64::from(std::mem::take(&mut instants[at as usize]));
                }
                prop_assert_eq!(free.take(Nanos(start), Nanos(end)).0, expected);
            }
            prop_assert_eq!(free.left().0, instants.iter().filter(|left| **left).count() as i64);
        }
    }
}
