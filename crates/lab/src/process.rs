//! A process of the experiment: started in its own process group, so that Ctrl-C reaches the lab alone and
//! the lab takes things down in order; marked with the site it belongs to; ended when dropped.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::Error;
use crate::site::MARK;
use crate::tool;

/// How long a process may take to end after SIGTERM before it gets SIGKILL.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running child process and its process group.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts `command`; `site` (if any) is what `brokerscope-lab clean` recognises it by after the lab was killed.
    pub(crate) fn spawn(command: &mut Command, site: Option<&Path>) -> Result<Self, Error> {
        if let Some(site) = site {
            command.env(MARK, site);
        }
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.process_group(0).spawn().map_err(|source| tool::unavailable(&program, source))?;
        Ok(Self { child })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The child, for its pipes.
    pub(crate) fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>, Error> {
        self.child.try_wait().map_err(Error::system("wait for a child process"))
    }

    /// Sends `signal` to its whole group. The leader is not reaped yet, so the group's id cannot be
    /// somebody else's.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }

    /// Ends it at once, for what has nothing to put in order.
    pub(crate) fn kill(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }

    /// Ends it: SIGTERM, then SIGKILL when it does not listen. Does nothing when it has ended.
    pub(crate) fn stop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        self.signal(Signal::TERM);
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}
