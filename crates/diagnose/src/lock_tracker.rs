//! Waits for locks in the order of their ends.
//! Each comes with the thread that held the lock and what it was doing. Does not report which requests the wait
//! slowed: [`crate::Engine`] does.
//!
//! A wait is listed once everything that bears on it has had time to arrive. Waits that no source saw are inferred
//! from the appends of produce requests: without the request it is unknown since when the thread can have waited.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use model::api_key::PRODUCE;
use model::{
    Event, FileOp, Lock, LockHolder, LockSource, LockWait, Nanos, Pid, Request, Tid, TopicPartition,
};

use crate::causes::stops;
use crate::config::Config;
use crate::engine::due_queue::DueQueue;
use crate::file_op_reasons::{Reason, Reasons};
use crate::joins::JoinStats;
use crate::locks::LockContention;
use crate::locks::holders::Holder;
use crate::locks::names::{LockName, taken_in};
use crate::stages::served_from;
use crate::time::{Span, TimeSpan};
use crate::waits::LockHold;
use crate::window::Window;
use crate::{joins, locks};

/// Reasons of shorter operations are dropped: nothing waited long for them.
const MIN_OPERATION: Nanos = Nanos::from_micros(100);
/// How often old events are dropped, in recorded time.
const SWEEP_INTERVAL: Nanos = Nanos::from_millis(250);

/// A wait for a lock, with its holder.
#[derive(Clone, Debug, PartialEq)]
pub struct LockRow {
    /// When the thread began to wait; the earliest possible time if the wait is inferred.
    pub start: Nanos,
    /// When it got the lock, or when the thread dump was taken.
    pub end: Nanos,
    /// The process; 0 if unknown.
    pub pid: Pid,
    /// The thread that waited.
    pub tid: Tid,
    /// Its name.
    pub thread: Arc<str>,
    /// The lock.
    pub name: LockName,
    /// The method that takes the lock, if there is a stack.
    pub taken_in: Option<String>,
    /// The lock as the JVM knows it; `None` if the wait is inferred.
    pub lock: Option<Lock>,
    /// The thread that held it for the largest part of the wait.
    pub holder: Option<LockHolder>,
    /// The thread that had it last before the waiter, if the JVM reports it.
    pub previous_owner: Option<LockHolder>,
    /// What the holder was doing meanwhile.
    pub doing: HolderActivity,
    /// Appends of others that were served during the wait.
    pub ahead: usize,
    /// The partition that the thread wanted to append to.
    pub partition: Option<TopicPartition>,
    /// Java stack of the wait, outermost method first.
    pub stack: Arc<str>,
    /// The source that saw it; `None` if it is inferred.
    pub seen_by: Option<LockSource>,
}

impl LockRow {
    /// How long it waited.
    pub fn latency(&self) -> Nanos {
        self.end - self.start
    }
}

/// What a holder was doing for the largest part of a wait.
#[derive(Clone, Debug, PartialEq)]
pub enum HolderActivity {
    /// No activity that was seen.
    Unknown,
    /// An operation on a file, and what its time was spent on, longest first.
    Op(Arc<FileOp>, Vec<Reason>),
    /// A wait for another lock, which is named.
    Waiting(String),
    /// A pause of the JVM, the process or the machine, which is described.
    Stopped(String),
}

/// Collects what bears on waits and lists them. Feed it nearly in the order of [`Event::time`].
#[derive(Debug)]
pub struct Locks {
    config: Config,
    window: Window,
    reasons: Reasons,
    /// Reasons of the operations that are still in the window.
    op_reasons: HashMap<(Tid, Nanos), Vec<Reason>>,
    pending: DueQueue<PendingRow>,
    newest: Nanos,
    last_sweep: Nanos,
    ready: VecDeque<LockRow>,
}

#[derive(Debug)]
enum PendingRow {
    Wait(Box<LockWait>),
    Request(Arc<Request>),
}

impl Locks {
    /// With the engine's bounds; `off_cpu` tells whether threads' time off the CPU was watched.
    pub fn new(config: Config, off_cpu: bool) -> Self {
        Self {
            config,
            window: Window::default(),
            reasons: Reasons::new(off_cpu),
            op_reasons: HashMap::new(),
            pending: DueQueue::new(),
            newest: Nanos::MIN,
            last_sweep: Nanos::MIN,
            ready: VecDeque::new(),
        }
    }

    /// Takes one event.
    pub fn push(&mut self, event: Event) {
        self.newest = self.newest.max(event.time());
        self.reasons.event(&event);
        match event {
            Event::FileOp(op) => self.file_op(*op),
            Event::OffCpu(interval) => self.window.off_cpu(*interval),
            Event::JvmPause(pause) => self.window.pauses.insert(*pause),
            Event::ProcessStop(stop) => self.window.stops.insert(*stop),
            Event::CpuGap(gap) => self.window.cpu_gap(*gap),
            Event::LockWait(wait) => self.lock_wait(wait),
            Event::Request(request) if request.api_key == PRODUCE => {
                self.pending.push(request.last_seen(), PendingRow::Request(Arc::new(*request)));
            }
            _ => {}
        }
        self.decide(self.newest - self.config.lateness);
        if self.newest - self.last_sweep >= SWEEP_INTERVAL {
            self.sweep();
        }
    }

    /// The next wait that can be listed; any that is left if `all` is set.
    pub fn take(&mut self, all: bool) -> Option<LockRow> {
        if all {
            self.decide(Nanos::MAX);
        }
        self.ready.pop_front()
    }

    fn lock_wait(&mut self, wait: Box<LockWait>) {
        if self.window.lock_wait((*wait).clone()) {
            self.pending.push(wait.end, PendingRow::Wait(wait));
        }
    }

    fn file_op(&mut self, op: FileOp) {
        // Called for every operation, because the reasons are dropped afterwards.
        let reasons = self.reasons.of(&op);
        if op.latency() >= MIN_OPERATION {
            self.op_reasons.insert((op.tid, op.start), reasons);
        }
        self.window.file_op(op);
    }

    fn sweep(&mut self) {
        self.window.forget(self.newest, &self.config);
        self.last_sweep = self.newest;
        let window = &self.window;
        self.op_reasons.retain(|&(_, start), _| window.reaches_back_to(start));
    }

    fn decide(&mut self, until: Nanos) {
        while let Some(what) = self.pending.pop_due(until) {
            match what {
                PendingRow::Wait(wait) => self.ready.extend(self.observed_row(&self.window.as_known(&wait))),
                PendingRow::Request(request) => self.ready.extend(self.inferred_rows(&request)),
            }
        }
    }

    fn observed_row(&self, wait: &LockWait) -> Option<LockRow> {
        if wait.source == LockSource::ThreadDump {
            let row = self.row(&LockContention::of_jvm_wait(wait, LockName::of(wait)?), wait.pid);
            return Some(LockRow { holder: wait.holder.clone(), ..row });
        }
        Some(self.row(&LockContention::of(&self.window, wait, wait.start)?, wait.pid))
    }

    /// The waits of a request's thread that no source saw.
    fn inferred_rows(&self, request: &Request) -> Vec<LockRow> {
        let Some(served_from) = served_from(request) else { return Vec::new() };
        let mut rows = Vec::new();
        let mut from = served_from;
        for append in joins::joins(&self.window, request, &mut JoinStats::default()) {
            let waits = locks::waits_before(&self.window, &append.op, from);
            let unseen = waits.iter().filter(|blocked| blocked.jvm_wait.is_none());
            rows.extend(unseen.map(|blocked| self.row(blocked, append.op.pid)));
            from = from.max(append.op.end);
        }
        rows
    }

    fn row(&self, blocked: &LockContention<'_>, pid: Pid) -> LockRow {
        let TimeSpan { start, end } = blocked.span;
        let (jvm_wait, holder) = (blocked.jvm_wait, blocked.holders.first());
        LockRow {
            start,
            end,
            pid,
            tid: blocked.tid,
            thread: Arc::clone(&blocked.thread),
            name: blocked.name,
            taken_in: jvm_wait.and_then(|wait| taken_in(&wait.stack)),
            lock: jvm_wait.map(|wait| wait.lock.clone()),
            holder: holder.map(|holder| LockHolder { tid: holder.tid, thread: Arc::clone(&holder.thread) }),
            previous_owner: jvm_wait.and_then(|wait| wait.holder.clone()),
            doing: holder.map_or(HolderActivity::Unknown, |holder| self.doing(holder, pid)),
            ahead: blocked.ahead(),
            partition: blocked.partition.clone(),
            stack: jvm_wait.map(|wait| Arc::clone(&wait.stack)).unwrap_or_default(),
            seen_by: jvm_wait.map(|wait| wait.source),
        }
    }

    /// What took the largest part of the time in which it held the lock.
    fn doing(&self, holder: &Holder, pid: Pid) -> HolderActivity {
        let (window, span) = (&self.window, holder.span);
        let ops = holder.tid.into_iter().flat_map(|tid| window.file_ops.of(&tid).overlapping(span));
        let waits = holder.tid.into_iter().flat_map(|tid| window.lock_waits.of(&tid).overlapping(span));
        let stops = stops::standstills(window, pid, span);
        let op = ops.map(|op| (op.overlap(span), op)).max_by_key(|(time, _)| *time);
        let wait = waits.map(|wait| (wait.overlap(span), wait)).max_by_key(|(time, _)| *time);
        let stop = stops.iter().map(|stop| (stop.overlap(span), stop)).max_by_key(|(time, _)| *time);
        let times = [op.map(|(time, _)| time), wait.map(|(time, _)| time), stop.map(|(time, _)| time)];
        let most = times.into_iter().flatten().fold(self.held_on(holder), Nanos::max);
        let is_most = |time| time == most && time > Nanos::ZERO;
        match (op, wait, stop) {
            (Some((time, op)), _, _) if is_most(time) => self.op(op),
            (_, Some((time, wait)), _) if is_most(time) => self.waiting(wait, span.start),
            (_, _, Some((time, stop))) if is_most(time) => HolderActivity::Stopped(stop.describe()),
            _ => holder.append.as_ref().map_or(HolderActivity::Unknown, |append| self.op(append)),
        }
    }

    /// How long after its write an append's thread still held the log.
    fn held_on(&self, holder: &Holder) -> Nanos {
        let Some(append) = &holder.append else { return Nanos::ZERO };
        let hold = LockHold::of(&self.window, append, holder.span.end);
        TimeSpan::new(append.end, hold.end()).overlap(holder.span)
    }

    fn op(&self, op: &Arc<FileOp>) -> HolderActivity {
        let reasons = self.op_reasons.get(&(op.tid, op.start)).cloned().unwrap_or_default();
        HolderActivity::Op(Arc::clone(op), reasons)
    }

    fn waiting(&self, wait: &LockWait, from: Nanos) -> HolderActivity {
        LockContention::of(&self.window, wait, from)
            .map_or(HolderActivity::Unknown, |blocked| HolderActivity::Waiting(blocked.describe()))
    }
}
