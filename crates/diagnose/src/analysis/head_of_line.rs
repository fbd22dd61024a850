//! Waits behind head-of-line requests: of a complete request, or of the rest of one whose first bytes are not read.
//!
//! The broker serves one request of a connection at a time. So every moment of the wait belongs to the request that
//! was being served, and has the cause of that request's time at that moment.
//!
//! Bytes are blocked by flow control where the broker reads nothing (it mutes the channel: `processCompletedReceives`
//! in SocketServer.scala) and the request is larger than the socket's buffer. That the client had to stop shows in
//! what follows: once the broker reads again, the next bytes arrive many times as fast as the same number before.
//! Where other requests lie between, the last byte must arrive right after a long time in which nothing was read.
//! Without reads nothing is known.

use std::sync::Arc;

use model::{Cause, Nanos, Request};

use crate::analysis::attribution::{Attribution, HeadOfLineRequest};
use crate::causes::candidate::CauseCandidate;
use crate::stages;
use crate::time::{TimeBudget, TimeSpan, is_most};
use crate::window::{CLOCK_SLACK, Window, connection_of};

/// Requests ahead of one that are examined at most.
const MAX_REQUESTS: usize = 1_024;
/// Minimum share of a wait, as a divisor: a hundredth.
/// Requests that were served for less of the wait are not examined.
const MIN_SHARE: i64 = 100;

/// Attributes a request's wait behind others; the parts together are at most as long as `span`.
/// `served` finds what explains the time of a request ahead from a given moment on, as if it were alone.
pub(crate) fn attribute(
    window: &Window,
    request: &Request,
    span: TimeSpan,
    mut served: impl FnMut(&Request, Nanos) -> Vec<Arc<CauseCandidate>>,
) -> Vec<Attribution> {
    let (start, waited) = (span.start, span.length());
    let is_complete = start >= request.arrival_end;
    let mut free = TimeBudget::new(span);
    let mut attributions = Vec::new();
    let mut queue = Queue { unexplained: waited, longest: Nanos::ZERO, first: None };
    for (one, place) in window.ahead_of(request, start).take(MAX_REQUESTS).zip(1..) {
        let from = stages::served_from(one).unwrap_or(one.arrival);
        let Some(time) = free.take_any(TimeSpan::new(from, one.last_seen())) else { continue };
        let ahead = HeadOfLineRequest { request: Arc::clone(one), waited: time, place, is_complete };
        if time.0.saturating_mul(MIN_SHARE) >= waited.0 {
            let found = if stages::waiting::is_mostly_intended_wait(window, one) {
                vec![Attribution::of_queue(Cause::LongPoll, ahead.clone())]
            } else {
                shares(&served(one, start.max(from)), &ahead)
            };
            let explained: Nanos = found.iter().map(|attribution| attribution.time).sum();
            attributions.extend(found);
            queue.unexplained -= explained;
            queue.longest = queue.longest.max(time - explained);
        }
        queue.first = Some(ahead);
    }
    attributions.extend(queue.itself(waited));
    attributions
}

/// The causes of the request ahead, for as long as it was waited for.
fn shares(candidates: &[Arc<CauseCandidate>], ahead: &HeadOfLineRequest) -> Vec<Attribution> {
    let mut longest_first: Vec<&Arc<CauseCandidate>> = candidates.iter().collect();
    longest_first.sort_by_key(|candidate| std::cmp::Reverse(candidate.time));
    let mut left = ahead.waited;
    let shares = longest_first.into_iter().map(|candidate| {
        let time = candidate.time.min(left);
        left -= time;
        Attribution::of(candidate).behind(ahead.clone(), time)
    });
    shares.filter(|attribution| attribution.time > Nanos::ZERO).collect()
}

/// The part of a wait that nothing explains except that others were being served.
struct Queue {
    unexplained: Nanos,
    /// The longest part of it that one request took.
    longest: Nanos,
    /// The request that was served first in the wait.
    first: Option<HeadOfLineRequest>,
}

impl Queue {
    /// The queue itself as the cause of the wait.
    /// Many requests that were not slow are a cause themselves if they make up most of the wait. If one slow request
    /// does, its cause is unknown, and so is the cause of this wait.
    fn itself(self, waited: Nanos) -> Option<Attribution> {
        let is_most = is_most(self.unexplained, waited);
        let is_for_one = self.longest.0.saturating_mul(2) >= self.unexplained.0;
        let first = self.first.filter(|_| is_most && !is_for_one)?;
        Some(Attribution::of_queue(
            Cause::HeadOfLine,
            HeadOfLineRequest { waited: self.unexplained, ..first },
        ))
    }
}

/// The length prefix of a request, which is read separately.
const LENGTH_BYTES: u32 = 4;
/// Minimum speedup of arriving bytes that shows that they had been blocked.
/// They arrive this many times as fast as the bytes before them.
const MIN_SPEEDUP: i128 = 4;
/// Share of the time before within which the last byte must arrive: a sixteenth.
/// Used if the number of bytes is unknown.
const AT_ONCE: i64 = 16;

/// When the rest of a request was blocked by flow control.
pub(crate) fn blocked_by_flow_control(window: &Window, request: &Request) -> Option<TimeSpan> {
    let earlier = window.before_on_connection(request, request.arrival_end)?;
    let answered = earlier.last_seen();
    if answered <= request.arrival {
        return None;
    }
    match resumes_faster(window, request, answered) {
        Some(is_quicker) => is_quicker.then_some(TimeSpan::new(request.arrival, answered)),
        None => behind_others(window, request, earlier),
    }
}

/// Like `blocked_by_flow_control` if another request was read next: from the last read until `served` ended.
fn behind_others(window: &Window, request: &Request, served: &Request) -> Option<TimeSpan> {
    let answered = served.last_seen();
    let next = served.sequence_end()?;
    let waiting_bytes = request.sequence?.wrapping_sub(next);
    if waiting_bytes == 0 || waiting_bytes > u32::MAX / 2 {
        return None;
    }
    let connection = connection_of(request);
    let last = window.sockets.read_of(connection, next.wrapping_sub(1), request.arrival)?;
    let again = window.sockets.read_of(connection, next, answered)?;
    let start = last.end.max(request.arrival);
    let came_after = (request.arrival_end - again.start).0;
    let at_once = came_after >= 0 && came_after.saturating_mul(AT_ONCE) <= (again.start - start).0;
    (again.start >= answered - CLOCK_SLACK && at_once).then_some(TimeSpan::new(start, answered))
}

/// Whether bytes came many times as fast once the broker read. Compares as many bytes as had arrived before.
fn resumes_faster(window: &Window, request: &Request, answered: Nanos) -> Option<bool> {
    let connection = connection_of(request);
    let (first, end) = (request.sequence?, request.sequence_end()?);
    let read_of = |bytes: u32, near| window.sockets.read_of(connection, first.wrapping_add(bytes), near);
    let begun = read_of(LENGTH_BYTES, answered).filter(|read| read.start >= answered - CLOCK_SLACK)?;
    let waiting_bytes = begun.moved_since(first);
    let left_bytes = end.wrapping_sub(first).checked_sub(waiting_bytes).filter(|left| *left > 0)?;
    let more_bytes = waiting_bytes.min(left_bytes);
    let again = read_of(waiting_bytes.saturating_add(more_bytes - 1), begun.end)?;
    let before = i128::from((begun.start - request.arrival).0) * i128::from(more_bytes);
    let after = i128::from((again.end - begun.start).0) * i128::from(waiting_bytes);
    Some(waiting_bytes > 0 && after * MIN_SPEEDUP <= before)
}
