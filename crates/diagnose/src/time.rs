//! Spans of time, and a budget of time that gives out each instant once.
//! So explanations never add up to more time than there was.

use std::sync::Arc;

use model::Nanos;

/// From one moment to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimeSpan {
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
}

impl TimeSpan {
    pub(crate) const fn new(start: Nanos, end: Nanos) -> Self {
        Self { start, end }
    }

    pub(crate) fn length(self) -> Nanos {
        self.end - self.start
    }

    pub(crate) fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// The part of it that lies in another span; empty if there is none.
    pub(crate) fn within(self, other: Self) -> Self {
        Self::new(self.start.max(other.start), self.end.min(other.end))
    }

    /// Ends it at another moment at the latest.
    pub(crate) fn until(self, end: Nanos) -> Self {
        Self { end: self.end.min(end), ..self }
    }

    /// Whether a part is more than half of it.
    pub(crate) fn is_most(self, part: Nanos) -> bool {
        is_most(part, self.length())
    }
}

/// Whether a part is more than half of the whole.
pub(crate) fn is_most(part: Nanos, whole: Nanos) -> bool {
    part.0.saturating_mul(2) > whole.0
}

/// Something that lasts from one moment to another.
pub(crate) trait Span {
    fn span(&self) -> TimeSpan;

    /// Orders events that began and ended together.
    fn tie(&self) -> u64 {
        0
    }

    /// How much of it lies in a span.
    fn overlap(&self, span: TimeSpan) -> Nanos {
        self.span().within(span).length().at_least_zero()
    }
}

impl Span for TimeSpan {
    fn span(&self) -> TimeSpan {
        *self
    }
}

impl<T: Span> Span for Arc<T> {
    fn span(&self) -> TimeSpan {
        (**self).span()
    }

    fn tie(&self) -> u64 {
        (**self).tie()
    }
}

/// The remaining parts of a span, in order.
#[derive(Clone, Debug)]
pub(crate) struct TimeBudget(Vec<TimeSpan>);

impl TimeBudget {
    /// All of it.
    pub(crate) fn new(span: TimeSpan) -> Self {
        Self(if span.is_empty() { Vec::new() } else { vec![span] })
    }

    /// Takes the remaining parts of a span; returns how much that was.
    #[expect(clippy::expect_used, reason = "the pieces are in order and none is empty")]
    pub(crate) fn take(&mut self, span: TimeSpan) -> Nanos {
        if span.is_empty() {
            return Nanos::ZERO;
        }
        let first = self.0.partition_point(|piece| piece.end <= span.start);
        let past = self.0.partition_point(|piece| piece.start < span.end);
        let met = self.0.get(first..past).expect("what ends before a span begins before its end");
        let (Some(&TimeSpan { start, .. }), Some(&TimeSpan { end, .. })) = (met.first(), met.last()) else {
            return Nanos::ZERO;
        };
        let taken = met.iter().map(|piece| piece.overlap(span)).sum();
        let rest = [TimeSpan::new(start, span.start), TimeSpan::new(span.end, end)];
        self.0.splice(first..past, rest.into_iter().filter(|piece| !piece.is_empty()));
        taken
    }

    /// Like `take`; `None` if nothing was left.
    pub(crate) fn take_any(&mut self, span: TimeSpan) -> Option<Nanos> {
        Some(self.take(span)).filter(|taken| *taken > Nanos::ZERO)
    }

    /// Takes the remaining parts of several spans; returns how much that was.
    pub(crate) fn take_all(&mut self, spans: impl IntoIterator<Item = TimeSpan>) -> Nanos {
        spans.into_iter().map(|span| self.take(span)).sum()
    }

    /// Takes the remaining parts of events; returns the event with the largest part, and the sum.
    pub(crate) fn take_parts<'e, T>(
        &mut self,
        parts: impl Iterator<Item = (&'e T, TimeSpan)>,
    ) -> Option<(&'e T, Nanos)> {
        let mut time = Nanos::ZERO;
        let mut longest: Option<(&T, Nanos)> = None;
        for (event, part) in parts {
            let taken = self.take(part);
            time += taken;
            if taken > longest.map_or(Nanos::ZERO, |(_, length)| length) {
                longest = Some((event, taken));
            }
        }
        longest.map(|(event, _)| (event, time))
    }

    /// The remaining parts within a span.
    pub(crate) fn within(&self, span: TimeSpan) -> Self {
        Self(self.pieces(span).collect())
    }

    /// The remaining pieces within a span, in order.
    pub(crate) fn pieces(&self, span: TimeSpan) -> impl Iterator<Item = TimeSpan> + '_ {
        self.0.iter().map(move |piece| piece.within(span)).filter(|piece| !piece.is_empty())
    }

    /// From the start of the first remaining piece to the end of the last.
    pub(crate) fn whole(&self) -> Option<TimeSpan> {
        Some(TimeSpan::new(self.0.first()?.start, self.last()?.end))
    }

    /// How much is left.
    pub(crate) fn left(&self) -> Nanos {
        self.0.iter().map(|piece| piece.length()).sum()
    }

    /// The last remaining piece.
    pub(crate) fn last(&self) -> Option<TimeSpan> {
        self.0.last().copied()
    }
}

#[cfg(test)]
mod tests {
    use model::Nanos;
    use proptest::prelude::*;

    use super::{TimeBudget, TimeSpan};

    fn span(start: i64, end: i64) -> TimeSpan {
        TimeSpan::new(Nanos(start), Nanos(end))
    }

    #[test]
    fn budget_gives_out_no_time_twice() {
        let mut free = TimeBudget::new(span(10, 20));
        assert_eq!(free.take(span(0, 12)), Nanos(2));
        assert_eq!(free.take(span(14, 16)), Nanos(2));
        assert_eq!(free.take(span(11, 15)), Nanos(2));
        assert_eq!(free.last(), Some(span(16, 20)));
        assert_eq!(free.pieces(span(13, 18)).collect::<Vec<_>>(), [span(16, 18)]);
        assert_eq!(free.take(span(17, 17)), Nanos(0));
        assert_eq!(free.take(span(i64::MIN, i64::MAX)), Nanos(4));
        assert_eq!((free.left(), free.last()), (Nanos(0), None));
    }

    proptest! {
        #[test]
        fn an_instant_is_taken_once(takes in proptest::collection::vec((-5_i64..40, -5_i64..40), 0..20)) {
            let mut free = TimeBudget::new(span(0, 30));
            let mut instants = [true; 30];
            for (start, end) in takes {
                let (from, until) = (start.max(0), end.min(30));
                let mut expected = 0;
                for at in from..until {
                    expected += i64::from(std::mem::take(&mut instants[at as usize]));
                }
                prop_assert_eq!(free.take(span(start, end)).0, expected);
            }
            prop_assert_eq!(free.left().0, instants.iter().filter(|left| **left).count() as i64);
        }
    }
}
