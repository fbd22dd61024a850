//! What a thread of a broker can be seen to do: it ran, waited for a CPU or a lock, was in a file operation or blocked by
//! the disk, or the JVM had stopped it. Finds the states of an event, and separates states that lie within
//! each other. Does not add up over time.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Event, Nanos, OffCpu, Pid, Tid};

/// Stacks whose states are remembered.
const MAX_STACKS: usize = 20_000;

model::named! {
    /// A state. Each instant of a thread is in one of them, the more telling one where two were seen.
    pub enum ThreadState {
        /// On a CPU.
        Running = "running",
        /// It could run and had no CPU.
        Runnable = "waiting for a CPU",
        /// In a system call on a file.
        FileOp = "in a file operation",
        /// Off the CPU for what the disk or the kernel does.
        Blocked = "blocked by disk or kernel",
        /// Waiting for a Java lock.
        Lock = "waiting for a lock",
        /// Stopped by the JVM.
        Stopped = "stopped by the JVM",
        /// Off the CPU until somebody has something for it.
        Idle = "waiting for work",
    }
}

/// Where threads sleep until somebody has something for them: futexes (Java's monitors, parked threads), polled sockets,
/// sleeps and pipes. Functions of the kernel (`kernel/futex/waitwake.c`, `fs/eventpoll.c`, `fs/select.c`,
/// `kernel/time/hrtimer.c`, `net/ipv4`, `fs/pipe.c`).
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
/// The JVM's own threads, which its stops do not stop: the collectors', the VM's and the compilers' names in HotSpot
/// (`gcThread`, `vmThread.cpp`, `compilerThread.cpp`), whole or cut by the kernel.
const NEVER_STOPPED: [&str; 9] =
    ["GC Thread", "G1 ", "VM ", "C1 Comp", "C2 Comp", "ZDriver", "ZWorker", "ZDirector", "Shenandoah"];

/// Whether the JVM's stops stop a thread of that name.
pub fn is_paused_with_jvm(thread: &str) -> bool {
    !NEVER_STOPPED.iter().any(|one| thread.starts_with(one))
}

/// A stretch of a thread's time in one state.
#[derive(Clone, Copy, Debug)]
pub struct StateSpan<'a> {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// Its name as far as it is known.
    pub thread: &'a Arc<str>,
    /// The state.
    pub state: ThreadState,
    /// Its start.
    pub start: Nanos,
    /// Its end, after its start.
    pub end: Nanos,
}

/// Tells states from events.
#[derive(Clone, Debug, Default)]
pub struct ThreadStates {
    idle_stacks: HashMap<Arc<str>, bool>,
}

impl ThreadStates {
    /// Tells the stretches that an event is about. Stops of the JVM are of all threads and not told here.
    pub fn of<'e>(&mut self, event: &'e Event, tell: &mut dyn FnMut(StateSpan<'e>)) {
        let (pid, tid, thread) = match event {
            Event::CpuSample(it) => (it.pid, it.tid, &it.thread),
            Event::FileOp(it) => (it.pid, it.tid, &it.thread),
            Event::LockWait(it) => (it.pid, it.tid, &it.thread),
            Event::OffCpu(it) => (it.pid, it.tid, &it.thread),
            _ => return,
        };
        let mut stretch = |state, start, end| {
            if end > start {
                tell(StateSpan { pid, tid, thread, state, start, end });
            }
        };
        match event {
            Event::CpuSample(it) => stretch(ThreadState::Running, it.at, it.at + it.period),
            Event::FileOp(op) => stretch(ThreadState::FileOp, op.start, op.end),
            Event::LockWait(wait) => stretch(ThreadState::Lock, wait.start, wait.end),
            Event::OffCpu(interval) => {
                let woken = woken(interval);
                stretch(self.off_cpu(&interval.stack), interval.start, woken);
                stretch(ThreadState::Runnable, woken, interval.end);
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

/// From when on it could have run.
fn woken(interval: &OffCpu) -> Nanos {
    let OffCpu { start, end, .. } = *interval;
    if interval.preempted { start } else { interval.woken.unwrap_or(end).max(start).min(end) }
}

/// How long a thread was in each state, of some stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateTimes([i64; ThreadState::ALL.len()]);

impl StateTimes {
    /// Adds nanoseconds to a state.
    #[expect(clippy::indexing_slicing, reason = "there is a time for every state")]
    pub fn add(&mut self, state: ThreadState, ns: i64) {
        let sum = &mut self.0[state as usize];
        *sum = sum.saturating_add(ns);
    }

    /// Adds all of another's.
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

    /// The same of a stretch of so many nanoseconds, each instant once: what lies within something else counts as itself only,
    /// a block within a file operation, a sleep within a wait for a lock or within a stop. Samples stand for whole
    /// periods: they fill what is left.
    #[must_use]
    pub fn parted(&self, width: i64) -> Self {
        let [running, runnable, file_op, blocked, lock, stopped, idle] = self.0;
        let stopped = stopped.min(width);
        let file_op = (file_op - blocked - runnable).max(0);
        let idle = (idle - lock - stopped).max(0);
        let waiting = runnable + file_op + blocked + lock + stopped + idle;
        let running = running.min((width - waiting).max(0));
        Self([running, runnable, file_op, blocked, lock, stopped, idle])
    }

    /// All but waiting for work, and stops, which all threads share.
    pub fn busy(&self) -> i64 {
        let [running, runnable, file_op, blocked, lock, ..] = self.0;
        running + runnable + file_op + blocked + lock
    }
}
