//! The JVM's side of a watch: asks the broker's JVM who its threads are, at first and whenever there are new ones, and has
//! its Flight Recorder record lock waits and pauses. How a JVM is asked is `jvm`'s business.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use jvm::attach::{Bounds, Client};
use jvm::flight::{self, Flight};
use jvm::jfr::{JfrEvent, Tail};
use jvm::{Machine, act_as, threads};
use model::{Event, LossKind, Pid, Tid};

use crate::pause_merger::PauseMerger;
use crate::process::Process;
use crate::queue::Batch;
use crate::source::{Feed, LossCount, Pace, Source, WatchSummary};
use crate::thread_names::ThreadList;
use crate::thread_names::{Table, ThreadNames};

/// An answer of a line or two.
const SHORT: Bounds = Bounds { bytes: 4 << 10, time: Duration::from_secs(10) };

/// Whether to have the JVM record lock waits and pauses, and the calls of request handlers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jfr {
    /// Where starting it does not hold the broker up.
    #[default]
    Auto,
    /// Also where it does, once.
    Always,
    /// The same, with the calls of request handlers: that pauses the broker when it starts and when it ends.
    Handlers,
    /// Not at all.
    Never,
}

/// What the first JVM said.
pub(crate) struct JvmAnswer {
    /// What it calls itself.
    pub(crate) version: String,
    /// Whether it records, or why not.
    pub(crate) records: Result<(), String>,
    /// Whether it records the calls of request handlers, or why not, where that was asked for.
    pub(crate) calls: Option<Result<(), String>>,
}

/// The broker's JVM.
pub(crate) struct JvmSource {
    pub(crate) jfr: Jfr,
    pub(crate) names: ThreadNames,
    pub(crate) pauses: PauseMerger,
    pub(crate) pid: Pid,
    /// Who waits for the first answer.
    pub(crate) first: SyncSender<Result<JvmAnswer, jvm::Error>>,
    pub(crate) session: Option<JvmSession>,
    /// What went wrong on the way.
    pub(crate) trouble: Vec<String>,
    /// What of recordings could not be read.
    pub(crate) damaged: u64,
}

/// A JVM that answers, and its threads.
pub(crate) struct JvmSession {
    client: Client,
    threads: ThreadList,
    recorder: Option<Recorder>,
}

impl Source for JvmSource {
    type Error = Infallible;

    const NAME: &'static str = "jvm";
    /// How often to look for new threads, and for what was recorded: the JVM writes that about once a second.
    const PACE: Pace = Pace::Every(Duration::from_millis(500));
    const SCHED_BATCH: bool = false;

    /// Threads alone are looked for half as often.
    fn pace(&self) -> Pace {
        let records = self.session.as_ref().is_some_and(|session| session.recorder.is_some());
        if records { Self::PACE } else { Pace::Every(Duration::from_secs(1)) }
    }

    /// It becomes the broker's user, which drops more than the others do; where there is no JVM, only this.
    fn drop_capabilities() {
        let _ = crate::privileges::keep_setuid_capabilities();
    }

    fn start(&mut self, feed: &Feed) {
        let answer = self.open(self.pid, feed).map(|(session, answer)| {
            self.session = Some(session);
            answer
        });
        // Nobody may wait for it any more.
        let _ = self.first.try_send(answer);
    }

    fn poll(&mut self, feed: &Feed, _: Duration) -> Result<(), Infallible> {
        let Some(broker) = feed.current.get() else { return Ok(()) };
        if broker.pid != self.pid {
            self.pid = broker.pid;
            self.names.publish(Table::new());
            self.pauses.expect_recorded(false);
            self.follow(feed);
        }
        let Some(mut session) = self.session.take() else { return Ok(()) };
        match self.refresh(&mut session, feed) {
            Ok(()) => self.session = Some(session),
            Err(error) => {
                self.pauses.expect_recorded(false);
                // The supervisor reports a broker that ended.
                if !Process::of(self.pid).is_gone() {
                    self.trouble.push(format!("no more requests are sent to the JVM: {error}"));
                }
            }
        }
        Ok(())
    }

    fn why_down(&self) -> Option<String> {
        let is_down = self.session.is_none();
        is_down.then(|| format!("JVM {}: {}", self.pid, self.trouble.last().map_or("no answer", |why| why)))
    }

    fn losses(&self) -> Vec<LossCount> {
        vec![(LossKind::EventsDropped, "a part of what the JVM recorded could not be read", self.damaged)]
    }

    /// The session stays: without one the JVM would be down.
    fn finish(&mut self, feed: &Feed) -> Result<(), Infallible> {
        let Some(JvmSession { client, recorder, .. }) = &mut self.session else { return Ok(()) };
        if let Some(recorder) = recorder.take() {
            self.damaged += recorder.stop(client, feed);
        }
        Ok(())
    }

    fn summarize(self, _: Result<(), Infallible>) -> WatchSummary {
        WatchSummary { trouble: self.trouble, ..WatchSummary::default() }
    }
}

impl JvmSource {
    fn open(&mut self, pid: Pid, feed: &Feed) -> Result<(JvmSession, JvmAnswer), jvm::Error> {
        let machine = Machine::of(pid)?;
        machine.check_attachable()?;
        act_as(&machine)?;
        let client = Client::of(&machine)?;
        let version = client.jcmd("VM.version", SHORT)?;
        let mut session = JvmSession { client, threads: ThreadList::of(pid), recorder: None };
        self.refresh(&mut session, feed)?;
        let recorder = Recorder::start(self.jfr, &session.client, &version, feed, self.pauses.clone());
        let records = recorder.map(|recorder| session.recorder = Some(recorder));
        let calls = (self.jfr == Jfr::Handlers)
            .then(|| records.clone().and_then(|()| flight::check_handler_calls(&version)));
        let version = version.lines().next().unwrap_or_default().to_owned();
        Ok((session, JvmAnswer { version, records, calls }))
    }

    /// The JVM of the process that took the broker's place.
    fn follow(&mut self, feed: &Feed) {
        match self.open(self.pid, feed) {
            Ok((session, answer)) => {
                self.session = Some(session);
                let calls = answer.calls.and_then(Result::err).filter(|_| answer.records.is_ok());
                self.trouble.extend(answer.records.err().filter(|_| self.jfr != Jfr::Never));
                self.trouble.extend(calls);
            }
            Err(error) => {
                self.session = None;
                self.trouble.push(error.to_string());
            }
        }
    }

    fn refresh(&mut self, session: &mut JvmSession, feed: &Feed) -> Result<(), jvm::Error> {
        let mut changed = session.threads.refresh();
        let now = Instant::now();
        if session.threads.wants_names(now) {
            session.threads.set_names(&threads::read_names(&session.client)?, now);
            changed = true;
        }
        if changed {
            self.names.publish(session.threads.table());
        }
        if let Some(recorder) = &mut session.recorder {
            self.damaged += recorder.read(feed);
            recorder.renew(&session.client)?;
        }
        Ok(())
    }
}

/// A recording that runs, and the reading of it.
struct Recorder {
    flight: Flight,
    tail: Tail,
    renewed: Instant,
    damaged: u64,
    events: RecordedEvents,
}

/// From what a JVM recorded to events.
struct RecordedEvents {
    machine: Machine,
    /// Thread ids as this process sees them, where the JVM is in a nested pid namespace.
    tids: HashMap<Tid, Tid>,
    pauses: PauseMerger,
}

impl Recorder {
    /// Has the JVM record, or says why not.
    fn start(
        jfr: Jfr,
        client: &Client,
        version: &str,
        feed: &Feed,
        pauses: PauseMerger,
    ) -> Result<Self, String> {
        if jfr == Jfr::Never {
            return Err("Flight Recorder is switched off".to_owned());
        }
        let machine = client.machine();
        if let Some(why) = flight::start_cost(machine, version).filter(|_| jfr == Jfr::Auto) {
            return Err(why);
        }
        let has_calls = jfr == Jfr::Handlers && flight::check_handler_calls(version).is_ok();
        let flight =
            Flight::start(client, std::process::id(), has_calls).map_err(|error| error.to_string())?;
        pauses.expect_recorded(true);
        Ok(Self {
            tail: Tail::of(flight.folder(), machine.pid, feed.clock, feed.now()),
            flight,
            renewed: Instant::now(),
            damaged: 0,
            events: RecordedEvents { machine: machine.clone(), tids: HashMap::new(), pauses },
        })
    }

    /// Has the JVM go on, where it is time to say so.
    fn renew(&mut self, client: &Client) -> Result<(), jvm::Error> {
        if self.renewed.elapsed() >= Flight::RENEW_AFTER {
            self.flight.renew(client)?;
            self.renewed = Instant::now();
        }
        Ok(())
    }

    /// Delivers what the JVM has written since the last time. How much of it could not be read.
    fn read(&mut self, feed: &Feed) -> u64 {
        let Self { tail, events, .. } = self;
        let mut batch = Batch::of(&feed.sender);
        let polled = tail.poll(crate::now(), &mut |recorded| batch.push(events.event(recorded)));
        batch.send();
        let summary = self.tail.summary();
        let damaged = summary.damaged + summary.lost + u64::from(polled.is_err());
        damaged.saturating_sub(std::mem::replace(&mut self.damaged, damaged))
    }

    /// Ends it, and delivers the rest: the chunk that is open stays readable when its file is gone.
    fn stop(mut self, client: &Client, feed: &Feed) -> u64 {
        let damaged = self.read(feed);
        // The broker may have ended: then there is nothing to stop.
        let _ = self.flight.stop(client);
        let damaged = damaged + self.read(feed);
        let mut batch = Batch::of(&feed.sender);
        self.tail.finish(&mut |recorded| batch.push(self.events.event(recorded)));
        batch.send();
        damaged
    }
}

impl RecordedEvents {
    fn event(&mut self, recorded: JfrEvent) -> Event {
        match recorded {
            JfrEvent::Pause(pause) => JfrEvent::Pause(self.pauses.add_recorded(pause)).into(),
            JfrEvent::LockWait(mut wait) if self.machine.own_pid != self.machine.pid => {
                wait.tid = self.visible(wait.tid).unwrap_or_default();
                if let Some(holder) = &mut wait.holder {
                    holder.tid = holder.tid.and_then(|tid| self.visible(tid));
                }
                Event::LockWait(Box::new(wait))
            }
            JfrEvent::HandlerCall(mut call) if self.machine.own_pid != self.machine.pid => {
                call.tid = self.visible(call.tid).unwrap_or_default();
                Event::HandlerCall(Box::new(call))
            }
            other => other.into(),
        }
    }

    fn visible(&mut self, own: Tid) -> Option<Tid> {
        if !self.tids.contains_key(&own) {
            self.tids = threads::tids_by_own_tid(&self.machine);
        }
        self.tids.get(&own).copied()
    }
}
