//! The JVM's side of a watch: a thread of its own, which asks the broker's JVM who its threads are, at first and
//! whenever there are new ones, and has it record who waits for locks. How a JVM is asked is `jvm`'s business.

mod recorder;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use jvm::attach::{Bounds, Client};
use jvm::{Machine, act_as, threads};
use model::{ClockOffset, Pid};

use crate::keeper::Current;
use crate::process::Process;
use crate::queue::Sender;
use crate::roster::Roster;
use crate::stops::Stops;
use crate::thread_names::{Table, ThreadNames};
use recorder::Recorder;

/// How often to look for new threads, and for what was recorded: the JVM writes that about once a second.
const LOOK: Duration = Duration::from_millis(500);
/// An answer of a line or two.
const SHORT: Bounds = Bounds { bytes: 4 << 10, time: Duration::from_secs(10) };

/// What the JVM's thread needs.
pub(crate) struct JvmSource {
    pub(crate) jfr: Jfr,
    pub(crate) names: ThreadNames,
    pub(crate) offset: ClockOffset,
    pub(crate) stops: Stops,
    pub(crate) sender: Sender,
    pub(crate) current: Current,
    pub(crate) stop: Arc<AtomicBool>,
}

/// Whether to have the JVM record waits for locks and stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jfr {
    /// Where starting it does not hold the broker up.
    #[default]
    Auto,
    /// Also where it does, once.
    Always,
    /// Not at all.
    Never,
}

/// What the first JVM said.
pub(crate) struct Begun {
    /// What it calls itself.
    pub(crate) version: String,
    /// Whether it records, or why not.
    pub(crate) records: Result<(), String>,
}

/// That, or why it was not asked.
pub(crate) type First = Result<Begun, jvm::Error>;

/// A JVM that answers, and its threads.
struct Asked {
    client: Client,
    roster: Roster,
    recorder: Option<Recorder>,
}

impl JvmSource {
    /// Asks the JVM of this process and says how that went; then that of the broker of the moment, until told to
    /// stop. What went wrong on the way comes back.
    pub(crate) fn run(self, pid: Pid, first: &SyncSender<First>) -> Vec<String> {
        let mut trouble = Vec::new();
        let (mut pid, mut asked) = (pid, None);
        let begun = self.begin(pid).map(|(new, begun)| {
            asked = Some(new);
            begun
        });
        // Whoever waits for this may have gone on without.
        let _ = first.try_send(begun);
        while !self.stop.load(Ordering::Relaxed) {
            std::thread::park_timeout(LOOK);
            let Some(subject) = self.current.subject() else { continue };
            if subject.pid != pid {
                pid = subject.pid;
                self.names.publish(Table::new());
                self.stops.recorder_tells(false);
                asked = self.follow(pid, &mut trouble);
            }
            let refreshed = asked.as_mut().map_or(Ok(()), |asked| self.refresh(asked));
            if let Err(error) = refreshed {
                asked = None;
                self.stops.recorder_tells(false);
                // A broker that ended is the keeper's news.
                if !Process::of(pid).is_gone() {
                    trouble.push(format!("the JVM is asked no more: {error}"));
                }
            }
        }
        if let Some(Asked { client, recorder: Some(recorder), .. }) = asked {
            let _ = recorder.stop(&client, &self.sender);
        }
        trouble
    }

    fn begin(&self, pid: Pid) -> Result<(Asked, Begun), jvm::Error> {
        let machine = Machine::of(pid)?;
        machine.check_attachable()?;
        act_as(&machine)?;
        let client = Client::of(&machine)?;
        let version = client.jcmd("VM.version", SHORT)?;
        let mut asked = Asked { client, roster: Roster::of(pid), recorder: None };
        self.refresh(&mut asked)?;
        let records = Recorder::start(self.jfr, &asked.client, &version, self.offset, self.stops.clone());
        let records = records.map(|recorder| asked.recorder = Some(recorder));
        Ok((asked, Begun { version: version.lines().next().unwrap_or_default().to_owned(), records }))
    }

    /// The JVM of the process that took the broker's place.
    fn follow(&self, pid: Pid, trouble: &mut Vec<String>) -> Option<Asked> {
        match self.begin(pid) {
            Ok((asked, begun)) => {
                let unsaid = self.jfr == Jfr::Never;
                trouble.extend(begun.records.err().filter(|_| !unsaid));
                Some(asked)
            }
            Err(error) => {
                trouble.push(error.to_string());
                None
            }
        }
    }

    fn refresh(&self, asked: &mut Asked) -> Result<(), jvm::Error> {
        let mut changed = asked.roster.look();
        let now = Instant::now();
        if asked.roster.wants_names(now) {
            asked.roster.named(&threads::read_names(&asked.client)?, now);
            changed = true;
        }
        if changed {
            self.names.publish(asked.roster.table());
        }
        match &mut asked.recorder {
            Some(recorder) => recorder.tell(&asked.client, &self.sender),
            None => Ok(()),
        }
    }
}
