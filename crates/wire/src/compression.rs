//! The four codecs of record batches. Knows nothing of records.

/// A record batch's codec, as in the low three bits of its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// Not compressed.
    None,
    /// gzip.
    Gzip,
    /// Snappy, raw or in xerial's framing.
    Snappy,
    /// LZ4 frames.
    Lz4,
    /// Zstandard (KIP-110).
    Zstd,
}

impl Codec {
    /// The codec of that number.
    pub fn from_number(number: u8) -> Option<Self> {
        [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd].get(usize::from(number)).copied()
    }

    /// Kafka's name of it, as in `compression.type`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}
