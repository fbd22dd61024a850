//! What happened to each thread lately, bounded in number: what is forgotten is known to be.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use model::{DirtyThrottle, FileOp, FileOpKind, Nanos, OffCpu, Reclaim, Tid};

use crate::kernel_stack;
use crate::kernel_stack::Wait;
use crate::time::{Span, TimeSpan};
use crate::waits::runnable;

/// Kept of one thread of each sort: those of one operation, since an operation ends before the next begins.
const MAX_KEPT: usize = 1_024;
/// Stacks whose meaning is remembered. A broker has a few hundred.
const MAX_STACKS: usize = 4_096;
/// Threads are looked through for those that are long gone when there are so many more.
const MAX_THREADS: usize = 4_096;
/// A thread of which nothing was seen for so long is forgotten.
const LONG_GONE: Nanos = Nanos::from_millis(60_000);

/// An interval off the CPU, read.
#[derive(Clone, Debug)]
pub(crate) struct Interval {
    pub(crate) off_cpu: OffCpu,
    pub(crate) wait: Wait,
    /// Empty where no stack was taken.
    pub(crate) function: Arc<str>,
}

impl Interval {
    /// Until the thread could run again: at once, where it was only preempted.
    pub(crate) fn waited(&self) -> TimeSpan {
        self.off_cpu.span().until(runnable(&self.off_cpu).start)
    }
}

impl Span for Interval {
    fn span(&self) -> TimeSpan {
        self.off_cpu.span()
    }
}

/// What of the latest shares time with a stretch.
pub(crate) fn overlapping<T: Span>(latest: &VecDeque<T>, span: TimeSpan) -> impl Iterator<Item = &T> {
    latest.iter().filter(move |kept| kept.span().start < span.end && kept.span().end > span.start)
}

/// Keeps one more; when one ended that is forgotten for it.
fn keep<T: Span>(latest: &mut VecDeque<T>, new: T) -> Option<Nanos> {
    let forgotten = if latest.len() >= MAX_KEPT { latest.pop_front() } else { None };
    latest.push_back(new);
    forgotten.map(|forgotten| forgotten.span().end)
}

/// Forgets what ended by then; whether any is left.
fn forget_until<T: Span>(latest: &mut VecDeque<T>, end: Nanos) -> bool {
    latest.retain(|kept| kept.span().end > end);
    !latest.is_empty()
}

/// What happened to one thread: the latest of each sort, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct ThreadPast {
    pub(crate) intervals: VecDeque<Interval>,
    pub(crate) reclaims: VecDeque<TimeSpan>,
    pub(crate) throttles: VecDeque<TimeSpan>,
    /// Nothing that ended before is known any more; none where all is.
    pub(crate) seen_from: Option<Nanos>,
    newest: Option<Nanos>,
}

/// What happened to every thread.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    threads: HashMap<Tid, ThreadPast>,
    /// What stacks mean.
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
        past.seen_from = past.seen_from.max(keep(&mut past.intervals, interval));
    }

    pub(crate) fn reclaim(&mut self, reclaim: &Reclaim) {
        let past = self.past(reclaim.tid, reclaim.end);
        past.seen_from = past.seen_from.max(keep(&mut past.reclaims, reclaim.span()));
    }

    pub(crate) fn throttle(&mut self, pause: &DirtyThrottle) {
        let past = self.past(pause.tid, pause.start);
        past.seen_from = past.seen_from.max(keep(&mut past.throttles, pause.span()));
    }

    /// Forgets what an operation was the last to ask for. A fault on a mapped page may come within another
    /// operation, which is still to be told.
    pub(crate) fn told(&mut self, op: &FileOp) {
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
