//! What can go wrong in an experiment, each as one line that says what to do.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::process;

/// Why an experiment could not be set up, run or cleaned away.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused something.
    #[error("{doing}: {source}")]
    Io {
        /// What was being done, with the path or device.
        doing: String,
        /// The system's answer.
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
    #[error("{tool} failed: {said}")]
    Tool {
        /// The program and what it was to do.
        tool: String,
        /// The end of what it wrote.
        said: String,
    },
    /// A process of the experiment ended before it should.
    #[error("{what} ended too early; its last output ({log}):\n{tail}")]
    Ended {
        /// Which process.
        what: String,
        /// Where its output is.
        log: String,
        /// The end of its output.
        tail: String,
    },
    /// Something did not happen in the time given.
    #[error("{what} took longer than {} s{hint}", limit.as_secs())]
    TooSlow {
        /// What was waited for.
        what: String,
        /// How long.
        limit: Duration,
        /// What may help, or the end of a log; starts with its own separator.
        hint: String,
    },
    /// An argument or an answer makes no sense.
    #[error("{0}")]
    Unusable(String),
    /// The user (or the system) asked to stop; everything has been taken down on the way out.
    #[error("interrupted")]
    Interrupted,
}

/// What an experiment's functions return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Wraps an I/O error with what was being done to `path`.
    pub(crate) fn io<E: Into<io::Error>>(doing: &str, path: &Path) -> impl FnOnce(E) -> Self + use<E> {
        Self::system(&format!("{doing} {}", path.display()))
    }

    /// Wraps an error of a system call that has no path.
    pub(crate) fn system<E: Into<io::Error>>(doing: &str) -> impl FnOnce(E) -> Self + use<E> {
        let doing = doing.to_owned();
        move |error| Self::Io { doing, source: error.into() }
    }

    /// A process that ended although it should not, with the end of what it wrote into `log`.
    pub(crate) fn ended(what: &str, log: &Path) -> Self {
        Self::Ended { what: what.to_owned(), log: log.display().to_string(), tail: process::tail(log) }
    }
}
