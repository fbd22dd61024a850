//! What a command's end means: the exit status, and one line about what went wrong.

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;
use std::process::ExitCode;

use report::escape::escape;

use crate::{input, remote};

/// The command could not do what was asked.
const COULD_NOT: u8 = 1;
/// The command was asked wrongly.
const WRONG_USAGE: u8 = 2;

/// A combination of arguments that makes no sense, in words.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// What to say of a file that cannot be read.
pub(crate) fn of_file(path: &Path, error: &(dyn std::error::Error + 'static)) -> anyhow::Error {
    if input::url(path).is_some() {
        return anyhow::anyhow!("{}: a URL: here only files and directories are read", path.display());
    }
    let root = std::iter::successors(Some(error), |error| error.source()).last().unwrap_or(error);
    anyhow::anyhow!("{}: cannot read: {root}; check the path and who may read it", path.display())
}

/// Opens a file that is to be read.
///
/// # Errors
/// What the user can do about it.
pub(crate) fn open(path: &Path) -> anyhow::Result<File> {
    let file = File::open(path).map_err(|error| of_file(path, &error))?;
    if file.metadata().is_ok_and(|found| found.is_dir()) {
        anyhow::bail!("{}: it is a directory; name the files in it", path.display());
    }
    Ok(file)
}

/// Fails where parts of a recording could not be read, for when everything else was shown.
///
/// # Errors
/// How many.
pub(crate) fn of_parts(recording: &Path, damaged: u64) -> anyhow::Result<()> {
    anyhow::ensure!(
        damaged == 0,
        "{}: {} damaged: what was shown is of the rest; take the recording from a copy",
        recording.display(),
        if damaged == 1 { "a part of it is".to_owned() } else { format!("{damaged} parts of it are") }
    );
    Ok(())
}

/// Fails where a file cannot be written for want of a directory: before anything is measured or read for it.
///
/// # Errors
/// What is in the way.
pub(crate) fn check_place(path: &Path) -> anyhow::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    anyhow::ensure!(!path.is_dir(), "{}: it is a directory; name a file to write", path.display());
    let directory = parent.is_none_or(Path::is_dir);
    anyhow::ensure!(directory, "{}: cannot write: there is no such directory; make it first", path.display());
    Ok(())
}

/// Says what went wrong, if anything did, and gives the exit status.
pub(crate) fn exit_code(outcome: anyhow::Result<()>) -> ExitCode {
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    if is_closed_pipe(&error) {
        // Whoever read our output has seen enough.
        return ExitCode::SUCCESS;
    }
    // Nothing is left to do where even standard error is gone.
    let _ = writeln!(io::stderr(), "brokerscope: {}", one_line(&error));
    ExitCode::from(if error.is::<Usage>() { WRONG_USAGE } else { COULD_NOT })
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io_errors = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    io_errors.into_iter().any(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// The error and its causes, each once: some errors name their cause themselves.
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
    escape(&remote::with_urls(&line.replace('\n', " "))).into_owned()
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn a_failure_is_one_line_that_says_everything_once() {
        let inner = std::io::Error::other("disk\nis \x1b[31mgone");
        let error = anyhow::Error::new(inner).context("a.pcap: cannot read").context("a.pcap: cannot read");
        assert_eq!(one_line(&error), "a.pcap: cannot read: disk is \\x1b[31mgone");
    }
}
