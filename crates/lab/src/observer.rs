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
    pub(crate) fn record(
        &self,
        recording: &Path,
        pid: u32,
        site: &Path,
        further: &[&str],
    ) -> Result<Recorder<'_>, Error> {
        let log = recording.with_extension("log");
        let output = File::create(&log).map_err(Error::io("write", &log))?;
        let errors = output.try_clone().map_err(Error::io("write", &log))?;
        let mut command = Command::new(&self.exe);
        command.arg("record").arg("-o").arg(recording).args(["--pid", &pid.to_string()]).args(further);
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let process = Process::spawn(&mut command, Some(site))?;
        let mut recorder = Recorder { process, log, observer: self };
        // The manifest is written when everything is attached.
        let manifest = recording.join("manifest.json");
        recorder.wait("the recorder's start", |_| manifest.exists())?;
        Ok(recorder)
    }

    /// Explains a recording: verdicts of what took at least `slower_than_ms`, as JSON lines into `verdicts`.
    pub(crate) fn explain(
        &self,
        recording: &Path,
        slower_than_ms: u64,
        verdicts: &Path,
    ) -> Result<(), Error> {
        let slower_than = format!("{slower_than_ms}ms");
        let further = ["--format", "json", "--slower-than", &slower_than];
        self.have_said("explain", |command| command.arg(recording).args(further), verdicts)
    }

    /// What to change by a recording, judging what took at least `slower_than_ms`: JSON lines, which are kept in the file `said`.
    pub(crate) fn advise(&self, recording: &Path, slower_than_ms: u64, said: &Path) -> Result<String, Error> {
        let slower_than = format!("{slower_than_ms}ms");
        let further = ["--format", "json", "--slower-than", &slower_than];
        self.have_said("advise", |command| command.arg(recording).args(further), said)?;
        fs::read_to_string(said).map_err(Error::io("read", said))
    }

    /// Compares configurations, each a directory of repeated recordings, the first with all others; `further` are
    /// arguments that say how. Returns what it says, which is kept in the file `said`.
    pub(crate) fn compare(
        &self,
        configurations: &[PathBuf],
        further: &[&OsStr],
        said: &Path,
    ) -> Result<String, Error> {
        self.have_said("compare", |command| command.args(configurations).args(further), said)?;
        fs::read_to_string(said).map_err(Error::io("read", said))
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
        let late = || Error::TooSlow { what: what.clone(), limit, hint: String::new() };
        let status = self.interrupt.wait(limit, ended, late);
        if status.is_err() {
            process.signal(Signal::INT);
        }
        match status? {
            status if status.success() => Ok(()),
            status => Err(Error::Tool { tool: what, said: format!("{status} (its own words are above)") }),
        }
    }

    /// Runs a command to its end; what it says goes into `said`, and its complaints into the log beside that.
    pub(crate) fn have_said(
        &self,
        subcommand: &str,
        arguments: impl FnOnce(&mut Command) -> &mut Command,
        said: &Path,
    ) -> Result<(), Error> {
        let what = format!("brokerscope {subcommand}");
        let log = said.with_extension("log");
        let output = File::create(said).map_err(Error::io("write", said))?;
        let errors = File::create(&log).map_err(Error::io("write", &log))?;
        let mut command = Command::new(&self.exe);
        arguments(command.arg(subcommand)).stdin(Stdio::null()).stdout(output).stderr(errors);
        let mut process = Process::spawn(&mut command, None)?;
        let late = || Error::TooSlow { what: what.clone(), limit: COMMAND_TIMEOUT, hint: String::new() };
        let status = self.interrupt.wait(COMMAND_TIMEOUT, || process.ended(), late)?;
        if status.success() { Ok(()) } else { Err(Error::Tool { tool: what, said: process::tail(&log) }) }
    }
}

impl Recorder<'_> {
    /// Ends it as Ctrl-C does, and waits until its files are whole.
    pub(crate) fn stop(mut self) -> Result<(), Error> {
        self.process.signal(Signal::INT);
        let late = || Error::TooSlow {
            what: "the recorder's end".to_owned(),
            limit: RECORDER_TIMEOUT,
            hint: String::new(),
        };
        let status = self.observer.interrupt.wait(RECORDER_TIMEOUT, || self.process.ended(), late)?;
        if status.success() { Ok(()) } else { Err(self.failed()) }
    }

    fn wait(&mut self, what: &str, ready: impl Fn(&Path) -> bool) -> Result<(), Error> {
        let Self { process, log, observer } = self;
        let seen = || match process.ended()? {
            Some(_) => Err(Error::Tool { tool: "brokerscope record".to_owned(), said: process::tail(log) }),
            None => Ok(ready(log).then_some(())),
        };
        let late = || Error::TooSlow { what: what.to_owned(), limit: RECORDER_TIMEOUT, hint: String::new() };
        observer.interrupt.wait(RECORDER_TIMEOUT, seen, late)
    }

    fn failed(&self) -> Error {
        Error::Tool { tool: "brokerscope record".to_owned(), said: process::tail(&self.log) }
    }
}
