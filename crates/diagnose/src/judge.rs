//! Puts one request's stages and causes together. Decides only when asked: the engine knows when.
//!
//! The cause is the root that explains the most of the request's time, and only if that is more than what nothing
//! explains. Where that is less than half of the time, others may as well be called its cause: it is never `exact`.
//!
//! In a stall hundreds of requests wait behind each other, and each looks at many that are ahead of it. So what explains a
//! request is kept (`alone`), passed on by reference (`blame`) and told in words once: in a verdict.

use std::sync::Arc;

use model::api_key::PRODUCE;
use model::{Cause, Confidence, Evidence, EvidenceKind, Nanos, Request, Verdict};

use crate::ahead;
use crate::alone::{Alone, Awaited, Requests};
use crate::blame::Blame;
use crate::cause::{self, Finding};
use crate::explained;
use crate::hold::Hold;
use crate::join::{self, AppendJoin, JoinKey};
use crate::stages;
use crate::summary::JoinStats;
use crate::unread;
use crate::window::Window;

/// What is known of one request.
#[derive(Debug)]
pub(crate) struct Judgement {
    /// But for those ahead of it.
    own: Arc<Alone>,
    /// What those ahead of it explain.
    behind: Vec<Blame>,
}

/// The joins of a produce request's partitions, in the order of their appends.
pub(crate) fn joins(window: &Window, request: &Request, counts: &mut JoinStats) -> Vec<AppendJoin> {
    let mut joined = Vec::new();
    each_join(window, request, counts, |append| joined.push(append));
    joined.sort_by_key(|append| append.op.start);
    joined
}

/// Counts the joins of a request that nobody asks more about.
pub(crate) fn count_joins(window: &Window, request: &Request, counts: &mut JoinStats) {
    each_join(window, request, counts, drop);
}

fn each_join(window: &Window, request: &Request, counts: &mut JoinStats, mut tell: impl FnMut(AppendJoin)) {
    // Of other requests, partitions are what was read.
    let partitions = request.partitions.iter().filter(|_| request.api_key == PRODUCE);
    for partition in partitions {
        if !join::is_written(partition.error_code, partition.bytes) {
            counts.not_written += 1;
            continue;
        }
        match join::append_of(window, request, partition) {
            Some(append) => {
                match append.key {
                    JoinKey::BatchCrc => counts.by_crc += 1,
                    JoinKey::BaseOffset => counts.by_base_offset += 1,
                }
                tell(append);
            }
            None => counts.unjoined += 1,
        }
    }
}

/// Where the time of one answered request went and why.
pub(crate) fn judge(
    window: &Window,
    known: &mut Requests,
    request: &Request,
    appends: &[AppendJoin],
) -> Judgement {
    let own = known.of(request, || alone(window, request, appends));
    let complete = (request.arrival_end, request.arrival_end + own.waited);
    let mut behind = Vec::new();
    for stretch in own.unread.into_iter().chain([complete]) {
        let served = |ahead: &Request, since| served(window, known, ahead, since);
        behind.extend(ahead::explain(window, request, stretch, served));
    }
    Judgement { own, behind }
}

/// What explains the time of one that others wait behind, from a moment on at which it was served.
fn served(window: &Window, known: &mut Requests, request: &Request, since: Nanos) -> Vec<Arc<Finding>> {
    let joined = || joins(window, request, &mut JoinStats::default());
    let own = known.of(request, || alone(window, request, &joined()));
    if stages::served_from(request).is_none_or(|from| from >= since) {
        return own.served.clone();
    }
    let appends = joined();
    let Some(course) = stages::of(window, request, &appends) else { return Vec::new() };
    let found = explained::served(window, request, &course, &appends, since, &own.awaited);
    found.into_iter().map(Arc::new).collect()
}

/// What is known of a request without those ahead of it.
fn alone(window: &Window, request: &Request, appends: &[AppendJoin]) -> Alone {
    let Some(course) = stages::of(window, request, appends) else { return Alone::default() };
    let awaited = Awaited::default();
    let found = explained::served(window, request, &course, appends, Nanos::MIN, &awaited);
    Alone {
        waited: course.served_from - request.arrival_end,
        unread: unread::stretch(window, request),
        arrival: cause::slow_client::arrival(window, request).map(Arc::new),
        served: found.into_iter().map(Arc::new).collect(),
        time: stages::waiting::latency_less_wait(window, request).unwrap_or_default(),
        stages: course.stages,
        course: course.spans,
        awaited,
    }
}

/// What explains most of another request's time, where that is known; requests ahead of it are not followed.
pub(crate) fn cause_of(window: &Window, request: &Request) -> Option<Finding> {
    let own = Arc::new(alone(window, request, &[]));
    Judgement { own, behind: Vec::new() }.principal().map(Blame::told)
}

impl Judgement {
    /// What its roots explain, all in all.
    #[cfg(test)]
    pub(crate) fn explained(&self) -> Nanos {
        roots(&self.own, self.behind.clone()).map(|root| root.time).sum()
    }

    /// The root that explains the most of the request, if that is more than what nothing explains.
    fn principal(self) -> Option<Blame> {
        let mut explained = Nanos::ZERO;
        let mut merged: Vec<Blame> = Vec::new();
        for root in roots(&self.own, self.behind) {
            explained += root.time;
            match merged.iter_mut().find(|kept| kept.root() == root.root()) {
                Some(kept) => kept.merge(root),
                None => merged.push(root),
            }
        }
        let unexplained = (self.own.time - explained).at_least_zero();
        let principal = merged.into_iter().max_by_key(|root| root.time)?;
        (principal.time > unexplained).then(|| principal.of_all(self.own.time))
    }

    /// The verdict on a request that took longer than was asked for.
    pub(crate) fn verdict(self, window: &Window, request: &Request, appends: &[AppendJoin]) -> Verdict {
        let losses: Vec<Arc<str>> = window
            .losses(request.arrival, request.last_seen())
            .map(|loss| Arc::from(format!("{} {} ({})", loss.count, loss.kind.as_str(), loss.detail)))
            .collect();
        let own = Arc::clone(&self.own);
        let principal = self.principal().map(Blame::told);
        let finding = principal.unwrap_or_else(|| unexplained(window, request, appends));
        let confidence =
            if losses.is_empty() { finding.confidence } else { finding.confidence.min(Confidence::Strong) };
        let advice = cause::advice_on(&finding.chain);
        Verdict {
            request: request.clone(),
            stages: own.stages,
            stage_spans: own.course.clone(),
            cause: finding.cause,
            chain: finding.chain,
            root: finding.root,
            confidence,
            evidence: finding.evidence,
            partition: finding.partition,
            advice,
            losses,
            kafka: None,
            doubts: Vec::new(),
        }
    }
}

/// Every root that took some of a request's time, with how much.
fn roots(own: &Alone, behind: Vec<Blame>) -> impl Iterator<Item = Blame> + '_ {
    own.arrival.iter().map(Blame::of).chain(behind).chain(own.served.iter().map(Blame::of))
}

impl Finding {
    /// Two parts of one request's time with one root: the longer one tells the story, and is exact no more where the
    /// other is not.
    pub(crate) fn merge(&mut self, other: Self) {
        let time = self.time + other.time;
        let mixed = self.confidence != other.confidence;
        if other.time > self.time {
            *self = other;
        }
        let confidence = if mixed { self.confidence.min(Confidence::Strong) } else { self.confidence };
        self.time = time;
        self.confidence = confidence;
    }
}

/// What is known of a request that nothing explains: its appends, so that they are ruled out visibly.
fn unexplained(window: &Window, request: &Request, appends: &[AppendJoin]) -> Finding {
    let mut evidence: Vec<Evidence> = appends
        .iter()
        .flat_map(|append| cause::evidence_of_op(window, &Hold::of(window, &append.op, request.last_seen())))
        .collect();
    if !window.reaches_back_to(request.arrival) {
        evidence.push(Evidence {
            kind: EvidenceKind::Request,
            start: request.arrival,
            end: request.last_seen(),
            tid: None,
            thread: None,
            waiter: None,
            text: "the request began before the events that are still kept".to_owned(),
        });
    }
    Finding {
        cause: Cause::Unobserved,
        chain: vec![Cause::Unobserved],
        root: Arc::from("unobserved"),
        confidence: Confidence::Weak,
        evidence,
        time: Nanos::ZERO,
        partition: None,
    }
}
