//! Fetch requests, and the elements of Fetch responses, versions 0 to 18. Does not look into records:
//! [`crate::stream`] walks a response as its bytes come.

mod request;
mod response;

pub use request::{FetchRequest, Fetched, Forgotten, PartitionRequest};
pub(crate) use response::{PartitionTop, ResponseTop, topic_top};

use crate::produce::Topic;
use crate::reader::Reader;
use crate::{ApiKey, Error, ErrorKind};

/// The highest version known here.
pub const MAX_VERSION: i16 = 18;
/// From here on a topic is named by its id (KIP-516).
const FIRST_WITH_TOPIC_ID: i16 = 13;
/// Incremental fetch sessions (KIP-227).
const FIRST_WITH_SESSION: i16 = 7;

/// Whether that version has compact types and tagged fields.
pub(crate) fn is_flexible(version: i16) -> bool {
    ApiKey::FETCH.is_flexible(version)
}

/// An error unless the version is one of those known here.
pub(crate) fn check_version(version: i16) -> Result<(), Error> {
    if (0..=MAX_VERSION).contains(&version) {
        Ok(())
    } else {
        Err(Error::new(ErrorKind::UnsupportedVersion { version }, 0))
    }
}

fn topic<'a>(reader: &mut Reader<'a>, version: i16) -> Result<Topic<'a>, Error> {
    if version >= FIRST_WITH_TOPIC_ID {
        reader.uuid().map(Topic::Id)
    } else {
        reader.string(is_flexible(version)).map(Topic::Name)
    }
}
