//! What can be wrong with a flight recording, and where. Does not know which file it was.

use std::{fmt, io};

/// Something that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// The byte of the file at which it was found.
    pub at: u64,
}

/// The kinds of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file or folder could not be read.
    Io(io::ErrorKind),
    /// No chunk begins here: its four letters are not `FLR\0`.
    NotAChunk,
    /// A version of the format other than 1 or 2.
    UnknownVersion(u16),
    /// A chunk whose integers are not compressed, which no JDK writes.
    Uncompressed,
    /// The bytes end too early.
    UnexpectedEnd,
    /// A length, count or place that cannot be right.
    BadLength(u64),
    /// A string in an encoding that the format does not have.
    BadString(u8),
    /// The chunk does not describe its events (yet).
    NoMetadata,
    /// The description of the events makes no sense.
    BadMetadata,
    /// A value of a type that the chunk does not describe.
    UnknownType(u64),
    /// Values within values, deeper than any JVM writes them.
    TooDeep,
    /// Larger than this crate holds in memory.
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

/// What is wrong and, where something can be done, what.
impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(kind) => write!(f, "cannot be read: {kind}"),
            Self::NotAChunk => f.write_str("no flight recording begins here (it begins with FLR)"),
            Self::UnknownVersion(major) => write!(
                f,
                "version {major} of the format is not known; write it again with JDK 11 or later, or async-profiler"
            ),
            Self::Uncompressed => f.write_str("its integers are not compressed, as no JDK writes them"),
            Self::UnexpectedEnd => f.write_str("the recording ends too early: copy it again when it is finished"),
            Self::BadLength(length) => write!(f, "a length of {length} cannot be right: the file is damaged"),
            Self::BadString(encoding) => write!(f, "a string of unknown encoding {encoding}: the file is damaged"),
            Self::NoMetadata => {
                f.write_str("the chunk does not describe its events: the JVM died before it wrote any (jcmd PID JFR.dump)")
            }
            Self::BadMetadata => f.write_str("the description of the events makes no sense: the file is damaged"),
            Self::UnknownType(id) => write!(f, "type {id} is not described: the file is damaged"),
            Self::TooDeep => f.write_str("values are nested too deeply: the file is damaged"),
            Self::TooLarge(limit) => write!(f, "larger than the limit of {limit} bytes"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, at byte {}", self.kind, self.at)
    }
}

impl std::error::Error for Error {}
