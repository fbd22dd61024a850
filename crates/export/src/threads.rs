//! What the broker's threads do, by role: how many processors they use, how busy they are. Names no thread.
//!
//! The kernel counts a thread's time on a processor and in the queue for one. Held up in a call on a file, and waiting for a lock,
//! a thread is busy too, as far as its request is concerned: intervals off the CPU are told within such calls, never while a
//! thread waits for work.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;
use model::{HostSample, LockSource, LockWait, Nanos, OffCpu, Tid};

use crate::catalog;
use crate::encoding::Encoder;
use crate::histogram::seconds;
use crate::label::ByLabel;

/// A broker has some twenty.
const MOST_ROLES: usize = 64;
/// Roles of so many threads are kept.
const MOST_THREADS: usize = 8_192;

/// Functions in which a thread waits for work, or for a lock that the JVM tells of: no call on a file has them.
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
    threads: Option<f64>,
    busy: Option<f64>,
    /// Since the last sample, in thread-seconds: in calls, and for locks by who told of them.
    held_up: Nanos,
    locked: [Nanos; LockSource::ALL.len()],
}

impl Threads {
    /// `role_of` says what a thread of that name is for.
    pub(crate) fn of(role_of: fn(&str) -> &'static str) -> Self {
        Self { roles: ByLabel::of_at_most(MOST_ROLES), role_of, known: HashMap::default() }
    }

    /// What a thread is for.
    pub(crate) fn role(&mut self, tid: Tid, name: &Arc<str>) -> &'static str {
        if let Some((known, role)) = self.known.get(&tid) {
            if known == name {
                return role;
            }
        }
        if self.known.len() >= MOST_THREADS {
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
        self.roles.at(role).held_up += (until - interval.start).at_least_zero();
    }

    /// A thread of that role waited for a lock.
    pub(crate) fn lock_wait(&mut self, wait: &LockWait, role: &'static str) {
        if wait.source == LockSource::ThreadDump {
            return;
        }
        if let Some(locked) = self.roles.at(role).locked.get_mut(wait.source as usize) {
            *locked += wait.length().at_least_zero();
        }
    }

    /// A figure of a role. The number of its threads comes last of all figures of one reading.
    pub(crate) fn sample(&mut self, sample: &HostSample) {
        let role = self.roles.at(&sample.name);
        match &*sample.metric {
            "cpu_ratio" => role.cpu = Some(sample.value),
            "run_queue_ratio" => role.run_queue = Some(sample.value),
            "thread_count" => {
                role.threads = Some(sample.value);
                role.end_reading(seconds(sample.end - sample.start));
            }
            _ => {}
        }
    }

    /// The broker's process is gone: so are its threads.
    pub(crate) fn gone(&mut self) {
        self.known.clear();
        self.roles.values_mut().for_each(|role| *role = Role::default());
    }

    pub(crate) fn encode(&self, out: &mut dyn Encoder) {
        let mut each = |family, figure: fn(&Role) -> Option<f64>| {
            let known = self.roles.iter().filter_map(|(name, role)| Some((name, figure(role)?)));
            out.each(family, known);
        };
        each(&catalog::BUSY, |role| role.busy);
        each(&catalog::CPU, |role| role.cpu);
        each(&catalog::RUN_QUEUE, |role| role.run_queue);
        each(&catalog::THREADS, |role| role.threads);
    }
}

impl Role {
    fn end_reading(&mut self, elapsed_s: f64) {
        // One wait may be told of by both.
        let locked = std::mem::take(&mut self.locked).into_iter().max().unwrap_or_default();
        let held_up = seconds(std::mem::take(&mut self.held_up) + locked);
        let (Some(cpu), Some(run_queue), Some(threads)) = (self.cpu, self.run_queue, self.threads) else {
            return;
        };
        if elapsed_s > 0.0 && threads > 0.0 {
            self.busy = Some(((cpu + run_queue + held_up / elapsed_s) / threads).clamp(0.0, 1.0));
        }
    }
}
