//! Items that wait until everything that bears on them has had time to arrive. Does not know when that is.
//!
//! There are few sources, and the items of each arrive nearly in the order in which they fall due. A few ordered
//! queues hold nearly all items at almost no cost; only the rest is sorted.

use std::collections::{BTreeMap, VecDeque};

use model::Nanos;

/// For packets, the kernel's operations, its samples and the JVM: an item out of order in one queue is in order in
/// another.
const QUEUES: usize = 4;

/// When an item falls due, and what orders items that fall due together.
/// These are the tie-breaker, and a number that preserves the order of the rest.
type Due = (Nanos, u64, u64);

/// The queue.
#[derive(Debug)]
pub(crate) struct DueQueue<T> {
    /// Items that came in order; of the queues' last items, the first queue's falls due last.
    queues: [VecDeque<(Due, T)>; QUEUES],
    /// Items that fell due before the last item of every queue.
    late: BTreeMap<Due, T>,
    pushed: u64,
}

impl<T> DueQueue<T> {
    pub(crate) fn new() -> Self {
        Self { queues: Default::default(), late: BTreeMap::new(), pushed: 0 }
    }

    /// Items that fall due together come out in the order of insertion.
    pub(crate) fn push(&mut self, due: Nanos, what: T) {
        self.push_with_tie(due, 0, what);
    }

    /// Items that fall due together come out in the order of `tie`, not of insertion.
    pub(crate) fn push_with_tie(&mut self, due: Nanos, tie: u64, what: T) {
        self.pushed += 1;
        let at = (due, tie, self.pushed);
        match self.queues.iter_mut().find(|queue| queue.back().is_none_or(|last| last.0 < at)) {
            Some(queue) => queue.push_back((at, what)),
            None => {
                self.late.insert(at, what);
            }
        }
    }

    /// Removes the first item that falls due at or before `until`.
    pub(crate) fn pop_due(&mut self, until: Nanos) -> Option<T> {
        let late = self.late.first_key_value().map(|(at, _)| *at);
        let mut first = late.filter(|at| at.0 <= until);
        let mut in_order = None;
        for queue in &mut self.queues {
            let Some(at) = queue.front().map(|waits| waits.0).filter(|at| at.0 <= until) else { continue };
            if first.is_none_or(|first| at < first) {
                first = Some(at);
                in_order = Some(queue);
            }
        }
        match in_order {
            Some(queue) => queue.pop_front().map(|(_, what)| what),
            None => first.and_then(|_| self.late.pop_first()).map(|(_, what)| what),
        }
    }

    /// The number of waiting items.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum::<usize>() + self.late.len()
    }
}

#[cfg(test)]
mod tests {
    use model::Nanos;
    use proptest::prelude::*;

    use super::DueQueue;

    proptest! {
        #[test]
        fn pops_items_by_due_time_and_ties_in_insertion_order(dues in proptest::collection::vec(0_i64..20, 0..40)) {
            let mut pending = DueQueue::new();
            let mut expected: Vec<(i64, usize)> = Vec::new();
            for (number, due) in dues.into_iter().enumerate() {
                pending.push(Nanos(due), (due, number));
                expected.push((due, number));
                expected.sort_unstable();
                // Due items are popped in between, so that the ordered queues and the late items run empty repeatedly.
                if number % 5 == 4 {
                    let until = Nanos(10);
                    let first = expected.first().copied().filter(|first| first.0 <= until.0);
                    prop_assert_eq!(pending.pop_due(until), first);
                    if first.is_some() {
                        expected.remove(0);
                    }
                }
            }
            prop_assert_eq!(pending.len(), expected.len());
            let rest: Vec<_> = std::iter::from_fn(|| pending.pop_due(Nanos::MAX)).collect();
            prop_assert_eq!(rest, expected);
        }
    }
}
