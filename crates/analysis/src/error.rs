//! Errors of sources, with what to do about them.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::input;

/// Arguments that contradict each other.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(String);

impl Usage {
    /// Takes a sentence that says what is wrong and what to do.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// Reasons why a source cannot be opened or read to its end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The arguments contradict each other.
    #[error(transparent)]
    Usage(#[from] Usage),
    /// A sentence that says what is wrong and what to do.
    #[error("{0}")]
    Input(String),
    /// An operation on this disk failed.
    #[error("{what}")]
    Disk {
        /// The operation, and what to do.
        what: String,
        /// The reason.
        source: std::io::Error,
    },
    /// A recording cannot be read.
    #[error(transparent)]
    Recording(#[from] recording::Error),
    /// Packets cannot be read.
    #[error(transparent)]
    Capture(#[from] capture::Error),
    /// There is no broker to watch.
    #[error(transparent)]
    Broker(#[from] broker::Error),
    /// A file of the JVM's Flight Recorder cannot be read.
    #[error("{}: {error}", path.display())]
    Jfr {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: jvm::jfr::Error,
    },
    /// Kafka's request log cannot be read.
    #[error("--request-log: {0}")]
    RequestLog(broker::Error),
    /// An object store did not answer.
    #[cfg(feature = "object-stores")]
    #[error(transparent)]
    Store(#[from] stores::Error),
    /// A thread cannot be started, or signals cannot be caught.
    #[error("{0}: {1}")]
    System(&'static str, std::io::Error),
}

impl Error {
    /// Takes a sentence that says what is wrong and what to do.
    pub fn input(sentence: impl Into<String>) -> Self {
        Self::Input(sentence.into())
    }

    /// Names the operation that failed on this disk, and what to do.
    pub fn disk(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        |source| Self::Disk { what: what.into(), source }
    }
}

/// An error that says why a file cannot be read and what to do.
pub fn file_error(path: &Path, error: &(dyn std::error::Error + 'static)) -> Error {
    if input::url(path).is_some() {
        return Error::input(format!(
            "{}: URLs cannot be read here; name a file or directory",
            path.display()
        ));
    }
    let root = std::iter::successors(Some(error), |error| error.source()).last().unwrap_or(error);
    Error::input(format!("{}: cannot read: {root}; check the path and its permissions", path.display()))
}

/// Opens a file for reading.
///
/// # Errors
/// The file cannot be opened, or it is a directory.
pub fn open_file(path: &Path) -> Result<File, Error> {
    let file = File::open(path).map_err(|error| file_error(path, &error))?;
    if file.metadata().is_ok_and(|found| found.is_dir()) {
        return Err(Error::input(format!("{}: it is a directory; name the files in it", path.display())));
    }
    Ok(file)
}
