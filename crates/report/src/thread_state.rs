//! Observable states of a broker's thread: running, waiting for a CPU or a lock, in a file operation, blocked by the disk,
//! or stopped by the JVM. Finds the states of an event, and separates nested states. Does not add up over time.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Event, Nanos, OffCpu, Pid, Tid};

/// Limit on the stacks whose states are remembered.
const MAX_STACKS: usize = 20_000;

model::named! {
    /// A state. Each instant of a thread has one state, the more specific one if two were seen.
    pub enum ThreadState {
        /// On a CPU.
        Running = "running",
        /// Runnable, but without a CPU.
        Runnable = "waiting for a CPU",
        /// In a system call on a file.
        FileOp = "in a file operation",
        /// Off-CPU because of the disk or the kernel.
        Blocked = "blocked by disk or kernel",
        /// Waiting for a Java lock.
        Lock = "waiting for a lock",
        /// Stopped by the JVM.
        Stopped = "stopped by the JVM",
        /// Off-CPU until there is work.
        Idle = "waiting for work",
    }
}

/// Kernel functions in which threads sleep until there is work.
/// Futexes (Java's monitors, parked threads), polled sockets, sleeps and pipes (`kernel/futex/waitwake.c`,
/// `fs/eventpoll.c`, `fs/select.c`, `kernel/time/hrtimer.c`, `net/ipv4`, `fs/pipe.c`).
const IDLE_FUNCTIONS: [&str; 9] = [
    "futex_",
    "ep_poll",
    "do_epoll_wait",
    "do_sys_poll",
    "do_select",
    "hrtimer_nanosleep",
    "inet_csk_accept",
    "sk_wait_data",
    "pipe_read",
];
/// The JVM's own threads, which JVM pauses do not stop.
/// Starts of the names of the collectors, the VM and the compilers in HotSpot (`gcThread`, `vmThread.cpp`,
/// `compilerThread.cpp`), which the kernel may truncate.
const NEVER_STOPPED: [&str; 9] =
    ["GC Thread", "G1 ", "VM ", "C1 Comp", "C2 Comp", "ZDriver", "ZWorker", "ZDirector", "Shenandoah"];

/// Whether JVM pauses stop a thread of this name.
pub fn is_paused_with_jvm(thread: &str) -> bool {
    !NEVER_STOPPED.iter().any(|one| thread.starts_with(one))
}

/// A span of a thread's time in one state.
#[derive(Clone, Copy, Debug)]
pub struct StateSpan<'a> {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// Its name, as far as known.
    pub thread: &'a Arc<str>,
    /// The state.
    pub state: ThreadState,
    /// Its start.
    pub start: Nanos,
    /// Its end, after its start.
    pub end: Nanos,
}

/// Derives states from events.
#[derive(Clone, Debug, Default)]
pub struct ThreadStates {
    idle_stacks: HashMap<Arc<str>, bool>,
}

impl ThreadStates {
    /// Passes the spans of an event to `emit`. JVM pauses concern all threads and are not passed.
    pub fn of<'e>(&mut self, event: &'e Event, emit: &mut dyn FnMut(StateSpan<'e>)) {
        let (pid, tid, thread) = match event {
            Event::CpuSample(it) => (it.pid, it.tid, &it.thread),
            Event::FileOp(it) => (it.pid, it.tid, &it.thread),
            Event::LockWait(it) => (it.pid, it.tid, &it.thread),
            Event::OffCpu(it) => (it.pid, it.tid, &it.thread),
            _ => return,
        };
        let mut emit_span = |state, start, end| {
            if end > start {
                emit(StateSpan { pid, tid, thread, state, start, end });
            }
        };
        match event {
            Event::CpuSample(it) => emit_span(ThreadState::Running, it.at, it.at + it.period),
            Event::FileOp(op) => emit_span(ThreadState::FileOp, op.start, op.end),
            Event::LockWait(wait) => emit_span(ThreadState::Lock, wait.start, wait.end),
            Event::OffCpu(interval) => {
                let woken = wake_time(interval);
                emit_span(self.off_cpu(&interval.stack), interval.start, woken);
                emit_span(ThreadState::Runnable, woken, interval.end);
            }
            _ => {}
        }
    }

    fn off_cpu(&mut self, stack: &Arc<str>) -> ThreadState {
        if self.is_idle(stack) { ThreadState::Idle } else { ThreadState::Blocked }
    }

    fn is_idle(&mut self, stack: &Arc<str>) -> bool {
        if let Some(&idle) = self.idle_stacks.get(stack) {
            return idle;
        }
        let idle = stack.split(';').any(|frame| IDLE_FUNCTIONS.iter().any(|one| frame.contains(one)));
        if self.idle_stacks.len() < MAX_STACKS {
            self.idle_stacks.insert(Arc::clone(stack), idle);
        }
        idle
    }
}

/// Time from which the thread could have run.
fn wake_time(interval: &OffCpu) -> Nanos {
    let OffCpu { start, end, .. } = *interval;
    if interval.preempted { start } else { interval.woken.unwrap_or(end).max(start).min(end) }
}

/// Time that a thread spent in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateTimes([i64; ThreadState::ALL.len()]);

impl StateTimes {
    /// Adds nanoseconds to a state.
    #[expect(clippy::indexing_slicing, reason = "there is a time for every state")]
    pub fn add(&mut self, state: ThreadState, ns: i64) {
        let sum = &mut self.0[state as usize];
        *sum = sum.saturating_add(ns);
    }

    /// Adds the times of another one.
    pub fn add_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }

    /// Nanoseconds in one state.
    #[expect(clippy::indexing_slicing, reason = "there is a time for every state")]
    pub fn of(&self, state: ThreadState) -> i64 {
        self.0[state as usize]
    }

    /// Every state with its nanoseconds, in order.
    pub fn iter(&self) -> impl Iterator<Item = (ThreadState, i64)> + '_ {
        ThreadState::ALL.into_iter().map(|state| (state, self.of(state)))
    }

    /// The exclusive times in an interval of `width` nanoseconds, each instant once.
    /// Of two nested states the inner one counts, such as a block within a file operation, but a wait for a lock or a
    /// JVM pause counts instead of the sleep within it. CPU samples stand for whole periods: they fill the rest.
    #[must_use]
    pub fn exclusive(&self, width: i64) -> Self {
        let [running, runnable, file_op, blocked, lock, stopped, idle] = self.0;
        let stopped = stopped.min(width);
        let file_op = (file_op - blocked - runnable).max(0);
        let idle = (idle - lock - stopped).max(0);
        let waiting = runnable + file_op + blocked + lock + stopped + idle;
        let running = running.min((width - waiting).max(0));
        Self([running, runnable, file_op, blocked, lock, stopped, idle])
    }

    /// Time in all states except waiting for work and JVM pauses. All threads share JVM pauses.
    pub fn busy(&self) -> i64 {
        let [running, runnable, file_op, blocked, lock, ..] = self.0;
        running + runnable + file_op + blocked + lock
    }
}
