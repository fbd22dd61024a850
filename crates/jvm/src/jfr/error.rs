//! Faults of a flight recording, with their offset. Does not know which file it was.

use std::io;

/// A part of a recording that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}, at byte {at}")]
pub struct Error {
    /// The fault.
    pub kind: ErrorKind,
    /// The offset in the file at which it was found.
    pub at: u64,
}

/// The kinds of [`Error`]. Each says what is wrong and, where something can be done, what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file or folder could not be read.
    #[error("cannot be read: {0}")]
    Io(io::ErrorKind),
    /// No chunk begins here: its four letters are not `FLR\0`.
    #[error("not a flight recording (one begins with FLR)")]
    NotAChunk,
    /// A version of the format other than 1 or 2.
    #[error("unknown format version {0}; record it again with JDK 11 or later, or async-profiler")]
    UnknownVersion(u16),
    /// A chunk whose integers are not compressed, which no JDK writes.
    #[error("integers are not compressed, which is not supported (no JDK writes them so)")]
    Uncompressed,
    /// The bytes end too early.
    #[error("the recording ends too early: copy it again when it is finished")]
    UnexpectedEnd,
    /// An impossible length, count or offset.
    #[error("invalid length {0}: the file is damaged")]
    BadLength(u64),
    /// A string in an encoding that the format does not have.
    #[error("unknown string encoding {0}: the file is damaged")]
    BadString(u8),
    /// The chunk does not describe its events (yet).
    #[error(
        "the chunk has no event metadata: the JVM died before it wrote any; jcmd PID JFR.dump has a running one write it"
    )]
    NoMetadata,
    /// The description of the events makes no sense.
    #[error("invalid event metadata: the file is damaged")]
    BadMetadata,
    /// A value of a type that the chunk does not describe.
    #[error("type {0} is missing in the metadata: the file is damaged")]
    UnknownType(u64),
    /// Values within values, deeper than any JVM writes them.
    #[error("values are nested too deeply: the file is damaged")]
    TooDeep,
    /// Larger than this crate holds in memory.
    #[error("larger than the limit of {0} bytes")]
    TooLarge(u64),
}

impl Error {
    /// An error at a byte of the file.
    pub fn new(kind: ErrorKind, at: u64) -> Self {
        Self { kind, at }
    }

    pub(super) fn io(error: &io::Error, at: u64) -> Self {
        Self::new(ErrorKind::Io(error.kind()), at)
    }
}
