//! Processes of an experiment, and programs that it runs to their end.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::{Error, Result};
use crate::session::poll;
use crate::site::MARK;

/// How long a process may take to end after SIGTERM, before SIGKILL.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// A running child process and its process group.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// Whether it is killed when dropped, because it has nothing to clean up.
    pub(crate) is_throwaway: bool,
}

impl Process {
    /// Starts `command`; `site` (if any) is how `brokerscope-lab clean` recognises it after the lab was killed.
    pub(crate) fn spawn(command: &mut Command, site: Option<&Path>) -> Result<Self> {
        if let Some(site) = site {
            command.env(MARK, site);
        }
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command.process_group(0).spawn().map_err(|source| unavailable(&program, source))?;
        Ok(Self { child, is_throwaway: false })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The child, for its pipes.
    pub(crate) fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Its exit status, if it has ended.
    pub(crate) fn exit_status(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().map_err(Error::system("wait for a child process"))
    }

    /// Sends `signal` to its whole group. The leader is not reaped yet, so no other group can have its id.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }

    fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills it, for processes that have nothing to clean up.
    pub(crate) fn kill(&mut self) {
        if self.runs() {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }

    /// Ends it: SIGTERM, then SIGKILL if it does not react. Does nothing if it has ended.
    pub(crate) fn stop(&mut self) {
        if self.runs() {
            self.signal(Signal::TERM);
            poll(STOP_TIMEOUT, || !self.runs());
            self.kill();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.is_throwaway { self.kill() } else { self.stop() }
    }
}

/// How much of a program's output an error repeats.
const TAIL_BYTES: u64 = 2_000;

/// The package of a program, for the message if it is missing.
const REMEDIES: &[(&[&str], &str)] = &[
    (&["java"], "install a JDK, 17 or newer (Debian: apt-get install openjdk-17-jdk-headless)"),
    (
        &["javac", "jar", "jcmd", "keytool"],
        "install a JDK, not only its runtime (Debian: apt-get install openjdk-17-jdk-headless)",
    ),
    (&["mvn"], "install Maven (Debian: apt-get install maven)"),
    (&["mkfs.ext4", "debugfs"], "install e2fsprogs"),
    (&["mkfs.xfs", "xfs_db"], "install xfsprogs"),
    (&["ip", "tc"], "install iproute2"),
    (&["ethtool"], "install ethtool"),
    (&["losetup"], "install util-linux (Debian: apt-get install mount)"),
];

/// Runs `command` to its end and returns its stdout followed by its stderr.
///
/// # Errors
/// [`Error::Missing`] if the program is not there, [`Error::Tool`] with the end of its output if it reports failure.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let tool = command.get_program().to_string_lossy().into_owned();
    let answer = command.output().map_err(|source| unavailable(&tool, source))?;
    let mut text = String::from_utf8_lossy(&answer.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&answer.stderr));
    if answer.status.success() {
        return Ok(text);
    }
    let start = text.len().saturating_sub(TAIL_BYTES as usize);
    let tail = text.char_indices().find(|(at, _)| *at >= start).and_then(|(at, _)| text.get(at..));
    Err(Error::Tool { tool, output: tail.unwrap_or_default().trim().to_owned() })
}

/// Makes `command` read nothing and write both its outputs to `log`.
pub(crate) fn log_output<'c>(command: &'c mut Command, log: &Path) -> Result<&'c mut Command> {
    let output = File::create(log).map_err(Error::io("write", log))?;
    let errors = output.try_clone().map_err(Error::io("write", log))?;
    Ok(command.stdin(Stdio::null()).stdout(output).stderr(errors))
}

/// Turns a failed start of `tool` into an error that says what to install.
pub(crate) fn unavailable(tool: &str, source: std::io::Error) -> Error {
    if source.kind() != ErrorKind::NotFound {
        return Error::Io { doing: format!("run {tool}"), source };
    }
    let known = REMEDIES.iter().find(|(tools, _)| tools.contains(&tool));
    let remedy = known.map_or("check the path", |(_, remedy)| remedy).to_owned();
    Error::Missing { tool: tool.to_owned(), remedy }
}

/// The end of a log file, for an error message; empty when there is none.
pub(crate) fn tail(log: &Path) -> String {
    let Ok(mut file) = File::open(log) else { return String::new() };
    let length = file.metadata().map_or(0, |about| about.len());
    let _ = file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)));
    let mut bytes = Vec::new();
    let _ = file.take(TAIL_BYTES).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// Work in the background. On drop it is asked to end, without waiting for it.
#[derive(Debug)]
pub(crate) struct Background<T> {
    name: &'static str,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<T>>,
}

impl<T: Send + 'static> Background<T> {
    /// Starts it; `work` returns soon after its argument becomes true. `name` is the worker's name in an error.
    pub(crate) fn start(name: &'static str, work: impl FnOnce(&AtomicBool) -> T + Send + 'static) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&over);
        Self { name, over, thread: Some(thread::spawn(move || work(&flag))) }
    }

    /// Ends it and returns its result.
    ///
    /// # Errors
    /// It panicked.
    pub(crate) fn stop(mut self) -> Result<T> {
        self.over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().and_then(|thread| thread.join().ok());
        ended.ok_or_else(|| Error::Unusable(format!("{} died", self.name)))
    }
}

impl<T> Drop for Background<T> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Runs `act` on a thread that may change its own state, and waits for it; `name` is the thread's name in an error.
pub(crate) fn on_own_thread<T: Send>(name: &str, act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let joined = thread::scope(|scope| scope.spawn(act).join());
    joined.unwrap_or_else(|_| Err(Error::Unusable(format!("{name} died"))))
}

/// Runs `act` on as many threads as there are elements, and waits for all.
pub(crate) fn in_parallel<I: Send, T: Send>(
    elements: Vec<I>,
    act: impl Fn(I) -> Result<T> + Sync,
) -> Vec<Result<T>> {
    thread::scope(|scope| {
        let act = &act;
        let started: Vec<_> = elements.into_iter().map(|element| scope.spawn(move || act(element))).collect();
        let died = |_| Err(Error::Unusable("a thread panicked".to_owned()));
        started.into_iter().map(|thread| thread.join().unwrap_or_else(died)).collect()
    })
}

#[cfg(test)]
mod tool_tests {
    use super::*;

    #[test]
    fn error_names_a_missing_program_and_its_package() {
        let absent = unavailable("mvn", std::io::Error::from(ErrorKind::NotFound));
        assert!(absent.to_string().contains("mvn is missing: install Maven"), "{absent}");
    }

    #[test]
    fn error_quotes_stderr_of_a_failing_program() {
        let failure = output(Command::new("sh").args(["-c", "echo because >&2; exit 3"])).unwrap_err();
        assert_eq!(failure.to_string(), "sh failed: because");
    }

    #[test]
    fn log_tail_is_bounded() {
        let log = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(log.path(), "x".repeat(50_000) + "end").unwrap();
        let tail = tail(log.path());
        assert_eq!(tail.len(), TAIL_BYTES as usize);
        assert!(tail.ends_with("end"));
    }
}

#[cfg(test)]
mod background_tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use super::Background;

    fn count(over: &AtomicBool) -> u64 {
        let mut rounds = 0;
        while !over.load(Ordering::Relaxed) {
            rounds += 1;
        }
        rounds + 1
    }

    #[test]
    fn stop_ends_the_thread_and_returns_its_result() {
        assert!(Background::start("the counter", count).stop().unwrap() > 0);
    }

    #[test]
    fn drop_ends_the_thread() {
        let (sender, receiver) = mpsc::channel();
        drop(Background::start("the counter", move |over| sender.send(count(over))));
        assert!(receiver.recv().unwrap() > 0);
    }

    #[test]
    fn error_names_a_thread_that_panicked() {
        let died = Background::start("the counter", |_| -> u64 { panic!("on purpose") }).stop().unwrap_err();
        assert_eq!(died.to_string(), "the counter died");
    }
}
