//! Every API of Kafka 4.1, and those that earlier brokers had: names, versions, header versions.
//!
//! Bodies are not described here. Source: `clients/src/main/resources/common/message/*.json` of Apache Kafka
//! 4.1.0; for the four that 4.0 removed (keys 4 to 7) those of 3.9.

use std::fmt;

use crate::{Error, ErrorKind};

/// An API key as it stands in a request header, known or not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApiKey(pub i16);

struct Api {
    name: &'static str,
    /// The highest version of Kafka 4.1, unstable ones included.
    max_version: i16,
    /// The first version with compact types and tagged fields (KIP-482); requests and responses agree.
    first_flexible: i16,
}

const fn api(name: &'static str, max_version: i16, first_flexible: i16) -> Api {
    Api { name, max_version, first_flexible }
}

/// No version is flexible.
const NEVER: i16 = i16::MAX;

/// Indexed by API key; at its right the key.
#[rustfmt::skip]
const APIS: [Api; 93] = [
    api("PRODUCE", 13, 9), // 0
    api("FETCH", 18, 12), // 1
    api("LIST_OFFSETS", 10, 6), // 2
    api("METADATA", 13, 9), // 3
    api("LEADER_AND_ISR", 7, 4), // 4
    api("STOP_REPLICA", 4, 2), // 5
    api("UPDATE_METADATA", 8, 6), // 6
    api("CONTROLLED_SHUTDOWN", 3, 3), // 7
    api("OFFSET_COMMIT", 10, 8), // 8
    api("OFFSET_FETCH", 10, 6), // 9
    api("FIND_COORDINATOR", 6, 3), // 10
    api("JOIN_GROUP", 9, 6), // 11
    api("HEARTBEAT", 4, 4), // 12
    api("LEAVE_GROUP", 5, 4), // 13
    api("SYNC_GROUP", 5, 4), // 14
    api("DESCRIBE_GROUPS", 6, 5), // 15
    api("LIST_GROUPS", 5, 3), // 16
    api("SASL_HANDSHAKE", 1, NEVER), // 17
    api("API_VERSIONS", 4, 3), // 18
    api("CREATE_TOPICS", 7, 5), // 19
    api("DELETE_TOPICS", 6, 4), // 20
    api("DELETE_RECORDS", 2, 2), // 21
    api("INIT_PRODUCER_ID", 6, 2), // 22
    api("OFFSET_FOR_LEADER_EPOCH", 4, 4), // 23
    api("ADD_PARTITIONS_TO_TXN", 5, 3), // 24
    api("ADD_OFFSETS_TO_TXN", 4, 3), // 25
    api("END_TXN", 5, 3), // 26
    api("WRITE_TXN_MARKERS", 1, 1), // 27
    api("TXN_OFFSET_COMMIT", 5, 3), // 28
    api("DESCRIBE_ACLS", 3, 2), // 29
    api("CREATE_ACLS", 3, 2), // 30
    api("DELETE_ACLS", 3, 2), // 31
    api("DESCRIBE_CONFIGS", 4, 4), // 32
    api("ALTER_CONFIGS", 2, 2), // 33
    api("ALTER_REPLICA_LOG_DIRS", 2, 2), // 34
    api("DESCRIBE_LOG_DIRS", 4, 2), // 35
    api("SASL_AUTHENTICATE", 2, 2), // 36
    api("CREATE_PARTITIONS", 3, 2), // 37
    api("CREATE_DELEGATION_TOKEN", 3, 2), // 38
    api("RENEW_DELEGATION_TOKEN", 2, 2), // 39
    api("EXPIRE_DELEGATION_TOKEN", 2, 2), // 40
    api("DESCRIBE_DELEGATION_TOKEN", 3, 2), // 41
    api("DELETE_GROUPS", 2, 2), // 42
    api("ELECT_LEADERS", 2, 2), // 43
    api("INCREMENTAL_ALTER_CONFIGS", 1, 1), // 44
    api("ALTER_PARTITION_REASSIGNMENTS", 1, 0), // 45
    api("LIST_PARTITION_REASSIGNMENTS", 0, 0), // 46
    api("OFFSET_DELETE", 0, NEVER), // 47
    api("DESCRIBE_CLIENT_QUOTAS", 1, 1), // 48
    api("ALTER_CLIENT_QUOTAS", 1, 1), // 49
    api("DESCRIBE_USER_SCRAM_CREDENTIALS", 0, 0), // 50
    api("ALTER_USER_SCRAM_CREDENTIALS", 0, 0), // 51
    api("VOTE", 2, 0), // 52
    api("BEGIN_QUORUM_EPOCH", 1, 1), // 53
    api("END_QUORUM_EPOCH", 1, 1), // 54
    api("DESCRIBE_QUORUM", 2, 0), // 55
    api("ALTER_PARTITION", 3, 0), // 56
    api("UPDATE_FEATURES", 2, 0), // 57
    api("ENVELOPE", 0, 0), // 58
    api("FETCH_SNAPSHOT", 1, 0), // 59
    api("DESCRIBE_CLUSTER", 2, 0), // 60
    api("DESCRIBE_PRODUCERS", 0, 0), // 61
    api("BROKER_REGISTRATION", 4, 0), // 62
    api("BROKER_HEARTBEAT", 1, 0), // 63
    api("UNREGISTER_BROKER", 0, 0), // 64
    api("DESCRIBE_TRANSACTIONS", 0, 0), // 65
    api("LIST_TRANSACTIONS", 2, 0), // 66
    api("ALLOCATE_PRODUCER_IDS", 0, 0), // 67
    api("CONSUMER_GROUP_HEARTBEAT", 1, 0), // 68
    api("CONSUMER_GROUP_DESCRIBE", 1, 0), // 69
    api("CONTROLLER_REGISTRATION", 0, 0), // 70
    api("GET_TELEMETRY_SUBSCRIPTIONS", 0, 0), // 71
    api("PUSH_TELEMETRY", 0, 0), // 72
    api("ASSIGN_REPLICAS_TO_DIRS", 0, 0), // 73
    api("LIST_CONFIG_RESOURCES", 1, 0), // 74
    api("DESCRIBE_TOPIC_PARTITIONS", 0, 0), // 75
    api("SHARE_GROUP_HEARTBEAT", 1, 0), // 76
    api("SHARE_GROUP_DESCRIBE", 1, 0), // 77
    api("SHARE_FETCH", 1, 0), // 78
    api("SHARE_ACKNOWLEDGE", 1, 0), // 79
    api("ADD_RAFT_VOTER", 0, 0), // 80
    api("REMOVE_RAFT_VOTER", 0, 0), // 81
    api("UPDATE_RAFT_VOTER", 0, 0), // 82
    api("INITIALIZE_SHARE_GROUP_STATE", 0, 0), // 83
    api("READ_SHARE_GROUP_STATE", 0, 0), // 84
    api("WRITE_SHARE_GROUP_STATE", 0, 0), // 85
    api("DELETE_SHARE_GROUP_STATE", 0, 0), // 86
    api("READ_SHARE_GROUP_STATE_SUMMARY", 0, 0), // 87
    api("STREAMS_GROUP_HEARTBEAT", 0, 0), // 88
    api("STREAMS_GROUP_DESCRIBE", 0, 0), // 89
    api("DESCRIBE_SHARE_GROUP_OFFSETS", 0, 0), // 90
    api("ALTER_SHARE_GROUP_OFFSETS", 0, 0), // 91
    api("DELETE_SHARE_GROUP_OFFSETS", 0, 0), // 92
];

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
    /// `SaslAuthenticate`.
    pub const SASL_AUTHENTICATE: Self = Self(36);

    /// The first version whose response body begins with `ThrottleTimeMs` (KIP-124, KIP-219); none where no
    /// version's does. Produce and `ApiVersions` have it further back.
    pub fn first_throttled_version(self) -> Option<i16> {
        match self.0 {
            21 | 22 | 24..=26 | 28..=35 | 37 | 42..=46 | 48..=51 | 56 | 57 | 59..=82 | 88..=92 => Some(0),
            1 | 10 | 12..=16 | 20 => Some(1),
            2 | 11 | 19 | 23 => Some(2),
            3 | 8 | 9 => Some(3),
            _ => None,
        }
    }

    fn api(self) -> Option<&'static Api> {
        usize::try_from(self.0).ok().and_then(|key| APIS.get(key))
    }

    /// Every key known here.
    pub fn known() -> impl Iterator<Item = Self> {
        (0..APIS.len()).map(|key| Self(key as i16))
    }

    /// Whether Kafka 4.1 or a release before it has this API.
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
    use super::{APIS, ApiKey};

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
