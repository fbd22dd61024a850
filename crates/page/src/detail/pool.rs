//! Stretches of time that waterfalls show, each told once however many requests show it: victims of one root share most of
//! theirs. Bounded.

use std::collections::HashMap;

use model::{Evidence, Nanos, Tid};

use super::spans::{self, Span};
use crate::grid::Grid;
use crate::recent::RecentEvent;

/// At most so many are kept; some 300 bytes each.
const MAX: usize = 20_000;

/// The stretches.
#[derive(Default)]
pub(crate) struct Pool {
    numbers: HashMap<u64, u32>,
    /// Those of waits that were concluded.
    waits: HashMap<(Tid, Nanos, Nanos), u32>,
    spans: Vec<Span>,
}

impl Pool {
    /// The number of an event's stretch; none where there is no room for more.
    pub(super) fn number(&mut self, grid: &Grid, seen: &RecentEvent) -> Option<u32> {
        if let Some(&number) = self.numbers.get(&seen.number) {
            return Some(number);
        }
        let number = self.told(|| spans::of(grid, &seen.event))?;
        self.numbers.insert(seen.number, number);
        Some(number)
    }

    /// The number of a wait for a lock that was concluded, not seen: its evidence has no event.
    pub(super) fn wait(&mut self, grid: &Grid, waiter: Tid, wait: &Evidence) -> Option<u32> {
        let which = (waiter, wait.start, wait.end);
        if let Some(&number) = self.waits.get(&which) {
            return Some(number);
        }
        let number = self.told(|| Some(spans::of_wait(grid, wait)))?;
        self.waits.insert(which, number);
        Some(number)
    }

    fn told(&mut self, span: impl FnOnce() -> Option<Span>) -> Option<u32> {
        if self.spans.len() >= MAX {
            return None;
        }
        let number = self.spans.len() as u32;
        self.spans.push(span()?);
        Some(number)
    }

    /// All of them, by their numbers.
    pub(crate) fn into_spans(self) -> Vec<Span> {
        self.spans
    }
}
