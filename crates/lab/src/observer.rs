//! An experiment's user: runs `brokerscope record` on a broker, and other commands on what was recorded.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::error::Error;
use crate::process::Process;
use crate::session::Interrupt;
use crate::{files, process, program};

/// How long a recorder may take to attach, and to finish.
const RECORDER_TIMEOUT: Duration = Duration::from_secs(180);
/// How long an explanation may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(600);

/// Runs brokerscope as a user would.
pub(crate) struct Observer {
    /// The binary.
    exe: PathBuf,
    interrupt: Interrupt,
}

/// A running recorder; ended when dropped.
pub(crate) struct Recorder<'a> {
    process: Process,
    log: PathBuf,
    observer: &'a Observer,
}

impl Observer {
    /// Runs the binary `exe`, or the one that belongs to this program.
    pub(crate) fn new(exe: Option<&Path>, interrupt: &Interrupt) -> Result<Self, Error> {
        let exe = exe.map_or_else(program::brokerscope, |exe| Ok(exe.to_owned()))?;
        Ok(Self { exe, interrupt: interrupt.clone() })
    }

    /// A subcommand, to be given its arguments.
    pub(crate) fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(&self.exe);
        command.arg(subcommand);
        command
    }

    /// Records the broker `pid` into `recording`; it records when this returns.
    pub(crate) fn record(&self, recording: &Path, pid: u32, site: &Path) -> Result<Recorder<'_>, Error> {
        let log = recording.with_extension("log");
        let mut command = self.command("record");
        command.arg("-o").arg(recording).args(["--pid", &pid.to_string()]);
        let mut process = Process::spawn(process::logged(&mut command, &log)?, Some(site))?;
        // The manifest is written when everything is attached.
        let manifest = recording.join("manifest.json");
        let attached = || match process.ended()? {
            Some(_) => Err(failed(&command, &log)),
            None => Ok(manifest.exists().then_some(())),
        };
        self.interrupt.wait(RECORDER_TIMEOUT, "the recorder's start", attached)?;
        Ok(Recorder { process, log, observer: self })
    }

    /// Has `explain` or `advise` judge what took at least so long in a recording: JSON lines, kept in the file `said`.
    pub(crate) fn judge(
        &self,
        subcommand: &str,
        recording: &Path,
        slower_than_ms: u64,
        said: &Path,
    ) -> Result<String, Error> {
        let mut command = self.command(subcommand);
        let slower_than = format!("{slower_than_ms}ms");
        command.arg(recording).args(["--format", "json", "--slower-than", &slower_than]);
        self.ask(command, said)
    }

    /// Runs a command to its end on the lab's own terminal; `meanwhile` is asked while it runs.
    pub(crate) fn show(
        &self,
        mut command: Command,
        site: &Path,
        limit: Duration,
        mut meanwhile: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut process = Process::spawn(command.stdin(Stdio::null()), Some(site))?;
        let ended = || meanwhile().and_then(|()| process.ended());
        let status = self.interrupt.wait(limit, &called(&command), ended);
        if status.is_err() {
            process.signal(Signal::INT);
        }
        let status = status?;
        if status.success() {
            return Ok(());
        }
        let said = format!("{status} (its own words are above)");
        Err(Error::Tool { tool: called(&command), said })
    }

    /// Runs a command to its end and returns what it says, which is kept in the file `said`; its complaints go into the log
    /// beside that.
    pub(crate) fn ask(&self, mut command: Command, said: &Path) -> Result<String, Error> {
        let log = said.with_extension("log");
        let output = File::create(said).map_err(Error::io("write", said))?;
        process::logged(&mut command, &log)?.stdout(output);
        let mut process = Process::spawn(&mut command, None)?;
        let status = self.interrupt.wait(COMMAND_TIMEOUT, &called(&command), || process.ended())?;
        if status.success() { files::read(said) } else { Err(failed(&command, &log)) }
    }
}

impl Recorder<'_> {
    /// Ends it as Ctrl-C does, and waits until its files are whole.
    pub(crate) fn stop(mut self) -> Result<(), Error> {
        self.process.signal(Signal::INT);
        let ended = || self.process.ended();
        let status = self.observer.interrupt.wait(RECORDER_TIMEOUT, "the recorder's end", ended)?;
        if status.success() { Ok(()) } else { Err(failed(&self.observer.command("record"), &self.log)) }
    }
}

/// `brokerscope explain`, as messages name a command.
fn called(command: &Command) -> String {
    let subcommand = command.get_args().next().unwrap_or(OsStr::new("")).to_string_lossy();
    format!("brokerscope {subcommand}")
}

fn failed(command: &Command, log: &Path) -> Error {
    Error::Tool { tool: called(command), said: process::tail(log) }
}
