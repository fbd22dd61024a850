//! Threads that were blocked on locks over a series of dumps, and how often.
//! Does not say for how long.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use model::{Lock, LockHolder, Pid};

use super::thread::{Dump, Thread, Wait};

/// The lock contention in a series of dumps.
#[derive(Clone, Debug, Default)]
pub struct LockContention {
    /// The number of dumps.
    pub dumps: u64,
    /// The processes of the dumps, as far as they say.
    /// Locks of several processes are distinguished only by address.
    pub pids: BTreeSet<Pid>,
    locks: HashMap<Key, Tally>,
}

/// A lock in one method. A monitor that the collector has moved between two dumps counts as two.
type Key = (Lock, Arc<str>);

/// Per thread, the number of the last dump that counted it and how many dumps did.
type Counts = HashMap<LockHolder, (u64, u64)>;

#[derive(Clone, Debug, Default)]
struct Tally {
    dumps: (u64, u64),
    waits: u64,
    owners: Counts,
    threads: Counts,
}

/// A lock that threads were blocked on.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockedLock {
    /// The lock.
    pub lock: Lock,
    /// The method that its waiters were in; empty if no dump has their stacks.
    pub method: Arc<str>,
    /// The threads that held it, most often first.
    pub owners: Vec<ThreadCount>,
    /// The threads that waited for it, most often first.
    pub threads: Vec<ThreadCount>,
    /// The number of dumps in which a thread waited.
    pub dumps: u64,
    /// The number of waits in all dumps.
    pub waits: u64,
}

/// A thread, and the number of dumps that show it in this role.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadCount {
    /// The thread.
    pub thread: LockHolder,
    /// The number of dumps.
    pub dumps: u64,
}

/// Summarizes the lock contention in these dumps.
pub fn lock_contention<'a>(dumps: impl IntoIterator<Item = &'a Dump>) -> LockContention {
    let mut blocked = LockContention::default();
    dumps.into_iter().for_each(|dump| blocked.add(dump));
    blocked
}

impl LockContention {
    /// Counts one more dump.
    pub fn add(&mut self, dump: &Dump) {
        self.dumps += 1;
        self.pids.extend(Some(dump.pid).filter(|&pid| pid != 0));
        for (thread, wait) in dump.blocked() {
            self.wait(thread, wait);
        }
    }

    fn wait(&mut self, thread: &Thread, wait: &Wait) {
        let method = thread.method().map_or_else(|| "".into(), Arc::clone);
        let tally = self.locks.entry((wait.lock.clone(), method)).or_default();
        tally.waits += 1;
        count(&mut tally.dumps, self.dumps);
        if let Some(owner) = &wait.owner {
            count(tally.owners.entry(owner.clone()).or_default(), self.dumps);
        }
        count(tally.threads.entry(thread.as_holder()).or_default(), self.dumps);
    }

    /// The locks, those in the most dumps first, then those with the most waits.
    pub fn locks(&self) -> Vec<BlockedLock> {
        let row = |((lock, method), tally): (&Key, &Tally)| BlockedLock {
            lock: lock.clone(),
            method: Arc::clone(method),
            owners: most_often_first(&tally.owners),
            threads: most_often_first(&tally.threads),
            dumps: tally.dumps.1,
            waits: tally.waits,
        };
        let mut rows: Vec<_> = self.locks.iter().map(row).collect();
        rows.sort_by(|a, b| {
            let order = (b.dumps, b.waits).cmp(&(a.dumps, a.waits));
            order.then_with(|| key(a).cmp(&key(b)))
        });
        rows
    }
}

fn key(row: &BlockedLock) -> (&str, &str, u64) {
    (&row.lock.class, &row.method, row.lock.address)
}

/// Counts a dump once, even if it shows the same thread several times.
fn count((last, dumps): &mut (u64, u64), dump: u64) {
    *dumps += u64::from(*last != dump);
    *last = dump;
}

fn most_often_first(counts: &Counts) -> Vec<ThreadCount> {
    let row =
        |(thread, &(_, dumps)): (&LockHolder, &(u64, u64))| ThreadCount { thread: thread.clone(), dumps };
    let mut all: Vec<_> = counts.iter().map(row).collect();
    all.sort_by(|a, b| {
        let order = b.dumps.cmp(&a.dumps);
        order
            .then_with(|| natural(&a.thread.thread).cmp(&natural(&b.thread.thread)))
            .then(a.thread.tid.cmp(&b.thread.tid))
    });
    all
}

/// Orders `handler-2` before `handler-10`.
fn natural(name: &str) -> (&str, u64, &str) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let number = name.get(stem.len()..).and_then(|digits| digits.parse().ok());
    (stem, number.unwrap_or(0), name)
}
