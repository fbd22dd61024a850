//! The responses that bring records, or say how their acknowledgement went: Fetch, `ShareFetch`, `ShareAcknowledge`.
//! Reads the elements of each; does not keep them.

use crate::fetch::{self, PartitionTop, ResponseTop};
use crate::produce::Topic;
use crate::reader::Reader;
use crate::{ApiKey, Error, share};

/// One of them, in a version that is known.
#[derive(Clone, Copy)]
pub(super) struct Dialect {
    api_key: ApiKey,
    version: i16,
}

impl Dialect {
    /// Any, before the first body.
    pub(super) const FIRST: Self = Self { api_key: ApiKey::FETCH, version: 0 };

    /// Whether that API is one of them.
    pub(super) fn speaks(api_key: ApiKey) -> bool {
        matches!(api_key, ApiKey::FETCH | ApiKey::SHARE_FETCH | ApiKey::SHARE_ACKNOWLEDGE)
    }

    /// # Errors
    /// A version that is not known, or another API.
    pub(super) fn of(api_key: ApiKey, version: i16) -> Result<Self, Error> {
        match api_key {
            ApiKey::FETCH => fetch::check_version(version)?,
            _ => share::check_version(api_key, version)?,
        }
        Ok(Self { api_key, version })
    }

    fn is_fetch(self) -> bool {
        self.api_key == ApiKey::FETCH
    }

    /// Whether it brings records.
    pub(super) fn has_records(self) -> bool {
        self.api_key != ApiKey::SHARE_ACKNOWLEDGE
    }

    /// Whether partitions, topics and the body end with bytes of their own.
    pub(super) fn has_ends(self) -> bool {
        !self.is_fetch() || fetch::is_flexible(self.version)
    }

    pub(super) fn top(self, reader: &mut Reader<'_>) -> Result<ResponseTop, Error> {
        if self.is_fetch() {
            ResponseTop::read(reader, self.version)
        } else {
            share::response_top(reader, self.api_key, self.version)
        }
    }

    pub(super) fn topic<'a>(self, reader: &mut Reader<'a>) -> Result<(Topic<'a>, u32), Error> {
        if self.is_fetch() { fetch::topic_top(reader, self.version) } else { share::topic_top(reader) }
    }

    pub(super) fn partition(self, reader: &mut Reader<'_>) -> Result<PartitionTop, Error> {
        if self.is_fetch() {
            PartitionTop::read(reader, self.version)
        } else {
            share::partition_top(reader, self.api_key)
        }
    }

    pub(super) fn partition_end(self, reader: &mut Reader<'_>) -> Result<(), Error> {
        if self.is_fetch() { reader.tagged_fields(true) } else { share::partition_end(reader, self.api_key) }
    }

    pub(super) fn end(self, reader: &mut Reader<'_>) -> Result<(), Error> {
        if self.is_fetch() { reader.tagged_fields(true) } else { share::response_end(reader) }
    }
}
