//! Exit statuses, and the one line about a command's error.

use std::io::{self, ErrorKind};
use std::process::ExitCode;

use analysis::stop::INTERRUPTED;
use analysis::{Error, Usage};

const FAILED: u8 = 1;
/// The same as clap's.
const WRONG_USAGE: u8 = 2;

/// Exit statuses of the program, with their meaning.
pub const EXIT_CODES: [(i32, &str); 4] = [
    (
        0,
        "The command did what was asked. Also: the reader of its output closed the pipe, or Ctrl-C ended a live command",
    ),
    (
        FAILED as i32,
        "Something could not be read, watched or written. One line on standard error names the file, connection or process and what to do",
    ),
    (
        WRONG_USAGE as i32,
        "The command line was wrong: an unknown flag, a value out of range, flags that exclude each other",
    ),
    (
        INTERRUPTED,
        "A signal ended the command before it was done: a second Ctrl-C, a Ctrl-C while a recording is copied from a store, or a signal while the command waited for a pipe or a file",
    ),
];

/// Fails with a usage error, such as for flags that exclude each other.
pub(crate) fn usage<T>(why: impl Into<String>) -> anyhow::Result<T> {
    Err(Usage::new(why).into())
}

/// Logs a command's error, if any, and returns the exit status.
pub(crate) fn exit_code(outcome: anyhow::Result<()>) -> ExitCode {
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    if is_closed_pipe(&error) {
        // The reader of our output has read enough.
        return ExitCode::SUCCESS;
    }
    tracing::error!("brokerscope: {}", one_line(&error));
    let usage = error.is::<Usage>() || matches!(error.downcast_ref(), Some(Error::Usage(_)));
    ExitCode::from(if usage { WRONG_USAGE } else { FAILED })
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io_errors = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    io_errors.into_iter().any(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Joins the error and its causes, each once. Some errors already contain their cause.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if line.contains(&cause) {
            continue;
        }
        if !line.is_empty() {
            line.push_str(": ");
        }
        line.push_str(&cause);
    }
    line.replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn errors_are_one_line_with_each_cause_once() {
        let inner = std::io::Error::other("disk\nis \x1b[31mgone");
        let error = anyhow::Error::new(inner).context("a.pcap: cannot read").context("a.pcap: cannot read");
        assert_eq!(one_line(&error), "a.pcap: cannot read: disk is \x1b[31mgone");
    }
}
