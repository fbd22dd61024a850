//! The JVM's side of a watch: a thread of its own, which asks the broker's JVM who its threads are, at first and
//! whenever there are new ones. How a JVM is asked is `jvm`'s business.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use jvm::attach::{Bounds, Client};
use jvm::{Machine, act_as, threads};
use model::Pid;

use crate::keeper::Current;
use crate::process::Process;
use crate::roster::Roster;
use crate::thread_names::{Table, ThreadNames};

/// How often to look for new threads.
const LOOK: Duration = Duration::from_secs(1);
/// An answer of a line or two.
const SHORT: Bounds = Bounds { bytes: 4 << 10, time: Duration::from_secs(10) };

/// What the JVM's thread needs.
pub(crate) struct JvmSource {
    pub(crate) names: ThreadNames,
    pub(crate) current: Current,
    pub(crate) stop: Arc<AtomicBool>,
}

/// What the first JVM calls itself, or why it was not asked.
pub(crate) type First = Result<String, jvm::Error>;

/// A JVM that answers, and its threads.
struct Asked {
    client: Client,
    roster: Roster,
}

impl JvmSource {
    /// Asks the JVM of this process and says how that went; then that of the broker of the moment, until told to
    /// stop. What went wrong on the way comes back.
    pub(crate) fn run(self, pid: Pid, first: &SyncSender<First>) -> Vec<String> {
        let mut trouble = Vec::new();
        let mut asked = None;
        let begun = self.begin(pid).map(|(begun, version)| {
            asked = Some(begun);
            version
        });
        // Whoever waits for this may have gone on without.
        let _ = first.try_send(begun);
        let mut pid = pid;
        while !self.stop.load(Ordering::Relaxed) {
            std::thread::park_timeout(LOOK);
            let Some(subject) = self.current.subject() else { continue };
            if subject.pid != pid {
                pid = subject.pid;
                self.names.publish(Table::new());
                asked = self
                    .begin(pid)
                    .map_err(|error| trouble.push(error.to_string()))
                    .ok()
                    .map(|(begun, _)| begun);
            }
            let refreshed = asked.as_mut().map_or(Ok(()), |asked| self.refresh(asked));
            if let Err(error) = refreshed {
                asked = None;
                // A broker that ended is the keeper's news.
                if !Process::of(pid).is_gone() {
                    trouble.push(format!("new threads of the broker have short names: {error}"));
                }
            }
        }
        trouble
    }

    fn begin(&self, pid: Pid) -> Result<(Asked, String), jvm::Error> {
        let machine = Machine::of(pid)?;
        machine.may_be_asked()?;
        act_as(&machine)?;
        let client = Client::of(&machine)?;
        let version = client.jcmd("VM.version", SHORT)?;
        let mut asked = Asked { client, roster: Roster::of(pid) };
        self.refresh(&mut asked)?;
        Ok((asked, version.lines().next().unwrap_or_default().to_owned()))
    }

    fn refresh(&self, asked: &mut Asked) -> Result<(), jvm::Error> {
        let mut changed = asked.roster.look();
        let now = Instant::now();
        if asked.roster.wants_names(now) {
            asked.roster.named(&threads::ask(&asked.client)?, now);
            changed = true;
        }
        if changed {
            self.names.publish(asked.roster.table());
        }
        Ok(())
    }
}
