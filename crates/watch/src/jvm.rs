//! The JVM source of a watch: reads thread names from the broker's JVM, at the start and for new threads, and has its Flight
//! Recorder record lock waits and pauses. The crate `jvm` implements the requests.

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

/// Bounds of a response of a line or two.
const SHORT: Bounds = Bounds { bytes: 4 << 10, time: Duration::from_secs(10) };

/// Whether to start Flight Recorder, and for which events.
/// It records lock waits and pauses, and with [`Jfr::Handlers`] also calls of request handlers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jfr {
    /// Start it if that does not pause the broker.
    #[default]
    Auto,
    /// Start it even if that pauses the broker once.
    Always,
    /// Like `Always`, with calls of request handlers: pauses the broker at the start and at the end.
    Handlers,
    /// Do not start it.
    Never,
}

/// The first JVM's response.
pub(crate) struct JvmAnswer {
    /// The JVM's name and version.
    pub(crate) version: String,
    /// Whether Flight Recorder runs, or why not.
    pub(crate) records: Result<(), String>,
    /// Whether calls of request handlers are recorded, or why not; `None` if not requested.
    pub(crate) calls: Option<Result<(), String>>,
}

/// Reads from the broker's JVM.
pub(crate) struct JvmSource {
    pub(crate) jfr: Jfr,
    pub(crate) names: ThreadNames,
    pub(crate) pauses: PauseMerger,
    pub(crate) pid: Pid,
    /// Receives the first response.
    pub(crate) first: SyncSender<Result<JvmAnswer, jvm::Error>>,
    pub(crate) session: Option<JvmSession>,
    /// Errors so far.
    pub(crate) trouble: Vec<String>,
    /// Parts of recordings that could not be read.
    pub(crate) damaged: u64,
}

/// A connected JVM and its threads.
pub(crate) struct JvmSession {
    client: Client,
    threads: ThreadList,
    recorder: Option<Recorder>,
}

impl Source for JvmSource {
    type Error = Infallible;

    const NAME: &'static str = "jvm";
    /// How often to check for new threads and new recorded events: the JVM writes these about once a second.
    const PACE: Pace = Pace::Every(Duration::from_millis(500));
    const SCHED_BATCH: bool = false;

    /// Threads alone are checked half as often.
    fn pace(&self) -> Pace {
        let records = self.session.as_ref().is_some_and(|session| session.recorder.is_some());
        if records { Self::PACE } else { Pace::Every(Duration::from_secs(1)) }
    }

    /// The thread becomes the broker's user later, which drops more capabilities; without a JVM, only these are dropped.
    fn drop_capabilities() {
        let _ = crate::privileges::keep_setuid_capabilities();
    }

    fn start(&mut self, feed: &Feed) {
        let answer = self.open(self.pid, feed).map(|(session, answer)| {
            self.session = Some(session);
            answer
        });
        // The receiver may have timed out.
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

    /// Stops the recorder. The session stays: without one, the JVM would count as down.
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

    /// Connects to the JVM of the process that replaced the broker.
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

/// A running Flight Recorder recording and its reader.
struct Recorder {
    flight: Flight,
    tail: Tail,
    renewed_at: Instant,
    damaged: u64,
    events: RecordedEvents,
}

/// Converts what a JVM recorded to events.
struct RecordedEvents {
    machine: Machine,
    /// Thread ids as this process sees them, if the JVM is in a nested PID namespace.
    tids: HashMap<Tid, Tid>,
    pauses: PauseMerger,
}

impl Recorder {
    /// Starts a recording in the JVM, or returns why not.
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
            renewed_at: Instant::now(),
            damaged: 0,
            events: RecordedEvents { machine: machine.clone(), tids: HashMap::new(), pauses },
        })
    }

    /// Renews the recording in the JVM, if it is due.
    fn renew(&mut self, client: &Client) -> Result<(), jvm::Error> {
        if self.renewed_at.elapsed() >= Flight::RENEW_AFTER {
            self.flight.renew(client)?;
            self.renewed_at = Instant::now();
        }
        Ok(())
    }

    /// Delivers what the JVM has written since the last call.
    /// Returns how many parts could not be read.
    fn read(&mut self, feed: &Feed) -> u64 {
        let Self { tail, events, .. } = self;
        let mut batch = Batch::of(&feed.sender);
        let polled = tail.poll(crate::now(), &mut |recorded| batch.push(events.event(recorded)));
        batch.send();
        let summary = self.tail.summary();
        let damaged = summary.damaged + summary.lost + u64::from(polled.is_err());
        damaged.saturating_sub(std::mem::replace(&mut self.damaged, damaged))
    }

    /// Stops the recording and delivers the rest: the open chunk stays readable after its file is gone.
    fn stop(mut self, client: &Client, feed: &Feed) -> u64 {
        let damaged = self.read(feed);
        // Fails if the broker has ended: then there is nothing to stop.
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
