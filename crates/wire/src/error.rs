//! What can be wrong with bytes, and where. Does not know which frame or file they came from.

use std::fmt;

/// Something in the bytes that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// The byte offset at which it was found, from the start of what was being read.
    pub at: usize,
}

/// The kinds of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes end too early; at least so many more would be needed.
    UnexpectedEnd(usize),
    /// A length or count is negative where none may be, or larger than what it measures can be.
    BadLength(i64),
    /// A variable-length integer is longer than its type allows.
    BadVarint,
    /// A string is not UTF-8.
    NotUtf8,
    /// A record batch's or message's magic is none of 0, 1, 2.
    UnknownMagic(i8),
    /// A codec number that Kafka does not define, or not for this magic.
    UnknownCodec(u8),
    /// Compressed bytes do not decompress.
    BadCompression,
    /// Decompressing would give more bytes than the caller allows.
    DecompressedTooLarge(usize),
    /// A compressed message set inside a compressed message set.
    NestedCompression,
    /// Bytes are left over after the last field.
    TrailingBytes,
    /// This version of the API is not known here.
    UnsupportedVersion(i16),
    /// This API is not known here.
    UnknownApi(i16),
    /// A field has a value that Kafka never sends.
    BadValue,
    /// Larger than this crate holds in memory.
    TooLarge(usize),
}

impl Error {
    /// An error at an offset.
    pub fn new(kind: ErrorKind, at: usize) -> Self {
        Self { kind, at }
    }

    /// The same error, seen from a frame of reference that starts `by` bytes earlier.
    #[must_use]
    pub fn shifted(self, by: usize) -> Self {
        Self { at: self.at.saturating_add(by), ..self }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnexpectedEnd(missing) => write!(f, "the bytes end, {missing} or more are missing"),
            Self::BadLength(length) => write!(f, "a length of {length} cannot be right"),
            Self::BadVarint => f.write_str("a variable-length integer is too long"),
            Self::NotUtf8 => f.write_str("a string is not UTF-8"),
            Self::UnknownMagic(magic) => write!(f, "a record batch of unknown magic {magic}"),
            Self::UnknownCodec(codec) => write!(f, "unknown compression codec {codec}"),
            Self::BadCompression => f.write_str("compressed records do not decompress"),
            Self::DecompressedTooLarge(limit) => {
                write!(f, "compressed records are larger than the limit of {limit} bytes")
            }
            Self::NestedCompression => f.write_str("a compressed message inside a compressed message"),
            Self::TrailingBytes => f.write_str("bytes are left over after the last field"),
            Self::UnsupportedVersion(version) => write!(f, "version {version} is not known"),
            Self::UnknownApi(api_key) => write!(f, "API {api_key} is not known"),
            Self::BadValue => f.write_str("a field has an impossible value"),
            Self::TooLarge(limit) => write!(f, "larger than the limit of {limit} bytes"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.kind, self.at)
    }
}

impl std::error::Error for Error {}
