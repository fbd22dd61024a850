//! Errors of attaching to a JVM, each in one line that says what to do.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use model::Pid;

/// The reason why a JVM was not queried, or did not answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the process cannot be read.
    #[error("{path}: {source}; run as root, or as the user whose process {pid} is", path = path.display())]
    Unreadable {
        /// The process.
        pid: Pid,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The process does not run a known JVM.
    #[error("process {0} is not a HotSpot or OpenJ9 JVM")]
    NoJvm(Pid),
    /// An `OpenJ9` JVM, which has another protocol.
    #[error(
        "process {0} runs OpenJ9, whose attach protocol is not supported; read its javacores (`kill -QUIT` writes one)"
    )]
    OpenJ9(Pid),
    /// Its options forbid attaching.
    #[error("JVM {0} cannot be attached to: it was started with -XX:+DisableAttachMechanism")]
    Disabled(Pid),
    /// Its options forbid agents.
    #[error("JVM {0} takes no agent: it was started with -XX:-EnableDynamicAgentLoading")]
    AgentsDisabled(Pid),
    /// It sees no file system in memory.
    #[error("JVM {0} has no tmpfs at /dev/shm: what its TLS connections carry must not reach a disk")]
    NoTmpfs(Pid),
    /// It does not listen, and the signal that makes a JVM listen would kill it.
    #[error("JVM {0} cannot be attached to: it does not handle SIGQUIT, which opens its attach socket")]
    NoSigquitHandler(Pid),
    /// It did not begin to listen after the signal.
    #[error(
        "JVM {pid} did not open its attach socket within {} s of SIGQUIT; it may be stopped or not allowed to",
        timeout.as_secs()
    )]
    AttachTimeout {
        /// The process.
        pid: Pid,
        /// The timeout.
        timeout: Duration,
    },
    /// The system refused a step.
    #[error("JVM {pid}: cannot {what}: {source}")]
    System {
        /// The process.
        pid: Pid,
        /// The step.
        what: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// This process may not act as its owner.
    #[error("JVM {pid} accepts only its own user: run as root, or as user {uid}")]
    NotOwner {
        /// The process.
        pid: Pid,
        /// Its user.
        uid: u32,
    },
    /// A request that the protocol cannot carry.
    #[error(
        "`{0}` is not a valid attach command: at most 16 bytes of command and 1,024 of each argument, no zero bytes"
    )]
    Request(String),
    /// An answer that does not follow the protocol.
    #[error("JVM {0} sent an invalid response")]
    Unintelligible(Pid),
    /// It refused a command.
    #[error("JVM {pid} refused {command}: {message}")]
    Refused {
        /// The process.
        pid: Pid,
        /// The command.
        command: String,
        /// The first line of its answer.
        message: String,
    },
    /// It records, but none of its open files is a recording.
    #[error("JVM {0} is recording, but /proc/{0}/fd shows no recording file")]
    NoChunk(Pid),
}

impl Error {
    /// Creates a refusal, with one line of the answer.
    pub(crate) fn refused(pid: Pid, command: &str, answer: &str) -> Self {
        let message =
            answer.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no reason given");
        let message = message.chars().filter(|c| !c.is_control()).take(200).collect();
        Self::Refused {
            pid,
            command: command.split_whitespace().next().unwrap_or_default().to_owned(),
            message,
        }
    }
}
