//! A thread of a dump and what it waits for. Does not know how dumps are written.

use std::sync::Arc;

use model::{Lock, LockHolder, LockKind, Tid};

/// One thread at the dump's moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// Its full name.
    pub name: Arc<str>,
    /// `java.lang.Thread.getId`; `None` for the JVM's own threads and where the dump does not say.
    pub java_id: Option<u64>,
    /// The operating system's id, as the process sees it; `None` where the dump does not say.
    pub native_id: Option<Tid>,
    /// What it does.
    pub state: ThreadState,
    /// Its methods, innermost first: `kafka.log.UnifiedLog.append`, without file and line.
    pub frames: Vec<Arc<str>>,
    /// What it waits for.
    pub wait: Option<Wait>,
    /// The locks it has, innermost first; those of `java.util.concurrent` only where the dump lists them
    /// (`jstack -l`).
    pub holds: Vec<Lock>,
}

impl Thread {
    pub(super) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            java_id: None,
            native_id: None,
            state: ThreadState::Unknown,
            frames: Vec::new(),
            wait: None,
            holds: Vec::new(),
        }
    }

    /// The method that wants the lock: the innermost that is not the JDK's way to wait for one. `None` without a
    /// stack.
    pub fn method(&self) -> Option<&Arc<str>> {
        self.frames.iter().find(|frame| !is_waiting_itself(frame)).or(self.frames.first())
    }

    /// The stack as [`model::LockWait::stack`] has it: outermost method first, joined by `;`.
    pub fn stack(&self) -> Arc<str> {
        let frames: Vec<&str> = self.frames.iter().rev().map(AsRef::as_ref).collect();
        frames.join(";").into()
    }

    /// It as the holder of a lock.
    pub(super) fn as_holder(&self) -> LockHolder {
        LockHolder { tid: self.native_id, thread: Arc::clone(&self.name) }
    }
}

/// The JDK's own methods between who wants a lock and the wait.
fn is_waiting_itself(method: &str) -> bool {
    ["java.util.concurrent.locks.", "jdk.internal.misc.Unsafe.", "sun.misc.Unsafe.", "java.lang.Object.wait"]
        .iter()
        .any(|own| method.starts_with(own))
}

/// What a thread does, as `java.lang.Thread.State` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ThreadState {
    /// Not started.
    New,
    /// Runs, may run, or is in a system call.
    Runnable,
    /// Waits for a monitor.
    Blocked,
    /// Waits for another thread.
    Waiting,
    /// The same, for a limited time.
    TimedWaiting,
    /// Has ended.
    Terminated,
    /// The dump does not say.
    Unknown,
}

/// What a thread waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    /// In which way.
    pub how: WaitKind,
    /// The lock or object, its class with dots (`java.lang.Object`).
    pub lock: Lock,
    /// Who has it, where the dump says.
    pub owner: Option<LockHolder>,
}

impl Wait {
    pub(super) fn new(how: WaitKind, class: Arc<str>, address: u64) -> Self {
        let kind = if how == WaitKind::Park { LockKind::Park } else { LockKind::Monitor };
        Self { how, lock: Lock { kind, class, address }, owner: None }
    }

    /// Whether another thread's lock is what it waits for, and not work, a notification or the time.
    pub fn is_blocked(&self) -> bool {
        match self.how {
            WaitKind::Enter | WaitKind::Reenter => true,
            WaitKind::Park => self.owner.is_some() || is_lock(&self.lock.class),
            WaitKind::Notify => false,
        }
    }
}

/// A synchronizer that is a lock: threads park on latches, conditions and queues too.
fn is_lock(class: &str) -> bool {
    class.strip_prefix("java.util.concurrent.locks.").is_some_and(|name| {
        ["ReentrantLock", "ReentrantReadWriteLock", "StampedLock"]
            .iter()
            .any(|lock| name.strip_prefix(lock).is_some_and(|rest| rest.is_empty() || rest.starts_with('$')))
    })
}

/// In which way a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitKind {
    /// To enter a monitor (`synchronized`).
    Enter,
    /// To enter a monitor again that it left by `Object.wait()`.
    Reenter,
    /// Parked on a synchronizer of `java.util.concurrent`, a lock or not.
    Park,
    /// In `Object.wait()`: to be notified.
    Notify,
}
