//! What happened to each thread lately, bounded in number: what is forgotten is known to be.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use model::{DirtyThrottle, FileOp, FileOpKind, Nanos, OffCpu, Reclaim, Tid, Waker};

use crate::kernel_stack;
use crate::kernel_stack::Wait;

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
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
    woken: Option<Nanos>,
    preempted: bool,
    pub(crate) wait: Wait,
    /// Empty where no stack was taken.
    pub(crate) function: Arc<str>,
    pub(crate) waker: Option<Waker>,
}

impl Interval {
    /// When the thread could run again: at once, where it was only preempted.
    pub(crate) fn waited_until(&self) -> Nanos {
        if self.preempted {
            self.start
        } else {
            self.woken.unwrap_or(self.end).clamp(self.start, self.end.max(self.start))
        }
    }
}

/// What happened to one thread.
#[derive(Debug)]
pub(crate) struct ThreadPast {
    intervals: VecDeque<Interval>,
    reclaims: VecDeque<(Nanos, Nanos)>,
    throttles: VecDeque<(Nanos, Nanos)>,
    /// Nothing that ended before is known any more.
    seen_from: Nanos,
    newest: Nanos,
}

impl Default for ThreadPast {
    fn default() -> Self {
        Self {
            intervals: VecDeque::new(),
            reclaims: VecDeque::new(),
            throttles: VecDeque::new(),
            seen_from: Nanos::MIN,
            newest: Nanos::MIN,
        }
    }
}

impl ThreadPast {
    pub(crate) fn seen_from(&self) -> Nanos {
        self.seen_from
    }

    pub(crate) fn intervals(&self, start: Nanos, end: Nanos) -> impl Iterator<Item = &Interval> {
        self.intervals.iter().filter(move |interval| interval.start < end && interval.end > start)
    }

    pub(crate) fn reclaims(&self, start: Nanos, end: Nanos) -> impl Iterator<Item = (Nanos, Nanos)> {
        overlapping(&self.reclaims, start, end)
    }

    pub(crate) fn throttles(&self, start: Nanos, end: Nanos) -> impl Iterator<Item = (Nanos, Nanos)> {
        overlapping(&self.throttles, start, end)
    }

    fn forget_until(&mut self, end: Nanos) {
        self.intervals.retain(|interval| interval.end > end);
        self.reclaims.retain(|&(_, ended)| ended > end);
        self.throttles.retain(|&(_, ended)| ended > end);
    }

    fn is_empty(&self) -> bool {
        self.intervals.is_empty() && self.reclaims.is_empty() && self.throttles.is_empty()
    }
}

fn overlapping(
    spans: &VecDeque<(Nanos, Nanos)>,
    start: Nanos,
    end: Nanos,
) -> impl Iterator<Item = (Nanos, Nanos)> {
    spans.iter().copied().filter(move |&(from, to)| from < end && to > start)
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
        if past.intervals.len() >= MAX_KEPT {
            let forgotten = past.intervals.pop_front();
            past.seen_from = forgotten.map_or(past.seen_from, |interval| past.seen_from.max(interval.end));
        }
        past.intervals.push_back(Interval {
            start: interval.start,
            end: interval.end,
            woken: interval.woken,
            preempted: interval.preempted,
            wait,
            function,
            waker: interval.waker.clone(),
        });
    }

    pub(crate) fn reclaim(&mut self, reclaim: &Reclaim) {
        let past = self.past(reclaim.tid, reclaim.end);
        keep(&mut past.reclaims, (reclaim.start, reclaim.end), &mut past.seen_from);
    }

    pub(crate) fn throttle(&mut self, pause: &DirtyThrottle) {
        let past = self.past(pause.tid, pause.start);
        keep(&mut past.throttles, (pause.start, pause.end), &mut past.seen_from);
    }

    /// Forgets what an operation was the last to ask for. A fault on a mapped page may come within another
    /// operation, which is still to be told.
    pub(crate) fn told(&mut self, op: &FileOp) {
        if op.op == FileOpKind::MmapFault {
            return;
        }
        if let Some(past) = self.threads.get_mut(&op.tid) {
            past.forget_until(op.end);
            if past.is_empty() {
                self.threads.remove(&op.tid);
            }
        }
    }

    fn past(&mut self, tid: Tid, now: Nanos) -> &mut ThreadPast {
        if self.threads.len() >= MAX_THREADS {
            self.threads.retain(|_, past| past.newest > now - LONG_GONE);
        }
        let past = self.threads.entry(tid).or_default();
        past.newest = past.newest.max(now);
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

fn keep(spans: &mut VecDeque<(Nanos, Nanos)>, span: (Nanos, Nanos), seen_from: &mut Nanos) {
    if spans.len() >= MAX_KEPT {
        *seen_from = spans.pop_front().map_or(*seen_from, |(_, end)| end.max(*seen_from));
    }
    spans.push_back(span);
}
