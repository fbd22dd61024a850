//! Splits the time of file operations over what their thread waited for. Reads stacks only: whether a commit
//! or a device stood behind a wait is a verdict's business.

use std::collections::{HashMap, VecDeque};

use model::{FileOp, Nanos, OffCpu, Tid};

use crate::cause::stack;

/// The name of the time in which a thread could have run but had no CPU.
const RUN_QUEUE: &str = "run-queue";
/// Intervals kept of one thread: those of one operation, since an operation ends before the next begins.
const MOST_INTERVALS: usize = 1_024;

/// Collects off-CPU intervals until the operation they belong to is told. Feed it in the order of ends, as
/// recordings and watches deliver.
#[derive(Debug, Default)]
pub struct Reasons {
    threads: HashMap<Tid, VecDeque<OffCpu>>,
}

impl Reasons {
    /// Takes an interval.
    pub fn off_cpu(&mut self, interval: OffCpu) {
        let past = self.threads.entry(interval.tid).or_default();
        if past.len() >= MOST_INTERVALS {
            past.pop_front();
        }
        past.push_back(interval);
    }

    /// What the operation's thread waited for inside it, longest first; what is missing from the
    /// operation's latency was spent on the CPU or not seen. Intervals before its end are forgotten.
    pub fn of(&mut self, op: &FileOp) -> Vec<(&'static str, Nanos)> {
        let Some(past) = self.threads.get_mut(&op.tid) else { return Vec::new() };
        let mut reasons: Vec<(&'static str, Nanos)> = Vec::new();
        for interval in past.iter() {
            let woken = interval.woken.unwrap_or(interval.end);
            let waited = if interval.preempted { interval.start } else { woken };
            add(&mut reasons, stack::classify(interval).name(), shared(op, interval.start, waited));
            add(&mut reasons, RUN_QUEUE, shared(op, waited, interval.end));
        }
        past.retain(|interval| interval.end > op.end);
        if past.is_empty() {
            self.threads.remove(&op.tid);
        }
        reasons.sort_by_key(|&(_, time)| std::cmp::Reverse(time));
        reasons
    }
}

fn shared(op: &FileOp, start: Nanos, end: Nanos) -> Nanos {
    (op.end.min(end) - op.start.max(start)).at_least_zero()
}

fn add(reasons: &mut Vec<(&'static str, Nanos)>, name: &'static str, time: Nanos) {
    if time == Nanos::ZERO {
        return;
    }
    match reasons.iter_mut().find(|(kept, _)| *kept == name) {
        Some((_, total)) => *total += time,
        None => reasons.push((name, time)),
    }
}
