//! An experiment's user: runs `brokerscope record` on a broker, and other commands on what was recorded.

use std::ffi::OsStr;
use std::fs;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::error::Error;
use crate::process::Process;
use crate::session::Interrupt;
use crate::{process, program};

/// How long a recorder may take to attach, and to finish.
const RECORDER_TIMEOUT: Duration = Duration::from_secs(180);
/// How long an explanation may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(600);

/// Runs brokerscope as a user would.
pub(crate) struct Observer {
    /// The binary.
    pub(crate) exe: PathBuf,
    pub(crate) interrupt: Interrupt,
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

    /// Records the broker `pid` into `recording`; it records when this returns.
    pub(crate) fn record(&self, recording: &Path, pid: u32, site: &Path) -> Result<Recorder<'_>, Error> {
        let log = recording.with_extension("log");
        let mut command = Command::new(&self.exe);
        command.arg("record").arg("-o").arg(recording).args(["--pid", &pid.to_string()]);
        let mut process = Process::spawn(process::logged(&mut command, &log)?, Some(site))?;
        // The manifest is written when everything is attached.
        let manifest = recording.join("manifest.json");
        let attached = || match process.ended()? {
            Some(_) => Err(failed("record", &log)),
            None => Ok(manifest.exists().then_some(())),
        };
        self.interrupt.wait(RECORDER_TIMEOUT, "the recorder's start", attached)?;
        Ok(Recorder { process, log, observer: self })
    }

    /// Explains a recording: verdicts of what took at least `slower_than_ms`, as JSON lines, which are kept in the file `said`.
    pub(crate) fn explain(
        &self,
        recording: &Path,
        slower_than_ms: u64,
        said: &Path,
    ) -> Result<String, Error> {
        self.judge("explain", recording, slower_than_ms, said)
    }

    /// What to change by a recording, judging what took at least `slower_than_ms`: JSON lines, kept in the file `said`.
    pub(crate) fn advise(&self, recording: &Path, slower_than_ms: u64, said: &Path) -> Result<String, Error> {
        self.judge("advise", recording, slower_than_ms, said)
    }

    fn judge(&self, command: &str, recording: &Path, ms: u64, said: &Path) -> Result<String, Error> {
        let slower_than = format!("{ms}ms");
        let further = ["--format", "json", "--slower-than", &slower_than].map(OsStr::new);
        self.ask(command, &[&[recording.as_os_str()], &further[..]].concat(), said)
    }

    /// Compares configurations, each a directory of repeated recordings, the first with all others; `further` are
    /// arguments that say how.
    pub(crate) fn compare(
        &self,
        configurations: &[PathBuf],
        further: &[&OsStr],
        said: &Path,
    ) -> Result<String, Error> {
        let configurations: Vec<&OsStr> = configurations.iter().map(|path| path.as_os_str()).collect();
        self.ask("compare", &[&configurations, further].concat(), said)
    }

    /// Runs a command to its end on the lab's own terminal; `meanwhile` is asked while it runs.
    pub(crate) fn show(
        &self,
        (subcommand, arguments): (&str, &[&OsStr]),
        site: &Path,
        stdout: Stdio,
        limit: Duration,
        mut meanwhile: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let what = format!("brokerscope {subcommand}");
        let mut command = Command::new(&self.exe);
        command.arg(subcommand).args(arguments).stdin(Stdio::null()).stdout(stdout);
        let mut process = Process::spawn(&mut command, Some(site))?;
        let ended = || meanwhile().and_then(|()| process.ended());
        let status = self.interrupt.wait(limit, &what, ended);
        if status.is_err() {
            process.signal(Signal::INT);
        }
        match status? {
            status if status.success() => Ok(()),
            status => Err(Error::Tool { tool: what, said: format!("{status} (its own words are above)") }),
        }
    }

    /// Runs a command to its end and returns what it says, which is kept in the file `said`; its complaints go into the log
    /// beside that.
    pub(crate) fn ask(&self, subcommand: &str, arguments: &[&OsStr], said: &Path) -> Result<String, Error> {
        let log = said.with_extension("log");
        let output = File::create(said).map_err(Error::io("write", said))?;
        let mut command = Command::new(&self.exe);
        process::logged(command.arg(subcommand).args(arguments), &log)?.stdout(output);
        let mut process = Process::spawn(&mut command, None)?;
        let what = format!("brokerscope {subcommand}");
        let status = self.interrupt.wait(COMMAND_TIMEOUT, &what, || process.ended())?;
        if !status.success() {
            return Err(failed(subcommand, &log));
        }
        fs::read_to_string(said).map_err(Error::io("read", said))
    }
}

impl Recorder<'_> {
    /// Ends it as Ctrl-C does, and waits until its files are whole.
    pub(crate) fn stop(mut self) -> Result<(), Error> {
        self.process.signal(Signal::INT);
        let ended = || self.process.ended();
        let status = self.observer.interrupt.wait(RECORDER_TIMEOUT, "the recorder's end", ended)?;
        if status.success() { Ok(()) } else { Err(failed("record", &self.log)) }
    }
}

fn failed(subcommand: &str, log: &Path) -> Error {
    Error::Tool { tool: format!("brokerscope {subcommand}"), said: process::tail(log) }
}
