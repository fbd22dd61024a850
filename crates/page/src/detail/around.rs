//! What overlapped with a slow request: what its threads and others did, commits, requests to devices, JVM pauses. Chooses
//! what is shown; does not build the data.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Event, Evidence, EvidenceKind, Nanos, Tid, Verdict, Waiter};

use super::spans;
use crate::recent::{Recent, RecentEvent, span};

/// Limits on further threads, on spans per thread, and on requests to devices. Further threads are those that the
/// evidence does not name. The longest are shown.
const MORE_THREADS: usize = 12;
const MAX_SPANS: usize = 80;
const MAX_BLOCK_IOS: usize = 200;
const MAX_COMMITS: usize = 20;
/// Shortest shown wait of a thread for a CPU after a wait for work: one hundredth of the request's latency.
const VISIBLE: i64 = 100;
/// Time shown before and after the request: one twentieth of its latency.
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
    /// Its waits that are evidence without an event.
    pub(super) inferred: Vec<Evidence>,
}

impl Around {
    /// What overlapped with the request, or with evidence that started before it.
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
            threads: select_threads(threads, verdict, Nanos((end - request.arrival).0 / VISIBLE)),
            commits,
            block_ios: longest(block_ios, MAX_BLOCK_IOS),
            others: longest(others, MAX_SPANS),
        }
    }
}

impl Thread {
    fn new(tid: Tid) -> Self {
        Self { tid, name: "".into(), in_evidence: false, events: Vec::new(), inferred: Vec::new() }
    }

    /// Adds a wait for a lock that a verdict rests on, unless an event shows it.
    fn add_wait(&mut self, waiter: &Waiter, wait: &Evidence) {
        if waiter.thread.len() > self.name.len() {
            self.name = Arc::clone(&waiter.thread);
        }
        let is_it = |seen: &Arc<RecentEvent>| matches!(&seen.event, Event::LockWait(own) if own.start < wait.end && own.end > wait.start);
        // Several holders may appear in one wait.
        let is_known = |known: &Evidence| (known.start, known.end) == (wait.start, wait.end);
        if !self.events.iter().any(is_it) && !self.inferred.iter().any(is_known) {
            self.inferred.push(wait.clone());
        }
    }

    fn take(&mut self, name: Option<&Arc<str>>, seen: &Arc<RecentEvent>) {
        // The longest name is the one that was not truncated.
        if let Some(name) = name.filter(|name| name.len() > self.name.len()) {
            self.name = Arc::clone(name);
        }
        self.events.push(Arc::clone(seen));
    }

    fn busy(&self) -> Nanos {
        self.events.iter().map(|seen| seen.busy()).sum()
    }
}

/// Whether this wait is part of the evidence, as off-CPU time or as a lock wait. If so, it was not a wait for work.
pub(super) fn is_evidence(verdict: &Verdict, seen: &RecentEvent) -> bool {
    let Event::OffCpu(wait) = &seen.event else { return false };
    verdict.evidence.iter().any(|proof| {
        let is_wait = matches!(proof.kind, EvidenceKind::OffCpu | EvidenceKind::LockWait);
        let whose = proof.waiter.as_ref().map(|waiter| waiter.tid).or(proof.tid);
        is_wait && whose == Some(wait.tid) && proof.start < wait.end && wait.start < proof.end
    })
}

/// The threads of the evidence in its order, then the busiest others. Waiters come before holders. Omits others that
/// only waited for work, and for a CPU for less than `least`.
fn select_threads(mut threads: BTreeMap<Tid, Thread>, verdict: &Verdict, least: Nanos) -> Vec<Thread> {
    for (wait, waiter) in waits(verdict) {
        threads.entry(waiter.tid).or_insert_with(|| Thread::new(waiter.tid)).add_wait(waiter, wait);
    }
    let mut selected = Vec::new();
    let named = verdict.evidence.iter().filter(|seen| seen.kind != EvidenceKind::BlockIo);
    for tid in
        named.flat_map(|seen| seen.waiter.as_ref().map(|waiter| waiter.tid).into_iter().chain(seen.tid))
    {
        selected.extend(threads.remove(&tid).map(|thread| Thread { in_evidence: true, ..thread }));
    }
    let mut rest: Vec<_> = threads.into_values().collect();
    rest.retain(|thread| thread.events.iter().any(|seen| !seen.is_idle() || seen.busy() >= least));
    rest.sort_by_key(|thread| (Reverse(thread.busy()), thread.tid));
    selected.extend(rest.into_iter().take(MORE_THREADS));
    for thread in &mut selected {
        thread.events = longest(std::mem::take(&mut thread.events), MAX_SPANS);
    }
    selected
}

/// The waits for locks among the evidence.
fn waits(verdict: &Verdict) -> impl Iterator<Item = (&Evidence, &Waiter)> {
    verdict.evidence.iter().filter_map(|seen| Some((seen, seen.waiter.as_ref()?)))
}

fn length(seen: &Arc<RecentEvent>) -> i64 {
    span(&seen.event).map_or(0, |(start, end)| (end - start).0)
}

/// The longest, not counting idle time, in the order of their starts.
fn longest(mut events: Vec<Arc<RecentEvent>>, most: usize) -> Vec<Arc<RecentEvent>> {
    events.sort_by_key(|seen| (Reverse(seen.busy()), Reverse(length(seen)), seen.number));
    events.truncate(most);
    events.sort_by_key(|seen| (span(&seen.event), seen.number));
    events
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{
        Cause, Confidence, Event, Evidence, EvidenceKind, Nanos, OffCpu, Request, Row, Stages, Tid, Verdict,
        Waiter,
    };

    use super::{Around, Recent, is_evidence};
    use crate::detail::pool::Pool;
    use crate::grid::Grid;

    const EPOLL: &str = "do_syscall_64;do_epoll_wait;ep_poll;schedule_hrtimeout_range;schedule";
    const FUTEX: &str = "do_syscall_64;do_futex;futex_wait;futex_wait_queue;schedule";
    const JOURNAL: &str = "vfs_write;ext4_dirty_inode;start_this_handle;wait_transaction_locked;schedule";

    fn ms(ms: i64) -> Nanos {
        Nanos::from_millis(ms)
    }

    fn off_cpu(tid: Tid, (start, woken, end): (i64, i64, i64), stack: &str) -> Event {
        Event::OffCpu(Box::new(OffCpu {
            start: ms(start),
            end: ms(end),
            woken: Some(ms(woken)),
            pid: 1,
            tid,
            thread: format!("thread-{tid}").into(),
            preempted: false,
            stack: stack.into(),
            ..Row::empty()
        }))
    }

    /// A request of 100 ms that started a second after the origin, with this evidence.
    fn verdict(evidence: Vec<Evidence>) -> Verdict {
        let at = "10.0.0.1:9092".parse().unwrap();
        Verdict {
            stages: Stages::default(),
            stage_spans: Vec::new(),
            cause: Cause::Unobserved,
            chain: Vec::new(),
            root: "".into(),
            confidence: Confidence::Weak,
            evidence,
            partition: None,
            advice: Vec::new(),
            losses: Vec::new(),
            kafka: None,
            doubts: Vec::new(),
            request: Request { arrival: ms(1_000), end: Some(ms(1_100)), ..Request::new(at, at) },
        }
    }

    fn of(kind: EvidenceKind, tid: Tid) -> Evidence {
        Evidence::new(kind, ms(1_010), ms(1_090), "").of_thread(tid, &"".into())
    }

    fn recent(events: &[Event]) -> Recent {
        let mut recent = Recent::new(ms(100));
        for event in events {
            recent.event(event);
        }
        recent
    }

    fn tids(evidence: Vec<Evidence>, events: &[Event]) -> Vec<Tid> {
        Around::of(&verdict(evidence), &recent(events)).threads.iter().map(|thread| thread.tid).collect()
    }

    /// The kinds of each thread's spans.
    fn kinds(evidence: Vec<Evidence>, events: &[Event]) -> Vec<(Tid, &'static str)> {
        let verdict = verdict(evidence);
        let around = Around::of(&verdict, &recent(events));
        let (mut pool, grid) = (Pool::default(), Grid::new(Nanos(0)));
        for seen in around.threads.iter().flat_map(|thread| &thread.events) {
            pool.event(&grid, seen, is_evidence(&verdict, seen)).unwrap();
        }
        let tids = around.threads.iter().flat_map(|thread| thread.events.iter().map(|_| thread.tid));
        tids.zip(pool.spans.iter().map(|span| span.kind)).collect()
    }

    #[test]
    fn omits_threads_that_only_wait_for_work() {
        let events = [
            off_cpu(1, (1_000, 1_099, 1_099), EPOLL),
            off_cpu(2, (1_000, 1_098, 1_098), FUTEX),
            off_cpu(3, (1_000, 1_003, 1_003), JOURNAL),
            // Woken early, but long without a CPU.
            off_cpu(4, (1_000, 1_050, 1_090), EPOLL),
        ];
        assert_eq!(tids(Vec::new(), &events), [4, 3]);
    }

    #[test]
    fn idle_waits_are_marked_and_dropped_first_at_the_limit() {
        let mut events = vec![off_cpu(3, (1_050, 1_053, 1_053), JOURNAL)];
        events.extend((0..200).map(|n| off_cpu(3, (900 + n, 901 + n, 901 + n), EPOLL)));
        let kinds = kinds(Vec::new(), &events);
        assert_eq!(kinds.len(), 80);
        assert_eq!(kinds.iter().filter(|(_, kind)| *kind == "off-cpu").count(), 1);
        assert_eq!(kinds.iter().filter(|(_, kind)| *kind == "idle").count(), 79);
    }

    #[test]
    fn wait_in_the_evidence_is_not_idle() {
        let events = [off_cpu(1, (1_010, 1_090, 1_090), FUTEX), off_cpu(1, (1_095, 1_100, 1_100), FUTEX)];
        let expected = [(1, "off-cpu"), (1, "idle")];
        assert_eq!(kinds(vec![of(EvidenceKind::OffCpu, 1)], &events), expected);
        let waiter = Waiter { tid: 1, thread: Arc::from("thread-1") };
        let wait = Evidence { waiter: Some(waiter), ..of(EvidenceKind::LockWait, 9) };
        assert_eq!(kinds(vec![wait], &events), expected);
        // Evidence of another kind does not say what it waited for.
        assert_eq!(kinds(vec![of(EvidenceKind::FileOp, 1)], &events), [(1, "idle"), (1, "idle")]);
    }
}
