//! The recent past of each thread, bounded in number; it is known from when on the past is complete.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use model::{DirtyThrottle, FileOp, FileOpKind, Nanos, OffCpu, Reclaim, Tid};

use crate::kernel_stack;
use crate::kernel_stack::Wait;
use crate::time::{Span, TimeSpan};
use crate::waits::runnable;

/// Events of each kind kept for one thread: those of one operation, since an operation ends before the next begins.
const MAX_KEPT: usize = 1_024;
/// Stacks whose meaning is cached. A broker has a few hundred.
const MAX_STACKS: usize = 4_096;
/// At this number of threads, threads that have been silent for long are dropped.
const MAX_THREADS: usize = 4_096;
/// A thread without events for this long is dropped.
const LONG_GONE: Nanos = Nanos::from_millis(60_000);

/// An interval off the CPU with the meaning of its stack.
#[derive(Clone, Debug)]
pub(crate) struct Interval {
    pub(crate) off_cpu: OffCpu,
    pub(crate) wait: Wait,
    /// Empty without a stack.
    pub(crate) function: Arc<str>,
}

impl Interval {
    /// The time until the thread could run again; empty if it was only preempted.
    pub(crate) fn wait_span(&self) -> TimeSpan {
        self.off_cpu.span().until(runnable(&self.off_cpu).start)
    }
}

impl Span for Interval {
    fn span(&self) -> TimeSpan {
        self.off_cpu.span()
    }
}

/// Events that share time with a stretch.
pub(crate) fn overlapping<T: Span>(latest: &VecDeque<T>, span: TimeSpan) -> impl Iterator<Item = &T> {
    latest.iter().filter(move |event| event.span().start < span.end && event.span().end > span.start)
}

/// Adds an event; returns the end of the event that was dropped for it, if any.
fn keep<T: Span>(latest: &mut VecDeque<T>, new: T) -> Option<Nanos> {
    let forgotten = if latest.len() >= MAX_KEPT { latest.pop_front() } else { None };
    latest.push_back(new);
    forgotten.map(|forgotten| forgotten.span().end)
}

/// Drops events that ended by `end`; returns whether any is left.
fn forget_until<T: Span>(latest: &mut VecDeque<T>, end: Nanos) -> bool {
    latest.retain(|event| event.span().end > end);
    !latest.is_empty()
}

/// The latest events of each kind of one thread, in the order of arrival.
#[derive(Debug, Default)]
pub(crate) struct ThreadPast {
    pub(crate) intervals: VecDeque<Interval>,
    pub(crate) reclaims: VecDeque<TimeSpan>,
    pub(crate) throttles: VecDeque<TimeSpan>,
    /// Events that ended before this may be missing; `None` if none is.
    pub(crate) known_from: Option<Nanos>,
    newest: Option<Nanos>,
}

/// The recent past of every thread.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    threads: HashMap<Tid, ThreadPast>,
    /// The meanings of stacks.
    read: HashMap<Arc<str>, (Wait, Arc<str>)>,
}

impl Threads {
    pub(crate) fn of(&self, tid: Tid) -> Option<&ThreadPast> {
        self.threads.get(&tid)
    }

    pub(crate) fn off_cpu(&mut self, interval: &OffCpu) {
        let (wait, function) = self.meaning(&interval.stack);
        let past = self.past(interval.tid, interval.end);
        let interval = Interval { off_cpu: interval.clone(), wait, function };
        past.known_from = past.known_from.max(keep(&mut past.intervals, interval));
    }

    pub(crate) fn reclaim(&mut self, reclaim: &Reclaim) {
        let past = self.past(reclaim.tid, reclaim.end);
        past.known_from = past.known_from.max(keep(&mut past.reclaims, reclaim.span()));
    }

    pub(crate) fn throttle(&mut self, pause: &DirtyThrottle) {
        let past = self.past(pause.tid, pause.start);
        past.known_from = past.known_from.max(keep(&mut past.throttles, pause.span()));
    }

    /// Drops what only this operation needed.
    /// A fault on a mapped page may lie within another operation that is still to come.
    pub(crate) fn forget_op(&mut self, op: &FileOp) {
        let past = self.threads.get_mut(&op.tid).filter(|_| op.op != FileOpKind::MmapFault);
        let is_left = past.map(|past| {
            forget_until(&mut past.intervals, op.end)
                | forget_until(&mut past.reclaims, op.end)
                | forget_until(&mut past.throttles, op.end)
        });
        if is_left == Some(false) {
            self.threads.remove(&op.tid);
        }
    }

    fn past(&mut self, tid: Tid, now: Nanos) -> &mut ThreadPast {
        if self.threads.len() >= MAX_THREADS {
            self.threads.retain(|_, past| past.newest > Some(now - LONG_GONE));
        }
        let past = self.threads.entry(tid).or_default();
        past.newest = past.newest.max(Some(now));
        past
    }

    fn meaning(&mut self, stack: &Arc<str>) -> (Wait, Arc<str>) {
        if let Some(known) = self.read.get(stack) {
            return known.clone();
        }
        if self.read.len() >= MAX_STACKS {
            self.read.clear();
        }
        let (wait, function) = kernel_stack::read(stack);
        let meaning = (wait, Arc::from(function));
        self.read.insert(Arc::clone(stack), meaning.clone());
        meaning
    }
}
