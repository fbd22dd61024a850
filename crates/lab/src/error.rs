//! Errors of an experiment, each in one line that says what to do.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::process;

/// Errors of setting up, running and cleaning up an experiment.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused something.
    #[error("{doing}: {source}")]
    Io {
        /// The failed operation, with its path or device.
        doing: String,
        /// The system's error.
        source: io::Error,
    },
    /// A program that the lab runs is not installed, or too old.
    #[error("{tool} is missing: {remedy}")]
    Missing {
        /// The program's name.
        tool: String,
        /// What to install.
        remedy: String,
    },
    /// A program that the lab ran reported failure.
    #[error("{tool} failed: {output}")]
    Tool {
        /// The program and its task.
        tool: String,
        /// The end of its output.
        output: String,
    },
    /// A process of the experiment ended too early.
    #[error("{what} ended too early; its last output ({log}):\n{tail}")]
    Ended {
        /// Which process.
        what: String,
        /// Where its output is.
        log: String,
        /// The end of its output.
        tail: String,
    },
    /// Something did not happen in time.
    #[error("{what} took longer than {} s{hint}", limit.as_secs())]
    TooSlow {
        /// The awaited event.
        what: String,
        /// The time limit.
        limit: Duration,
        /// A hint, or the end of a log; starts with its own separator.
        hint: String,
    },
    /// An argument or an answer makes no sense.
    #[error("{0}")]
    Unusable(String),
    /// The user (or the system) asked to stop; everything has been taken down on the way out.
    #[error("interrupted")]
    Interrupted,
}

/// Result of an experiment's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Wraps an I/O error with the operation on `path`.
    pub(crate) fn io<E: Into<io::Error>>(doing: &str, path: &Path) -> impl FnOnce(E) -> Self + use<E> {
        Self::system(&format!("{doing} {}", path.display()))
    }

    /// Wraps an error of a system call that has no path.
    pub(crate) fn system<E: Into<io::Error>>(doing: &str) -> impl FnOnce(E) -> Self + use<E> {
        let doing = doing.to_owned();
        move |error| Self::Io { doing, source: error.into() }
    }

    /// A process that ended too early, with the end of its output in `log`.
    pub(crate) fn ended(what: &str, log: &Path) -> Self {
        Self::Ended { what: what.to_owned(), log: log.display().to_string(), tail: process::tail(log) }
    }
}
