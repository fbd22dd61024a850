//! The recent past, from which the surroundings of a slow request are taken once it is judged. Bounded in time and number.
//! Does not judge.

use std::collections::VecDeque;

use model::{Event, Nanos};

/// How long events are kept: a verdict comes some ten seconds after its request, which may have taken long.
const KEPT: Nanos = Nanos::from_millis(75_000);
/// At most so many are kept; some 300 bytes each.
const MOST: usize = 250_000;

/// Events that took long enough to be seen beside a slow request.
pub(super) struct Recent {
    events: VecDeque<Event>,
    least: Nanos,
    newest: Nanos,
    /// Up to when events were given up for want of room.
    given_up: Nanos,
}

impl Recent {
    /// Keeps what took at least a two-hundredth of what a slow request does: less is no line on a screen.
    pub(super) fn new(slower_than: Nanos) -> Self {
        let least = Nanos((slower_than.0 / 200).clamp(10_000, 1_000_000));
        Self { events: VecDeque::new(), least, newest: Nanos::MIN, given_up: Nanos::MIN }
    }

    pub(super) fn event(&mut self, event: &Event) {
        self.newest = self.newest.max(event.time());
        let Some((start, end)) = span(event) else { return };
        if end - start < self.least {
            return;
        }
        self.events.push_back(event.clone());
        while self.events.front().is_some_and(|oldest| oldest.time() < self.newest - KEPT) {
            self.events.pop_front();
        }
        if self.events.len() > MOST {
            self.given_up =
                self.events.pop_front().map_or(self.given_up, |oldest| self.given_up.max(oldest.time()));
        }
    }

    /// What shares time with this stretch.
    pub(super) fn within(&self, from: Nanos, until: Nanos) -> impl Iterator<Item = &Event> {
        let shares =
            move |event: &&Event| span(event).is_some_and(|(start, end)| start < until && end > from);
        self.events.iter().filter(shares)
    }

    /// Whether all that shared time with what began then is still there.
    pub(super) fn is_whole_from(&self, start: Nanos) -> bool {
        self.given_up < start && self.newest - KEPT < start
    }
}

/// When it happened, if it is of a kind that surrounds requests.
pub(super) fn span(event: &Event) -> Option<(Nanos, Nanos)> {
    match event {
        Event::FileOp(op) => Some((op.start, op.end)),
        Event::OffCpu(interval) => Some((interval.start, interval.end)),
        Event::LockWait(wait) => Some((wait.start, wait.end)),
        Event::JournalCommit(commit) => Some((commit.start, commit.end)),
        Event::BlockIo(io) => Some((io.queued.unwrap_or(io.start), io.end)),
        Event::JvmPause(pause) => Some((pause.start, pause.end)),
        Event::DirtyThrottle(pause) => Some((pause.start, pause.end)),
        Event::Reclaim(reclaim) => Some((reclaim.start, reclaim.end)),
        Event::KernelSpan(span) => Some((span.start, span.end)),
        _ => None,
    }
}
