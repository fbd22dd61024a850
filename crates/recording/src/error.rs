//! Errors of a recording, each in one line that names the file and says what to do.

use std::io;
use std::path::PathBuf;

use arrow_schema::ArrowError;
use parquet::errors::ParquetError;

/// An error while writing or reading a recording.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The operation (`read`, `write`, `create`).
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The directory to write to holds a recording already.
    #[error("{path} already holds a recording: choose another directory, or remove that one first")]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// The directory to write to holds something else.
    #[error("{path} is not empty and holds no recording: choose a new or empty directory")]
    Occupied {
        /// The directory.
        path: PathBuf,
    },
    /// The directory to write to belongs to another user. That user could read and change what is in it.
    #[error("{path} belongs to another user ({owner}): name a new directory, which is then made")]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner's user id.
        owner: u32,
    },
    /// The file system is too full to record to.
    #[error(
        "{path}: {:.1} % of its file system is free, which is less than --min-free {:.1}%: name a directory elsewhere, or a \
         smaller share", free * 100.0, min_free * 100.0
    )]
    NoRoom {
        /// The directory.
        path: PathBuf,
        /// The free share.
        free: f64,
        /// The share that should be free.
        min_free: f64,
    },
    /// Something other than a folder has a table's name.
    #[error("{path} is not a directory inside the recording: move it away")]
    NoFolder {
        /// Its path.
        path: PathBuf,
    },
    /// The directory to read holds no recording.
    #[error(
        "{path} is not a recording (it has no manifest.json): name the directory that `brokerscope record -o` wrote"
    )]
    NotARecording {
        /// The directory.
        path: PathBuf,
    },
    /// The manifest cannot be parsed.
    #[error("{path} is damaged ({why}): restore the file from a copy of the recording")]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// A version of the format that this build does not know.
    #[error(
        "{path} has recording format {found}, this brokerscope reads format {known}: use {} brokerscope",
        if found < known { "an older" } else { "a newer" }
    )]
    Version {
        /// The manifest.
        path: PathBuf,
        /// The version it names.
        found: u32,
        /// The version this build reads.
        known: u32,
    },
    /// A part cannot be read, or only up to some row.
    #[error("{path} is damaged ({why}): what follows in it is left out; move it away to stop this message")]
    Part {
        /// The part.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// Rows could not be encoded as Arrow data.
    #[error("cannot encode rows for {path}: {source}")]
    Encode {
        /// The part.
        path: PathBuf,
        /// Arrow's error.
        source: ArrowError,
    },
    /// A part could not be turned into Parquet. Its rows stay in the `.arrows` file.
    #[error("cannot turn {path} into Parquet: {source}")]
    Convert {
        /// The part.
        path: PathBuf,
        /// Parquet's error.
        source: ParquetError,
    },
}

impl Error {
    /// An I/O error at a path, to use with `map_err`.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}
