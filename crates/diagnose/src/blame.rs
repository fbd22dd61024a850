//! A root and how much of a request's time it took, by reference to what was found: passed on from request to request along
//! a connection, and told in words only when it is asked for. Finds nothing itself.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, Nanos, Request};

use crate::cause::Finding;

/// A root that took some of a request's time.
#[derive(Clone, Debug)]
pub(crate) struct Blame {
    /// What was found of it, by whom it hit first.
    finding: Arc<Finding>,
    /// How much time of the request at hand it explains.
    pub(crate) time: Nanos,
    confidence: Confidence,
    /// The requests behind which it was waited for, the one that it hit first.
    way: Vec<Ahead>,
}

/// A request that another waited behind, for so long.
#[derive(Clone, Debug)]
struct Ahead {
    request: Arc<Request>,
    waited: Nanos,
}

impl Blame {
    /// What was found of a request by itself.
    pub(crate) fn of(finding: &Arc<Finding>) -> Self {
        let (time, confidence) = (finding.time, finding.confidence);
        Self { finding: Arc::clone(finding), time, confidence, way: Vec::new() }
    }

    /// The queue of a connection itself, where nothing is known, or needs to be, of why the one ahead took so long.
    pub(crate) fn of_queue(cause: Cause, root: String, ahead: &Arc<Request>, waited: Nanos) -> Self {
        let chain = if cause == Cause::HeadOfLine { Vec::new() } else { vec![cause] };
        let finding = Finding {
            cause,
            chain,
            root: Arc::from(root),
            confidence: Confidence::Exact,
            evidence: Vec::new(),
            time: waited,
            partition: None,
        };
        Self::of(&Arc::new(finding)).behind(ahead, waited)
    }

    /// The same of one that waited behind the one that it is of: what slowed that for a part of its time explains no more of
    /// this one's.
    pub(crate) fn behind(mut self, ahead: &Arc<Request>, waited: Nanos) -> Self {
        self.time = self.time.min(waited);
        self.way.push(Ahead { request: Arc::clone(ahead), waited });
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

    /// In full.
    pub(crate) fn told(self) -> Finding {
        let Self { finding, time, confidence, way } = self;
        let mut told = Arc::unwrap_or_clone(finding);
        (told.time, told.confidence) = (time, confidence);
        if !way.is_empty() {
            // It was another request's.
            told.partition = None;
            told.chain.splice(..0, way.iter().map(|_| Cause::HeadOfLine));
            told.evidence.splice(..0, way.iter().rev().map(Ahead::evidence));
        }
        told
    }
}

impl Ahead {
    fn evidence(&self) -> Evidence {
        let Self { request, waited } = self;
        Evidence {
            kind: EvidenceKind::Request,
            start: request.arrival,
            end: request.last_seen(),
            tid: None,
            thread: None,
            waiter: None,
            text: format!(
                "waited {waited} behind request {} ({}) of the same connection, which took {}",
                request.correlation_id,
                request.api,
                request.last_seen() - request.arrival
            ),
        }
    }
}
