//! Processes that do nothing, as hard as they can, on some processors: so that others wait for one.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::error::Error;
use crate::process::Process;
use crate::session::Interrupt;

/// How long a process may take to begin.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Busy processes that can be halted and let go on; dropping them ends them.
#[derive(Debug)]
pub(crate) struct CpuHogs {
    pub(crate) processes: Vec<Process>,
    pub(crate) niceness: i32,
}

impl CpuHogs {
    /// Starts so many on the processors of `cpus` (as for taskset(1)), at this niceness, halted.
    pub(crate) fn start(site: &Path, count: u32, cpus: &str, niceness: i32) -> Result<Self, Error> {
        let mut hogs = Self { processes: Vec::new(), niceness };
        for _ in 0..count {
            let mut command = Command::new("taskset");
            command.args(["--cpu-list", cpus, "nice", "-n", &niceness.to_string(), "sh", "-c"]);
            command.arg("kill -STOP $$; while :; do :; done");
            command.stdin(Stdio::null()).stdout(Stdio::null());
            hogs.processes.push(Process::spawn(&mut command, Some(site))?);
        }
        let all_halted = || Ok(hogs.processes.iter().all(|process| is_halted(process.pid())).then_some(()));
        Interrupt::never().wait(START_TIMEOUT, "the busy processes' start", all_halted)?;
        Ok(hogs)
    }

    /// Lets them work, or halts them (`CONT`, `STOP`).
    pub(crate) fn signal(&self, signal: Signal) {
        for process in &self.processes {
            process.signal(signal);
        }
    }
}

impl Drop for CpuHogs {
    fn drop(&mut self) {
        // A halted process does not hear SIGTERM before it goes on.
        self.signal(Signal::KILL);
    }
}

/// State T, the word after the name in parentheses (`proc_pid_stat(5)`).
fn is_halted(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

/// Halts a process or lets it go on.
pub(crate) fn send(pid: u32, signal: Signal) -> Result<(), Error> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.ok_or_else(|| Error::Unusable(format!("no process: {pid}")))?;
    kill_process(number, signal).map_err(Error::system(&format!("signal process {pid}")))
}
