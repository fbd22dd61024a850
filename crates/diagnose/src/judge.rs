//! Puts one request's stages and causes together. Decides only when asked: the engine knows when.
//!
//! The cause is the root that explains the most of the request's time, and only if that is more than what nothing
//! explains.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, Nanos, Request, StageSpan, Stages, Verdict};

use crate::alone::{Alone, Requests};
use crate::cause::{self, Finding};
use crate::explained;
use crate::hold::Hold;
use crate::join::{self, AppendJoin, JoinKey};
use crate::stages;
use crate::summary::Joins;
use crate::window::Window;

/// Requests ahead of requests are followed this far.
const DEEPEST_QUEUE: usize = 16;

/// What is known of one request.
#[derive(Debug, Default)]
pub(crate) struct Judgement {
    pub(crate) stages: Stages,
    pub(crate) course: Vec<StageSpan>,
    /// Every root that took some of its time, with how much.
    findings: Vec<Finding>,
    /// What there is to explain.
    time: Nanos,
}

/// The joins of a produce request's partitions, in the order of their appends.
pub(crate) fn joins(window: &Window, request: &Request, counts: &mut Joins) -> Vec<AppendJoin> {
    let mut joined = Vec::new();
    each_join(window, request, counts, |append| joined.push(append));
    joined.sort_by_key(|append| append.op.start);
    joined
}

/// Counts the joins of a request that nobody asks more about.
pub(crate) fn count_joins(window: &Window, request: &Request, counts: &mut Joins) {
    each_join(window, request, counts, drop);
}

fn each_join(window: &Window, request: &Request, counts: &mut Joins, mut tell: impl FnMut(AppendJoin)) {
    // Of other requests, partitions are what was read.
    let partitions = request.partitions.iter().filter(|_| request.api_key == 0);
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
    depth: usize,
) -> Judgement {
    let own = known.of(request, || alone(window, request, appends));
    let behind = behind_another(window, known, request, own.waited, depth);
    let findings = own.arrival.iter().cloned().chain(behind).chain(own.served.iter().cloned()).collect();
    Judgement { stages: own.stages, course: own.course.clone(), findings, time: own.time }
}

/// The same without those ahead of it.
fn alone(window: &Window, request: &Request, appends: &[AppendJoin]) -> Alone {
    let Some(course) = stages::of(window, request, appends) else { return Alone::default() };
    Alone {
        waited: course.served_from - request.arrival_end,
        arrival: cause::slow_client::arrival(window, request),
        served: explained::served(window, request, &course, appends),
        time: stages::waiting::latency_less_wait(window, request).unwrap_or_default(),
        stages: course.stages,
        course: course.spans,
    }
}

/// What explains most of another request's time, where that is known; requests ahead of it are not followed.
pub(crate) fn cause_of(window: &Window, request: &Request) -> Option<Finding> {
    judge(window, &mut Requests::default(), request, &[], DEEPEST_QUEUE).principal()
}

/// A request that waited behind another of its connection has that one's cause.
fn behind_another(
    window: &Window,
    known: &mut Requests,
    request: &Request,
    waited: Nanos,
    depth: usize,
) -> Option<Finding> {
    if waited == Nanos::ZERO {
        return None;
    }
    let ahead = window.ahead_of(request).next()?;
    let mut evidence = vec![Evidence {
        kind: EvidenceKind::Request,
        start: ahead.arrival,
        end: ahead.last_seen(),
        tid: None,
        thread: None,
        text: format!(
            "waited {waited} behind request {} ({}) of the same connection, which took {}",
            ahead.correlation_id,
            ahead.api,
            ahead.last_seen() - ahead.arrival
        ),
    }];
    if stages::waiting::is_kept(window, ahead) {
        return Some(Finding {
            cause: Cause::LongPoll,
            chain: vec![Cause::HeadOfLine, Cause::LongPoll],
            root: Arc::from(format!("{}:{}", Cause::LongPoll, ahead.client)),
            confidence: Confidence::Exact,
            evidence,
            time: waited,
            partition: None,
        });
    }
    let behind = (depth < DEEPEST_QUEUE).then(|| {
        let appends = joins(window, ahead, &mut Joins::default());
        judge(window, known, ahead, &appends, depth + 1).principal()
    });
    Some(match behind.flatten() {
        Some(finding) => {
            evidence.extend(finding.evidence);
            Finding {
                chain: [vec![Cause::HeadOfLine], finding.chain].concat(),
                evidence,
                // What slowed the one ahead for a part of its time explains no more of this one's.
                time: finding.time.min(waited),
                partition: None,
                ..finding
            }
        }
        // It is not known why one ahead was slow: neither is it of this one.
        None if is_for_one(window, request, waited) => return None,
        None => Finding {
            cause: Cause::HeadOfLine,
            chain: vec![Cause::HeadOfLine],
            root: Arc::from(format!("head-of-line:{}:{}", ahead.client, ahead.correlation_id)),
            confidence: Confidence::Exact,
            evidence,
            time: waited,
            partition: None,
        },
    })
}

/// Whether one request ahead took most of what another waited.
fn is_for_one(window: &Window, request: &Request, waited: Nanos) -> bool {
    let mut ahead = window.ahead_of(request).take(DEEPEST_QUEUE);
    ahead.any(|ahead| served_for(ahead).0.saturating_mul(2) >= waited.0)
}

/// How long a request took by itself, without those ahead of it.
fn served_for(request: &Request) -> Nanos {
    request.latency_less_head_of_line().unwrap_or_else(|| request.last_seen() - request.arrival)
}

impl Judgement {
    /// What its roots explain, all in all.
    #[cfg(test)]
    pub(crate) fn explained(&self) -> Nanos {
        self.findings.iter().map(|finding| finding.time).sum()
    }

    /// The root that explains the most of the request, if that is more than what nothing explains.
    fn principal(self) -> Option<Finding> {
        let explained: Nanos = self.findings.iter().map(|finding| finding.time).sum();
        let unexplained = (self.time - explained).at_least_zero();
        let mut merged: Vec<Finding> = Vec::new();
        for finding in self.findings {
            match merged.iter_mut().find(|kept| kept.root == finding.root) {
                Some(kept) => kept.merge(finding),
                None => merged.push(finding),
            }
        }
        merged.into_iter().max_by_key(|finding| finding.time).filter(|finding| finding.time > unexplained)
    }

    /// The verdict on a request that took longer than was asked for.
    pub(crate) fn verdict(mut self, window: &Window, request: &Request, appends: &[AppendJoin]) -> Verdict {
        let stages = self.stages;
        let course = std::mem::take(&mut self.course);
        let losses: Vec<Arc<str>> = window
            .losses(request.arrival, request.last_seen())
            .map(|loss| Arc::from(format!("{} {} ({})", loss.count, loss.kind.as_str(), loss.detail)))
            .collect();
        let finding = self.principal().unwrap_or_else(|| unexplained(window, request, appends));
        let confidence =
            if losses.is_empty() { finding.confidence } else { finding.confidence.min(Confidence::Strong) };
        let advice = cause::advice_on(&finding.chain);
        Verdict {
            request: request.clone(),
            stages,
            course,
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
