//! What can be wrong with bytes, and where. Does not know which frame or file they came from.

/// Something in the bytes that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} at byte {at}")]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// The byte offset at which it was found, from the start of what was being read.
    pub at: usize,
}

/// The kinds of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes end too early; at least so many more would be needed.
    #[error("truncated: at least {0} bytes are missing")]
    UnexpectedEnd(usize),
    /// A length or count is negative where none may be, or larger than what it measures can be.
    #[error("invalid length {0}")]
    BadLength(i64),
    /// A variable-length integer is longer than its type allows.
    #[error("a variable-length integer is too long")]
    BadVarint,
    /// A string is not UTF-8.
    #[error("a string is not UTF-8")]
    NotUtf8,
    /// A record batch's or message's magic is none of 0, 1, 2.
    #[error("unknown record batch magic {0}")]
    UnknownMagic(i8),
    /// A codec number that Kafka does not define, or not for this magic.
    #[error("unknown compression codec {0}")]
    UnknownCodec(u8),
    /// Compressed bytes do not decompress.
    #[error("compressed records cannot be decompressed")]
    BadCompression,
    /// Decompressing would give more bytes than the caller allows.
    #[error("compressed records are larger than the limit of {0} bytes")]
    DecompressedTooLarge(usize),
    /// A compressed message set inside a compressed message set.
    #[error("a compressed message inside a compressed message")]
    NestedCompression,
    /// Bytes are left over after the last field.
    #[error("bytes are left over after the last field")]
    TrailingBytes,
    /// This version of the API is not known here.
    #[error("unknown API version {0}")]
    UnsupportedVersion(i16),
    /// This API is not known here.
    #[error("unknown API key {0}")]
    UnknownApi(i16),
    /// A field has a value that Kafka never sends.
    #[error("a field has an invalid value")]
    BadValue,
    /// Larger than this crate holds in memory.
    #[error("larger than the limit of {0} bytes")]
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
