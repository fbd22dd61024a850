//! Puts one request's stages and causes together. Decides only when asked: the engine knows when.
//!
//! Time is given to a stage only where a source saw it; the rest is `unobserved`. The cause is the root that
//! explains the most of the request's time, and only if that is more than what was not observed.

use std::sync::Arc;

use model::{
    Cause, Confidence, Evidence, EvidenceKind, Nanos, Request, Stage, Stages, TopicPartition, Verdict,
};

use crate::cause::{self, Finding};
use crate::hold::Hold;
use crate::join::{self, AppendJoin, JoinKey};
use crate::lock::{self, LockWait};
use crate::summary::Joins;
use crate::window::Window;

/// Requests ahead of requests are followed this far.
const DEEPEST_QUEUE: usize = 16;

/// What is known of one request.
pub(crate) struct Judgement {
    pub(crate) stages: Stages,
    /// Every root that took some of its time, with how much.
    findings: Vec<Finding>,
}

/// The joins of a produce request's partitions, in the order of their appends.
pub(crate) fn joins(window: &Window, request: &Request, counts: &mut Joins) -> Vec<AppendJoin> {
    let mut joined = Vec::new();
    for partition in &request.partitions {
        if partition.error_code.is_some_and(|code| code != 0) || partition.bytes == 0 {
            counts.not_written += 1;
            continue;
        }
        match join::append_of(window, request, partition) {
            Some(append) => {
                match append.key {
                    JoinKey::BatchCrc => counts.by_crc += 1,
                    JoinKey::BaseOffset => counts.by_base_offset += 1,
                }
                joined.push(append);
            }
            None => counts.unjoined += 1,
        }
    }
    joined.sort_by_key(|append| append.op.start);
    joined
}

/// Where the time of one answered request went and why.
pub(crate) fn judge(window: &Window, request: &Request, appends: &[AppendJoin], depth: usize) -> Judgement {
    let mut stages = Stages::default();
    let mut findings = Vec::new();
    let (Some(response), Some(end)) = (request.response, request.end) else {
        return Judgement { stages, findings };
    };
    let arrived = request.arrival_end - request.arrival;
    stages.add(Stage::NetworkIn, arrived);
    stages.add(Stage::NetworkOut, end - response);
    let waited = (response - request.arrival_end).at_least_zero();
    let head_of_line = request.head_of_line.unwrap_or_default().min(waited).at_least_zero();
    stages.add(Stage::HeadOfLine, head_of_line);
    findings.extend(slow_arrival(window, request, arrived));
    findings.extend(behind_another(window, request, head_of_line, depth));
    let served_from = request.arrival_end + head_of_line;
    appended(window, appends, (served_from, response), &mut stages, &mut findings);
    let seen = stages.total();
    stages.add(Stage::Unobserved, (end - request.arrival - seen).at_least_zero());
    Judgement { stages, findings }
}

/// The appends of a request and the waits before them, one after the other as its thread did them.
fn appended(
    window: &Window,
    appends: &[AppendJoin],
    (served_from, response): (Nanos, Nanos),
    stages: &mut Stages,
    findings: &mut Vec<Finding>,
) {
    let mut from = served_from;
    for AppendJoin { op, .. } in appends {
        if let Some(wait) = lock::wait_before(window, op, from) {
            stages.add(Stage::Lock, wait.length());
            findings.push(locked(window, &wait));
        }
        let hold = Hold::of(window, op, response);
        let (start, end) = (op.start.max(from), op.end.min(response));
        let wrote = (end - start).at_least_zero();
        // After the write the handler was still at work on this request: it had not answered yet.
        let after = hold.after_length().min(response - end).at_least_zero();
        stages.add(Stage::Append, wrote);
        stages.add(Stage::Handler, after);
        let time = wrote + after;
        findings.extend(cause::of_append(window, &hold).map(|finding| Finding { time, ..finding }));
        from = from.max(hold.end());
    }
}

/// A wait for the log: the holder's own cause where it has one, else the lock itself.
fn locked(window: &Window, wait: &LockWait) -> Finding {
    let holder = &wait.holder;
    let mut evidence = vec![wait_evidence(wait)];
    let hold = Hold::of(window, holder, wait.end);
    let deeper = cause::of_append(window, &hold).filter(|_| wait.held.0.saturating_mul(2) > wait.length().0);
    if let Some(finding) = deeper {
        evidence.extend(finding.evidence);
        return Finding {
            chain: [vec![Cause::LogLock], finding.chain].concat(),
            confidence: finding.confidence.min(Confidence::Strong),
            evidence,
            time: wait.length(),
            // One lock guards one partition: the waiter's is the holder's.
            ..finding
        };
    }
    evidence.extend(cause::evidence_of_append(&hold));
    Finding {
        cause: Cause::LogLock,
        chain: vec![Cause::LogLock],
        root: Arc::from(format!("log-lock:{}:{}", partition_name(wait), holder.start.0)),
        confidence: Confidence::Strong,
        evidence,
        time: wait.length(),
        partition: holder.topic_partition.clone(),
    }
}

fn partition_name(wait: &LockWait) -> String {
    wait.holder.topic_partition.as_ref().map(TopicPartition::to_string).unwrap_or_default()
}

fn wait_evidence(wait: &LockWait) -> Evidence {
    let holder = &wait.holder;
    let queue = match wait.ahead {
        0 | 1 => String::new(),
        2 => " (and 1 more append ahead)".to_owned(),
        n => format!(" (and {} more appends ahead)", n - 1),
    };
    Evidence {
        kind: EvidenceKind::LockWait,
        start: wait.start,
        end: wait.end,
        tid: Some(holder.tid),
        thread: Some(Arc::clone(&holder.thread)),
        text: format!(
            "waited {} for {}'s log lock, held by {} (thread {}){queue}",
            wait.length(),
            partition_name(wait),
            holder.thread,
            holder.tid
        ),
    }
}

/// A request whose own bytes came slowly, unless the broker was not reading the connection at the time.
fn slow_arrival(window: &Window, request: &Request, arrived: Nanos) -> Option<Finding> {
    let muted = window.connection_busy(request, request.arrival, request.arrival_end);
    let slow = (arrived - muted).at_least_zero();
    (slow > Nanos::ZERO).then(|| Finding {
        cause: Cause::SlowClient,
        chain: vec![Cause::SlowClient],
        root: Arc::from(format!("slow-client:{}", request.client)),
        confidence: Confidence::Exact,
        evidence: vec![Evidence {
            kind: EvidenceKind::Request,
            start: request.arrival,
            end: request.arrival_end,
            tid: None,
            thread: None,
            text: format!("the request's {} bytes took {arrived} to arrive", request.request_bytes),
        }],
        time: slow,
        partition: None,
    })
}

/// A request that waited behind another of its connection has that one's cause.
fn behind_another(window: &Window, request: &Request, waited: Nanos, depth: usize) -> Option<Finding> {
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
    let behind = (depth < DEEPEST_QUEUE).then(|| {
        let appends = joins(window, ahead, &mut Joins::default());
        judge(window, ahead, &appends, depth + 1).principal()
    });
    Some(match behind.flatten() {
        Some(finding) => {
            evidence.extend(finding.evidence);
            Finding {
                chain: [vec![Cause::HeadOfLine], finding.chain].concat(),
                evidence,
                time: waited,
                partition: None,
                ..finding
            }
        }
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

impl Judgement {
    /// The root that explains the most of the request, if that is more than what was not observed.
    fn principal(self) -> Option<Finding> {
        let unobserved = self.stages.of(Stage::Unobserved);
        let mut merged: Vec<Finding> = Vec::new();
        for finding in self.findings {
            match merged.iter_mut().find(|kept| kept.root == finding.root) {
                Some(kept) => kept.merge(finding),
                None => merged.push(finding),
            }
        }
        merged.into_iter().max_by_key(|finding| finding.time).filter(|finding| finding.time > unobserved)
    }

    /// The verdict on a request that took longer than was asked for.
    pub(crate) fn verdict(self, window: &Window, request: &Request, appends: &[AppendJoin]) -> Verdict {
        let stages = self.stages;
        let losses: Vec<Arc<str>> = window
            .losses(request.arrival, request.last_seen())
            .map(|loss| Arc::from(format!("{} {} ({})", loss.count, loss.kind.as_str(), loss.detail)))
            .collect();
        let finding = self.principal().unwrap_or_else(|| unexplained(window, request, appends));
        let confidence =
            if losses.is_empty() { finding.confidence } else { finding.confidence.min(Confidence::Strong) };
        let mut advice: Vec<&'static str> = Vec::new();
        advice.extend(cause::advice(finding.cause));
        Verdict {
            request: request.clone(),
            stages,
            cause: finding.cause,
            chain: finding.chain,
            root: finding.root,
            confidence,
            evidence: finding.evidence,
            partition: finding.partition,
            advice,
            losses,
        }
    }
}

impl Finding {
    /// Two stages of one request with one root: the longer one tells the story.
    fn merge(&mut self, other: Self) {
        let time = self.time + other.time;
        let confidence = self.confidence.min(other.confidence);
        if other.time > self.time {
            *self = other;
        }
        self.time = time;
        self.confidence = confidence;
    }
}

/// What is known of a request that nothing explains: its appends, so that they are ruled out visibly.
fn unexplained(window: &Window, request: &Request, appends: &[AppendJoin]) -> Finding {
    let mut evidence: Vec<Evidence> = appends
        .iter()
        .flat_map(|append| cause::evidence_of_append(&Hold::of(window, &append.op, request.last_seen())))
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
