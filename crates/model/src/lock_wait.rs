//! A thread of the broker's JVM that waited for a lock. Does not say what the holder was doing meanwhile:
//! `diagnose` looks that up by the holder's thread.

use std::sync::Arc;

use crate::{Nanos, Pid, Tid};

row! {
    lock_wait_row =>
    /// One contended wait for a Java lock.
    #[derive(Clone, Debug, PartialEq)]
    pub struct LockWait {
        /// When the thread found the lock taken.
        start: Nanos as "start_ns",
        /// When it had the lock, or when its dump was taken.
        end: Nanos as "end_ns" => length: Nanos as "latency_ns" "From start to end.",
        /// The process; 0 where the source does not say.
        pid: Pid,
        /// The thread that waited.
        tid: Tid,
        /// Its full name.
        thread: Arc<str>,
        /// What it waited for.
        lock: Lock,
        /// Who held it, where the source says.
        holder: Option<LockHolder>,
        /// Java stack of the wait, outermost method first, joined by `;`; empty where none was taken.
        stack: Arc<str>,
        /// How it was seen.
        source: LockSource,
    }
}

impl LockWait {
    /// How long it waited.
    pub fn length(&self) -> Nanos {
        self.end - self.start
    }
}

row! {
    lock_row =>
    /// A lock, as far as the JVM tells locks apart.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct Lock {
        /// How it is waited for.
        kind: LockKind,
        /// The class of the monitor's object, or of the synchronizer that the thread was parked on
        /// (`java.util.concurrent.locks.ReentrantLock$NonfairSync`).
        class: Arc<str>,
        /// Tells two locks of a class apart; 0 where unknown. An address: the collector may move the object, so that
        /// one lock may have several.
        address: u64,
    }
}

named! {
    /// How a lock is waited for.
    pub enum LockKind {
        /// A monitor (`synchronized`).
        Monitor = "monitor",
        /// A lock of `java.util.concurrent.locks`: the thread was parked.
        Park = "park",
    }
}

row! {
    lock_holder_row =>
    /// The thread that held a lock.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    pub struct LockHolder {
        /// The thread, where its id is known.
        tid: Option<Tid> as "holder_tid",
        /// Its full name.
        thread: Arc<str> as "holder_thread",
    }
}

named! {
    /// How a wait was seen, which says what its times mean.
    pub enum LockSource {
        /// Flight Recorder's `jdk.JavaMonitorEnter` or `jdk.ThreadPark`: both ends of the wait. The holder of a monitor is
        /// who had it last before the waiter, not everyone who had it during the wait.
        Jfr = "jfr",
        /// `HotSpot`'s probes `monitor__contended__*`: both ends by the kernel's clock, no stack. The holder is who handed the
        /// monitor over last during the wait, where that was seen.
        Usdt = "usdt",
        /// A thread dump: the thread was waiting at that moment, so both ends are the dump's time.
        ThreadDump = "thread-dump",
    }
}
