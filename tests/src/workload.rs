//! A process that executes orders on files (`workload.py`). It has the name of a broker, and may run under strace.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::container::{Image, first_process};
use crate::first::ahead;
use crate::tcpdump::signal;

/// Timeout for starting.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running workload; killed when dropped.
#[derive(Debug)]
pub struct Workload {
    child: Child,
    pid: u32,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    tid: u32,
    properties: PathBuf,
}

impl Workload {
    /// Starts one whose log dir is `log_dir`, which is created.
    ///
    /// # Panics
    /// If that fails.
    pub fn start(log_dir: &Path) -> Self {
        Self::start_by(log_dir, &[])
    }

    /// As [`Workload::start`], by a command that runs the rest (`taskset`, `nice`).
    ///
    /// # Panics
    /// As [`Workload::start`].
    pub fn start_by(log_dir: &Path, starter: &[&str]) -> Self {
        fs::create_dir_all(log_dir).unwrap();
        let mut command = match starter {
            [] => Command::new("bash"),
            [program, arguments @ ..] => {
                let mut command = Command::new(program);
                command.args(arguments).arg("bash");
                command
            }
        };
        command.current_dir(log_dir);
        Self::run(command, &log_dir.display().to_string())
    }

    /// Starts one in a container, with these log dirs.
    ///
    /// # Panics
    /// As [`Workload::start`].
    pub fn start_in(image: &Image, log_dirs: &[&str]) -> Self {
        let mut command = image.command();
        command.arg("bash");
        let mut this = Self::run(command, &log_dirs.join(","));
        this.pid = first_process(&this.child, "kafka.Kafka");
        this
    }

    /// `command` ends with `bash`.
    fn run(mut command: Command, log_dirs: &str) -> Self {
        let properties = std::env::temp_dir().join(format!("workload-{}.properties", std::process::id()));
        fs::write(&properties, format!("log.dirs={log_dirs}\nlisteners=PLAINTEXT://127.0.0.1:1\n")).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("workload.py");
        // The last program run has a broker's name. `python3` may be a script that looks for Python, and Python finds
        // its library by its program name, unless PYTHONHOME is set.
        let named = "set -e; python=$(python3 -c 'import sys; print(sys.executable)'); \
                     export PYTHONHOME=$(python3 -c 'import sys; print(sys.base_prefix)'); \
                     exec -a java \"$python\" \"$@\"";
        let mut child = command
            .args(["-c", named, "bash"])
            .arg(script)
            .arg("kafka.Kafka")
            .arg(&properties)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (orders, answers) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let pid = child.id();
        let mut this = Self { child, pid, orders, answers, tid: 0, properties };
        this.tid = this.answer().strip_prefix("ready ").unwrap().parse().unwrap();
        this
    }

    /// Its process id on the host.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The id of the thread that executes orders, in its own namespace.
    pub fn tid(&self) -> u32 {
        self.tid
    }

    /// Sends an order, and returns the answer.
    ///
    /// # Panics
    /// If the process has ended.
    pub fn order(&mut self, order: &str) -> String {
        writeln!(self.orders, "{order}").unwrap();
        self.answer()
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the workload ended");
        line.trim().to_owned()
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        // All fail if it has already ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_file(&self.properties);
    }
}

/// strace on all threads of a process; killed when dropped.
#[derive(Debug)]
pub struct Strace {
    child: Child,
    trace_path: PathBuf,
}

impl Strace {
    /// Traces everything from when this returns.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(pid: u32, trace_path: &Path) -> Self {
        let errors = trace_path.with_extension("err");
        let mut strace = Command::new("strace");
        strace.args(["-f", "-T", "-ttt", "-s", "0", "-o"]).arg(trace_path).args(["-p", &pid.to_string()]);
        strace.stdin(Stdio::null()).stderr(File::create(&errors).unwrap());
        let child = ahead(|| strace.spawn()).expect("strace starts");
        let end = Instant::now() + PATIENCE;
        while !fs::read_to_string(&errors).unwrap_or_default().contains("attached") {
            assert!(Instant::now() < end, "strace does not attach");
            sleep(Duration::from_millis(20));
        }
        Self { child, trace_path: trace_path.to_owned() }
    }

    /// Detaches, and returns the calls of one thread in the order of their ends.
    ///
    /// # Panics
    /// If it does not end, or what it wrote cannot be read.
    pub fn stop(mut self, tid: u32) -> Vec<Call> {
        signal(&self.child, Signal::INT);
        self.child.wait().unwrap();
        let text = fs::read_to_string(&self.trace_path).unwrap();
        text.lines().filter_map(|line| Call::parse(line, tid)).collect()
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A system call as strace reports it.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// What it returned; negative where it failed.
    pub result: i64,
    /// Its duration, from `-T`.
    pub seconds: f64,
}

impl Call {
    /// Parses the line of a call of this thread, or of a call that was resumed. For example `123 1700000000.000001
    /// write(3, ""..., 100) = 100 <0.000021>`.
    fn parse(line: &str, tid: u32) -> Option<Self> {
        // The columns are padded.
        let (of, rest) = line.split_once(' ')?;
        let (_time, call) = rest.trim_start().split_once(' ').filter(|_| of.parse() == Ok(tid))?;
        let name = match call.strip_prefix("<... ") {
            Some(rest) => rest.split(' ').next()?,
            None => call.split('(').next()?,
        };
        let (head, time) = call.rsplit_once(" <")?;
        let seconds = time.strip_suffix('>')?.parse().ok()?;
        let result = head.rsplit_once("= ")?.1.split(' ').next()?.parse().unwrap_or(0);
        Some(Self { name: name.to_owned(), result, seconds })
    }
}

#[cfg(test)]
mod tests {
    use super::Call;

    #[test]
    fn parses_strace_lines() {
        let call =
            Call::parse(r#"12 1763736887.1234 pwrite64(3, ""..., 100, 0) = 100 <0.000021>"#, 12).unwrap();
        assert_eq!((call.name.as_str(), call.result), ("pwrite64", 100));
        assert!((call.seconds - 0.000_021).abs() < 1e-9);
        let failed = "12    1763736887.1 write(4, \"\"..., 1) = -1 EBADF (Bad file descriptor) <0.000003>";
        assert_eq!(Call::parse(failed, 12).unwrap().result, -1);
        let resumed = "12 1763736887.2 <... fsync resumed>) = 0 <0.200100>";
        assert_eq!(Call::parse(resumed, 12).unwrap().name, "fsync");
        assert!(Call::parse("13 1763736887.2 fsync(3) = 0 <0.2>", 12).is_none());
        assert!(Call::parse("12 1763736887.2 fsync(3 <unfinished ...>", 12).is_none());
    }
}
