//! Common parts of experiments: status lines on stderr, a flag for Ctrl-C, cleanup after killed labs, and an observer,
//! which runs `brokerscope record` on a broker and other commands on the recording.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::{Error, Result};
use crate::process::Process;
use crate::{files, process, program, site};

/// Starts a session and returns its observer. Catches signals, and takes down what killed labs left behind. The
/// observer runs the binary `brokerscope`, or the one next to this program.
pub(crate) fn start(brokerscope: Option<&Path>) -> Result<Observer> {
    interrupt().catch_signals()?;
    site::sweep()?;
    Observer::new(brokerscope)
}

/// Prints a status line to stderr, one per step.
pub(crate) fn print_status(line: &str) {
    // A closed stderr is no reason to leave an experiment half taken down.
    let _ = writeln!(std::io::stderr(), "lab: {line}");
}

/// Whether this machine is a guest whose hypervisor reads stderr. `vmtest/hypervisor` announces that.
pub(crate) fn has_hypervisor() -> bool {
    std::env::var_os("BROKERSCOPE_HOST_PAUSES").is_some()
}

/// Orders that hypervisor to do something.
pub(crate) fn ask_hypervisor(what: &str) {
    let _ = writeln!(std::io::stderr(), "host: {what}");
}

/// Prints a status line with the time since `started`.
pub(crate) fn print_elapsed(started: Instant, line: &str) {
    print_status(&format!("{line} ({:.1} s)", started.elapsed().as_secs_f64()));
}

/// Writes to stdout.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Error::system("write to stdout"))
}

/// Selects elements by id, or all if none is named.
///
/// # Errors
/// A name is unknown; `what` is the kind of element.
pub(crate) fn select<T>(
    all: Vec<T>,
    names: &[String],
    what: &str,
    id: impl Fn(&T) -> &str,
) -> Result<Vec<T>> {
    let known: Vec<&str> = all.iter().map(&id).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(Error::Unusable(format!("no {what} is called {name}; there are {}", known.join(", "))));
    }
    let is_meant = |one: &T| names.is_empty() || names.iter().any(|name| name == id(one));
    Ok(all.into_iter().filter(is_meant).collect())
}

/// Draws a seed that is short enough to be typed.
pub(crate) fn draw_seed() -> u64 {
    fastrand::u32(..).into()
}

/// How often a wait polls.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Polls `ready` until it returns true or `limit` has passed; returns its last answer.
pub(crate) fn poll(limit: Duration, mut ready: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        match ready() {
            false if Instant::now() < end => thread::sleep(POLL_INTERVAL),
            answer => return answer,
        }
    }
}

/// Whether this process has been asked to stop.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

/// The flag of this process.
pub(crate) fn interrupt() -> &'static Interrupt {
    static RAISED: LazyLock<Interrupt> = LazyLock::new(Interrupt::default);
    &RAISED
}

impl Interrupt {
    /// Sets the flag on SIGINT, SIGTERM and SIGHUP from now on. A second signal changes nothing, because the flag is
    /// there to prevent leaving half-way.
    pub(crate) fn catch_signals(&self) -> Result<()> {
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&self.0))
                .map_err(Error::system("catch signals"))?;
        }
        Ok(())
    }

    /// [`Error::Interrupted`] once a signal has come.
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Polls `ready` until it returns a value; `what` is the awaited event.
    ///
    /// # Errors
    /// The error of `ready`; [`Error::Interrupted`]; [`Error::TooSlow`] once `limit` has passed.
    pub(crate) fn wait<T>(
        &self,
        limit: Duration,
        what: &str,
        mut ready: impl FnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let end = Instant::now() + limit;
        loop {
            if let Some(answer) = ready()? {
                return Ok(answer);
            }
            self.check()?;
            if Instant::now() >= end {
                return Err(Error::TooSlow { what: what.to_owned(), limit, hint: String::new() });
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Sleeps for `time` unless interrupted.
    pub(crate) fn sleep(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.check()?;
            thread::sleep(POLL_INTERVAL.min(end.saturating_duration_since(Instant::now())));
        }
        self.check()
    }
}

/// Timeout for a recorder to attach, and to finish.
const RECORDER_TIMEOUT: Duration = Duration::from_secs(600);
/// Timeout of an explanation.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(600);

/// Runs brokerscope as a user would.
#[derive(Clone, Debug)]
pub(crate) struct Observer {
    /// The binary.
    exe: PathBuf,
    /// Further arguments of `record`.
    pub(crate) record_flags: Vec<String>,
}

/// A running recorder; dropping it ends it.
pub(crate) struct Recorder {
    process: Process,
    command: Command,
    log: PathBuf,
}

impl Observer {
    /// Makes an observer that runs the binary `exe`. `None` selects the one that belongs to this program.
    pub(crate) fn new(exe: Option<&Path>) -> Result<Self> {
        let exe = exe.map_or_else(program::brokerscope, |exe| Ok(exe.to_owned()))?;
        Ok(Self { exe, record_flags: Vec::new() })
    }

    /// The same, with more arguments of `record`.
    pub(crate) fn with_record_flags(&self, flags: impl IntoIterator<Item = String>) -> Self {
        let mut observer = self.clone();
        observer.record_flags.extend(flags);
        observer
    }

    /// A subcommand; the caller adds its arguments.
    pub(crate) fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(&self.exe);
        command.arg(subcommand);
        command
    }

    /// Records the broker `pid` into `recording`; returns once the recorder records.
    pub(crate) fn record(&self, recording: &Path, pid: u32, site: &Path) -> Result<Recorder> {
        let log = recording.with_extension("log");
        let mut command = self.command("record");
        command.arg("-o").arg(recording).args(["--pid", &pid.to_string()]).args(&self.record_flags);
        let mut process = Process::spawn(process::log_output(&mut command, &log)?, Some(site))?;
        // The manifest is written once everything is attached.
        let manifest = recording.join("manifest.json");
        let attached = || match process.exit_status()? {
            Some(_) => Err(tool_error(&command, &log)),
            None => Ok(manifest.exists().then_some(())),
        };
        interrupt().wait(RECORDER_TIMEOUT, "the recorder's start", attached)?;
        Ok(Recorder { process, command, log })
    }

    /// Runs `explain` or `advise` with verdicts on requests at least this slow: returns lines of JSON, also saved in
    /// the file `path`.
    pub(crate) fn judge(
        &self,
        subcommand: &str,
        recording: &Path,
        slower_than_ms: u64,
        path: &Path,
    ) -> Result<String> {
        let mut command = self.command(subcommand);
        let slower_than = format!("{slower_than_ms}ms");
        command.arg(recording).args(["--format", "json", "--slower-than", &slower_than]);
        capture_output(command, path)
    }
}

/// Runs a command to its end on the lab's own terminal; calls `meanwhile` while it runs.
pub(crate) fn show(
    mut command: Command,
    site: &Path,
    limit: Duration,
    mut meanwhile: impl FnMut() -> Result<()>,
) -> Result<()> {
    let mut process = Process::spawn(command.stdin(Stdio::null()), Some(site))?;
    let ended = || meanwhile().and_then(|()| process.exit_status());
    let status = interrupt().wait(limit, &command_name(&command), ended);
    if status.is_err() {
        process.signal(Signal::INT);
    }
    let status = status?;
    if status.success() {
        return Ok(());
    }
    let output = format!("{status} (its output is above)");
    Err(Error::Tool { tool: command_name(&command), output })
}

/// Runs a command to its end and returns its stdout. The stdout is also saved in the file `path`; its stderr goes to
/// the log next to that.
pub(crate) fn capture_output(mut command: Command, path: &Path) -> Result<String> {
    let log = path.with_extension("log");
    let output = File::create(path).map_err(Error::io("write", path))?;
    process::log_output(&mut command, &log)?.stdout(output);
    let mut process = Process::spawn(&mut command, None)?;
    let status = interrupt().wait(COMMAND_TIMEOUT, &command_name(&command), || process.exit_status())?;
    if status.success() { files::read(path) } else { Err(tool_error(&command, &log)) }
}

impl Recorder {
    /// Ends it as Ctrl-C does, and waits until its files are complete.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.process.signal(Signal::INT);
        let ended = || self.process.exit_status();
        let status = interrupt().wait(RECORDER_TIMEOUT, "the recorder's end", ended)?;
        if status.success() { Ok(()) } else { Err(tool_error(&self.command, &self.log)) }
    }
}

/// The name of a command in messages, such as `brokerscope explain`.
fn command_name(command: &Command) -> String {
    let subcommand = command.get_args().next().unwrap_or(OsStr::new("")).to_string_lossy();
    format!("brokerscope {subcommand}")
}

fn tool_error(command: &Command, log: &Path) -> Error {
    Error::Tool { tool: command_name(command), output: process::tail(log) }
}

#[cfg(test)]
mod interrupt_tests {
    use super::*;

    #[test]
    fn interrupt_ends_a_wait_before_its_timeout() {
        let interrupt = Interrupt::default();
        interrupt.0.store(true, Ordering::Relaxed);
        let waited = interrupt.wait(Duration::from_secs(3600), "nothing", || Ok(None::<()>));
        assert!(matches!(waited, Err(Error::Interrupted)));
        assert!(interrupt.sleep(Duration::from_secs(3600)).is_err());
    }

    #[test]
    fn interrupted_wait_returns_an_available_answer() {
        let interrupt = Interrupt::default();
        interrupt.0.store(true, Ordering::Relaxed);
        let answer = interrupt.wait(Duration::ZERO, "nothing", || Ok(Some(7)));
        assert_eq!(answer.unwrap(), 7);
    }
}
