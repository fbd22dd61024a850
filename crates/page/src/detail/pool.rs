//! Spans of time that waterfalls show, each stored once. Many requests may show the same span: victims of one root
//! share most of their spans. Bounded.

use std::collections::HashMap;

use model::{Evidence, Nanos, Tid};

use super::spans::{self, Span};
use crate::grid::Grid;
use crate::recent::RecentEvent;

/// Limit on the spans kept; about 300 bytes each.
const MAX: usize = 20_000;

/// Source of a span.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Source {
    /// The event with this number.
    Event(u64),
    /// An inferred wait of a thread: its evidence has no event.
    Wait(Tid, Nanos, Nanos),
}

/// The spans.
#[derive(Default)]
pub(crate) struct Pool {
    numbers: HashMap<Source, u32>,
    /// All spans, by their numbers.
    pub(crate) spans: Vec<Span>,
}

impl Pool {
    /// The number of an event's span; `None` beyond the limit.
    /// A thread's wait for work is idle, unless it is evidence of any request.
    pub(super) fn event(&mut self, grid: &Grid, seen: &RecentEvent, is_evidence: bool) -> Option<u32> {
        let span =
            || spans::of(grid, &seen.event).map(|span| if seen.is_idle() { span.idle() } else { span });
        let number = self.number(Source::Event(seen.number), span)?;
        if let Some(span) = self.spans.get_mut(number as usize).filter(|_| is_evidence) {
            span.kind = spans::OFF_CPU;
        }
        Some(number)
    }

    /// The number of an inferred wait for a lock.
    pub(super) fn wait(&mut self, grid: &Grid, waiter: Tid, wait: &Evidence) -> Option<u32> {
        self.number(Source::Wait(waiter, wait.start, wait.end), || Some(spans::of_wait(grid, wait)))
    }

    fn number(&mut self, source: Source, span: impl FnOnce() -> Option<Span>) -> Option<u32> {
        if let Some(&number) = self.numbers.get(&source) {
            return Some(number);
        }
        if self.spans.len() >= MAX {
            return None;
        }
        let number = self.spans.len() as u32;
        self.spans.push(span()?);
        self.numbers.insert(source, number);
        Some(number)
    }
}
