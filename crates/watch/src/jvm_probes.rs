//! The JVM's own probes in a watch: polls them, converts what they saw to the recording's events, and moves them to the
//! process that takes a restarted broker's place. Which of them can be used is `probes`' business.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use model::{
    ClockOffset, Event, JvmPause, JvmPauseKind, Lock, LockHolder, LockKind, LockSource, LockWait, LossKind,
    Pid,
};
use probes::jvm::{JvmEvent, JvmFacts, JvmOptions, JvmPlan, JvmProbes, MonitorWait, Pause, PauseKind};
use probes::{Error, Facts};

use crate::pause_merger::PauseMerger;
use crate::source::{Feed, LossCount, Pace, Source, WatchSummary};
use crate::thread_names::NameReader;

/// How often probes are tried on a process that has just begun: it may not have loaded its library yet.
const MAX_TRIES: u32 = 5;
const LOSS_DETAIL: &str = "waits for monitors and pauses of the JVM";

/// Surveys a process and puts probes on it. What cannot be attached is in the plan that remains.
pub(crate) fn attach(pid: Pid, options: &JvmOptions) -> (JvmPlan, Result<JvmProbes, Error>) {
    let plan = JvmPlan::choose(&Facts::survey(), &JvmFacts::survey(pid));
    let probes = JvmProbes::attach(&plan, options);
    (probes.as_ref().map_or(plan, |probes| probes.plan().clone()), probes)
}

/// Probes on the broker's JVM.
pub(crate) struct JvmProbeSource {
    pub(crate) options: JvmOptions,
    pub(crate) threads: NameReader,
    pub(crate) pauses: PauseMerger,
    pub(crate) pid: Pid,
    pub(crate) probes: Option<JvmProbes>,
    /// How often they were tried on that process.
    pub(crate) tries: u32,
}

impl Source for JvmProbeSource {
    type Error = Infallible;

    const NAME: &'static str = "jvm-probes";
    /// The longest that an event waits in the ring buffer; the kernel wakes the reader earlier when it fills.
    const PACE: Pace = Pace::Blocking(Duration::from_millis(100));
    const SCHED_BATCH: bool = false;

    fn is_up(&self) -> bool {
        self.probes.is_some()
    }

    fn poll(&mut self, feed: &Feed, timeout: Duration) -> Result<(), Infallible> {
        let Self { probes: Some(probes), pid, threads, pauses, .. } = self else { return Ok(()) };
        let mut events = Vec::new();
        let polled = probes.poll(timeout, &mut |probed| {
            events.extend(match event(probed, *pid, feed.clock, threads) {
                // One that Flight Recorder may report too waits for that.
                Event::JvmPause(pause) => pauses.add_probed(*pause).map(|it| Event::JvmPause(Box::new(it))),
                event => Some(event),
            });
        });
        if polled.is_err() {
            std::thread::park_timeout(timeout);
        }
        events.extend(pauses.overdue(feed.now()).into_iter().map(|pause| Event::JvmPause(Box::new(pause))));
        feed.sender.send_all(events);
        Ok(())
    }

    fn check(&mut self, feed: &Feed) -> Result<bool, Infallible> {
        let Some(broker) = feed.current.get() else { return Ok(false) };
        if self.is_up() && self.pid == broker.pid {
            return Ok(false);
        }
        self.probes = None;
        self.tries = if self.pid == broker.pid { self.tries + 1 } else { 0 };
        self.pid = broker.pid;
        if self.tries < MAX_TRIES {
            self.probes = attach(broker.pid, &self.options).1.ok();
        }
        Ok(true)
    }

    fn losses(&self) -> Vec<LossCount> {
        let Some(probes) = &self.probes else { return Vec::new() };
        let losses = probes.losses();
        vec![
            (LossKind::ProbeMapFull, LOSS_DETAIL, losses.map_full),
            (LossKind::ProbeEventsDropped, LOSS_DETAIL, losses.sum() - losses.map_full),
        ]
    }

    fn summarize(self, _: Result<(), Infallible>) -> WatchSummary {
        WatchSummary::default()
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
    use crate::thread_names::{Table, ThreadName, ThreadNames};
    use model::{ClockOffset, Event, JvmPauseKind, LockSource, Nanos};
    use probes::jvm::{Holder, JvmEvent, MonitorWait, Pause, PauseKind};

    fn seen(event_of: JvmEvent) -> Event {
        let names = ThreadNames::default();
        let full = ThreadName { comm: "waits".into(), full: "waits for a partition's log".into() };
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
