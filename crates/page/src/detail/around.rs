//! What shared time with a slow request: what its threads and others did, commits, requests to devices, stops. Chooses what
//! is shown of it; does not make the data.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Event, Evidence, EvidenceKind, Nanos, Tid, Verdict, Waiter};

use super::spans;
use crate::recent::{Recent, RecentEvent, span};

/// Threads told beside those of the evidence, stretches of each thread, and requests to devices: the longest.
const MORE_THREADS: usize = 12;
const MAX_SPANS: usize = 80;
const MAX_BLOCK_IOS: usize = 200;
const MAX_COMMITS: usize = 20;
/// How much before and after the request is shown, as a share of its latency.
const MARGIN: i64 = 20;

/// The surroundings of a request.
pub(super) struct Around {
    pub(super) threads: Vec<Thread>,
    pub(super) commits: Vec<Arc<RecentEvent>>,
    pub(super) block_ios: Vec<Arc<RecentEvent>>,
    pub(super) others: Vec<Arc<RecentEvent>>,
}

/// What one thread did.
pub(super) struct Thread {
    pub(super) tid: Tid,
    pub(super) name: Arc<str>,
    pub(super) in_evidence: bool,
    pub(super) events: Vec<Arc<RecentEvent>>,
    /// Waits of it that are evidence without an event.
    pub(super) concluded: Vec<Evidence>,
}

impl Around {
    /// What shared time with it, and with what of its evidence began before it.
    pub(super) fn of(verdict: &Verdict, recent: &Recent) -> Self {
        let request = &verdict.request;
        let starts = verdict.evidence.iter().map(|seen| seen.start);
        let start = starts.min().map_or(request.arrival, |first| first.min(request.arrival));
        let end = request.last_seen();
        let margin = Nanos((end - request.arrival).0 / MARGIN);
        let mut threads = BTreeMap::<Tid, Thread>::new();
        let (mut commits, mut block_ios, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for seen in recent.within(start - margin, end + margin) {
            match (&seen.event, spans::thread(&seen.event)) {
                (Event::JournalCommit(_), _) => commits.push(Arc::clone(seen)),
                (Event::BlockIo(_), _) => block_ios.push(Arc::clone(seen)),
                (_, Some((tid, name))) => {
                    threads.entry(tid).or_insert_with(|| Thread::new(tid)).take(name, seen);
                }
                (_, None) => others.push(Arc::clone(seen)),
            }
        }
        commits.sort_by_key(|seen| (Reverse(length(seen)), seen.number));
        commits.truncate(MAX_COMMITS);
        Self {
            threads: told(threads, verdict),
            commits,
            block_ios: longest(block_ios, MAX_BLOCK_IOS),
            others: longest(others, MAX_SPANS),
        }
    }
}

impl Thread {
    fn new(tid: Tid) -> Self {
        Self { tid, name: "".into(), in_evidence: false, events: Vec::new(), concluded: Vec::new() }
    }

    /// Takes a wait for a lock that a verdict rests on, unless it was seen.
    fn waited(&mut self, waiter: &Waiter, wait: &Evidence) {
        if waiter.thread.len() > self.name.len() {
            self.name = Arc::clone(&waiter.thread);
        }
        let is_it = |seen: &Arc<RecentEvent>| matches!(&seen.event, Event::LockWait(own) if own.start < wait.end && own.end > wait.start);
        // Several may have held the lock in one wait.
        let is_known = |known: &Evidence| (known.start, known.end) == (wait.start, wait.end);
        if !self.events.iter().any(is_it) && !self.concluded.iter().any(is_known) {
            self.concluded.push(wait.clone());
        }
    }

    fn take(&mut self, name: Option<&Arc<str>>, seen: &Arc<RecentEvent>) {
        // The longest name is the one that was not cut.
        if let Some(name) = name.filter(|name| name.len() > self.name.len()) {
            self.name = Arc::clone(name);
        }
        self.events.push(Arc::clone(seen));
    }

    fn busy(&self) -> i64 {
        self.events.iter().map(length).sum()
    }
}

/// The threads of the evidence in its order, who waited before who was waited for, then those that were busy longest.
fn told(mut threads: BTreeMap<Tid, Thread>, verdict: &Verdict) -> Vec<Thread> {
    for (wait, waiter) in waits(verdict) {
        threads.entry(waiter.tid).or_insert_with(|| Thread::new(waiter.tid)).waited(waiter, wait);
    }
    let mut told = Vec::new();
    let named = verdict.evidence.iter().filter(|seen| seen.kind != EvidenceKind::BlockIo);
    for tid in
        named.flat_map(|seen| seen.waiter.as_ref().map(|waiter| waiter.tid).into_iter().chain(seen.tid))
    {
        told.extend(threads.remove(&tid).map(|thread| Thread { in_evidence: true, ..thread }));
    }
    let mut rest: Vec<_> = threads.into_values().collect();
    rest.sort_by_key(|thread| (Reverse(thread.busy()), thread.tid));
    told.extend(rest.into_iter().take(MORE_THREADS));
    for thread in &mut told {
        thread.events = longest(std::mem::take(&mut thread.events), MAX_SPANS);
    }
    told
}

/// The waits for locks among the evidence.
fn waits(verdict: &Verdict) -> impl Iterator<Item = (&Evidence, &Waiter)> {
    verdict.evidence.iter().filter_map(|seen| Some((seen, seen.waiter.as_ref()?)))
}

fn length(seen: &Arc<RecentEvent>) -> i64 {
    span(&seen.event).map_or(0, |(start, end)| (end - start).0)
}

/// The longest, in the order of their starts.
fn longest(mut events: Vec<Arc<RecentEvent>>, most: usize) -> Vec<Arc<RecentEvent>> {
    events.sort_by_key(|seen| (Reverse(length(seen)), seen.number));
    events.truncate(most);
    events.sort_by_key(|seen| (span(&seen.event), seen.number));
    events
}
