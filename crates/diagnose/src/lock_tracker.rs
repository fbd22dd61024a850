//! Waits for locks in the order of their ends, each with who held the lock and what that thread was doing. Does not say
//! which requests were slow for it: [`crate::Engine`] does.
//!
//! A wait is listed once everything that bears on it has had time to arrive. Waits that no source saw are inferred from
//! the appends of produce requests: without its request, nobody knows since when a thread could have waited.

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

/// Reasons of shorter operations are not kept: nobody waited long for one.
const MIN_OPERATION: Nanos = Nanos::from_micros(100);
/// Old events are swept out this often, in recorded time.
const SWEEP_INTERVAL: Nanos = Nanos::from_millis(250);

/// A wait for a lock, with its holder.
#[derive(Clone, Debug, PartialEq)]
pub struct LockRow {
    /// When the thread began to wait: at the earliest, where the wait is inferred.
    pub start: Nanos,
    /// When it had the lock, or when its dump was taken.
    pub end: Nanos,
    /// The process; 0 where nothing says.
    pub pid: Pid,
    /// The thread that waited.
    pub tid: Tid,
    /// Its name.
    pub thread: Arc<str>,
    /// Which lock it was.
    pub name: LockName,
    /// The method that wanted it, where a stack was taken.
    pub taken_in: Option<String>,
    /// The lock as the JVM knows it; none where the wait is inferred.
    pub lock: Option<Lock>,
    /// Who held it for the largest part of the wait.
    pub holder: Option<LockHolder>,
    /// Who had it last before the waiter, where the JVM says.
    pub previous_owner: Option<LockHolder>,
    /// What the holder was doing meanwhile.
    pub doing: HolderActivity,
    /// Appends of others that were served in the wait.
    pub ahead: usize,
    /// The partition that the thread wanted to append to.
    pub partition: Option<TopicPartition>,
    /// Java stack of the wait, outermost method first.
    pub stack: Arc<str>,
    /// How it was seen; none where it is inferred.
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
    /// Nothing that was seen.
    Unknown,
    /// An operation on a file, and what its time was spent on, longest first.
    Op(Arc<FileOp>, Vec<Reason>),
    /// It waited for another lock: which one.
    Waiting(String),
    /// The JVM had stopped it: for what.
    Stopped(String),
}

/// Collects what bears on waits and tells them. Feed it nearly in the order of [`Event::time`].
#[derive(Debug)]
pub struct Locks {
    config: Config,
    window: Window,
    reasons: Reasons,
    /// Those of operations that are still in the window.
    told: HashMap<(Tid, Nanos), Vec<Reason>>,
    pending: DueQueue<PendingRow>,
    newest: Nanos,
    swept: Nanos,
    ready: VecDeque<LockRow>,
}

#[derive(Debug)]
enum PendingRow {
    Wait(Box<LockWait>),
    Request(Arc<Request>),
}

impl Locks {
    /// With the engine's bounds; `off_cpu` says whether threads off the CPU were watched.
    pub fn new(config: Config, off_cpu: bool) -> Self {
        Self {
            config,
            window: Window::default(),
            reasons: Reasons::new(off_cpu),
            told: HashMap::new(),
            pending: DueQueue::new(),
            newest: Nanos::MIN,
            swept: Nanos::MIN,
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
        if self.newest - self.swept >= SWEEP_INTERVAL {
            self.sweep();
        }
    }

    /// The next wait that can be told; any that is left, where `all` are asked for.
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
        // Asked of every operation, because the reasons are then forgotten.
        let reasons = self.reasons.of(&op);
        if op.latency() >= MIN_OPERATION {
            self.told.insert((op.tid, op.start), reasons);
        }
        self.window.file_op(op);
    }

    fn sweep(&mut self) {
        self.window.forget(self.newest, &self.config);
        self.swept = self.newest;
        let window = &self.window;
        self.told.retain(|&(_, start), _| window.reaches_back_to(start));
    }

    fn decide(&mut self, until: Nanos) {
        while let Some(what) = self.pending.pop_due(until) {
            match what {
                PendingRow::Wait(wait) => self.ready.extend(self.seen(&self.window.as_known(&wait))),
                PendingRow::Request(request) => self.ready.extend(self.inferred(&request)),
            }
        }
    }

    fn seen(&self, wait: &LockWait) -> Option<LockRow> {
        if wait.source == LockSource::ThreadDump {
            let row = self.row(&LockContention::seen(wait, LockName::of(wait)?), wait.pid);
            return Some(LockRow { holder: wait.holder.clone(), ..row });
        }
        Some(self.row(&LockContention::of(&self.window, wait, wait.start)?, wait.pid))
    }

    /// The waits of a request's thread that nobody saw.
    fn inferred(&self, request: &Request) -> Vec<LockRow> {
        let Some(served_from) = served_from(request) else { return Vec::new() };
        let mut rows = Vec::new();
        let mut from = served_from;
        for append in joins::joins(&self.window, request, &mut JoinStats::default()) {
            let waits = locks::waits_before(&self.window, &append.op, from);
            let unseen = waits.iter().filter(|blocked| blocked.seen.is_none());
            rows.extend(unseen.map(|blocked| self.row(blocked, append.op.pid)));
            from = from.max(append.op.end);
        }
        rows
    }

    fn row(&self, blocked: &LockContention<'_>, pid: Pid) -> LockRow {
        let TimeSpan { start, end } = blocked.span;
        let (seen, holder) = (blocked.seen, blocked.holders.first());
        LockRow {
            start,
            end,
            pid,
            tid: blocked.tid,
            thread: Arc::clone(&blocked.thread),
            name: blocked.name,
            taken_in: seen.and_then(|wait| taken_in(&wait.stack)),
            lock: seen.map(|wait| wait.lock.clone()),
            holder: holder.map(|holder| LockHolder { tid: holder.tid, thread: Arc::clone(&holder.thread) }),
            previous_owner: seen.and_then(|wait| wait.holder.clone()),
            doing: holder.map_or(HolderActivity::Unknown, |holder| self.doing(holder, pid)),
            ahead: blocked.ahead(),
            partition: blocked.partition.clone(),
            stack: seen.map(|wait| Arc::clone(&wait.stack)).unwrap_or_default(),
            seen_by: seen.map(|wait| wait.source),
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
            (_, _, Some((time, stop))) if is_most(time) => HolderActivity::Stopped(stop.described()),
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
        let reasons = self.told.get(&(op.tid, op.start)).cloned().unwrap_or_default();
        HolderActivity::Op(Arc::clone(op), reasons)
    }

    fn waiting(&self, wait: &LockWait, from: Nanos) -> HolderActivity {
        LockContention::of(&self.window, wait, from)
            .map_or(HolderActivity::Unknown, |blocked| HolderActivity::Waiting(blocked.described()))
    }
}
