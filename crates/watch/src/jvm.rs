//! The JVM source of a watch: reads thread names from the broker's JVM, at the start and for new threads, and has its Flight
//! Recorder record lock waits and pauses. The crate `jvm` implements the requests. A separate process parses the responses
//! ([`crate::parser::jvm`]), except the few lines about the JVM itself.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use jvm::attach::{Bounds, Client};
use jvm::flight::{self, Flight};
use jvm::jfr::{ChunkFolder, JfrEvent};
use jvm::threads::Names;
use jvm::{Machine, act_as, threads};
use model::{Event, LossKind, Pid, Tid};

use crate::parser::Parser;
use crate::parser::jvm::{JvmCounts, JvmOrder, NamedThread};
use crate::parser::transfer::{Transfer, take_rows};
use crate::pause_merger::PauseMerger;
use crate::process::Process;
use crate::queue::Batch;
use crate::source::{Feed, LossCount, Pace, Source, WatchSummary};
use crate::thread_names::ThreadList;
use crate::thread_names::{Table, ThreadNames};

/// Bounds of a response of a line or two.
const SHORT: Bounds = Bounds { bytes: 4 << 10, time: Duration::from_secs(10) };
/// Bytes of a thread dump in one message.
const DUMP_PIECE: usize = 1 << 20;

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

/// Reasons why the JVM's data cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JvmError {
    /// The JVM could not be queried.
    #[error(transparent)]
    Jvm(#[from] jvm::Error),
    /// The parser does not respond, or has ended.
    #[error("the parser of the JVM's data: {0}")]
    Parser(#[from] io::Error),
}

/// Sends an order to the parser, and passes the rows of its response to `take`.
fn order<T: Transfer>(
    parser: &mut Parser,
    order: &JvmOrder,
    mut take: impl FnMut(T),
) -> io::Result<JvmCounts> {
    parser.send_order(order, None)?;
    parser.receive_response(|rows| take_rows(rows, &mut take))
}

/// Reads from the broker's JVM.
pub(crate) struct JvmSource {
    pub(crate) jfr: Jfr,
    pub(crate) names: ThreadNames,
    pub(crate) pauses: PauseMerger,
    pub(crate) pid: Pid,
    /// Receives the first response.
    pub(crate) first: SyncSender<Result<JvmAnswer, JvmError>>,
    /// The process that parses what the JVM writes.
    pub(crate) parser: Parser,
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

impl JvmSession {
    /// Stops the recording in the JVM; nobody reads it any more.
    fn stop_recording(&mut self) {
        if let Some(recorder) = self.recorder.take() {
            // Fails if the broker has ended, too.
            let _ = recorder.flight.stop(&self.client);
        }
    }
}

impl Source for JvmSource {
    /// The parser of the JVM's data failed.
    type Error = JvmError;

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

    fn poll(&mut self, feed: &Feed, _: Duration) -> Result<(), JvmError> {
        let Some(broker) = feed.current.get() else { return Ok(()) };
        if broker.pid != self.pid {
            self.pid = broker.pid;
            self.names.publish(Table::new());
            self.pauses.expect_recorded(false);
            self.follow(feed)?;
        }
        let Some(mut session) = self.session.take() else { return Ok(()) };
        match self.refresh(&mut session, feed) {
            Ok(()) => self.session = Some(session),
            Err(JvmError::Parser(error)) => {
                self.pauses.expect_recorded(false);
                session.stop_recording();
                return Err(self.parser.end(&error).into());
            }
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
    fn finish(&mut self, feed: &Feed) -> Result<(), JvmError> {
        let Some(JvmSession { client, recorder, .. }) = &mut self.session else { return Ok(()) };
        if let Some(recorder) = recorder.take() {
            self.damaged += recorder.stop(client, &mut self.parser, feed)?;
        }
        Ok(())
    }

    fn summarize(mut self, ended: Result<(), JvmError>) -> WatchSummary {
        self.trouble.extend(ended.err().map(|error| error.to_string()));
        WatchSummary { trouble: self.trouble, ..WatchSummary::default() }
    }
}

impl JvmSource {
    fn open(&mut self, pid: Pid, feed: &Feed) -> Result<(JvmSession, JvmAnswer), JvmError> {
        let machine = Machine::of(pid)?;
        machine.check_attachable()?;
        act_as(&machine)?;
        let client = Client::of(&machine)?;
        let version = client.jcmd("VM.version", SHORT)?;
        let mut session = JvmSession { client, threads: ThreadList::of(pid), recorder: None };
        self.refresh(&mut session, feed)?;
        let shared = (self.pauses.clone(), &self.parser);
        let recorder = Recorder::start(self.jfr, &session.client, &version, feed, shared);
        let records = recorder.map(|recorder| session.recorder = Some(recorder));
        let calls = (self.jfr == Jfr::Handlers)
            .then(|| records.clone().and_then(|()| flight::check_handler_calls(&version)));
        let version = version.lines().next().unwrap_or_default().to_owned();
        Ok((session, JvmAnswer { version, records, calls }))
    }

    /// Connects to the JVM of the process that replaced the broker.
    fn follow(&mut self, feed: &Feed) -> Result<(), JvmError> {
        match self.open(self.pid, feed) {
            Ok((session, answer)) => {
                self.session = Some(session);
                let calls = answer.calls.and_then(Result::err).filter(|_| answer.records.is_ok());
                self.trouble.extend(answer.records.err().filter(|_| self.jfr != Jfr::Never));
                self.trouble.extend(calls);
            }
            Err(error @ JvmError::Parser(_)) => return Err(error),
            Err(error) => {
                self.session = None;
                self.trouble.push(error.to_string());
            }
        }
        Ok(())
    }

    fn refresh(&mut self, session: &mut JvmSession, feed: &Feed) -> Result<(), JvmError> {
        self.parser.check_running()?;
        let mut changed = session.threads.refresh();
        let now = Instant::now();
        if session.threads.wants_names(now) {
            session.threads.set_names(&self.read_names(&session.client)?, now);
            changed = true;
        }
        if changed {
            self.names.publish(session.threads.table());
        }
        if let Some(recorder) = &mut session.recorder {
            self.damaged += recorder.read(&mut self.parser, feed, false)?;
            recorder.renew(&session.client)?;
        }
        Ok(())
    }

    /// Requests the names of all threads.
    fn read_names(&mut self, client: &Client) -> Result<Names, JvmError> {
        let dump = threads::request_dump(client)?;
        for piece in dump.as_bytes().chunks(DUMP_PIECE) {
            self.parser.send_log(piece)?;
        }
        let mut names = Names::new();
        order(&mut self.parser, &JvmOrder::Names, |(tid, name): NamedThread| {
            if names.len() < threads::MAX_THREADS {
                names.insert(tid, name);
            }
        })?;
        Ok(threads::by_visible_tid(client.machine(), names))
    }
}

/// A running Flight Recorder recording and its reader.
struct Recorder {
    flight: Flight,
    chunks: ChunkFolder,
    renewed_at: Instant,
    /// Parts that could not be read so far, by the parser's count.
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
        (pauses, parser): (PauseMerger, &Parser),
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
        let recording = JvmOrder::Recording { pid: machine.pid, clock: feed.clock, since_ns: feed.now().0 };
        if let Err(error) = parser.send_order(&recording, None) {
            let _ = flight.stop(client);
            return Err(JvmError::from(error).to_string());
        }
        pauses.expect_recorded(true);
        Ok(Self {
            chunks: ChunkFolder::of(flight.folder()),
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

    /// Delivers what the JVM has written since the last call; with `is_last`, nothing follows.
    /// Returns how many parts could not be read.
    fn read(&mut self, parser: &mut Parser, feed: &Feed, is_last: bool) -> io::Result<u64> {
        let Self { chunks, events, damaged, .. } = self;
        let new = chunks.open_new();
        let is_unlisted = new.is_err();
        for (name, file) in new.unwrap_or_default() {
            parser.send_order(&JvmOrder::Chunk { name }, Some(file.as_fd()))?;
        }
        let mut batch = Batch::of(&feed.sender);
        let counts = order(parser, &JvmOrder::Events { is_last }, |recorded: JfrEvent| {
            batch.push(events.event(recorded));
        });
        batch.send();
        let before = std::mem::replace(damaged, counts?.damaged);
        Ok(u64::from(is_unlisted) + damaged.saturating_sub(before))
    }

    /// Stops the recording and delivers the rest: the open chunk stays readable after its file is gone.
    fn stop(mut self, client: &Client, parser: &mut Parser, feed: &Feed) -> io::Result<u64> {
        let damaged = self.read(parser, feed, false);
        // Fails if the broker has ended: then there is nothing to stop.
        let _ = self.flight.stop(client);
        Ok(damaged? + self.read(parser, feed, true)?)
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
