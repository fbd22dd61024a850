//! Running the programs the lab leans on (mkfs.ext4, losetup, debugfs, java, mvn) and saying clearly when
//! one is missing or fails.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::Command;

use crate::error::Error;

/// How much of a program's output an error repeats.
const TAIL_BYTES: u64 = 2_000;

/// Which package brings a program, for the message when it is not there.
const REMEDIES: &[(&str, &str)] = &[
    ("java", "install a JDK, 17 or newer (Debian: apt-get install openjdk-17-jdk-headless)"),
    ("mvn", "install Maven (Debian: apt-get install maven)"),
    ("mkfs.ext4", "install e2fsprogs"),
    ("debugfs", "install e2fsprogs"),
    ("mkfs.xfs", "install xfsprogs"),
    ("xfs_db", "install xfsprogs"),
    ("ip", "install iproute2"),
    ("tc", "install iproute2"),
    ("ethtool", "install ethtool"),
    ("javac", "install a JDK, not only its runtime (Debian: apt-get install openjdk-17-jdk-headless)"),
    ("jar", "install a JDK, not only its runtime (Debian: apt-get install openjdk-17-jdk-headless)"),
    ("jcmd", "install a JDK, not only its runtime (Debian: apt-get install openjdk-17-jdk-headless)"),
    ("losetup", "install util-linux (Debian: apt-get install mount)"),
];

/// Runs `command` to its end and returns its stdout followed by its stderr.
///
/// # Errors
/// [`Error::Missing`] when the program is not there, [`Error::Tool`] with the end of what it said when it
/// reports failure.
pub(crate) fn output(command: &mut Command) -> Result<String, Error> {
    let tool = command.get_program().to_string_lossy().into_owned();
    let answer = command.output().map_err(|source| unavailable(&tool, source))?;
    let mut said = String::from_utf8_lossy(&answer.stdout).into_owned();
    said.push_str(&String::from_utf8_lossy(&answer.stderr));
    if answer.status.success() {
        return Ok(said);
    }
    let start = said.len().saturating_sub(TAIL_BYTES as usize);
    let tail = said.char_indices().find(|(at, _)| *at >= start).and_then(|(at, _)| said.get(at..));
    Err(Error::Tool { tool, said: tail.unwrap_or_default().trim().to_owned() })
}

/// Turns a failed start of `tool` into an error that says what to install.
pub(crate) fn unavailable(tool: &str, source: std::io::Error) -> Error {
    if source.kind() != ErrorKind::NotFound {
        return Error::Io { doing: format!("run {tool}"), source };
    }
    let known = REMEDIES.iter().find(|(name, _)| *name == tool);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_itself_and_the_remedy() {
        let absent = unavailable("mvn", std::io::Error::from(ErrorKind::NotFound));
        assert!(absent.to_string().contains("mvn is missing: install Maven"), "{absent}");
    }

    #[test]
    fn a_failing_program_is_quoted() {
        let failure = output(Command::new("sh").args(["-c", "echo because >&2; exit 3"])).unwrap_err();
        assert_eq!(failure.to_string(), "sh failed: because");
    }

    #[test]
    fn a_log_s_tail_is_bounded() {
        let log = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(log.path(), "x".repeat(50_000) + "end").unwrap();
        let tail = tail(log.path());
        assert_eq!(tail.len(), TAIL_BYTES as usize);
        assert!(tail.ends_with("end"));
    }
}
