//! What the broker's threads do, by role: how many processors they use, how busy they are. Names no thread.
//!
//! The kernel counts a thread's time on a processor and in the queue for one. Held up in a call on a file, and waiting for a lock,
//! a thread is busy too, as far as its request is concerned: intervals off the CPU are recorded within such calls, never while a
//! thread waits for work.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;
use model::{HostSample, LockSource, LockWait, Nanos, OffCpu, Tid};

use crate::catalog::Metric;
use crate::histogram::seconds;
use crate::label::ByLabel;
use crate::registry::Registry;

/// A broker has some twenty.
const MAX_ROLES: usize = 64;
/// Roles of so many threads are kept.
const MAX_THREADS: usize = 8_192;

/// Functions in which a thread waits for work, or for a lock that the JVM reports: no call on a file has them.
const IDLE: [&str; 2] = ["futex_wait", "ep_poll"];

/// Threads by role.
#[derive(Debug)]
pub(crate) struct Threads {
    roles: ByLabel<Role>,
    role_of: fn(&str) -> &'static str,
    /// What was found for a name, by thread: names change seldom.
    known: HashMap<Tid, (Arc<str>, &'static str), RandomState>,
}

#[derive(Debug, Default)]
struct Role {
    cpu: Option<f64>,
    run_queue: Option<f64>,
    /// Since the last sample, in thread-seconds: in calls, and for locks by source.
    held_up: Nanos,
    locked: [Nanos; LockSource::ALL.len()],
}

impl Threads {
    /// `role_of` says what a thread of that name is for.
    pub(crate) fn of(role_of: fn(&str) -> &'static str) -> Self {
        Self { roles: ByLabel::of_at_most(MAX_ROLES), role_of, known: HashMap::default() }
    }

    /// What a thread is for.
    fn role(&mut self, tid: Tid, name: &Arc<str>) -> &'static str {
        if let Some((known, role)) = self.known.get(&tid) {
            if known == name {
                return role;
            }
        }
        if self.known.len() >= MAX_THREADS {
            self.known.clear();
        }
        let role = (self.role_of)(name);
        self.known.insert(tid, (Arc::clone(name), role));
        role
    }

    /// A thread was off the CPU: until it could run again it was held up; from then on it waited for a processor, which the
    /// kernel counts.
    pub(crate) fn off_cpu(&mut self, interval: &OffCpu) {
        if interval.preempted || IDLE.iter().any(|function| interval.stack.contains(function)) {
            return;
        }
        let role = self.role(interval.tid, &interval.thread);
        let until = interval.woken.unwrap_or(interval.end);
        self.roles.entry(role).1.held_up += (until - interval.start).at_least_zero();
    }

    /// A thread waited for a lock. Returns its role.
    pub(crate) fn lock_wait(&mut self, wait: &LockWait) -> &'static str {
        let role = self.role(wait.tid, &wait.thread);
        if let Some(locked) = self.roles.entry(role).1.locked.get_mut(wait.source as usize) {
            *locked += wait.length().at_least_zero();
        }
        role
    }

    /// A figure of a role. The number of its threads comes last of all figures of one reading.
    pub(crate) fn sample(&mut self, registry: &mut Registry, sample: &HostSample) {
        let (label, role) = self.roles.entry(&sample.name);
        match &*sample.metric {
            "cpu_ratio" => {
                role.cpu = Some(sample.value);
                registry.set(Metric::Cpu, &[&label], sample.value);
            }
            "run_queue_ratio" => {
                role.run_queue = Some(sample.value);
                registry.set(Metric::RunQueue, &[&label], sample.value);
            }
            "thread_count" => {
                registry.set(Metric::Threads, &[&label], sample.value);
                if let Some(busy) = role.end_reading(sample.value, seconds(sample.end - sample.start)) {
                    registry.set(Metric::Busy, &[&label], busy);
                }
            }
            _ => {}
        }
    }

    /// The broker's process is gone: so are its threads.
    pub(crate) fn gone(&mut self, registry: &mut Registry) {
        self.known.clear();
        self.roles.reset();
        for metric in [Metric::Busy, Metric::Cpu, Metric::RunQueue, Metric::Threads] {
            registry.clear(metric);
        }
    }
}

impl Role {
    /// The share of their time for which so many threads were busy, if all of it is known.
    fn end_reading(&mut self, threads: f64, elapsed_s: f64) -> Option<f64> {
        // Both sources may report one wait.
        let locked = std::mem::take(&mut self.locked).into_iter().max().unwrap_or_default();
        let held_up = seconds(std::mem::take(&mut self.held_up) + locked);
        let (cpu, run_queue) = (self.cpu?, self.run_queue?);
        (elapsed_s > 0.0 && threads > 0.0)
            .then(|| ((cpu + run_queue + held_up / elapsed_s) / threads).clamp(0.0, 1.0))
    }
}
