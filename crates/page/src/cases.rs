//! The slow requests: their sums, and the slowest in detail with what happened around them. Reaches no verdicts.

use model::{Event, Nanos, Verdict};

use super::axis::Axis;
use super::detail::Draft;
use super::kept::DetailSelection;
use super::recent::Recent;
use super::slow::Slow;

/// Takes the events around slow requests, and the verdicts on them.
pub struct SlowRequests {
    pub(super) axis: Axis,
    pub(super) slow: Slow,
    pub(super) kept: DetailSelection,
    pub(super) slower_than: Nanos,
    recent: Recent,
}

impl SlowRequests {
    pub(super) fn new(origin: Option<Nanos>, slower_than: Nanos) -> Self {
        Self {
            axis: Axis::new(origin),
            slow: Slow::new(),
            kept: DetailSelection::default(),
            slower_than,
            recent: Recent::new(slower_than),
        }
    }

    /// Takes an event, before the engine does.
    pub fn event(&mut self, event: &Event) {
        if matches!(event, Event::SocketOp(_) | Event::TcpEvent(_)) {
            return;
        }
        self.axis.reach(event.time());
        self.recent.event(event);
    }

    /// Takes a verdict when it is reached.
    pub fn verdict(&mut self, verdict: &Verdict) {
        let grid = self.axis.grid(verdict.request.arrival);
        self.slow.verdict(grid, verdict);
        self.kept.offer(verdict, || Draft::of(verdict, &self.recent));
    }
}
