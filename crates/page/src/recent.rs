//! Recent events. They provide the surroundings of a slow request when its verdict arrives. Bounded in time and
//! number. Does not judge.

use std::collections::VecDeque;
use std::sync::Arc;

use model::{Event, Nanos};
use report::thread_state::{ThreadState, ThreadStates};

/// How long events are kept: a verdict arrives about ten seconds after its request, which may have taken long.
const RETENTION: Nanos = Nanos::from_millis(75_000);
/// How long brief events are kept: next to a request longer than this minus the verdict's ten seconds they would be
/// invisible.
const BRIEF_RETENTION: Nanos = Nanos::from_millis(20_000);
/// An event this many times as long as the shortest one kept is not brief.
const NOT_BRIEF: i64 = 20;
/// Limit on brief events, and on others; about 300 bytes each.
const MAX: usize = 120_000;
/// Events arrive in the order of their times, up to this much disorder.
const DISORDER: Nanos = Nanos::from_millis(2_000);

/// An event that may surround a slow request, with its number: many requests show the same event.
#[derive(Debug)]
pub(super) struct RecentEvent {
    pub(super) number: u64,
    pub(super) event: Event,
    /// Part of it in which a thread waited for work, in a futex or in `epoll_wait`.
    idle: Nanos,
}

impl RecentEvent {
    /// Time not spent waiting for work. Something was done, or the thread waited for something else.
    pub(super) fn busy(&self) -> Nanos {
        span(&self.event).map_or(Nanos::ZERO, |(start, end)| end - start - self.idle)
    }

    /// Whether it contains a thread's wait for work.
    pub(super) fn is_idle(&self) -> bool {
        self.idle > Nanos::ZERO
    }
}

/// Events long enough to be visible next to a slow request.
pub(super) struct Recent {
    brief: VecDeque<Arc<RecentEvent>>,
    long: VecDeque<Arc<RecentEvent>>,
    least: Nanos,
    newest: Nanos,
    /// Time from which no event was dropped because of its age.
    whole_from: Nanos,
    /// Time up to which events were dropped because of the limit.
    dropped_until: Nanos,
    last_number: u64,
    states: ThreadStates,
}

impl Recent {
    /// Keeps events of at least a two-hundredth of a slow request's latency: shorter ones would be invisible.
    pub(super) fn new(slower_than: Nanos) -> Self {
        let least = Nanos((slower_than.0 / 200).clamp(10_000, 1_000_000));
        let (brief, long) = (VecDeque::new(), VecDeque::new());
        Self {
            brief,
            long,
            least,
            newest: Nanos::MIN,
            whole_from: Nanos::MIN,
            dropped_until: Nanos::MIN,
            last_number: 0,
            states: ThreadStates::default(),
        }
    }

    pub(super) fn event(&mut self, event: &Event) {
        let time = event.time();
        // Expire by the newest time before this event: after a gap in the input, the verdicts that it triggers may concern
        // events long past.
        let before = if self.newest == Nanos::MIN { time } else { self.newest };
        self.newest = before.max(time);
        self.whole_from = self.whole_from.max(before - RETENTION);
        let Some((start, end)) = span(event) else { return };
        let length = end - start;
        if length < self.least {
            return;
        }
        let mut idle = Nanos::ZERO;
        self.states.of(event, &mut |state_span| {
            if state_span.state == ThreadState::Idle {
                idle = state_span.end - state_span.start;
            }
        });
        self.last_number += 1;
        let is_brief = length.0 / NOT_BRIEF < self.least.0;
        let (events, retention) =
            if is_brief { (&mut self.brief, BRIEF_RETENTION) } else { (&mut self.long, RETENTION) };
        events.push_back(Arc::new(RecentEvent { number: self.last_number, event: event.clone(), idle }));
        while events.front().is_some_and(|oldest| oldest.event.time() < before - retention) {
            events.pop_front();
        }
        if events.len() > MAX {
            let oldest = events.pop_front();
            self.dropped_until =
                oldest.map_or(self.dropped_until, |oldest| self.dropped_until.max(oldest.event.time()));
        }
    }

    /// Events that overlap with this span.
    pub(super) fn within(&self, from: Nanos, until: Nanos) -> impl Iterator<Item = &Arc<RecentEvent>> {
        let ended = from - DISORDER;
        let shares = move |seen: &&Arc<RecentEvent>| {
            span(&seen.event).is_some_and(|(start, end)| start < until && end > from)
        };
        [&self.long, &self.brief].into_iter().flat_map(move |events| {
            let first = events.partition_point(|seen| seen.event.time() < ended);
            events.range(first..).filter(shares)
        })
    }

    /// Whether all events that overlap with a span from `start` on are still kept.
    pub(super) fn is_whole_from(&self, start: Nanos) -> bool {
        self.dropped_until < start && self.whole_from < start
    }
}

/// Start and end of an event, if its kind can surround requests.
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

#[cfg(test)]
mod tests {
    use model::{Event, JvmPause, JvmPauseKind, Nanos, Row};

    use super::Recent;

    fn pause(start_ms: i64, end_ms: i64) -> Event {
        Event::JvmPause(Box::new(JvmPause {
            start: Nanos::from_millis(start_ms),
            end: Nanos::from_millis(end_ms),
            pid: 1,
            kind: JvmPauseKind::Gc,
            operation: "".into(),
            cause: "".into(),
            ..Row::empty()
        }))
    }

    fn starts(recent: &Recent, from_ms: i64, until_ms: i64) -> Vec<i64> {
        let within = recent.within(Nanos::from_millis(from_ms), Nanos::from_millis(until_ms));
        let mut starts: Vec<_> = within
            .filter_map(|seen| super::span(&seen.event))
            .map(|(start, _)| start.0 / 1_000_000)
            .collect();
        starts.sort_unstable();
        starts
    }

    #[test]
    fn finds_overlapping_events_and_drops_brief_ones_first() {
        let mut recent = Recent::new(Nanos::from_millis(100));
        for second in 0..60 {
            let at = second * 1_000;
            recent.event(&pause(at, at + 2));
            recent.event(&pause(at, at + 500));
        }
        assert_eq!(starts(&recent, 58_200, 59_001), [58_000, 59_000, 59_000]);
        // Only long events are kept for long.
        assert_eq!(starts(&recent, 10_000, 11_001), [10_000, 11_000]);
        assert!(recent.is_whole_from(Nanos::from_millis(1)));
        // Events too short to be visible are not kept at all.
        recent.event(&pause(70_000, 70_000));
        assert_eq!(starts(&recent, 69_000, 71_000), [0_i64; 0]);
    }
}
