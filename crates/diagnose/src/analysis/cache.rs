//! What was found of slow requests by themselves, kept for those that waited behind them on the same connection: in a
//! stall, each looks at all that are ahead of it. What it found of the threads that it waited for is kept apart from that:
//! a request that came later needs only a part of it.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use ahash::RandomState;
use model::{Nanos, Request, StageSpan, Stages};

use crate::causes::candidate::CauseCandidate;
use crate::stages::response::UnseenFollowers;
use crate::time::TimeSpan;
use crate::window::{Connection, connection_of};

/// One that waited behind a request mostly ends sooner than so long after it.
const RETENTION: Nanos = Nanos::from_millis(3_000);
/// Between two looks for what is not wanted any more. By numbers, not by time: what is looked at again does not depend on
/// anything but the requests that are judged.
const SWEEP_EVERY: usize = 1_024;
/// Analyses kept at most; others are made again where they are needed.
const MAX_REQUESTS: usize = 32_768;

/// A request, its time and what explains it, but for those ahead of it.
#[derive(Debug, Default)]
pub(crate) struct RequestAnalysis {
    pub(crate) stages: Stages,
    pub(crate) course: Vec<StageSpan>,
    /// How long it was complete and behind others.
    pub(crate) waited: Nanos,
    /// It came at the latest when `stages` says: that it waited in the socket is known, and not for how long.
    pub(crate) is_bound: bool,
    /// When the rest of it could not arrive because others were served.
    pub(crate) unread: Option<TimeSpan>,
    /// What its own bytes' arrival explains.
    pub(crate) arrival: Vec<Arc<CauseCandidate>>,
    /// What explains the time from the moment at which the broker could serve it.
    pub(crate) served: Vec<Arc<CauseCandidate>>,
    /// What there is to explain.
    pub(crate) time: Nanos,
    /// When it may have waited for followers that are not seen.
    pub(crate) unseen_followers: Option<UnseenFollowers>,
    pub(crate) awaited: AwaitedCauses,
}

/// What was found of those that a request waited for, by the stage in which it did.
#[derive(Debug, Default)]
pub(crate) struct AwaitedCauses {
    pub(crate) receive: CachedCandidates,
    pub(crate) queue: CachedCandidates,
    pub(crate) remote: CachedCandidates,
    pub(crate) respond: CachedCandidates,
}

/// What explains a stretch of time, once somebody has looked.
#[derive(Debug, Default)]
pub(crate) struct CachedCandidates(OnceLock<(TimeSpan, Vec<CauseCandidate>)>);

impl CachedCandidates {
    /// What is known of this stretch, or else found now.
    pub(crate) fn of(&self, span: TimeSpan, find: impl Fn() -> Vec<CauseCandidate>) -> Vec<CauseCandidate> {
        let (known, findings) = self.0.get_or_init(|| (span, find()));
        if *known == span { findings.clone() } else { find() }
    }
}

/// Connection, number, and arrival.
type Key = (Connection, i32, Nanos);

/// Those of late.
#[derive(Debug, Default)]
pub(crate) struct AnalysisCache {
    kept: HashMap<Key, (Nanos, Arc<RequestAnalysis>), RandomState>,
    judged: usize,
}

impl AnalysisCache {
    /// What is known of a request, or else found now.
    pub(crate) fn of(
        &mut self,
        request: &Request,
        find: impl FnOnce() -> RequestAnalysis,
    ) -> Arc<RequestAnalysis> {
        let key = (connection_of(request), request.correlation_id, request.arrival);
        if let Some((_, known)) = self.kept.get(&key) {
            return Arc::clone(known);
        }
        self.judged += 1;
        let last_seen = request.last_seen();
        if self.judged % SWEEP_EVERY == 0 {
            self.kept.retain(|_, (ended, _)| *ended >= last_seen - RETENTION);
            if self.kept.len() > MAX_REQUESTS {
                self.kept.clear();
            }
        }
        let found = Arc::new(find());
        self.kept.insert(key, (last_seen, Arc::clone(&found)));
        found
    }
}

#[cfg(test)]
mod tests {
    use model::Nanos;

    use super::CachedCandidates;
    use crate::time::TimeSpan;

    #[test]
    fn a_stretch_is_looked_at_once_and_another_by_itself() {
        let found = CachedCandidates::default();
        let looks = std::cell::Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            Vec::new()
        };
        for (start, end, expected) in [(1, 9, 1), (1, 9, 1), (2, 9, 2), (1, 9, 2)] {
            found.of(TimeSpan::new(Nanos(start), Nanos(end)), look);
            assert_eq!(looks.get(), expected, "{start} to {end}");
        }
    }
}
