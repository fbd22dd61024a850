//! The recent past, from which the surroundings of a slow request are taken once it is judged. Bounded in time and number.
//! Does not judge.

use std::collections::VecDeque;
use std::sync::Arc;

use model::{Event, Nanos};
use report::thread_state::{ThreadState, ThreadStates};

/// How long events are kept: a verdict comes some ten seconds after its request, which may have taken long.
const KEPT: Nanos = Nanos::from_millis(75_000);
/// How long brief ones are: beside a request that took longer than the difference to a verdict's ten seconds they would be
/// no line on a screen.
const BRIEF_KEPT: Nanos = Nanos::from_millis(20_000);
/// How much longer than the briefest that is kept an event is not brief any more.
const NOT_BRIEF: i64 = 20;
/// At most so many of either are kept; some 300 bytes each.
const MAX: usize = 120_000;
/// Events come in the order of their times but for this much.
const DISORDER: Nanos = Nanos::from_millis(2_000);

/// An event that may surround a slow request, with its number: many requests show the same.
#[derive(Debug)]
pub(super) struct RecentEvent {
    pub(super) number: u64,
    pub(super) event: Event,
    /// How long of it a thread waited for work: it sat in a futex or in `epoll_wait`.
    idle: Nanos,
}

impl RecentEvent {
    /// How long something was done in it, or waited for that is no work.
    pub(super) fn busy(&self) -> Nanos {
        span(&self.event).map_or(Nanos::ZERO, |(start, end)| end - start - self.idle)
    }

    /// Whether it is a thread's wait for work.
    pub(super) fn is_idle(&self) -> bool {
        self.idle > Nanos::ZERO
    }
}

/// Events that took long enough to be seen beside a slow request.
pub(super) struct Recent {
    brief: VecDeque<Arc<RecentEvent>>,
    long: VecDeque<Arc<RecentEvent>>,
    least: Nanos,
    newest: Nanos,
    /// From when on nothing was let go of for its age.
    whole_from: Nanos,
    /// Up to when events were given up for want of room.
    given_up: Nanos,
    numbered: u64,
    states: ThreadStates,
}

impl Recent {
    /// Keeps what took at least a two-hundredth of what a slow request does: less is no line on a screen.
    pub(super) fn new(slower_than: Nanos) -> Self {
        let least = Nanos((slower_than.0 / 200).clamp(10_000, 1_000_000));
        let (brief, long) = (VecDeque::new(), VecDeque::new());
        Self {
            brief,
            long,
            least,
            newest: Nanos::MIN,
            whole_from: Nanos::MIN,
            given_up: Nanos::MIN,
            numbered: 0,
            states: ThreadStates::default(),
        }
    }

    pub(super) fn event(&mut self, event: &Event) {
        let time = event.time();
        // What was due before this one came: verdicts that it brings about may be on what is long past where little was read
        // in between.
        let before = if self.newest == Nanos::MIN { time } else { self.newest };
        self.newest = before.max(time);
        self.whole_from = self.whole_from.max(before - KEPT);
        let Some((start, end)) = span(event) else { return };
        let length = end - start;
        if length < self.least {
            return;
        }
        let mut idle = Nanos::ZERO;
        self.states.of(event, &mut |stretch| {
            if stretch.state == ThreadState::Idle {
                idle = stretch.end - stretch.start;
            }
        });
        self.numbered += 1;
        let is_brief = length.0 / NOT_BRIEF < self.least.0;
        let (events, kept) = if is_brief { (&mut self.brief, BRIEF_KEPT) } else { (&mut self.long, KEPT) };
        events.push_back(Arc::new(RecentEvent { number: self.numbered, event: event.clone(), idle }));
        while events.front().is_some_and(|oldest| oldest.event.time() < before - kept) {
            events.pop_front();
        }
        if events.len() > MAX {
            let oldest = events.pop_front();
            self.given_up = oldest.map_or(self.given_up, |oldest| self.given_up.max(oldest.event.time()));
        }
    }

    /// What shares time with this stretch.
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

    /// Whether all that shared time with what began then is still there.
    pub(super) fn is_whole_from(&self, start: Nanos) -> bool {
        self.given_up < start && self.whole_from < start
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

#[cfg(test)]
mod tests {
    use model::{Event, JvmPause, JvmPauseKind, Nanos, Row};

    use super::Recent;

    fn stop(start_ms: i64, end_ms: i64) -> Event {
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
    fn what_shares_time_is_found_and_brief_events_go_first() {
        let mut recent = Recent::new(Nanos::from_millis(100));
        for second in 0..60 {
            let at = second * 1_000;
            recent.event(&stop(at, at + 2));
            recent.event(&stop(at, at + 500));
        }
        assert_eq!(starts(&recent, 58_200, 59_001), [58_000, 59_000, 59_000]);
        // Of long ago only what was long.
        assert_eq!(starts(&recent, 10_000, 11_001), [10_000, 11_000]);
        assert!(recent.is_whole_from(Nanos::from_millis(1)));
        // Nothing that is too short to be seen is kept at all.
        recent.event(&stop(70_000, 70_000));
        assert_eq!(starts(&recent, 69_000, 71_000), [0_i64; 0]);
    }
}
