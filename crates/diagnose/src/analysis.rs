//! Analyses one request: asks the causes what they know of each stage, and chooses the root.
//!
//! Each instant is explained once: by what the request's own thread did, then by JVM pauses and want of a CPU, then by the
//! threads and brokers that it waited for. The cause is the root that explains the most of the request's time, and only if
//! that is more than what nothing explains. Where that is less than half of the time it is never `exact`.
//!
//! In a stall hundreds of requests wait behind each other, and each looks at many ahead of it. So the analysis of a
//! request is kept (`cache`), passed on by reference (`attribution`) and put into words once: in a verdict.

pub(crate) mod attribution;
pub(crate) mod cache;
pub(crate) mod head_of_line;

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, Nanos, Pid, Request, Verdict};

use crate::analysis::attribution::Attribution;
use crate::analysis::cache::{AnalysisCache, AwaitedCauses, CachedCandidates, RequestAnalysis};
use crate::causes::candidate::CauseCandidate;
use crate::causes::{self, handlers, jvm, lock_chain, network, operation, protocol};
use crate::joins::{AppendJoin, JoinStats};
use crate::stages::{Breakdown, waiting};
use crate::time_budget::TimeBudget;
use crate::waits::LockHold;
use crate::window::Window;
use crate::{joins, stages};

/// What is known of one request.
#[derive(Debug)]
pub(crate) struct Analysis {
    /// But for those ahead of it.
    own: Arc<RequestAnalysis>,
    /// What those ahead of it explain.
    behind: Vec<Attribution>,
}

/// Where the time of one answered request went and why.
pub(crate) fn judge(
    window: &Window,
    known: &mut AnalysisCache,
    request: &Request,
    appends: &[AppendJoin],
) -> Analysis {
    let own = known.of(request, || analyse_alone(window, request, appends));
    let complete = (request.arrival_end, request.arrival_end + own.waited);
    let mut behind = Vec::new();
    for stretch in own.unread.into_iter().chain([complete]) {
        let served = |ahead: &Request, since| causes_since(window, known, ahead, since);
        behind.extend(head_of_line::attribute(window, request, stretch, served));
    }
    Analysis { own, behind }
}

/// What explains the time of one that others wait behind, from a moment on at which it was served.
fn causes_since(
    window: &Window,
    known: &mut AnalysisCache,
    request: &Request,
    since: Nanos,
) -> Vec<Arc<CauseCandidate>> {
    let joined = || joins::joins(window, request, &mut JoinStats::default());
    let own = known.of(request, || analyse_alone(window, request, &joined()));
    if stages::served_from(request).is_none_or(|from| from >= since) {
        return own.served.clone();
    }
    let appends = joined();
    let Some(course) = stages::stages_of(window, request, &appends) else { return Vec::new() };
    let found = causes_while_served(window, request, &course, &appends, since, &own.awaited);
    found.into_iter().map(Arc::new).collect()
}

/// What is known of a request without those ahead of it.
fn analyse_alone(window: &Window, request: &Request, appends: &[AppendJoin]) -> RequestAnalysis {
    let Some(course) = stages::stages_of(window, request, appends) else { return RequestAnalysis::default() };
    let awaited = AwaitedCauses::default();
    let found = causes_while_served(window, request, &course, appends, Nanos::MIN, &awaited);
    RequestAnalysis {
        waited: course.served_from - request.arrival_end,
        unread: head_of_line::blocked_by_flow_control(window, request),
        arrival: network::slow_arrival(window, request).map(Arc::new),
        served: found.into_iter().map(Arc::new).collect(),
        time: stages::waiting::latency_less_wait(window, request).unwrap_or_default(),
        stages: course.stages,
        course: course.spans,
        awaited,
    }
}

/// What explains most of another request's time, where that is known; requests ahead of it are not followed.
pub(crate) fn cause_of(window: &Window, request: &Request) -> Option<CauseCandidate> {
    let own = Arc::new(analyse_alone(window, request, &[]));
    Analysis { own, behind: Vec::new() }.principal().map(Attribution::told)
}

impl Analysis {
    /// What its roots explain, all in all.
    #[cfg(test)]
    pub(crate) fn explained(&self) -> Nanos {
        roots(&self.own, self.behind.clone()).map(|root| root.time).sum()
    }

    /// The root that explains the most of the request, if that is more than what nothing explains.
    fn principal(self) -> Option<Attribution> {
        let mut explained = Nanos::ZERO;
        let mut merged: Vec<Attribution> = Vec::new();
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
        let principal = self.principal().map(Attribution::told);
        let finding = principal.unwrap_or_else(|| unexplained(window, request, appends));
        let confidence =
            if losses.is_empty() { finding.confidence } else { finding.confidence.min(Confidence::Strong) };
        let advice = causes::advice_on(&finding.chain);
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
fn roots(own: &RequestAnalysis, behind: Vec<Attribution>) -> impl Iterator<Item = Attribution> + '_ {
    own.arrival.iter().map(Attribution::of).chain(behind).chain(own.served.iter().map(Attribution::of))
}

/// What is known of a request that nothing explains: its appends, so that they are ruled out visibly.
fn unexplained(window: &Window, request: &Request, appends: &[AppendJoin]) -> CauseCandidate {
    let mut evidence: Vec<Evidence> = appends
        .iter()
        .flat_map(|append| {
            operation::evidence_of_op(window, &LockHold::of(window, &append.op, request.last_seen()))
        })
        .collect();
    if !window.reaches_back_to(request.arrival) {
        evidence.push(Evidence::new(
            EvidenceKind::Request,
            request.arrival,
            request.last_seen(),
            "the request began before the events that are still kept".to_owned(),
        ));
    }
    CauseCandidate::new(Cause::Unobserved, "unobserved", Confidence::Weak, evidence, Nanos::ZERO)
}

/// Shorter waits for a thread are not looked into.
const MIN_WAIT: Nanos = Nanos::from_millis(1);
/// Who hands on a response right after something else was held up by that.
const RIGHT_AFTER: Nanos = Nanos::from_millis(1);

/// Everything that explains some of a request's time from the moment at which the broker could serve it, or from `since`
/// where that is later. What was found of those that it waited for is in `awaited`, or goes there.
pub(crate) fn causes_while_served(
    window: &Window,
    request: &Request,
    course: &Breakdown<'_>,
    appends: &[AppendJoin],
    since: Nanos,
    awaited: &AwaitedCauses,
) -> Vec<CauseCandidate> {
    let free = TimeBudget::new(course.served_from.max(since), course.end);
    let mut explained = StageCauses { window, request, course, awaited, free, findings: Vec::new() };
    explained.own_work();
    explained.stops(appends.first().map_or(0, |append| append.op.pid));
    explained.findings.extend(handlers::starved_threads(
        window,
        request,
        course,
        appends,
        &mut explained.free,
    ));
    explained.findings.extend(handlers::coordinator(window, request, course, appends, &mut explained.free));
    explained.receive();
    explained.queue();
    explained.remote();
    explained.respond();
    explained.findings.extend(handlers::rest(window, request, course, appends, &mut explained.free));
    explained.findings
}

struct StageCauses<'w> {
    window: &'w Window,
    request: &'w Request,
    course: &'w Breakdown<'w>,
    awaited: &'w AwaitedCauses,
    free: TimeBudget,
    findings: Vec<CauseCandidate>,
}

impl StageCauses<'_> {
    /// What held up the request's own handler.
    fn own_work(&mut self) {
        for blocked in &self.course.locks {
            let time = self.free.take(blocked.start, blocked.end.min(self.course.answered));
            if time > Nanos::ZERO {
                self.findings.extend(lock_chain::of_wait(self.window, blocked, time));
            }
        }
        for hold in &self.course.operations {
            let time = self.free.take(hold.op.start, hold.end().min(self.course.answered));
            if time > Nanos::ZERO {
                let finding = operation::of_op(self.window, hold);
                self.findings.extend(finding.map(|finding| CauseCandidate { time, ..finding }));
            }
        }
    }

    /// No thread of the broker could work on it, whichever stage it was in.
    fn stops(&mut self, pid: Pid) {
        for stop in jvm::pauses(self.window, pid, self.course.served_from, self.course.answered) {
            let time = self.free.take(stop.start, stop.end.min(self.course.answered));
            self.findings.extend((time > Nanos::ZERO).then(|| stop.finding(self.window, time)));
        }
    }

    /// Until a network thread read it.
    fn receive(&mut self) {
        let from = self.course.served_from;
        let until = self.course.read.map_or(self.course.answered, |read| read.start);
        if let Some((start, end, finding)) = protocol::quota(self.window, self.request, from, until) {
            self.give(start, end, vec![finding]);
        }
        let Some(read) = self.course.read else { return };
        // What it went on with right after the read kept the request too.
        let until = self.course.handed_on.filter(|at| *at > read.end).unwrap_or(read.start);
        if until - from >= MIN_WAIT {
            let (window, awaited) = (self.window, &self.awaited.receive);
            self.look(from, until, awaited, || network::network_thread_busy(window, read.tid, from, until));
        }
    }

    /// Until a request handler took it.
    fn queue(&mut self) {
        let Some(read) = self.course.read else { return };
        let begun = self.course.operations.iter().map(|hold| hold.op.start).min();
        let begun = begun.map_or(self.course.answered, |begun| begun.min(self.course.answered));
        if let Some((done, findings)) = network::before_hand_over(self.window, read.tid, read.end, begun) {
            self.give(read.end, done, findings);
        }
        let waited = match self.course.taken {
            Some(taken) => Some((self.course.handed_on.unwrap_or(read.end), taken)),
            None if self.course.answer.is_some() => {
                handlers::all_occupied(self.window, read.end, self.course.answered)
            }
            None => None,
        };
        if let Some((start, end)) = waited.filter(|(start, end)| *end - *start >= MIN_WAIT) {
            let taker = self.course.operations.first().map(|hold| hold.op.tid);
            let taker = taker.filter(|_| self.course.taken.is_some());
            let (window, awaited) = (self.window, &self.awaited.queue);
            self.look(start, end, awaited, || handlers::handlers_busy(window, taker, start, end));
        }
    }

    /// Until others had it.
    fn remote(&mut self) {
        let Some(remote) = &self.course.remote else { return };
        let (window, awaited) = (self.window, &self.awaited.remote);
        let cause_of = |request: &Request| cause_of(window, request);
        self.look(remote.start, remote.end, awaited, || {
            protocol::replication_wait(window, remote, cause_of).into_iter().collect()
        });
    }

    /// Until a network thread had written the response, with what it read from files for that.
    fn respond(&mut self) {
        for op in &self.course.sent {
            let finding = network::disk_read(self.window, op);
            self.give(op.start, op.end, finding.into_iter().collect());
        }
        let Some(answer) = self.course.answer else { return };
        let own = waiting::readable(self.window, self.request).or(self.course.read.map(|read| read.end));
        let local = self.course.remote.as_ref().map(|remote| remote.end).or(self.course.local_end);
        let Some(from) = local.or(own).filter(|from| answer.start - *from >= MIN_WAIT) else { return };
        // When the response was ready is not seen: only what its thread did until right before it counts.
        let until = answer.start - Nanos(1);
        let calls = self.window.sockets.of_thread(answer.tid, from, until).map(|call| call.end);
        let on_cpu =
            self.window.sockets.on_cpu(answer.tid, from, until).map(|(start, end)| end + (end - start));
        let last = calls.chain(on_cpu).max();
        let right_after = RIGHT_AFTER + Nanos((answer.start - from).0 / 10);
        if last.is_some_and(|last| answer.start - last <= right_after) {
            let (window, awaited) = (self.window, &self.awaited.respond);
            self.look(from, answer.start, awaited, || {
                network::network_thread_busy(window, answer.tid, from, answer.start)
            });
        }
    }

    /// What `find` says of a stretch in which it waited for others, where anything is left of that.
    fn look(
        &mut self,
        start: Nanos,
        end: Nanos,
        awaited: &CachedCandidates,
        find: impl Fn() -> Vec<CauseCandidate>,
    ) {
        if self.free.pieces(start, end).next().is_some() {
            self.give(start, end, awaited.of((start, end), find));
        }
    }

    /// What explains a stretch, as far as nothing else does.
    fn give(&mut self, start: Nanos, end: Nanos, findings: Vec<CauseCandidate>) {
        if !findings.is_empty() {
            let time = self.free.take(start, end);
            self.findings.extend(lock_chain::scaled(findings, time));
        }
    }
}
