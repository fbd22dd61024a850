//! Takes events as they come and hands out verdicts as they fall due. Holds no request longer than the
//! configured lateness and no event longer than the configured retention.

use std::sync::Arc;

use model::{Event, Nanos, Request, Verdict};

use crate::pending::Pending;
use crate::summary::Totals;
use crate::window::Window;
use crate::{Config, Summary, judge};

/// Old events are swept out this often, in recorded time.
const SWEEP: Nanos = Nanos::from_millis(250);

/// The engine. Feed it with [`Engine::push`], take what is decided with [`Engine::take_verdicts`], and end
/// with [`Engine::finish`].
#[derive(Debug)]
pub struct Engine {
    config: Config,
    window: Window,
    /// Requests not decided yet, by their ends.
    pending: Pending<Arc<Request>>,
    newest: Nanos,
    swept: Nanos,
    verdicts: Vec<Verdict>,
    totals: Totals,
}

impl Engine {
    /// An engine that has seen nothing.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            window: Window::default(),
            pending: Pending::new(),
            newest: Nanos::MIN,
            swept: Nanos::MIN,
            verdicts: Vec::new(),
            totals: Totals::default(),
        }
    }

    /// Takes one event. Events may come out of order by up to the configured lateness.
    pub fn push(&mut self, event: Event) {
        let time = event.time();
        match event {
            Event::Request(request) => self.request(*request),
            Event::FileOp(op) => self.window.file_op(*op),
            Event::OffCpu(interval) => self.window.off_cpu(*interval),
            Event::JournalCommit(commit) => self.window.commit(*commit),
            Event::BlockIo(io) => self.window.block_io(*io),
            Event::DirtyThrottle(pause) => self.window.throttle(pause),
            Event::LockWait(wait) => {
                self.window.lock_wait(*wait);
            }
            Event::JvmPause(pause) => self.window.pause(*pause),
            Event::Reclaim(reclaim) => self.window.trouble.reclaim(*reclaim),
            Event::KernelSpan(span) => self.window.trouble.kernel_span(*span),
            Event::TcpTrouble(trouble) => self.window.trouble.tcp(*trouble),
            Event::HostSample(sample) => self.window.trouble.sample(*sample),
            // Evidence of no cause.
            Event::SocketOp(_) | Event::CpuSample(_) | Event::BrokerChange(_) => {}
            Event::Loss(loss) => {
                self.totals.loss(&loss);
                self.window.loss(loss);
            }
        }
        self.newest = self.newest.max(time);
        self.decide(self.newest - self.config.lateness);
        if self.newest - self.swept >= SWEEP {
            self.window.forget(self.newest, &self.config);
            self.swept = self.newest;
        }
    }

    /// What has been decided since the last call, in the order in which the requests ended.
    pub fn take_verdicts(&mut self) -> Vec<Verdict> {
        std::mem::take(&mut self.verdicts)
    }

    /// Decides everything that is left; take the last verdicts afterwards.
    pub fn finish(&mut self) -> Summary {
        self.decide(Nanos::MAX);
        self.totals.summary()
    }

    #[cfg(test)]
    pub(crate) fn kept_file_ops(&self) -> usize {
        self.window.file_ops()
    }

    fn request(&mut self, request: Request) {
        self.totals.requests += 1;
        let request = Arc::new(request);
        self.window.request(&request);
        self.pending.push(request.last_seen(), request);
    }

    fn decide(&mut self, until: Nanos) {
        while let Some(request) = self.pending.pop_due(until) {
            self.decide_one(&request);
        }
    }

    fn decide_one(&mut self, request: &Request) {
        let slow = request.latency().is_some_and(|latency| latency >= self.config.slower_than);
        if !self.config.apis.contains(&request.api) {
            if slow {
                self.totals.not_judged(request.api);
            }
            return;
        }
        if !self.config.file_ops_observed && !slow {
            return;
        }
        let appends = judge::joins(&self.window, request, &mut self.totals.joins);
        if slow {
            let judgement = judge::judge(&self.window, request, &appends, 0);
            #[cfg(test)]
            assert!(
                judgement.explained() <= request.latency().unwrap_or_default(),
                "{request:?}: {judgement:?}"
            );
            let verdict = judgement.verdict(&self.window, request, &appends);
            self.totals.verdict(&verdict);
            self.verdicts.push(verdict);
        }
    }
}
