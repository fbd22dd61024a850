//! Produce requests and responses, versions 0 to 13. Does not look into records.

mod request;
mod response;

pub use request::{PartitionData, ProduceRequest, Requested};
pub(crate) use request::{RequestTop, first_fields, partition_top, starts_soundly, topic_top};
pub use response::{PartitionResponse, ProduceResponse, Responses};

use crate::reader::Reader;
use crate::{ApiKey, Error, ErrorKind};

/// The highest version known here.
pub const MAX_VERSION: i16 = 13;
/// From here on a topic is named by its id (KIP-516).
const FIRST_WITH_TOPIC_ID: i16 = 13;

/// A topic as a Produce body names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic<'a> {
    /// By name, up to version 12.
    Name(&'a str),
    /// By id, from version 13.
    Id([u8; 16]),
}

impl<'a> Topic<'a> {
    /// Whether a broker could have such a topic (`Topic.java`: 1 to 249 of these characters).
    fn is_legal(&self) -> bool {
        match self {
            Self::Id(id) => *id != [0; 16],
            Self::Name(name) => {
                let legal = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
                (1..=249).contains(&name.len()) && name.bytes().all(legal)
            }
        }
    }

    #[inline]
    fn read(reader: &mut Reader<'a>, version: i16) -> Result<Self, Error> {
        if version >= FIRST_WITH_TOPIC_ID {
            reader.uuid().map(Self::Id)
        } else {
            reader.string(is_flexible(version)).map(Self::Name)
        }
    }
}

/// Whether that version has compact types and tagged fields.
pub(crate) fn is_flexible(version: i16) -> bool {
    ApiKey::PRODUCE.is_flexible(version)
}

/// An error unless the version is one of those known here.
pub(crate) fn check_version(version: i16) -> Result<(), Error> {
    if (0..=MAX_VERSION).contains(&version) {
        Ok(())
    } else {
        Err(Error::new(ErrorKind::UnsupportedVersion { version }, 0))
    }
}
