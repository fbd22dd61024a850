//! Every API of Kafka 4.2, and those that earlier brokers had: names, versions, header versions, and what any
//! request or response says of itself: groups, transactions, throttle times, error codes.

mod shape;
mod table;

use std::fmt;

use crate::reader::Reader;
use crate::{Error, ErrorKind};
use shape::Found;
use table::{APIS, Api, NEVER};

/// An API key as it stands in a request header, known or not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiKey(pub i16);

impl ApiKey {
    /// Produce.
    pub const PRODUCE: Self = Self(0);
    /// Fetch.
    pub const FETCH: Self = Self(1);
    /// Metadata.
    pub const METADATA: Self = Self(3);
    /// `ControlledShutdown`, whose version 0 alone has request header version 0.
    pub const CONTROLLED_SHUTDOWN: Self = Self(7);
    /// `FindCoordinator`.
    pub const FIND_COORDINATOR: Self = Self(10);
    /// `JoinGroup`.
    pub const JOIN_GROUP: Self = Self(11);
    /// Heartbeat.
    pub const HEARTBEAT: Self = Self(12);
    /// `SyncGroup`.
    pub const SYNC_GROUP: Self = Self(14);
    /// `SaslHandshake`.
    pub const SASL_HANDSHAKE: Self = Self(17);
    /// `ApiVersions`.
    pub const API_VERSIONS: Self = Self(18);
    /// `CreateTopics`.
    pub const CREATE_TOPICS: Self = Self(19);
    /// `InitProducerId`.
    pub const INIT_PRODUCER_ID: Self = Self(22);
    /// `AddPartitionsToTxn`.
    pub const ADD_PARTITIONS_TO_TXN: Self = Self(24);
    /// `EndTxn`.
    pub const END_TXN: Self = Self(26);
    /// `DescribeConfigs`.
    pub const DESCRIBE_CONFIGS: Self = Self(32);
    /// `SaslAuthenticate`.
    pub const SASL_AUTHENTICATE: Self = Self(36);

    /// `ShareFetch` (KIP-932).
    pub const SHARE_FETCH: Self = Self(78);
    /// `ShareAcknowledge` (KIP-932).
    pub const SHARE_ACKNOWLEDGE: Self = Self(79);

    fn api(self) -> Option<&'static Api> {
        usize::try_from(self.0).ok().and_then(|key| APIS.get(key))
    }

    /// Every key known here.
    pub fn known() -> impl Iterator<Item = Self> {
        (0..APIS.len()).map(|key| Self(key as i16))
    }

    /// Whether Kafka 4.2 or a release before it has this API.
    #[inline]
    pub fn is_known(self) -> bool {
        self.api().is_some()
    }

    /// Kafka's name of it (`PRODUCE`), or `UNKNOWN`.
    pub fn name(self) -> &'static str {
        self.api().map_or("UNKNOWN", |api| api.name)
    }

    /// The highest version known here; none for an unknown key.
    #[inline]
    pub fn max_version(self) -> Option<i16> {
        self.api().map(|api| api.max_version)
    }

    /// The first flexible version (KIP-482); none if there is none or the key is unknown.
    pub fn first_flexible_version(self) -> Option<i16> {
        self.api().map(|api| api.first_flexible).filter(|&first| first != NEVER)
    }

    /// Whether that version has compact types and tagged fields. Unknown keys are newer than this table and
    /// every API since KIP-482 is flexible from version 0.
    #[inline]
    pub fn is_flexible(self, version: i16) -> bool {
        self.api().map_or(self.0 >= 0, |api| version >= api.first_flexible)
    }

    /// The version of the request header before a body of that version: 0, 1 or 2.
    #[inline]
    pub fn request_header_version(self, version: i16) -> i16 {
        match (self, version) {
            // RequestHeader.json: version 0 is only used by version 0 of ControlledShutdown.
            (Self::CONTROLLED_SHUTDOWN, 0) => 0,
            _ if self.is_flexible(version) => 2,
            _ => 1,
        }
    }

    /// The version of the response header before a body of that version: 0 or 1.
    #[inline]
    pub fn response_header_version(self, version: i16) -> i16 {
        // ApiVersionsResponse.json: tagged fields are only in the body, so that a client that does not
        // know the broker's versions yet can read the answer (KIP-511).
        i16::from(self != Self::API_VERSIONS && self.is_flexible(version))
    }
}

/// Whether that version is flexible; an error, at its place in a request's header, unless it is one of those
/// known here.
pub(crate) fn check_version(api_key: ApiKey, version: i16) -> Result<bool, Error> {
    match api_key.max_version() {
        Some(max) if (0..=max).contains(&version) => Ok(api_key.is_flexible(version)),
        Some(_) => Err(Error::new(ErrorKind::UnsupportedVersion { version }, 2)),
        None => Err(Error::new(ErrorKind::UnknownApi { api_key: api_key.0 }, 0)),
    }
}

/// What a request names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestIds<'a> {
    /// The transaction's id; none also where several are named (a broker's `AddPartitionsToTxn`, KIP-890).
    pub transactional_id: Option<&'a str>,
    /// The group's id; none also where several are named.
    pub group_id: Option<&'a str>,
}

/// What a response says of the request as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseStatus {
    /// How long the broker throttled the client, in milliseconds.
    pub throttle_ms: Option<i32>,
    /// Kafka's error code; 0 is none. None where only parts of the answer have one.
    pub error_code: Option<i16>,
}

impl ApiKey {
    /// Whether [`Self::read_request_ids`] has something to read.
    pub(crate) fn has_request_layout(self) -> bool {
        self.api().is_some_and(|api| !api.request.is_empty())
    }

    /// Reads and checks the whole body of a request that names a group or a transaction, of `ApiVersions`,
    /// `CreateTopics`, and of those that authenticate, whose tokens it does not hand out.
    ///
    /// # Errors
    /// `UnknownApi` and `UnsupportedVersion`, also where there is nothing of the kind to read, and whatever is
    /// wrong with the body.
    pub fn read_request_ids(self, body: &[u8], version: i16) -> Result<RequestIds<'_>, Error> {
        let flexible = check_version(self, version)?;
        let Some(shape) = self.api().and_then(|api| shape::of(api.request, version)) else {
            return Err(Error::new(ErrorKind::UnsupportedVersion { version }, 2));
        };
        let mut reader = Reader::new(body);
        let mut found = Found::default();
        found.read(shape, &mut reader, flexible)?;
        reader.tagged_fields(flexible)?;
        reader.finish()?;
        Ok(found.named())
    }

    /// How the throttle time and the error code stand in an answer of that version; none where it has neither, or
    /// nobody knows.
    pub(crate) fn answer_layout(self, version: i16) -> Option<AnswerLayout> {
        check_version(self, version).ok()?;
        let shape = shape::of(self.api()?.response, version)?;
        match shape {
            "" => None,
            _ if shape::is_short(shape) => Some(AnswerLayout::Front),
            _ => Some(AnswerLayout::Within),
        }
    }

    /// Reads an answer to a request of that version as far as its throttle time and its error code.
    ///
    /// # Errors
    /// `UnknownApi`, `UnsupportedVersion`, and whatever is wrong with the body so far.
    pub fn read_response_status(self, body: &[u8], version: i16) -> Result<ResponseStatus, Error> {
        let flexible = check_version(self, version)?;
        // A broker that does not know the version answers in version 0 (KIP-511).
        let refused = self == Self::API_VERSIONS && body.starts_with(&UNSUPPORTED_VERSION.to_be_bytes());
        let (version, flexible) = if refused { (0, false) } else { (version, flexible) };
        let mut found = Found::default();
        if let Some(shape) = self.api().and_then(|api| shape::of(api.response, version)) {
            found.read(shape, &mut Reader::new(body), flexible)?;
        }
        Ok(found.answer)
    }
}

/// Kafka's error code for a version the broker does not know.
const UNSUPPORTED_VERSION: i16 = 35;

/// Where an answer's throttle time and error code are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerLayout {
    /// Within its first bytes.
    Front,
    /// After fields of any length.
    Within,
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::ApiKey;
    use super::table::APIS;

    #[test]
    fn header_versions_follow_the_schemas() {
        for (key, version, request, response) in [
            (0, 8, 1, 0),
            (0, 9, 2, 1),
            (0, 13, 2, 1),
            (1, 11, 1, 0),
            (1, 12, 2, 1),
            (7, 0, 0, 0),
            (7, 1, 1, 0),
            (7, 3, 2, 1),
            (17, 1, 1, 0),
            (18, 2, 1, 0),
            (18, 3, 2, 0),
            (47, 0, 1, 0),
            (52, 0, 2, 1),
            (92, 0, 2, 1),
        ] {
            let key = ApiKey(key);
            assert_eq!(key.request_header_version(version), request, "{key:?} v{version}");
            assert_eq!(key.response_header_version(version), response, "{key:?} v{version}");
        }
    }

    #[test]
    fn known_and_unknown_keys() {
        assert_eq!(ApiKey(0).name(), "PRODUCE");
        assert_eq!(ApiKey(25).name(), "ADD_OFFSETS_TO_TXN");
        assert_eq!(ApiKey(92).name(), "DELETE_SHARE_GROUP_OFFSETS");
        for key in [-1, 93, i16::MAX, i16::MIN] {
            assert_eq!(ApiKey(key).name(), "UNKNOWN");
            assert_eq!(ApiKey(key).max_version(), None);
        }
        assert_eq!(ApiKey(0).max_version(), Some(13));
        assert_eq!(ApiKey(17).first_flexible_version(), None);
        assert_eq!(ApiKey::known().count(), APIS.len());
    }

    #[test]
    fn header_versions_agree_with_another_implementation() {
        for key in ApiKey::known() {
            let Ok(theirs) = kafka_protocol::messages::ApiKey::try_from(key.0) else { continue };
            let range = theirs.valid_versions();
            for version in range.min..=range.max.min(key.max_version().unwrap()) {
                assert_eq!(
                    key.request_header_version(version),
                    theirs.request_header_version(version),
                    "{key:?} v{version}"
                );
                assert_eq!(
                    key.response_header_version(version),
                    theirs.response_header_version(version),
                    "{key:?} v{version}"
                );
            }
        }
    }
}
