//! Takes events as they arrive and gives out verdicts as they fall due.
//! Puts the events in the order of their times. Holds no request longer than the configured lateness and no event
//! longer than the configured retention.
//!
//! A verdict depends only on what ended up to the moment at which it falls due: how events are batched, and small
//! differences in the order of their arrival, change nothing.

pub(crate) mod due_queue;

use std::sync::Arc;

use model::{Event, LossKind, Nanos, Request, Verdict};

use crate::analysis::cache::AnalysisCache;
use crate::config::Config;
use crate::engine::due_queue::DueQueue;
use crate::joins::JoinStats;
use crate::summary::{RequestStages, Summary, Totals};
use crate::window::{self, Window};
use crate::{analysis, joins, logged, stages};

/// How often old events are dropped, in recorded time.
const SWEEP_INTERVAL: Nanos = Nanos::from_millis(250);
/// Events that wait to be put in order at most; large requests count as several.
/// Beyond it, events are used in the order of arrival.
const MAX_UNORDERED_EVENTS: usize = 200_000;

/// The engine. Feed it with [`Engine::push`], take decided verdicts with [`Engine::take_verdicts`], and end with
/// [`Engine::finish`].
#[derive(Debug)]
pub struct Engine {
    config: Config,
    /// Events that may still be preceded by another.
    order: DueQueue<Event>,
    /// Their number; large requests count as several.
    unordered: usize,
    /// The time of the newest event, or of the latest tick.
    newest: Nanos,
    window: Window,
    /// Analyses of requests that others may have waited behind.
    cache: AnalysisCache,
    /// Undecided requests, by their ends.
    pending: DueQueue<Arc<Request>>,
    /// The time up to which events are in the window.
    now: Nanos,
    last_sweep: Nanos,
    verdicts: Vec<Verdict>,
    request_stages: Vec<RequestStages>,
    totals: Totals,
}

impl Engine {
    /// An engine without events.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            order: DueQueue::new(),
            unordered: 0,
            newest: Nanos::MIN,
            window: Window::default(),
            cache: AnalysisCache::default(),
            pending: DueQueue::new(),
            now: Nanos::MIN,
            last_sweep: Nanos::MIN,
            verdicts: Vec::new(),
            request_stages: Vec::new(),
            totals: Totals::default(),
        }
    }

    /// Takes one event. Events may be out of order by up to the configured disorder.
    pub fn push(&mut self, event: Event) {
        let time = event.time();
        self.unordered += weight_of(&event);
        self.order.push(time, event);
        self.newest = self.newest.max(time);
        self.settle(self.newest - self.config.disorder);
    }

    /// Reports the current time while no events arrive: decides what ended long enough before it.
    pub fn tick(&mut self, time: Nanos) {
        self.newest = self.newest.max(time);
        let settled = self.newest - self.config.disorder;
        self.settle(settled);
        if settled > self.now {
            self.advance(settled);
            self.decide(self.now - self.config.lateness);
        }
    }

    /// The verdicts since the last call, in the order in which the requests ended.
    pub fn take_verdicts(&mut self) -> Vec<Verdict> {
        std::mem::take(&mut self.verdicts)
    }

    /// The stages of the requests that were decided since the last call.
    /// Only for the APIs in [`Config::stages_of`]. Call it regularly: stages accumulate until then.
    pub fn take_request_stages(&mut self) -> impl Iterator<Item = RequestStages> {
        self.request_stages.drain(..)
    }

    /// Joins of produce partitions with their appends so far.
    pub fn joins(&self) -> JoinStats {
        self.totals.joins
    }

    /// Decides everything that is left; take the last verdicts afterwards.
    pub fn finish(&mut self) -> Summary {
        self.settle(Nanos::MAX);
        self.decide(Nanos::MAX);
        self.totals.summary()
    }

    #[cfg(test)]
    pub(crate) fn retained_events(&self) -> usize {
        self.window.count()
    }

    #[cfg(test)]
    pub(crate) fn unordered(&self) -> usize {
        self.order.len()
    }

    #[cfg(test)]
    pub(crate) fn request_bytes(&self) -> usize {
        self.window.request_bytes()
    }

    /// Takes the events up to `until` in order, and more if too many wait.
    fn settle(&mut self, until: Nanos) {
        while let Some(event) = self.next_in_order(until) {
            self.take(event);
        }
        while self.unordered > MAX_UNORDERED_EVENTS {
            let Some(event) = self.next_in_order(Nanos::MAX) else { return };
            self.take(event);
        }
    }

    fn next_in_order(&mut self, until: Nanos) -> Option<Event> {
        let event = self.order.pop_due(until)?;
        self.unordered -= weight_of(&event);
        Some(event)
    }

    fn take(&mut self, event: Event) {
        let time = event.time();
        if time > self.now {
            self.advance(time);
        }
        match event {
            Event::Request(request) => self.request(*request),
            Event::FileOp(op) => self.window.file_op(*op),
            Event::OffCpu(interval) => self.window.off_cpu(*interval),
            Event::JournalCommit(commit) => {
                self.window.commits.insert(&commit.device.number(), *commit);
            }
            Event::BlockIo(io) => self.window.block_io(*io),
            Event::DirtyThrottle(pause) => self.window.throttle(pause),
            Event::LockWait(wait) => {
                self.window.lock_wait(*wait);
            }
            Event::HandlerCall(call) => self.window.handler_call(*call),
            Event::JvmPause(pause) => self.window.pauses.insert(*pause),
            Event::ProcessStop(stop) => self.window.stops.insert(*stop),
            Event::CpuGap(gap) => self.window.cpu_gap(*gap),
            Event::SocketOp(op) => self.window.socket_op(&op),
            Event::Reclaim(reclaim) => self.window.troubles.reclaim(*reclaim),
            Event::KernelSpan(span) => self.window.troubles.kernel_span(*span),
            Event::TcpEvent(trouble) => self.window.troubles.tcp(*trouble),
            Event::HostSample(sample) => self.window.troubles.sample(*sample),
            Event::CpuSample(sample) => self.window.cpu_sample(&sample),
            // No evidence of a cause.
            Event::BrokerChange(_) | Event::RequestLatencies(_) => {}
            Event::PartitionState(state) => self.window.replicas.insert(&state),
            Event::TlsTraffic(traffic) => {
                self.totals.tls.take(&traffic);
            }
            Event::Loss(loss) => {
                self.totals.loss(&loss);
                if loss.kind != LossKind::RequestsUncounted {
                    self.window.losses.insert(loss);
                }
            }
        }
    }

    /// Advances to a later moment: everything that fell due before it is decided on all earlier events and on no
    /// later one.
    fn advance(&mut self, time: Nanos) {
        self.decide(time - self.config.lateness - Nanos(1));
        self.now = time;
        if self.now - self.last_sweep >= SWEEP_INTERVAL {
            // Before the events that would explain it are dropped.
            self.decide(self.window.retention_start(self.now, &self.config));
            self.window.forget(self.now, &self.config);
            self.last_sweep = self.now;
        }
    }

    fn request(&mut self, request: Request) {
        self.totals.requests += 1;
        let request = Arc::new(request);
        self.window.request(&request);
        let tie = u64::from(request.client.port()) << 32 | u64::from(request.correlation_id as u32);
        self.pending.push_with_tie(request.last_seen(), tie, request);
    }

    fn decide(&mut self, until: Nanos) {
        while let Some(request) = self.pending.pop_due(until) {
            self.decide_one(&request);
        }
    }

    fn decide_one(&mut self, request: &Arc<Request>) {
        match self.config.only_request {
            Some(number) if number == request.correlation_id => return self.judge(request),
            Some(_) => return,
            None => {}
        }
        let slow = request.latency().is_some_and(|latency| latency >= self.config.slower_than);
        if !self.config.apis.contains(&request.api) {
            if slow {
                self.totals.not_judged(request.api);
            }
            return;
        }
        let slow = slow && self.is_slow_without_intended_wait(request);
        if slow {
            self.judge(request);
        } else if self.config.stages_of.contains(&request.api) {
            self.stage(request);
        } else if self.config.file_ops_observed {
            joins::count_joins(&self.window, request, &mut self.totals.joins);
        }
    }

    /// Records the stages of a request that was not slow.
    fn stage(&mut self, request: &Arc<Request>) {
        let joins = &mut JoinStats::default();
        let counts = if self.config.file_ops_observed { &mut self.totals.joins } else { joins };
        let appends = joins::joins(&self.window, request, counts);
        let request = &logged::correct_times(&self.window, request);
        if let Some(breakdown) = stages::stages_of(&self.window, request, &appends) {
            self.request_stages
                .push(RequestStages { request: Arc::clone(request), stages: breakdown.stages });
        }
    }

    fn judge(&mut self, request: &Arc<Request>) {
        let appends = joins::joins(&self.window, request, &mut self.totals.joins);
        let request = &logged::correct_times(&self.window, request);
        let analysis = analysis::analyse(&self.window, &mut self.cache, request, &appends);
        #[cfg(test)]
        assert!(
            analysis.explained_time() <= request.latency().unwrap_or_default(),
            "{request:?}: {analysis:?}"
        );
        let verdict = analysis.verdict(&self.window, request, &appends);
        self.totals.verdict(&verdict);
        if self.config.stages_of.contains(&request.api) {
            self.request_stages.push(RequestStages { request: Arc::clone(request), stages: verdict.stages });
        }
        self.verdicts.push(verdict);
    }

    /// Whether it took too long even without its intended wait.
    fn is_slow_without_intended_wait(&mut self, request: &Request) -> bool {
        let time = stages::waiting::latency_less_wait(&self.window, request);
        if time.is_none() {
            self.totals.not_judged(request.api);
        }
        time.is_some_and(|time| time >= self.config.slower_than)
    }
}

/// How many ordinary events take as much memory.
fn weight_of(event: &Event) -> usize {
    if let Event::Request(request) = event { window::weight_of(request) } else { 1 }
}
