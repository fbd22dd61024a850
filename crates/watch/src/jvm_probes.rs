//! The JVM's own probes in a watch: polls them, adds full thread names, and attaches them to the new process after the broker is
//! restarted. The crate `probes` decides which can be used.

use std::convert::Infallible;
use std::time::Duration;

use model::{Event, LockHolder, LockWait, LossKind, Pid};
use probes::jvm::{JvmFacts, JvmOptions, JvmPlan, JvmProbes};
use probes::{Error, Facts};

use crate::pause_merger::PauseMerger;
use crate::source::{Feed, LossCount, Pace, Source, WatchSummary};
use crate::thread_names::NameReader;

/// Attempts to attach to a process that has just started: it may not have loaded its library yet.
const MAX_TRIES: u32 = 5;
const LOSS_DETAIL: &str = "waits for monitors and pauses of the JVM";

/// Surveys a process and attaches probes to it.
/// The returned plan marks those that cannot be attached.
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
    /// Attempts on this process.
    pub(crate) tries: u32,
}

impl Source for JvmProbeSource {
    type Error = Infallible;

    const NAME: &'static str = "jvm-probes";
    /// The longest delay until losses are counted and a stop is noticed.
    /// Applies if only pauses are watched.
    const PACE: Pace = Pace::Blocking(Duration::from_secs(1));
    const SCHED_BATCH: bool = false;

    fn is_up(&self) -> bool {
        self.probes.is_some()
    }

    fn why_down(&self) -> Option<String> {
        (!self.is_up()).then(|| format!("no probes are on JVM {}", self.pid))
    }

    fn poll(&mut self, feed: &Feed, timeout: Duration) -> Result<(), Infallible> {
        let Self { probes: Some(probes), threads, pauses, .. } = self else { return Ok(()) };
        let mut events = Vec::new();
        let polled = probes.poll(timeout, &mut |event| match event {
            // A pause that Flight Recorder may report too waits for that.
            Event::JvmPause(pause) => events.extend(pauses.add_probed(*pause).map(Event::from)),
            Event::LockWait(mut wait) => {
                name_threads(&mut wait, threads);
                events.push(Event::LockWait(wait));
            }
            other => events.push(other),
        });
        if polled.is_err() {
            std::thread::park_timeout(timeout);
        }
        events.extend(pauses.overdue(feed.now()).into_iter().map(Event::from));
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

/// Replaces the kernel's thread names by full names, if they are known.
fn name_threads(wait: &mut LockWait, threads: &mut NameReader) {
    threads.complete(wait.tid, &mut wait.thread);
    if let Some(LockHolder { tid: Some(tid), thread }) = &mut wait.holder {
        threads.complete(*tid, thread);
    }
}

#[cfg(test)]
mod tests {
    use model::{Lock, LockHolder, LockKind, LockSource, LockWait, Nanos};

    use super::name_threads;
    use crate::thread_names::{Table, ThreadName, ThreadNames};

    #[test]
    fn waiter_and_holder_get_their_full_names_if_known() {
        let names = ThreadNames::default();
        let full = |comm: &str, full: &str| ThreadName { comm: comm.into(), full: full.into() };
        names
            .publish(Table::from([(3, full("waits", "waits for a log")), (4, full("holds", "holds a log"))]));
        let wait_for = |tid, comm: &str| LockWait {
            start: Nanos(5),
            end: Nanos(8),
            pid: 9,
            tid: 3,
            thread: "waits".into(),
            lock: Lock { kind: LockKind::Monitor, class: "java.lang.Object".into(), address: 7 },
            holder: Some(LockHolder { tid: Some(tid), thread: comm.into() }),
            stack: "".into(),
            source: LockSource::Usdt,
        };
        for (tid, comm, holder) in [(4, "holds", "holds a log"), (5, "holds", "holds")] {
            let mut wait = wait_for(tid, comm);
            name_threads(&mut wait, &mut names.reader());
            assert_eq!(&*wait.thread, "waits for a log");
            assert_eq!(&*wait.holder.unwrap().thread, holder);
        }
    }
}
