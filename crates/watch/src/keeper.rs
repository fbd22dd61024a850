//! Keeps the probes on the broker, whatever its process: notices that it ended, takes the probes off, looks for
//! the process that takes its place and attaches them to that one. Does not read what the probes see.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use model::{BrokerChange, BrokerState, ClockOffset, Event, Pid};
use probes::{Plan, Probes, Target};

use crate::identity::Identity;
use crate::kernel::{KernelSource, Names};
use crate::process::Process;
use crate::queue::Sender;
use crate::thread_names::ThreadNames;

/// How often to look whether the broker still runs, or runs again.
const LOOK: Duration = Duration::from_millis(500);

/// A broker's process and its log dirs, as this process sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) pid: Pid,
    pub(crate) log_dirs: Vec<PathBuf>,
}

/// The subject of the moment, for every source that needs it; none while the broker does not run.
#[derive(Clone, Default)]
pub(crate) struct Current(Arc<Mutex<Option<Subject>>>);

impl Current {
    pub(crate) fn subject(&self) -> Option<Subject> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, subject: Option<Subject>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = subject;
    }
}

/// The keeping thread's means.
pub(crate) struct Keeper {
    identity: Identity,
    /// Log dirs that were named by the user: they stay.
    named_dirs: Option<Vec<PathBuf>>,
    attacher: Attacher,
    current: Current,
    stop: Arc<AtomicBool>,
    trouble: Vec<String>,
}

/// How probes are put on a process.
pub(crate) struct Attacher {
    /// None where the kernel is not to be watched, or cannot be.
    pub(crate) plan: Option<Plan>,
    pub(crate) offset: ClockOffset,
    pub(crate) threads: ThreadNames,
    /// Of the probes' ring buffer.
    pub(crate) ring_bytes: u32,
    pub(crate) sender: Sender,
}

/// Probes on one process, polled by a thread of their own.
pub(crate) struct Attached {
    thread: JoinHandle<Result<Probes, probes::Error>>,
    stop: Arc<AtomicBool>,
}

/// What a keeper knew when it ended.
#[derive(Default)]
pub(crate) struct Kept {
    /// What kept the probes from running to the end.
    pub(crate) kernel: Option<probes::Error>,
    /// What went wrong at a restart.
    pub(crate) trouble: Vec<String>,
}

impl Keeper {
    /// A keeper of this broker. `named_dirs` replace the broker's own log dirs in the names of files.
    pub(crate) fn new(
        identity: Identity,
        named_dirs: Option<Vec<PathBuf>>,
        attacher: Attacher,
        current: Current,
        stop: Arc<AtomicBool>,
    ) -> Self {
        Self { identity, named_dirs, attacher, current, stop, trouble: Vec::new() }
    }

    /// Keeps watch until told to stop, then takes the probes off.
    pub(crate) fn run(mut self, subject: Subject, attached: Option<Attached>) -> Kept {
        let mut watched = Some((Process::of(subject.pid), subject, attached));
        self.announce(watched.as_ref().map(|(_, subject, _)| subject), BrokerState::Watched);
        while !self.stop.load(Ordering::Relaxed) {
            watched = match watched {
                Some((process, subject, attached)) if process.is_gone() => {
                    self.left(&subject, attached);
                    None
                }
                Some(still) => Some(still),
                None => self.returned(),
            };
            std::thread::park_timeout(LOOK);
        }
        let kernel = watched.and_then(|(_, _, attached)| attached).and_then(Attached::end);
        Kept { kernel, trouble: self.trouble }
    }

    fn left(&mut self, subject: &Subject, attached: Option<Attached>) {
        if let Some(error) = attached.and_then(Attached::end) {
            self.trouble.push(format!("the probes on broker {} ended early: {error}", subject.pid));
        }
        self.announce(Some(subject), BrokerState::Gone);
    }

    fn returned(&mut self) -> Option<(Process, Subject, Option<Attached>)> {
        let broker = self.identity.find()?;
        let process = Process::of(broker.pid);
        let log_dirs = self.named_dirs.clone().unwrap_or(broker.log_dirs);
        let subject = Subject { pid: broker.pid, log_dirs };
        let attached = self.attacher.attach(&subject).unwrap_or_else(|error| {
            let pid = subject.pid;
            self.trouble.push(format!("no probes on broker {pid}, which took the place: {error}"));
            None
        });
        self.announce(Some(&subject), BrokerState::Watched);
        Some((process, subject, attached))
    }

    fn announce(&self, subject: Option<&Subject>, state: BrokerState) {
        let Some(subject) = subject else { return };
        self.current.set((state == BrokerState::Watched).then(|| subject.clone()));
        let at = self.attacher.offset.from_monotonic(crate::now().monotonic_ns);
        self.attacher.sender.send(Event::BrokerChange(BrokerChange { at, pid: subject.pid, state }));
    }
}

impl Attacher {
    /// Puts probes on a process and starts to poll them; none where there is no plan. What the kernel refused is
    /// in the plan no more.
    pub(crate) fn attach(
        &mut self,
        subject: &Subject,
    ) -> Result<Option<Attached>, Box<dyn std::error::Error>> {
        let Some(plan) = &self.plan else { return Ok(None) };
        let target = Target { pid: subject.pid, stacks: true };
        let options =
            probes::Options { ring_bytes: self.ring_bytes, clock: self.offset, ..probes::Options::default() };
        let probes = Probes::attach_with(plan, &target, &options)?;
        self.plan = Some(probes.plan().clone());
        let stop = Arc::new(AtomicBool::new(false));
        let source = KernelSource {
            probes,
            offset: self.offset,
            names: Names::new(subject.pid, &subject.log_dirs, self.threads.reader()),
            sender: self.sender.clone(),
            stop: Arc::clone(&stop),
        };
        let thread = crate::watch::spawn("probes", move || source.run())?;
        Ok(Some(Attached { thread, stop }))
    }
}

impl Attached {
    /// Takes the probes off once they have delivered what they still hold. What kept them from running so far.
    fn end(self) -> Option<probes::Error> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().ok().and_then(Result::err)
    }
}
