//! The JVM's own probes in a watch: a thread that polls them, puts what they saw into the shared vocabulary, and moves them
//! to the process that takes a restarted broker's place. Which of them can be used is `probes`' business.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::{
    ClockOffset, Event, JvmPause, JvmPauseKind, Lock, LockHolder, LockKind, LockSource, LockWait, Loss,
    LossKind, Nanos, Pid,
};
use probes::jvm::{
    JvmEvent, JvmFacts, JvmLosses, JvmOptions, JvmPlan, JvmProbes, MonitorWait, Pause, PauseKind,
};
use probes::{Error, Facts};

use crate::keeper::Current;
use crate::queue::Sender;
use crate::stops::Stops;
use crate::thread_names::NameReader;

/// The longest an event waits in the ring buffer; the kernel wakes the reader earlier when it fills.
const POLL: Duration = Duration::from_millis(100);
/// How often losses are looked at, and whether the broker is still the same process.
const LOOK: Duration = Duration::from_secs(1);
/// A process that has just begun may not have loaded its library yet.
const TRIES: u32 = 5;

/// Surveys a process and puts probes on it. What cannot be attached is in the plan that remains.
pub(crate) fn attach(pid: Pid, options: &JvmOptions) -> (JvmPlan, Result<JvmProbes, Error>) {
    let plan = JvmPlan::choose(&Facts::survey(), &JvmFacts::survey(pid));
    let probes = JvmProbes::attach(&plan, options);
    (probes.as_ref().map_or(plan, |probes| probes.plan().clone()), probes)
}

/// What the probes' thread needs.
pub(crate) struct JvmProbeSource {
    pub(crate) options: JvmOptions,
    pub(crate) offset: ClockOffset,
    pub(crate) current: Current,
    pub(crate) threads: NameReader,
    pub(crate) stops: Stops,
    pub(crate) sender: Sender,
    pub(crate) stop: Arc<AtomicBool>,
}

/// Probes on one process, and what they had lost when last asked.
struct Attached {
    pid: Pid,
    probes: JvmProbes,
    losses: JvmLosses,
    asked: Nanos,
}

impl JvmProbeSource {
    /// Polls the probes on the broker of the moment until told to stop, then once more for what is left. `first` are those
    /// on the process that the watch began with.
    pub(crate) fn run(mut self, pid: Pid, first: JvmProbes) {
        let mut attached = Some(self.begin(pid, first));
        let (mut tried, mut looked) = ((pid, 0), Instant::now());
        loop {
            let stopping = self.stop.load(Ordering::Relaxed);
            match &mut attached {
                Some(attached) => self.poll(attached, if stopping { Duration::ZERO } else { POLL }),
                None => std::thread::park_timeout(POLL),
            }
            if stopping || looked.elapsed() >= LOOK {
                looked = Instant::now();
                if let Some(attached) = &mut attached {
                    self.tell_losses(attached);
                }
                attached = self.follow(attached, &mut tried);
            }
            if stopping {
                return;
            }
        }
    }

    fn begin(&self, pid: Pid, probes: JvmProbes) -> Attached {
        Attached { pid, probes, losses: JvmLosses::default(), asked: self.now() }
    }

    /// The probes on the broker's process as it is now.
    fn follow(&self, attached: Option<Attached>, tried: &mut (Pid, u32)) -> Option<Attached> {
        let Some(subject) = self.current.subject() else { return attached };
        if attached.as_ref().is_some_and(|attached| attached.pid == subject.pid) {
            return attached;
        }
        drop(attached);
        *tried = if tried.0 == subject.pid { (subject.pid, tried.1 + 1) } else { (subject.pid, 0) };
        if tried.1 >= TRIES {
            return None;
        }
        let (_, probes) = attach(subject.pid, &self.options);
        probes.ok().map(|probes| self.begin(subject.pid, probes))
    }

    fn poll(&mut self, attached: &mut Attached, timeout: Duration) {
        let (pid, offset, threads) = (attached.pid, self.offset, &mut self.threads);
        let mut events = Vec::new();
        let polled =
            attached.probes.poll(timeout, &mut |seen| events.push(event(seen, pid, offset, threads)));
        if polled.is_err() {
            std::thread::park_timeout(timeout);
        }
        let mut told: Vec<Event> = events.into_iter().filter_map(|event| self.once(event)).collect();
        told.extend(self.stops.overdue(self.now()).into_iter().map(|pause| Event::JvmPause(Box::new(pause))));
        self.sender.send_all(told);
    }

    /// A stop that Flight Recorder may tell of too waits for that.
    fn once(&self, event: Event) -> Option<Event> {
        match event {
            Event::JvmPause(pause) => self.stops.probed(*pause).map(|pause| Event::JvmPause(Box::new(pause))),
            event => Some(event),
        }
    }

    fn tell_losses(&self, attached: &mut Attached) {
        let (now, losses) = (self.now(), attached.probes.losses());
        let before = attached.losses;
        let full = losses.map_full - before.map_full;
        let dropped = losses.sum() - before.sum() - full;
        let lost = [(LossKind::ProbeMapFull, full), (LossKind::ProbeEventsDropped, dropped)];
        for (kind, count) in lost.into_iter().filter(|(_, count)| *count > 0) {
            let detail = "waits for monitors and stops of the JVM".into();
            self.sender.send(Event::Loss(Loss { start: attached.asked, end: now, kind, count, detail }));
        }
        (attached.losses, attached.asked) = (losses, now);
    }

    fn now(&self) -> Nanos {
        self.offset.from_monotonic(crate::now().monotonic_ns)
    }
}

fn event(seen: JvmEvent, pid: Pid, offset: ClockOffset, threads: &mut NameReader) -> Event {
    match seen {
        JvmEvent::MonitorWait(wait) => Event::LockWait(Box::new(lock_wait(wait, pid, offset, threads))),
        JvmEvent::Pause(pause) => Event::JvmPause(Box::new(jvm_pause(pause, pid, offset))),
    }
}

fn lock_wait(wait: MonitorWait, pid: Pid, offset: ClockOffset, threads: &mut NameReader) -> LockWait {
    LockWait {
        start: offset.from_monotonic(wait.start_ns),
        end: offset.from_monotonic(wait.end_ns),
        pid,
        tid: wait.tid,
        thread: threads.full(wait.tid, wait.comm),
        lock: Lock { kind: LockKind::Monitor, class: wait.class, address: wait.monitor },
        holder: wait.holder.map(|holder| LockHolder {
            tid: Some(holder.tid),
            thread: threads.full(holder.tid, holder.comm),
        }),
        stack: Arc::default(),
        source: LockSource::Usdt,
    }
}

fn jvm_pause(pause: Pause, pid: Pid, offset: ClockOffset) -> JvmPause {
    let full = pause.kind == PauseKind::Collection { full: true };
    JvmPause {
        start: offset.from_monotonic(pause.start_ns),
        end: offset.from_monotonic(pause.end_ns),
        pid,
        kind: if pause.kind == PauseKind::Safepoint { JvmPauseKind::Safepoint } else { JvmPauseKind::Gc },
        operation: pause.operation,
        cause: if full { "full collection".into() } else { Arc::default() },
        gc_id: None,
        time_to_safepoint: pause
            .operation_ns
            .map(|at| offset.from_monotonic(at) - offset.from_monotonic(pause.start_ns)),
    }
}

#[cfg(test)]
mod tests {
    use super::event;
    use crate::thread_names::{Named, Table, ThreadNames};
    use model::{ClockOffset, Event, JvmPauseKind, LockSource, Nanos};
    use probes::jvm::{Holder, JvmEvent, MonitorWait, Pause, PauseKind};

    fn seen(event_of: JvmEvent) -> Event {
        let names = ThreadNames::default();
        let full = Named { comm: "waits".into(), full: "waits for a partition's log".into() };
        names.publish(Table::from([(3, full)]));
        event(event_of, 9, ClockOffset::from_ns(1_000), &mut names.reader())
    }

    #[test]
    fn a_wait_is_on_the_recordings_clock_with_its_holder() {
        let wait = MonitorWait {
            start_ns: 5,
            end_ns: 8,
            tid: 3,
            comm: "waits".into(),
            class: "java.lang.Object".into(),
            monitor: 0xfeed,
            holder: Some(Holder { tid: 4, comm: "holds".into() }),
        };
        let Event::LockWait(wait) = seen(JvmEvent::MonitorWait(wait)) else { panic!("no wait") };
        assert_eq!((wait.start, wait.end, wait.pid, wait.tid), (Nanos(1_005), Nanos(1_008), 9, 3));
        assert_eq!((&*wait.lock.class, wait.lock.address), ("java.lang.Object", 0xfeed));
        assert_eq!(&*wait.thread, "waits for a partition's log");
        let holder = wait.holder.unwrap();
        assert_eq!((holder.tid, &*holder.thread, wait.source), (Some(4), "holds", LockSource::Usdt));
    }

    #[test]
    fn only_a_safepoint_has_to_be_reached() {
        let pause = |kind, operation_ns| {
            let operation = "G1PauseFull".into();
            let pause = Pause { start_ns: 10, end_ns: 30, kind, operation, operation_ns };
            let Event::JvmPause(pause) = seen(JvmEvent::Pause(pause)) else { panic!("no pause") };
            (pause.start, pause.end, pause.kind, pause.cause.to_string(), pause.time_to_safepoint)
        };
        let (start, end) = (Nanos(1_010), Nanos(1_030));
        let safepoint = pause(PauseKind::Safepoint, Some(17));
        assert_eq!(safepoint, (start, end, JvmPauseKind::Safepoint, String::new(), Some(Nanos(7))));
        let full = pause(PauseKind::Collection { full: true }, None);
        assert_eq!(full, (start, end, JvmPauseKind::Gc, "full collection".to_owned(), None));
    }
}
