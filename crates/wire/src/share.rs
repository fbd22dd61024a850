//! `ShareFetch` and `ShareAcknowledge` (KIP-932), versions 1 and 2: whole requests, and the elements of responses.
//! Does not look into records, nor say which of them were acknowledged: [`crate::stream`] walks a response as its
//! bytes come.
//!
//! `ShareFetchRequest.json`, `ShareAcknowledgeRequest.json` and their responses of Apache Kafka 4.2. Version 0 was
//! early access in 4.0, and 4.1 removed it.

mod request;
mod response;

pub use request::{ShareRequest, Shared};
pub(crate) use response::{partition_end, partition_top, response_end, response_top, topic_top};

use crate::{ApiKey, Error, ErrorKind};

/// The versions known here.
const VERSIONS: std::ops::RangeInclusive<i16> = 1..=2;
/// KIP-1206, KIP-1222.
const FIRST_WITH_RENEWAL: i16 = 2;

/// An error unless it is one of the two APIs, in a version known here.
pub(crate) fn check_version(api_key: ApiKey, version: i16) -> Result<(), Error> {
    match api_key {
        ApiKey::SHARE_FETCH | ApiKey::SHARE_ACKNOWLEDGE if VERSIONS.contains(&version) => Ok(()),
        ApiKey::SHARE_FETCH | ApiKey::SHARE_ACKNOWLEDGE => {
            Err(Error::new(ErrorKind::UnsupportedVersion { version }, 0))
        }
        _ => Err(Error::new(ErrorKind::UnknownApi { api_key: api_key.0 }, 0)),
    }
}
