//! A running `Contended.java`: the number of waits, and the CPU time of its threads meanwhile. Ended when dropped.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, ensure};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

const SOURCE: &str = include_str!("../../../java/Contended.java");
/// Prefix of its threads' names in the kernel.
const THREADS: &str = "contender-";

/// The running program.
pub(super) struct Contender {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// The work of its threads.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) millis: u64,
    /// Memory that a thread touches each time it has the monitor.
    pub(super) kib: u64,
}

/// Results of a run.
pub(super) struct WaitTime {
    pub(super) waits: u64,
    nanos: u64,
}

impl WaitTime {
    /// CPU time per wait, including everything between two waits: if its threads share one CPU, the whole time from one
    /// wait to the next.
    pub(super) fn nanos_each(&self) -> f64 {
        self.nanos as f64 / self.waits.max(1) as f64
    }
}

impl Contender {
    /// Starts it in a directory with one more argument for its JVM; returns when it is ready.
    pub(super) fn start(directory: &Path, argument: &str) -> anyhow::Result<Self> {
        let source = directory.join("Contended.java");
        fs::write(&source, SOURCE)?;
        let mut command = Command::new("java");
        command.env_remove("JAVA_TOOL_OPTIONS").env_remove("JDK_JAVA_OPTIONS");
        command.args(["-Xmx64m", "-XX:+UseSerialGC", argument]).arg(&source);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("java")?;
        let orders = child.stdin.take().context("no pipe")?;
        let answers = BufReader::new(child.stdout.take().context("no pipe")?);
        let mut contender = Self { child, orders, answers };
        let answer = contender.answer()?;
        ensure!(answer == "ready", "Contended.java said {answer}");
        Ok(contender)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Pins its contending threads to one CPU, and all others of the JVM to the rest.
    pub(super) fn pin(&self, contenders: &CpuSet, others: &CpuSet) -> anyhow::Result<()> {
        for (tid, name) in self.tasks()? {
            let set = if name.starts_with(THREADS) { contenders } else { others };
            match sched_setaffinity(Pid::from_raw(tid), set) {
                // The thread has ended meanwhile.
                Ok(()) | Err(nix::Error::ESRCH) => {}
                Err(error) => return Err(error).with_context(|| format!("cannot pin thread {tid}")),
            }
        }
        Ok(())
    }

    /// Lets its threads contend for some time.
    pub(super) fn run(&mut self, load: Load) -> anyhow::Result<WaitTime> {
        let before = self.ran()?;
        writeln!(self.orders, "{} {}", load.millis, load.kib)?;
        let waits = self.answer()?.parse().context("Contended.java")?;
        Ok(WaitTime { waits, nanos: self.ran()?.saturating_sub(before) })
    }

    fn answer(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        ensure!(self.answers.read_line(&mut line)? > 0, "Contended.java ended");
        Ok(line.trim().to_owned())
    }

    /// Run time of its threads so far in nanoseconds: the first field of `schedstat` (`proc_pid_schedstat`,
    /// fs/proc/base.c).
    fn ran(&self) -> anyhow::Result<u64> {
        let mut nanos = 0;
        for (tid, _) in self.tasks()?.into_iter().filter(|(_, name)| name.starts_with(THREADS)) {
            let path = format!("/proc/{}/task/{tid}/schedstat", self.pid());
            let text = fs::read_to_string(&path).with_context(|| path.clone())?;
            let ran = text.split(' ').next().and_then(|field| field.parse::<u64>().ok());
            nanos += ran.context("no schedstat: the kernel counts no thread's time")?;
        }
        Ok(nanos)
    }

    /// Its threads, with their names in the kernel.
    fn tasks(&self) -> anyhow::Result<Vec<(i32, String)>> {
        let mut tasks = Vec::new();
        for task in fs::read_dir(format!("/proc/{}/task", self.pid()))?.flatten() {
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            let tid = task.file_name().to_string_lossy().parse();
            tasks.push((tid.context("a thread without a number")?, name));
        }
        Ok(tasks)
    }
}

impl Drop for Contender {
    fn drop(&mut self) {
        // Both fail if it has already ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
