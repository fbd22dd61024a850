//! Runs `Contend.java` and reads its measurements. Kills it on drop, also if the test fails.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/jvm/Contend.java");

/// Directory of the compiled program; set if the CPU is emulated, where compiling takes long.
const EMULATED: &str = "BROKERSCOPE_EMULATED_JVM";

/// Whether woken threads may take long to run.
pub(crate) fn is_emulated() -> bool {
    std::env::var_os(EMULATED).is_some()
}

/// A line of the program's output.
#[derive(Debug)]
pub(crate) struct Measurement {
    /// `holder`, `waiter`, `gc`, or `round` at the end of each.
    pub(crate) role: String,
    pub(crate) tid: u32,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

/// The running program.
pub(crate) struct Program {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Program {
    /// Starts the program; returns when it is ready to begin.
    pub(crate) fn start(java: &Path, options: &[&str]) -> Self {
        // A small JVM that starts quickly on an emulated CPU.
        let mut command = Command::new(java);
        command.args(["-Xmx64m", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]);
        command.args(options);
        match std::env::var_os(EMULATED) {
            Some(compiled) => command.arg("-cp").arg(compiled).args(["Contend", "10"]),
            None => command.arg(SOURCE),
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("java is not installed");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut program = Self { child, input, output };
        program.until("ready");
        program
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Runs the program to its end; returns its measurements.
    pub(crate) fn run(&mut self) -> Vec<Measurement> {
        self.input.as_mut().unwrap().write_all(b"go\n").unwrap();
        self.until("done").iter().map(|line| parse_measurement(line)).collect()
    }

    pub(crate) fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().unwrap().success());
    }

    fn until(&mut self, last: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it ended early: {lines:#?}");
            if line.trim_end() == last {
                return lines;
            }
            lines.push(line.trim_end().to_owned());
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn parse_measurement(line: &str) -> Measurement {
    let mut words = line.split(' ');
    let role = words.next().unwrap().to_owned();
    let mut number = || words.next().map_or(0, |word| word.parse().unwrap());
    Measurement { role, tid: number() as u32, start_ns: number(), end_ns: number() }
}

/// Version of a JDK as it reports it.
pub(crate) fn version(java: &Path) -> String {
    let output = Command::new(java).arg("-version").output().expect("java is not installed");
    String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned()
}
