//! Errors in bytes, with their position. Does not know which frame or file they came from.

/// An error in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {at}")]
pub struct Error {
    /// The kind of error.
    pub kind: ErrorKind,
    /// The byte offset of the error, from the start of the bytes being read.
    pub at: usize,
}

/// The kinds of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes end too early; at least this many more are needed.
    #[error("truncated: at least {0} bytes are missing")]
    UnexpectedEnd(usize),
    /// A length or count is invalid. It is negative where that is not allowed, or too large for what it measures.
    #[error("invalid length {0}")]
    BadLength(i64),
    /// A variable-length integer is longer than its type allows.
    #[error("a variable-length integer is too long")]
    BadVarint,
    /// A string is not UTF-8.
    #[error("a string is not UTF-8")]
    NotUtf8,
    /// The magic of a record batch or message is not 0, 1 or 2.
    #[error("unknown record batch magic {0}")]
    UnknownMagic(i8),
    /// A codec number that Kafka does not define, or does not define for this magic.
    #[error("unknown compression codec {0}")]
    UnknownCodec(u8),
    /// Compressed bytes are invalid.
    #[error("compressed records cannot be decompressed")]
    BadCompression,
    /// The decompressed size exceeds the caller's limit.
    #[error("compressed records are larger than the limit of {0} bytes")]
    DecompressedTooLarge(usize),
    /// A compressed message set inside a compressed message set.
    #[error("a compressed message inside a compressed message")]
    NestedCompression,
    /// Bytes remain after the last field.
    #[error("bytes are left over after the last field")]
    TrailingBytes,
    /// This version of the API is unknown.
    #[error("unknown API version {0}")]
    UnsupportedVersion(i16),
    /// This API is unknown.
    #[error("unknown API key {0}")]
    UnknownApi(i16),
    /// A field has a value that Kafka never sends.
    #[error("a field has an invalid value")]
    BadValue,
    /// Larger than this crate buffers.
    #[error("larger than the limit of {0} bytes")]
    TooLarge(usize),
}

impl Error {
    /// An error at an offset.
    pub fn new(kind: ErrorKind, at: usize) -> Self {
        Self { kind, at }
    }

    /// The same error, with its offset counted from `by` bytes earlier.
    #[must_use]
    pub fn shifted(self, by: usize) -> Self {
        Self { at: self.at.saturating_add(by), ..self }
    }
}
