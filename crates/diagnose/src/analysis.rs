//! Analyses one request: collects what explains each stage, and chooses the root.
//!
//! Each instant is explained once: first by what stopped the whole machine or process, then by what the request's own
//! thread did, then by JVM pauses and lack of a CPU, then by the threads and brokers that it waited for. The cause is
//! the root that explains the most of the request's time, and only if that is more than what remains unexplained. A
//! cause that explains less than half of the time is never `exact`.
//!
//! In a stall hundreds of requests wait behind each other, and each examines many ahead of it. So the analysis of a
//! request is cached (`cache`), passed on by reference (`attribution`) and put into words once, for a verdict.

pub(crate) mod attribution;
pub(crate) mod cache;
pub(crate) mod head_of_line;

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, Nanos, Pid, Request, Verdict};

use crate::analysis::attribution::Attribution;
use crate::analysis::cache::{AnalysisCache, AwaitedCauses, CachedCandidates, RequestAnalysis};
use crate::causes::candidate::{CauseCandidate, evidence};
use crate::causes::{
    self, blocked, controller, coordinators, cpu, handlers, host, lock_chain, memory, network, operation,
    protocol, remote_tier, stops, waker,
};
use crate::coordinators::{awaited_until, is_of_controller};
use crate::joins::{AppendJoin, JoinStats};
use crate::logged::is_logged;
use crate::stages::response::UnseenFollowers;
use crate::stages::{Breakdown, waiting};
use crate::time::{Span, TimeBudget, TimeSpan};
use crate::waits::LockHold;
use crate::window::Window;
use crate::window::pools::ThreadPool;
use crate::{joins, logged, stages, why_not};

/// The analysis of one request.
#[derive(Debug)]
pub(crate) struct Analysis {
    /// Without the requests ahead of it.
    own: Arc<RequestAnalysis>,
    /// What the requests ahead of it explain.
    behind: Vec<Attribution>,
    /// A possible wait of a request ahead for followers that are not seen. This one waited behind it.
    unseen_ahead: Option<UnseenFollowers>,
}

/// Analyses where the time of one answered request went and why.
pub(crate) fn analyse(
    window: &Window,
    known: &mut AnalysisCache,
    request: &Request,
    appends: &[AppendJoin],
) -> Analysis {
    let own = known.of(request, || analyse_alone(window, request, appends));
    let complete = TimeSpan::new(request.arrival_end, request.arrival_end + own.waited);
    let (mut behind, mut unseen_ahead) = (Vec::new(), None);
    for stretch in own.unread.into_iter().chain([complete]) {
        let served = |ahead: &Request, since| {
            let of_ahead = analysis_of(window, known, ahead);
            let unseen = of_ahead.unseen_followers.iter().map(|unseen| unseen.within(stretch));
            unseen_ahead = unseen.chain(unseen_ahead.take()).max_by_key(|unseen| unseen.span.length());
            causes_since(window, &of_ahead, ahead, since)
        };
        behind.extend(head_of_line::attribute(window, request, stretch, served));
    }
    Analysis { own, behind, unseen_ahead }
}

/// The analysis of a request that others wait behind.
fn analysis_of(window: &Window, known: &mut AnalysisCache, request: &Request) -> Arc<RequestAnalysis> {
    let joined = || joins::joins(window, request, &mut JoinStats::default());
    known.of(request, || analyse_alone(window, request, &joined()))
}

/// Finds what explains the time in which a head-of-line request was served. Counts the time from `since` on.
fn causes_since(
    window: &Window,
    own: &RequestAnalysis,
    request: &Request,
    since: Nanos,
) -> Vec<Arc<CauseCandidate>> {
    if stages::served_from(request).is_none_or(|from| from >= since) {
        return own.served.clone();
    }
    let appends = joins::joins(window, request, &mut JoinStats::default());
    let Some(breakdown) = stages::stages_of(window, request, &appends) else { return Vec::new() };
    causes_while_served(&breakdown, since, &own.awaited)
}

/// Analyses a request without the requests ahead of it.
fn analyse_alone(window: &Window, request: &Request, appends: &[AppendJoin]) -> RequestAnalysis {
    let Some(breakdown) = stages::stages_of(window, request, appends) else {
        return RequestAnalysis::default();
    };
    let awaited = AwaitedCauses::default();
    // The intended wait needs no cause.
    let written = appends.first().filter(|_| request.intended_wait().is_some());
    let since = written.map_or(Nanos::MIN, |append| append.op.start);
    let served = causes_while_served(&breakdown, since, &awaited);
    RequestAnalysis {
        waited: breakdown.served_from - request.arrival_end,
        is_arrival_bound: stages::unread_span(window, request).is_some(),
        unread: head_of_line::blocked_by_flow_control(window, request),
        arrival: network::slow_arrival(window, request).into_iter().map(Arc::new).collect(),
        served,
        time: stages::waiting::latency_less_wait(window, request).unwrap_or_default(),
        stages: breakdown.stages,
        breakdown: breakdown.spans,
        unseen_followers: breakdown.unseen_followers,
        awaited,
    }
}

/// What explains most of another request's time, if known; does not follow the requests ahead of it.
pub(crate) fn cause_of(window: &Window, request: &Request) -> Option<CauseCandidate> {
    let own = Arc::new(analyse_alone(window, request, &[]));
    Analysis { own, behind: Vec::new(), unseen_ahead: None }.principal().map(Attribution::into_candidate)
}

impl Analysis {
    /// The time that all roots explain together.
    #[cfg(test)]
    pub(crate) fn explained_time(&self) -> Nanos {
        roots(&self.own, self.behind.clone()).map(|root| root.time).sum()
    }

    /// The root that explains the most, if that is more than what remains unexplained.
    fn principal(self) -> Option<Attribution> {
        let mut explained = Nanos::ZERO;
        let mut merged: Vec<Attribution> = Vec::new();
        for root in roots(&self.own, self.behind) {
            explained += root.time;
            match merged.iter_mut().find(|same| same.root() == root.root()) {
                Some(same) => same.merge(root),
                None => merged.push(root),
            }
        }
        let unexplained = (self.own.time - explained).at_least_zero();
        let principal = merged.into_iter().max_by_key(|root| root.time)?;
        (principal.time > unexplained).then(|| principal.limit_confidence(self.own.time))
    }

    /// The verdict on a slow request.
    pub(crate) fn verdict(self, window: &Window, request: &Request, appends: &[AppendJoin]) -> Verdict {
        let losses: Vec<Arc<str>> = window
            .losses
            .overlapping(request.span())
            .map(|loss| Arc::from(format!("{} {} ({})", loss.count, loss.kind.as_str(), loss.detail)))
            .collect();
        let (own, unseen_ahead) = (Arc::clone(&self.own), self.unseen_ahead.clone());
        let principal = self.principal().map(Attribution::into_candidate);
        let candidate = principal.unwrap_or_else(|| unexplained(window, request, appends));
        let is_doubtful = own.is_arrival_bound || !losses.is_empty();
        let confidence =
            if is_doubtful { candidate.confidence.min(Confidence::Strong) } else { candidate.confidence };
        let advice = causes::advice_on(&candidate.chain);
        Verdict {
            request: request.clone(),
            stages: own.stages,
            stage_spans: own.breakdown.clone(),
            cause: candidate.cause,
            chain: candidate.chain,
            root: candidate.root,
            confidence,
            evidence: candidate.evidence,
            partition: candidate.partition,
            advice,
            losses,
            kafka: None,
            doubts: own
                .unseen_followers
                .iter()
                .filter_map(|waited| why_not::of_followers(request, waited, "it"))
                .chain(unseen_ahead.and_then(|waited| why_not::of_followers(request, &waited, AHEAD)))
                .collect(),
        }
    }
}

/// Every root that took some of a request's time, and how much.
fn roots(own: &RequestAnalysis, behind: Vec<Attribution>) -> impl Iterator<Item = Attribution> + '_ {
    own.arrival.iter().map(Attribution::of).chain(behind).chain(own.served.iter().map(Attribution::of))
}

/// The candidate for a request that nothing explains. Its appends are evidence that they are ruled out.
fn unexplained(window: &Window, request: &Request, appends: &[AppendJoin]) -> CauseCandidate {
    let mut seen: Vec<Evidence> = appends
        .iter()
        .flat_map(|append| {
            operation::evidence_of_op(window, &LockHold::of(window, &append.op, request.last_seen()))
        })
        .collect();
    if !window.reaches_back_to(request.arrival) {
        let text = "the request began before the events that are still kept";
        seen.push(evidence(EvidenceKind::Request, request, text));
    }
    CauseCandidate::alone(Cause::Unobserved, Confidence::Weak, Nanos::ZERO).with(seen)
}

/// The request that may have waited, in a doubt.
const AHEAD: &str = "a request ahead of it on its connection";
/// Shorter waits for a thread are not examined.
const MIN_WAIT: Nanos = Nanos::from_millis(1);
/// A response this soon after other work of its thread was delayed by that work.
const RIGHT_AFTER: Nanos = Nanos::from_millis(1);

/// Finds everything that explains a request's time since the broker could serve it.
/// Starts at `since` if that is later. Caches in `awaited` the causes of the threads and brokers that it waited for.
fn causes_while_served(
    breakdown: &Breakdown<'_>,
    since: Nanos,
    awaited: &AwaitedCauses,
) -> Vec<Arc<CauseCandidate>> {
    let free = TimeBudget::new(TimeSpan::new(breakdown.served_from.max(since), breakdown.end));
    let mut causes =
        StageCauses { window: breakdown.window, breakdown, awaited, free, candidates: Vec::new() };
    if is_logged(breakdown.request) {
        return causes.of_log();
    }
    causes.process_stops();
    causes.own_work();
    causes.while_served();
    let most = if breakdown.coordinators_record().is_some() { Confidence::Strong } else { Confidence::Exact };
    let limit = |found: CauseCandidate| CauseCandidate { confidence: found.confidence.min(most), ..found };
    causes.candidates.into_iter().map(|found| Arc::new(limit(found))).collect()
}

/// The process that served a request; 0 if unknown.
fn pid_of(breakdown: &Breakdown<'_>) -> Pid {
    breakdown.appends.first().map_or(0, |append| append.op.pid)
}

struct StageCauses<'w> {
    window: &'w Window,
    breakdown: &'w Breakdown<'w>,
    awaited: &'w AwaitedCauses,
    free: TimeBudget,
    candidates: Vec<CauseCandidate>,
}

impl StageCauses<'_> {
    /// Causes of a request from Kafka's request log: what its appends waited for is joined by keys.
    /// The rest is joined by time only, and only if the request's end was seen.
    fn of_log(mut self) -> Vec<Arc<CauseCandidate>> {
        let is_end_seen = logged::is_end_seen(self.window, self.breakdown.request);
        if is_end_seen {
            self.process_stops();
        }
        let by_time = self.candidates.len();
        self.own_work();
        let own = by_time..self.candidates.len();
        if is_end_seen {
            self.while_served();
        }
        let candidates = self.candidates.into_iter().enumerate();
        let limited = candidates.map(|(at, found)| {
            let most = if own.contains(&at) { Confidence::Exact } else { Confidence::Strong };
            CauseCandidate { confidence: found.confidence.min(most), ..found }
        });
        limited.map(Arc::new).collect()
    }

    /// Finds everything except process stops and the work of the request's own handler.
    fn while_served(&mut self) {
        self.threads();
        self.receive();
        self.queue();
        self.remote();
        self.controller();
        self.respond();
        self.rest();
        self.blocked_threads();
    }

    /// Times in which the whole process or machine was stopped; the state of its threads does not matter then. The
    /// same holds for CPU time stolen from its operations.
    fn process_stops(&mut self) {
        let Self { window, breakdown, free, candidates, .. } = self;
        let span = TimeSpan::new(breakdown.served_from, breakdown.work_end());
        candidates.extend(stops::explain_first(window, pid_of(breakdown), span, free));
        // A paused machine sends no bytes either.
        candidates.extend(host::explain(window, TimeSpan::new(breakdown.answered, breakdown.end), free));
        candidates.extend(host::stolen_from_operations(breakdown, free));
    }

    /// What delayed the request's own handler.
    fn own_work(&mut self) {
        let breakdown = self.breakdown;
        for blocked in &breakdown.locks {
            let Some(time) = self.free.take_any(blocked.span.until(breakdown.answered)) else { continue };
            self.candidates.extend(lock_chain::of_wait(self.window, blocked, time));
        }
        for hold in &breakdown.operations {
            let time = self.free.take_any(hold.span().until(breakdown.answered));
            let found = time.and_then(|time| {
                operation::of_op_or_wait(self.window, hold)
                    .map(|candidate| CauseCandidate { time, ..candidate })
            });
            self.candidates.extend(found);
        }
    }

    /// Threads that could not work on it, in any stage, and what they did instead.
    fn threads(&mut self) {
        let Self { window, breakdown, free, candidates, .. } = self;
        let span = TimeSpan::new(breakdown.served_from, breakdown.work_end());
        candidates.extend(stops::explain(window, pid_of(breakdown), span, free));
        candidates.extend(handlers::starved_threads(breakdown, breakdown.due_span().start, free));
        candidates.extend(protocol::txn_verification(breakdown, free));
    }

    /// Until a network thread read it.
    fn receive(&mut self) {
        let breakdown = self.breakdown;
        let from = breakdown.served_from;
        let unread = TimeSpan::new(from, breakdown.read.map_or(breakdown.answered, |read| read.start));
        if let Some((muted, candidate)) = protocol::quota(self.window, breakdown.request, unread) {
            self.assign(muted, vec![candidate]);
        }
        let Some(read) = breakdown.read else { return };
        // What the thread continued with right after the read delayed the request too.
        let until = breakdown.enqueued_at.filter(|at| *at > read.end).unwrap_or(read.start);
        let span = TimeSpan::new(from, until);
        self.find_if_long(span, &self.awaited.receive, || {
            network::network_thread_busy(breakdown.window, read.tid, span)
        });
    }

    /// Until a request handler took it.
    fn queue(&mut self) {
        let (window, breakdown) = (self.window, self.breakdown);
        let Some(read) = breakdown.read else { return self.logged_queue() };
        let begun = breakdown.operations.iter().map(|hold| hold.op.start).min();
        let begun = begun.map_or(breakdown.answered, |begun| begun.min(breakdown.answered));
        let reading = network::before_hand_over(window, read.tid, TimeSpan::new(read.end, begun));
        if let Some((span, candidates)) = reading {
            self.assign(span, candidates);
        }
        let (waited, taker) = match breakdown.dequeued_at {
            Some(taken) => {
                let append = breakdown.coordinators_append();
                let until = append.map_or(taken, |append| awaited_until(append, taken));
                let span = TimeSpan::new(breakdown.enqueued_at.unwrap_or(read.end), until);
                (Some(span), breakdown.operations.first().map(|hold| hold.op.tid))
            }
            None if breakdown.answer.is_some() => {
                (handlers::all_occupied(window, TimeSpan::new(read.end, breakdown.answered)), None)
            }
            None => (None, None),
        };
        if let Some(span) = waited {
            self.find_if_long(span, &self.awaited.queue, || match breakdown.coordinators_append() {
                Some(append) => coordinators::busy(breakdown, append, span),
                None => handlers::pool_busy(window, ThreadPool::Handlers, taker, span),
            });
        }
    }

    /// The queue time of a request from Kafka's log: when a network thread had put it there is unknown, so only what
    /// occupied all handlers explains it.
    fn logged_queue(&mut self) {
        let breakdown = self.breakdown;
        let Some(times) = breakdown.log_times else { return };
        if breakdown.coordinators_append().is_none() {
            let span = TimeSpan::new(breakdown.served_from, times.taken);
            self.find_if_long(span, &self.awaited.queue, || {
                handlers::pool_busy(breakdown.window, ThreadPool::Handlers, None, span)
            });
        }
    }

    /// Until followers had it, or tiered storage had delivered what it fetches.
    fn remote(&mut self) {
        self.candidates.extend(remote_tier::of_request(self.breakdown, &mut self.free));
        let Some(remote) = &self.breakdown.remote else { return };
        let window = self.window;
        let cause_of = |request: &Request| cause_of(window, request);
        self.find(remote.span, &self.awaited.remote, || {
            protocol::replication_wait(window, remote, cause_of).into_iter().collect()
        });
    }

    /// Until the controller had answered.
    fn controller(&mut self) {
        if let Some((span, candidates)) = controller::of_request(self.breakdown) {
            self.assign(span, candidates);
        }
    }

    /// Finds what delayed the response until a network thread had written it. Includes the file reads for it.
    fn respond(&mut self) {
        let (window, breakdown) = (self.window, self.breakdown);
        for op in &breakdown.sent {
            let candidate = network::disk_read(window, op);
            self.assign(op.span(), candidate.into_iter().collect());
        }
        // If followers' fetches are not seen, only Kafka's log says since when its response waited to be written.
        let ready = breakdown.log_times.map(|times| times.ready);
        let is_known = ready.is_some() || breakdown.unseen_followers.is_none();
        let Some(answer) = breakdown.answer.filter(|_| is_known) else { return };
        let own = waiting::readable(window, breakdown.request).or(breakdown.read.map(|read| read.end));
        let local = breakdown.remote.as_ref().map(|remote| remote.span.end).or(breakdown.local_end);
        let Some(from) = ready.or(local).or(own) else { return };
        let span = TimeSpan::new(from, answer.start);
        let append = breakdown.coordinators_append().filter(|_| !is_of_controller(breakdown.request.api_key));
        if let Some(append) = append.filter(|_| span.length() >= MIN_WAIT) {
            self.assign(span, coordinators::busy(breakdown, append, span));
        }
        // When the response was ready is not seen: only what its thread did until right before it counts.
        let before = span.until(answer.start - Nanos(1));
        let calls = window.sockets.of_thread(answer.tid, before).map(|call| call.end);
        let on_cpu = window.sockets.on_cpu(answer.tid, before).map(|sample| sample.end + sample.length());
        let last = calls.chain(on_cpu).max();
        let right_after = RIGHT_AFTER + Nanos(span.length().0 / 10);
        if last.is_some_and(|last| answer.start - last <= right_after) {
            self.find_if_long(span, &self.awaited.respond, || {
                network::network_thread_busy(window, answer.tid, span)
            });
        }
    }

    /// What may explain the remaining time.
    fn rest(&mut self) {
        let Self { window, breakdown, free, candidates, .. } = self;
        let span = breakdown.due_span();
        candidates.extend(protocol::recompression(breakdown, free));
        candidates.extend(protocol::down_conversion(breakdown, span, free));
        candidates.extend(network::slow_departure(breakdown, free));
        // By time only: says nothing about a wait for followers that are not seen, or a remote time of Kafka's log.
        free.take_all(breakdown.log_times.map(|times| TimeSpan::new(times.done, times.ready)));
        let seen =
            span.until(breakdown.unseen_followers.as_ref().map_or(span.end, |unseen| unseen.span.start));
        candidates.extend(cpu::out_of_quota(window, seen, free));
        candidates.extend(memory::reclaim_of_others(window, seen, free));
        candidates.extend(cpu::starved_others(window, seen, free));
        candidates.extend(host::stolen_from_others(window, seen, free));
    }

    /// Waits of threads that it needed, for the time that nothing else explains.
    fn blocked_threads(&mut self) {
        let Self { window, breakdown, free, candidates, .. } = self;
        candidates.extend(blocked::in_java(breakdown, free));
        for (tid, span) in handlers::needed_for_it(breakdown) {
            candidates.extend(blocked::of_thread(window, tid, span, free));
        }
        candidates.extend(waker::of_request(breakdown, free));
        let taker = breakdown.operations.first().map(|hold| hold.op.tid);
        let taker = taker.filter(|_| breakdown.coordinators_append().is_none());
        if let (Some(tid), Some(span)) = (taker, breakdown.queue_span()) {
            let time = free.take(span);
            candidates.extend(lock_chain::limit_time(handlers::taker_blocked(window, tid, span), time));
        }
    }

    /// Adds the result of `find` for a long stretch in which it waited for others.
    fn find_if_long(
        &mut self,
        span: TimeSpan,
        awaited: &CachedCandidates,
        find: impl Fn() -> Vec<CauseCandidate>,
    ) {
        if span.length() >= MIN_WAIT {
            self.find(span, awaited, find);
        }
    }

    /// Like `find_if_long`, for a stretch of any length of which some time is left.
    fn find(&mut self, span: TimeSpan, awaited: &CachedCandidates, find: impl Fn() -> Vec<CauseCandidate>) {
        if self.free.pieces(span).next().is_some() {
            self.assign(span, awaited.of(span, find));
        }
    }

    /// Assigns the unexplained time of a stretch to these candidates.
    fn assign(&mut self, span: TimeSpan, candidates: Vec<CauseCandidate>) {
        if !candidates.is_empty() {
            let time = self.free.take(span);
            self.candidates.extend(lock_chain::limit_time(candidates, time));
        }
    }
}
