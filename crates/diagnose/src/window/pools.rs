//! The broker's pools of threads that serve requests, by thread name. Also, which threads were at work recently.

use std::collections::HashMap;

use ahash::RandomState;
use model::{CpuSample, FileOp, Nanos, Pid, Tid};

/// A thread that has appended nothing for this long may have ended: pools can be made smaller while the broker runs.
const KNOWN_FOR: Nanos = Nanos::from_millis(600_000);

/// Threads that take work from one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadPool {
    /// Request handlers.
    Handlers,
    /// The threads of the coordinator of groups.
    GroupCoordinator,
    /// The controller's thread that appends to the cluster's metadata.
    Raft,
    /// The controller's thread that decides what to append.
    Controller,
}

impl ThreadPool {
    /// The pool of a thread with this name.
    /// The kernel truncates names to 15 characters. Followers' fetchers and the log cleaner also write logs.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        // `KafkaRequestHandlerPool`; without the first two words before Kafka 2.2.
        let is_handlers = ["data-plane-kafk", "kafka-request-h"].iter().any(|start| name.starts_with(start));
        // `group-coordinator-event-processor-N` (`MultiThreadedEventProcessor`).
        let is_coordinators = name.starts_with("group-coordinat");
        // `quorum-controller-N-event-handler` (`KafkaEventQueue`).
        let is_controllers = name.starts_with("quorum-controll");
        match () {
            () if is_handlers => Some(Self::Handlers),
            () if is_coordinators => Some(Self::GroupCoordinator),
            () if is_rafts_name(name) => Some(Self::Raft),
            () if is_controllers => Some(Self::Controller),
            () => None,
        }
    }
}

/// `kafka-N-raft-io-thread` (`KafkaRaftManager`), where N is the node's id.
fn is_rafts_name(name: &str) -> bool {
    let is_numbered = |rest: &str| {
        let after = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
        after.len() < rest.len() && after.starts_with("-raf")
    };
    name.strip_prefix("kafka-").is_some_and(is_numbered)
}

/// Threads of the pools that appended recently, and when each did last.
#[derive(Debug, Default)]
pub(crate) struct PoolThreads(HashMap<Tid, (ThreadPool, Pid, Nanos), RandomState>);

impl PoolThreads {
    /// Records an append; a new process replaces all threads.
    pub(crate) fn append(&mut self, op: &FileOp) {
        if let Some(pool) = ThreadPool::of_name(&op.thread) {
            self.insert(op.tid, (pool, op.pid, op.end));
        }
    }

    /// Records that a thread that appends nothing itself was on a CPU.
    pub(crate) fn sample(&mut self, sample: &CpuSample) {
        if let Some(pool @ ThreadPool::Controller) = ThreadPool::of_name(&sample.thread) {
            self.insert(sample.tid, (pool, sample.pid, sample.at));
        }
    }

    fn insert(&mut self, tid: Tid, (pool, pid, at): (ThreadPool, Pid, Nanos)) {
        if self.0.values().next().is_some_and(|(_, known, _)| *known != pid) {
            self.0.clear();
        }
        let (_, _, last) = self.0.entry(tid).or_insert((pool, pid, at));
        *last = at.max(*last);
    }

    /// Whether a thread is known to belong to a pool.
    pub(crate) fn has(&self, tid: Tid) -> bool {
        self.0.contains_key(&tid)
    }

    /// A pool's threads, in the order of their ids.
    pub(crate) fn of(&self, pool: ThreadPool) -> Vec<Tid> {
        let mut tids: Vec<Tid> =
            self.0.iter().filter(|(_, (of, ..))| *of == pool).map(|(tid, _)| *tid).collect();
        tids.sort_unstable();
        tids
    }

    pub(crate) fn forget(&mut self, now: Nanos) {
        self.0.retain(|_, (.., last)| now - *last <= KNOWN_FOR);
    }
}

#[cfg(test)]
mod tests {
    use super::ThreadPool;

    #[test]
    fn recognizes_pools_by_truncated_thread_names() {
        for (name, pool) in [
            ("data-plane-kafk", Some(ThreadPool::Handlers)),
            ("kafka-request-handler-7", Some(ThreadPool::Handlers)),
            ("group-coordinat", Some(ThreadPool::GroupCoordinator)),
            ("quorum-controll", Some(ThreadPool::Controller)),
            ("kafka-1-raft-io", Some(ThreadPool::Raft)),
            ("kafka-12345-raf", Some(ThreadPool::Raft)),
            ("kafka-1234-raft", Some(ThreadPool::Raft)),
            ("kafka-1-raft-io-thread", Some(ThreadPool::Raft)),
            ("kafka-log-clean", None),
            ("kafka-raft-outb", None),
            ("ReplicaFetcherT", None),
            ("", None),
        ] {
            assert_eq!(ThreadPool::of_name(name), pool, "{name}");
        }
    }
}
