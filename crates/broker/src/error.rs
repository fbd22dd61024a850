//! Errors from reading a broker or its files: each is one line that says what to do.

use std::io;
use std::path::PathBuf;

/// An error from reading a broker or its files.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No broker runs here, or none that this user may see.
    #[error(
        "no Kafka broker runs here (no Java process whose main class is kafka.Kafka and whose user owns its log dirs): start it, or name its process with --pid"
    )]
    NoneRuns,
    /// More than one broker runs here.
    #[error("several Kafka brokers run here, processes {}: name one with --pid", listed(pids))]
    SeveralRun {
        /// Their process ids.
        pids: Vec<u32>,
    },
    /// There is no such process.
    #[error("there is no process {pid}: name the broker's with --pid")]
    NoProcess {
        /// The requested process id.
        pid: u32,
    },
    /// The process is not a broker.
    #[error(
        "process {pid} is not a Kafka broker (its main class is not kafka.Kafka): name the broker's with --pid"
    )]
    NotABroker {
        /// The requested process id.
        pid: u32,
    },
    /// The broker's command line names no configuration.
    #[error(
        "the command line of broker process {pid} names no server.properties: name its log dirs with --log-dir"
    )]
    NoProperties {
        /// The broker's process id.
        pid: u32,
    },
    /// A file of a process could not be read.
    #[error("cannot read {path} of broker process {pid}: {source}; run as root or as the broker's user")]
    Process {
        /// The broker's process id.
        pid: u32,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A file could not be read.
    #[error("cannot read {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

fn listed(pids: &[u32]) -> String {
    pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}

impl Error {
    /// Turns an I/O error into [`Error::File`], for `map_err`.
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}
