//! Who was blocked on which lock over a series of dumps, and how often. Does not say for how long.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use model::{Lock, LockHolder, Pid};

use super::thread::{Dump, Thread, Wait};

/// What a series of dumps says of its locks.
#[derive(Clone, Debug, Default)]
pub struct LockContention {
    /// How many dumps there were.
    pub dumps: u64,
    /// The processes they are of, as far as they say. Locks of several are told apart by their addresses alone.
    pub pids: BTreeSet<Pid>,
    locks: HashMap<Key, Tally>,
}

/// A lock in one method. A monitor that the collector has moved between two dumps is two.
type Key = (Lock, Arc<str>);

/// How often each thread was seen, by the number of the last dump it was counted for.
type Counts = HashMap<LockHolder, (u64, u64)>;

#[derive(Clone, Debug, Default)]
struct Tally {
    seen: (u64, u64),
    waits: u64,
    owners: Counts,
    threads: Counts,
}

/// A lock that threads were blocked on.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockedLock {
    /// The lock.
    pub lock: Lock,
    /// The method that its waiters were in; empty where no dump has their stacks.
    pub method: Arc<str>,
    /// Who had it, most often first.
    pub owners: Vec<ThreadCount>,
    /// Who waited for it, most often first.
    pub threads: Vec<ThreadCount>,
    /// In how many dumps anyone waited.
    pub dumps: u64,
    /// How many waits all dumps together show.
    pub waits: u64,
}

/// A thread, and in how many dumps it was seen so.
#[derive(Clone, Debug, PartialEq)]
pub struct ThreadCount {
    /// The thread.
    pub thread: LockHolder,
    /// In how many dumps.
    pub dumps: u64,
}

/// What these dumps say of their locks.
pub fn blocked<'a>(dumps: impl IntoIterator<Item = &'a Dump>) -> LockContention {
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
        count(&mut tally.seen, self.dumps);
        if let Some(owner) = &wait.owner {
            count(tally.owners.entry(owner.clone()).or_default(), self.dumps);
        }
        count(tally.threads.entry(thread.as_holder()).or_default(), self.dumps);
    }

    /// The locks: those in the most dumps first, of these the ones with the most waits.
    pub fn locks(&self) -> Vec<BlockedLock> {
        let row = |((lock, method), tally): (&Key, &Tally)| BlockedLock {
            lock: lock.clone(),
            method: Arc::clone(method),
            owners: most_often_first(&tally.owners),
            threads: most_often_first(&tally.threads),
            dumps: tally.seen.1,
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

/// Counts a dump once, even if it shows the same several times.
fn count((last, dumps): &mut (u64, u64), dump: u64) {
    *dumps += u64::from(*last != dump);
    *last = dump;
}

fn most_often_first(counts: &Counts) -> Vec<ThreadCount> {
    let seen =
        |(thread, &(_, dumps)): (&LockHolder, &(u64, u64))| ThreadCount { thread: thread.clone(), dumps };
    let mut all: Vec<_> = counts.iter().map(seen).collect();
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
