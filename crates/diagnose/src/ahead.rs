//! What a request waited for behind others of its connection. The broker serves one request of a connection at a time, so
//! every moment of the wait belongs to the one that was served then, and has the cause that this one's time has then: not
//! what slowed it most, nor what those ahead of it waited for, which may have been over when the request came.
//!
//! The wait may be that of a request which is complete, or that of the rest of one whose first bytes are not read yet
//! ([`crate::unread`]). Does not find causes: it is told them.

use std::sync::Arc;

use model::{Cause, Nanos, Request};

use crate::blame::{Ahead, Blame};
use crate::cause::Finding;
use crate::free::Free;
use crate::stages;
use crate::window::Window;

/// Requests ahead of one are looked through this far.
const FARTHEST: usize = 1_024;
/// Of those that were served in a wait, the ones that took at least this share of it are looked into: a hundredth.
const WORTH_A_LOOK: i64 = 100;

/// Why a request waited from `start` until `end` behind others; together at most as long. `served` finds what explains the
/// time of one of them from a moment on, as long as it was served alone.
pub(crate) fn explain(
    window: &Window,
    request: &Request,
    (start, end): (Nanos, Nanos),
    mut served: impl FnMut(&Request, Nanos) -> Vec<Arc<Finding>>,
) -> Vec<Blame> {
    let waited = end - start;
    let is_complete = start >= request.arrival_end;
    let mut free = Free::new(start, end);
    let mut blames = Vec::new();
    let mut queue = Queue { unexplained: waited, longest: Nanos::ZERO, first: None };
    for (one, place) in window.ahead_of(request, start).take(FARTHEST).zip(1..) {
        let from = stages::served_from(one).unwrap_or(one.arrival);
        let time = free.take(from, one.last_seen());
        if time == Nanos::ZERO {
            continue;
        }
        let ahead = Ahead { request: Arc::clone(one), waited: time, place, is_complete };
        if time.0.saturating_mul(WORTH_A_LOOK) >= waited.0 {
            let known = blames.len();
            if stages::waiting::is_kept(window, one) {
                blames.push(Blame::of_queue(Cause::LongPoll, ahead.clone()));
            } else {
                blames.extend(shares(&served(one, start.max(from)), &ahead));
            }
            let explained: Nanos =
                blames.get(known..).unwrap_or_default().iter().map(|blame: &Blame| blame.time).sum();
            queue.unexplained -= explained;
            queue.longest = queue.longest.max(time - explained);
        }
        queue.first = Some(ahead);
    }
    blames.extend(queue.itself(waited));
    blames
}

/// What explains the time of the one ahead, for as long as it was waited for.
fn shares(findings: &[Arc<Finding>], ahead: &Ahead) -> Vec<Blame> {
    let mut longest_first: Vec<&Arc<Finding>> = findings.iter().collect();
    longest_first.sort_by_key(|finding| std::cmp::Reverse(finding.time));
    let mut left = ahead.waited;
    let shares = longest_first.into_iter().map(|finding| {
        let time = finding.time.min(left);
        left -= time;
        Blame::of(finding).behind(ahead.clone(), time)
    });
    shares.filter(|blame| blame.time > Nanos::ZERO).collect()
}

/// What of a wait nothing explains but that others were served.
struct Queue {
    unexplained: Nanos,
    /// The longest part of that which one request took.
    longest: Nanos,
    /// The one that was served first in the wait.
    first: Option<Ahead>,
}

impl Queue {
    /// Many that were not slow are a cause themselves, where they are most of the wait; of one that was slow it is not
    /// known why, and neither is it of who waited for it.
    fn itself(self, waited: Nanos) -> Option<Blame> {
        let is_most = self.unexplained.0.saturating_mul(2) > waited.0;
        let is_for_one = self.longest.0.saturating_mul(2) >= self.unexplained.0;
        let first = self.first.filter(|_| is_most && !is_for_one)?;
        Some(Blame::of_queue(Cause::HeadOfLine, Ahead { waited: self.unexplained, ..first }))
    }
}
