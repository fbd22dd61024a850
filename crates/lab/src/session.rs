//! What every experiment starts with: an account on stderr, a flag for Ctrl-C, a machine on which no killed lab has
//! left anything, and an observer: it runs `brokerscope record` on a broker, and other commands on what was recorded.

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

/// Catches signals, takes down what killed labs left, and returns what runs the binary `brokerscope`, or the one beside this
/// program.
pub(crate) fn start(brokerscope: Option<&Path>) -> Result<Observer> {
    interrupt().catch_signals()?;
    site::sweep()?;
    Observer::new(brokerscope)
}

/// Says on stderr what the lab does, a line a step.
pub(crate) fn say(line: &str) {
    // A closed stderr is no reason to leave an experiment half taken down.
    let _ = writeln!(std::io::stderr(), "lab: {line}");
}

/// Whether this machine is a guest whose hypervisor reads what is said on stderr: `vmtest/hypervisor` says so.
pub(crate) fn has_hypervisor() -> bool {
    std::env::var_os("BROKERSCOPE_HOST_PAUSES").is_some()
}

/// Has that hypervisor do something.
pub(crate) fn ask_hypervisor(what: &str) {
    let _ = writeln!(std::io::stderr(), "host: {what}");
}

/// Says one line about what has been done since `started`.
pub(crate) fn took(started: Instant, line: &str) {
    say(&format!("{line} ({:.1} s)", started.elapsed().as_secs_f64()));
}

/// Writes to stdout.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Error::system("write to stdout"))
}

/// Those of these ids, or all where none is named.
///
/// # Errors
/// Where a name is none of them; `what` is what they are called.
pub(crate) fn chosen<T>(
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

/// How often a wait looks again.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Asks `ready` until it says yes or `limit` has passed; what it said last.
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

/// That of this process.
pub(crate) fn interrupt() -> &'static Interrupt {
    static RAISED: LazyLock<Interrupt> = LazyLock::new(Interrupt::default);
    &RAISED
}

impl Interrupt {
    /// Is raised by SIGINT, SIGTERM and SIGHUP of this process from now on; a second one changes nothing, since
    /// leaving half-way is what the flag is there to prevent.
    pub(crate) fn catch_signals(&self) -> Result<()> {
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&self.0))
                .map_err(Error::system("catch signals"))?;
        }
        Ok(())
    }

    /// [`Error::Interrupted`] once a signal came.
    pub(crate) fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Asks `ready` until it has an answer; `what` is waited for.
    ///
    /// # Errors
    /// What `ready` fails with; [`Error::Interrupted`]; [`Error::TooSlow`] once `limit` has passed.
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

/// How long a recorder may take to attach, and to finish.
const RECORDER_TIMEOUT: Duration = Duration::from_secs(600);
/// How long an explanation may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(600);

/// Runs brokerscope as a user would.
pub(crate) struct Observer {
    /// The binary.
    exe: PathBuf,
    /// Further arguments of `record`.
    pub(crate) record_flags: Vec<String>,
}

/// A running recorder; ended when dropped.
pub(crate) struct Recorder {
    process: Process,
    command: Command,
    log: PathBuf,
}

impl Observer {
    /// Runs the binary `exe`, or the one that belongs to this program.
    pub(crate) fn new(exe: Option<&Path>) -> Result<Self> {
        let exe = exe.map_or_else(program::brokerscope, |exe| Ok(exe.to_owned()))?;
        Ok(Self { exe, record_flags: Vec::new() })
    }

    /// A subcommand, to be given its arguments.
    pub(crate) fn command(&self, subcommand: &str) -> Command {
        let mut command = Command::new(&self.exe);
        command.arg(subcommand);
        command
    }

    /// Records the broker `pid` into `recording`; it records when this returns.
    pub(crate) fn record(&self, recording: &Path, pid: u32, site: &Path) -> Result<Recorder> {
        let log = recording.with_extension("log");
        let mut command = self.command("record");
        command.arg("-o").arg(recording).args(["--pid", &pid.to_string()]).args(&self.record_flags);
        let mut process = Process::spawn(process::logged(&mut command, &log)?, Some(site))?;
        // The manifest is written when everything is attached.
        let manifest = recording.join("manifest.json");
        let attached = || match process.ended()? {
            Some(_) => Err(failed(&command, &log)),
            None => Ok(manifest.exists().then_some(())),
        };
        interrupt().wait(RECORDER_TIMEOUT, "the recorder's start", attached)?;
        Ok(Recorder { process, command, log })
    }

    /// Has `explain` or `advise` judge what took at least so long in a recording: JSON lines, kept in the file `said`.
    pub(crate) fn judge(
        &self,
        subcommand: &str,
        recording: &Path,
        slower_than_ms: u64,
        said: &Path,
    ) -> Result<String> {
        let mut command = self.command(subcommand);
        let slower_than = format!("{slower_than_ms}ms");
        command.arg(recording).args(["--format", "json", "--slower-than", &slower_than]);
        ask(command, said)
    }
}

/// Runs a command to its end on the lab's own terminal; `meanwhile` is asked while it runs.
pub(crate) fn show(
    mut command: Command,
    site: &Path,
    limit: Duration,
    mut meanwhile: impl FnMut() -> Result<()>,
) -> Result<()> {
    let mut process = Process::spawn(command.stdin(Stdio::null()), Some(site))?;
    let ended = || meanwhile().and_then(|()| process.ended());
    let status = interrupt().wait(limit, &called(&command), ended);
    if status.is_err() {
        process.signal(Signal::INT);
    }
    let status = status?;
    if status.success() {
        return Ok(());
    }
    let said = format!("{status} (its output is above)");
    Err(Error::Tool { tool: called(&command), said })
}

/// Runs a command to its end and returns what it says, which is kept in the file `said`; its complaints go into the log
/// beside that.
pub(crate) fn ask(mut command: Command, said: &Path) -> Result<String> {
    let log = said.with_extension("log");
    let output = File::create(said).map_err(Error::io("write", said))?;
    process::logged(&mut command, &log)?.stdout(output);
    let mut process = Process::spawn(&mut command, None)?;
    let status = interrupt().wait(COMMAND_TIMEOUT, &called(&command), || process.ended())?;
    if status.success() { files::read(said) } else { Err(failed(&command, &log)) }
}

impl Recorder {
    /// Ends it as Ctrl-C does, and waits until its files are whole.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.process.signal(Signal::INT);
        let ended = || self.process.ended();
        let status = interrupt().wait(RECORDER_TIMEOUT, "the recorder's end", ended)?;
        if status.success() { Ok(()) } else { Err(failed(&self.command, &self.log)) }
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

#[cfg(test)]
mod interrupt_tests {
    use super::*;

    #[test]
    fn a_raised_flag_ends_a_wait_before_its_limit() {
        let interrupt = Interrupt::default();
        interrupt.0.store(true, Ordering::Relaxed);
        let waited = interrupt.wait(Duration::from_secs(3600), "nothing", || Ok(None::<()>));
        assert!(matches!(waited, Err(Error::Interrupted)));
        assert!(interrupt.sleep(Duration::from_secs(3600)).is_err());
    }

    #[test]
    fn an_answer_counts_even_when_interrupted() {
        let interrupt = Interrupt::default();
        interrupt.0.store(true, Ordering::Relaxed);
        let answer = interrupt.wait(Duration::ZERO, "nothing", || Ok(Some(7)));
        assert_eq!(answer.unwrap(), 7);
    }
}
