//! A root and how much of a request's time it took, by reference to what was found: passed on to those that waited behind the
//! request on its connection, and told in words only when it is asked for. Finds nothing itself.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, Nanos, Request};

use crate::causes::candidate::{CauseCandidate, evidence};
use crate::time::Span;

/// Requests ahead that a chain shows.
const MAX_SHOWN: usize = 16;

/// A root that took some of a request's time.
#[derive(Clone, Debug)]
pub(crate) struct Attribution {
    /// What was found of it, by whom it hit.
    finding: Arc<CauseCandidate>,
    /// How much time of the request at hand it explains.
    pub(crate) time: Nanos,
    confidence: Confidence,
    /// The request of the same connection that it hit, where it was not the one at hand.
    ahead: Option<HeadOfLineRequest>,
}

/// A request that another waited behind.
#[derive(Clone, Debug)]
pub(crate) struct HeadOfLineRequest {
    pub(crate) request: Arc<Request>,
    /// For how long, while it was served.
    pub(crate) waited: Nanos,
    /// One is right ahead, others are ahead of that.
    pub(crate) place: usize,
    /// Whether all of the waiting request had come.
    pub(crate) is_complete: bool,
}

impl Attribution {
    /// What was found of a request by itself.
    pub(crate) fn of(finding: &Arc<CauseCandidate>) -> Self {
        let (time, confidence) = (finding.time, finding.confidence);
        Self { finding: Arc::clone(finding), time, confidence, ahead: None }
    }

    /// The queue of a connection itself, where nothing is known, or needs to be, of why those ahead took so long.
    pub(crate) fn of_queue(cause: Cause, ahead: HeadOfLineRequest) -> Self {
        let Request { client, correlation_id, .. } = &*ahead.request;
        let time = ahead.waited;
        let finding = match cause {
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
        Self::of(&Arc::new(finding)).behind(ahead, time)
    }

    /// The same of one that waited behind the one that it is of, for so much of that one's time.
    pub(crate) fn behind(mut self, ahead: HeadOfLineRequest, time: Nanos) -> Self {
        self.time = time;
        if !ahead.is_complete {
            // That its bytes had to wait is concluded from how they came.
            self.confidence = self.confidence.min(Confidence::Strong);
        }
        self.ahead = Some(ahead);
        self
    }

    pub(crate) fn root(&self) -> &str {
        &self.finding.root
    }

    /// Another part of the same request's time with the same root: as findings are merged.
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

    /// The same as the cause of a request that took so long, which it is not beyond doubt where it explains less than half.
    pub(crate) fn of_all(mut self, time: Nanos) -> Self {
        if self.time.0.saturating_mul(2) < time.0 {
            self.confidence = self.confidence.min(Confidence::Strong);
        }
        self
    }

    /// In full.
    pub(crate) fn told(self) -> CauseCandidate {
        let Self { finding, time, confidence, ahead } = self;
        let mut told = Arc::unwrap_or_clone(finding);
        (told.time, told.confidence) = (time, confidence);
        if let Some(ahead) = ahead {
            // It was another request's.
            told.partition = None;
            told.chain.splice(..0, std::iter::repeat_n(Cause::HeadOfLine, ahead.place.min(MAX_SHOWN)));
            told.evidence.insert(0, ahead.evidence());
        }
        told
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
