//! Runs the `brokerscope` binary as a user does: arguments in, text and an exit status out.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output as ProcessOutput, Stdio};

use lab::program;
use serde_json::Value;

use crate::row::Output;

/// The result of a finished command.
#[derive(Debug)]
pub struct CommandOutput {
    /// The exit status; `None` if a signal ended it.
    pub status: Option<i32>,
    /// All of stdout.
    pub stdout: String,
    /// All of stderr.
    pub stderr: String,
}

/// The binary: `BROKERSCOPE_BIN`, else the one in the target directory this program was built in.
pub fn binary() -> Option<PathBuf> {
    program::brokerscope().ok()
}

/// A command for the binary, without arguments.
///
/// # Panics
/// If there is no binary.
pub fn command() -> Command {
    Command::new(program::brokerscope().unwrap_or_else(|error| panic!("{error}")))
}

/// Like [`command`], for `brokerscope-lab`.
///
/// # Panics
/// If there is no binary.
pub fn lab() -> Command {
    Command::new(program::lab().unwrap_or_else(|error| panic!("{error}")))
}

/// Runs it to its end.
///
/// # Panics
/// If it cannot be started or prints no UTF-8.
pub fn run(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> CommandOutput {
    finish(command().args(arguments))
}

/// Runs `brokerscope-lab` to its end.
///
/// # Panics
/// If it cannot be started or prints no UTF-8.
pub fn run_lab(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> CommandOutput {
    finish(lab().args(arguments))
}

fn finish(command: &mut Command) -> CommandOutput {
    let ProcessOutput { status, stdout, stderr } =
        command.stdin(Stdio::null()).output().expect("the program starts");
    CommandOutput {
        status: status.code(),
        stdout: String::from_utf8(stdout).expect("stdout is UTF-8"),
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
    }
}

impl CommandOutput {
    /// Checks that it ended with status 0.
    ///
    /// # Panics
    /// If it did not, with its output.
    #[must_use]
    pub fn done(self) -> Self {
        assert_eq!(self.status, Some(0), "stderr: {}", self.stderr);
        self
    }

    /// Its lines of JSON: all but the last, and the last, which is the summary.
    ///
    /// # Panics
    /// If a line is not JSON or the last one is not a summary.
    pub fn objects(&self) -> (Vec<Value>, Value) {
        let mut objects: Vec<Value> = self
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}")))
            .collect();
        let summary = objects.pop().expect("a summary is printed");
        assert_eq!(summary["type"], "summary", "{summary}");
        (objects, summary)
    }
}

/// Runs `requests --format json` on a capture of a broker on `port`. The header `mid` is the message id.
///
/// # Panics
/// If it does not end with status 0.
pub fn requests(capture: &Path, port: u16) -> Output {
    let port = port.to_string();
    let arguments: [&OsStr; 8] = [
        "requests".as_ref(),
        "--format".as_ref(),
        "json".as_ref(),
        "--port".as_ref(),
        port.as_ref(),
        "--message-id".as_ref(),
        "mid".as_ref(),
        capture.as_ref(),
    ];
    Output::parse(&run(arguments).done().stdout)
}
