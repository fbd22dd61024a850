//! Usage of the broker's threads by role: how many CPUs they use, how busy they are. Names no thread.
//!
//! The kernel counts a thread's time on a CPU and in the run queue. While blocked in a file operation or by a lock, a
//! thread is busy too, as far as its request is concerned: off-CPU intervals are recorded within such calls, never
//! while a thread waits for work.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;
use model::{HostSample, LockSource, LockWait, Nanos, OffCpu, Tid};

use crate::catalog::Metric;
use crate::histogram::seconds;
use crate::label::ByLabel;
use crate::registry::Registry;

/// Maximum number of roles; a broker has some twenty.
const MAX_ROLES: usize = 64;
/// Maximum number of threads whose role is cached.
const MAX_THREADS: usize = 8_192;

/// Functions in which a thread waits for work, or for a lock that the JVM reports; never in a file operation.
const IDLE: [&str; 2] = ["futex_wait", "ep_poll"];

/// Threads by role.
#[derive(Debug)]
pub(crate) struct Threads {
    roles: ByLabel<Role>,
    role_of: fn(&str) -> &'static str,
    /// Role of each thread, with the name that it was found for: names rarely change.
    known: HashMap<Tid, (Arc<str>, &'static str), RandomState>,
}

#[derive(Debug, Default)]
struct Role {
    cpu: Option<f64>,
    run_queue: Option<f64>,
    /// Thread time since the last sample: blocked in calls, and waiting for locks by source.
    blocked: Nanos,
    lock_time: [Nanos; LockSource::ALL.len()],
}

impl Threads {
    /// `role_of` returns the role of a thread with a given name.
    pub(crate) fn of(role_of: fn(&str) -> &'static str) -> Self {
        Self { roles: ByLabel::of_at_most(MAX_ROLES), role_of, known: HashMap::default() }
    }

    /// The role of a thread.
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

    /// Adds an off-CPU interval: until the thread could run again it was blocked; from then on it waited for a CPU,
    /// which the kernel counts.
    pub(crate) fn off_cpu(&mut self, interval: &OffCpu) {
        if interval.preempted || IDLE.iter().any(|function| interval.stack.contains(function)) {
            return;
        }
        let role = self.role(interval.tid, &interval.thread);
        let until = interval.woken.unwrap_or(interval.end);
        self.roles.entry(role).1.blocked += (until - interval.start).at_least_zero();
    }

    /// Adds a wait for a lock. Returns the thread's role.
    pub(crate) fn lock_wait(&mut self, wait: &LockWait) -> &'static str {
        let role = self.role(wait.tid, &wait.thread);
        if let Some(lock_time) = self.roles.entry(role).1.lock_time.get_mut(wait.source as usize) {
            *lock_time += wait.length().at_least_zero();
        }
        role
    }

    /// Adds a figure of a role. The number of its threads is the last figure of a reading.
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

    /// Clears everything after the broker's process has ended.
    pub(crate) fn clear(&mut self, registry: &mut Registry) {
        self.known.clear();
        self.roles.reset();
        for metric in [Metric::Busy, Metric::Cpu, Metric::RunQueue, Metric::Threads] {
            registry.clear(metric);
        }
    }
}

impl Role {
    /// The share of their time for which the threads were busy, if all of it is known.
    fn end_reading(&mut self, threads: f64, elapsed_s: f64) -> Option<f64> {
        // Both sources may report one wait.
        let lock_time = std::mem::take(&mut self.lock_time).into_iter().max().unwrap_or_default();
        let blocked = seconds(std::mem::take(&mut self.blocked) + lock_time);
        let (cpu, run_queue) = (self.cpu?, self.run_queue?);
        (elapsed_s > 0.0 && threads > 0.0)
            .then(|| ((cpu + run_queue + blocked / elapsed_s) / threads).clamp(0.0, 1.0))
    }
}
