//! Cached analyses of slow requests by themselves.
//! They serve the requests that waited behind them on the same connection: in a stall, each of those examines every
//! request ahead of it. Causes found for threads that a request waited for are cached separately, because a later
//! request needs only a part of them.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use ahash::RandomState;
use model::{Nanos, Request, StageSpan, Stages};

use crate::causes::candidate::CauseCandidate;
use crate::stages::response::UnseenFollowers;
use crate::time::TimeSpan;
use crate::window::{Connection, connection_of};

/// A request that waited behind another usually ends within this time after it.
const RETENTION: Nanos = Nanos::from_millis(3_000);
/// Requests between two sweeps of old entries.
/// Counted, not timed, so that what is analysed again depends on nothing but the requests.
const SWEEP_EVERY: usize = 1_024;
/// Analyses cached at most; others are repeated when they are needed.
const MAX_REQUESTS: usize = 32_768;

/// A request's stages and what explains its time, without the requests ahead of it.
#[derive(Debug, Default)]
pub(crate) struct RequestAnalysis {
    pub(crate) stages: Stages,
    pub(crate) breakdown: Vec<StageSpan>,
    /// How long it was complete and waited behind others.
    pub(crate) waited: Nanos,
    /// Whether `stages` gives only its latest possible arrival: it waited in the socket for an unknown time.
    pub(crate) is_arrival_bound: bool,
    /// When the rest of it could not arrive because others were being served.
    pub(crate) unread: Option<TimeSpan>,
    /// What explains the arrival of the request's bytes.
    pub(crate) arrival: Vec<Arc<CauseCandidate>>,
    /// What explains the time since the broker could serve it.
    pub(crate) served: Vec<Arc<CauseCandidate>>,
    /// The time to explain.
    pub(crate) time: Nanos,
    /// When it may have waited for followers whose fetches are not seen.
    pub(crate) unseen_followers: Option<UnseenFollowers>,
    pub(crate) awaited: AwaitedCauses,
}

/// Causes found for the threads and brokers that a request waited for. Grouped by the stage of the wait.
#[derive(Debug, Default)]
pub(crate) struct AwaitedCauses {
    pub(crate) receive: CachedCandidates,
    pub(crate) queue: CachedCandidates,
    pub(crate) remote: CachedCandidates,
    pub(crate) respond: CachedCandidates,
}

/// What explains a stretch of time, once it has been looked up.
#[derive(Debug, Default)]
pub(crate) struct CachedCandidates(OnceLock<(TimeSpan, Vec<CauseCandidate>)>);

impl CachedCandidates {
    /// The cached candidates for this stretch; calls `find` for any other stretch.
    pub(crate) fn of(&self, span: TimeSpan, find: impl Fn() -> Vec<CauseCandidate>) -> Vec<CauseCandidate> {
        let (known, candidates) = self.0.get_or_init(|| (span, find()));
        if *known == span { candidates.clone() } else { find() }
    }
}

/// Connection, correlation id and arrival.
type Key = (Connection, i32, Nanos);

/// Analyses of recent requests.
#[derive(Debug, Default)]
pub(crate) struct AnalysisCache {
    entries: HashMap<Key, (Nanos, Arc<RequestAnalysis>), RandomState>,
    analyses: usize,
}

impl AnalysisCache {
    /// The cached analysis of a request, or a new one from `find`.
    pub(crate) fn of(
        &mut self,
        request: &Request,
        find: impl FnOnce() -> RequestAnalysis,
    ) -> Arc<RequestAnalysis> {
        let key = (connection_of(request), request.correlation_id, request.arrival);
        if let Some((_, known)) = self.entries.get(&key) {
            return Arc::clone(known);
        }
        self.analyses += 1;
        let last_seen = request.last_seen();
        if self.analyses % SWEEP_EVERY == 0 {
            self.entries.retain(|_, (ended, _)| *ended >= last_seen - RETENTION);
            if self.entries.len() > MAX_REQUESTS {
                self.entries.clear();
            }
        }
        let found = Arc::new(find());
        self.entries.insert(key, (last_seen, Arc::clone(&found)));
        found
    }
}

#[cfg(test)]
mod tests {
    use model::Nanos;

    use super::CachedCandidates;
    use crate::time::TimeSpan;

    #[test]
    fn caches_candidates_of_the_first_stretch_only() {
        let found = CachedCandidates::default();
        let calls = std::cell::Cell::new(0);
        let find = || {
            calls.set(calls.get() + 1);
            Vec::new()
        };
        for (start, end, expected) in [(1, 9, 1), (1, 9, 1), (2, 9, 2), (1, 9, 2)] {
            found.of(TimeSpan::new(Nanos(start), Nanos(end)), find);
            assert_eq!(calls.get(), expected, "{start} to {end}");
        }
    }
}
