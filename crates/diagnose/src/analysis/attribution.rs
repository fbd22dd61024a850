//! A root event and how much of a request's time it took.
//! An attribution refers to the candidate, is shared with the requests that waited behind the request on its
//! connection, and is put into words only for a verdict. Finds no causes.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, Nanos, Request};

use crate::causes::candidate::{CauseCandidate, evidence};
use crate::time::Span;

/// Requests ahead that a chain lists.
const MAX_AHEAD_IN_CHAIN: usize = 16;

/// A root that took some of a request's time.
#[derive(Clone, Debug)]
pub(crate) struct Attribution {
    /// The candidate, as found for the request that the root event hit directly.
    candidate: Arc<CauseCandidate>,
    /// How much of this request's time it explains.
    pub(crate) time: Nanos,
    confidence: Confidence,
    /// The head-of-line request that it hit; `None` where it hit this request directly.
    ahead: Option<HeadOfLineRequest>,
}

/// A request that another waited behind.
#[derive(Clone, Debug)]
pub(crate) struct HeadOfLineRequest {
    pub(crate) request: Arc<Request>,
    /// How long the other waited while this one was served.
    pub(crate) waited: Nanos,
    /// Its place in the queue: 1 is directly ahead, larger numbers are further ahead.
    pub(crate) place: usize,
    /// Whether the waiting request had arrived completely.
    pub(crate) is_complete: bool,
}

impl Attribution {
    /// A candidate found for the request itself.
    pub(crate) fn of(candidate: &Arc<CauseCandidate>) -> Self {
        let (time, confidence) = (candidate.time, candidate.confidence);
        Self { candidate: Arc::clone(candidate), time, confidence, ahead: None }
    }

    /// The connection's queue itself as the cause.
    /// Used if nothing explains why the requests ahead took long, or nothing needs to.
    pub(crate) fn of_queue(cause: Cause, ahead: HeadOfLineRequest) -> Self {
        let Request { client, correlation_id, .. } = &*ahead.request;
        let time = ahead.waited;
        let candidate = match cause {
            Cause::HeadOfLine => CauseCandidate {
                chain: Vec::new(),
                ..CauseCandidate::new(
                    cause,
                    format_args!("{client}:{correlation_id}"),
                    Confidence::Exact,
                    time,
                )
            },
            _ => CauseCandidate::new(cause, client, Confidence::Exact, time),
        };
        Self::of(&Arc::new(candidate)).behind(ahead, time)
    }

    /// Moves this to a request that waited behind the one it hit. `time` is its part of that one's time.
    pub(crate) fn behind(mut self, ahead: HeadOfLineRequest, time: Nanos) -> Self {
        self.time = time;
        if !ahead.is_complete {
            // That its bytes were held back is inferred from how they arrived.
            self.confidence = self.confidence.min(Confidence::Strong);
        }
        self.ahead = Some(ahead);
        self
    }

    pub(crate) fn root(&self) -> &str {
        &self.candidate.root
    }

    /// Adds another part of the same request's time with the same root.
    pub(crate) fn merge(&mut self, other: Self) {
        let time = self.time + other.time;
        let mixed = self.confidence != other.confidence;
        if other.time > self.time {
            *self = other;
        }
        if mixed {
            self.confidence = self.confidence.min(Confidence::Strong);
        }
        self.time = time;
    }

    /// Limits the confidence for a request that took `time`: never exact if this explains less than half of it.
    pub(crate) fn limit_confidence(mut self, time: Nanos) -> Self {
        if self.time.0.saturating_mul(2) < time.0 {
            self.confidence = self.confidence.min(Confidence::Strong);
        }
        self
    }

    /// Builds the full candidate, with evidence.
    pub(crate) fn into_candidate(self) -> CauseCandidate {
        let Self { candidate, time, confidence, ahead } = self;
        let mut candidate = Arc::unwrap_or_clone(candidate);
        (candidate.time, candidate.confidence) = (time, confidence);
        if let Some(ahead) = ahead {
            // The partition belongs to the other request.
            candidate.partition = None;
            candidate
                .chain
                .splice(..0, std::iter::repeat_n(Cause::HeadOfLine, ahead.place.min(MAX_AHEAD_IN_CHAIN)));
            candidate.evidence.insert(0, ahead.evidence());
        }
        candidate
    }
}

impl HeadOfLineRequest {
    fn evidence(&self) -> Evidence {
        let Self { request, waited, place, is_complete } = self;
        let between = match place.saturating_sub(1) {
            0 => String::new(),
            1 => " (and 1 more after it)".to_owned(),
            n => format!(" (and {n} more after it)"),
        };
        let what = if *is_complete {
            "waited"
        } else {
            "could not arrive, because the broker read nothing from the connection, for"
        };
        let text = format!(
            "{what} {waited} behind request {} ({}) of the same connection, which took {}{between}",
            request.correlation_id,
            request.api,
            request.span().length()
        );
        evidence(EvidenceKind::Request, request, text)
    }
}
