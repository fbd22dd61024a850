//! Every API of Kafka 4.2, and those that earlier brokers had, with the layouts of their bodies as far as a row
//! tells of them. Does not read bytes: see [`super::shape`].
//!
//! Source: `clients/src/main/resources/common/message/*.json` of Apache Kafka 4.2.0; for the four that 4.0 removed
//! (keys 4 to 7) and versions it removed those of 3.9.

use super::shape::Shapes;

pub(super) struct Api {
    pub(super) name: &'static str,
    /// The highest version of Kafka 4.2, unstable ones included.
    pub(super) max_version: i16,
    /// The first version with compact types and tagged fields (KIP-482); requests and responses agree.
    pub(super) first_flexible: i16,
    /// The whole request, where it names a group or a transaction or is otherwise worth checking.
    pub(super) request: Shapes,
    /// The response as far as its throttle time (KIP-124, KIP-219) and its own error code.
    pub(super) response: Shapes,
}

const fn api(
    name: &'static str,
    max_version: i16,
    first_flexible: i16,
    request: Shapes,
    response: Shapes,
) -> Api {
    Api { name, max_version, first_flexible, request, response }
}

/// No version is flexible.
pub(super) const NEVER: i16 = i16::MAX;

const NONE: Shapes = &[];
const T: Shapes = &[(0, "t")];
const E: Shapes = &[(0, "e")];
const TE: Shapes = &[(0, "te")];

/// Indexed by API key; at its right the key. Layouts, each from a version on, are spelled as [`super::shape`] says.
#[rustfmt::skip]
pub(super) const APIS: [Api; 93] = [
    api("PRODUCE", 13, 9, NONE, &[(0, ""), (1, "[s[428]]t"), (2, "[s[4288]]t"), (5, "[s[42888]]t"), (8, "[s[42888[4s]s]]t"), (13, "[u[42888[4s]s]]t")]), // 0
    api("FETCH", 18, 12, NONE, &[(0, ""), (1, "t"), (7, "te")]), // 1
    api("LIST_OFFSETS", 11, 6, NONE, &[(0, ""), (2, "t")]), // 2
    api("METADATA", 13, 9, NONE, &[(0, ""), (3, "t"), (13, "t[4s4s]s4[2su1[2444(4)(4)(4)]4]e")]), // 3
    api("LEADER_AND_ISR", 7, 4, NONE, E), // 4
    api("STOP_REPLICA", 4, 2, NONE, E), // 5
    api("UPDATE_METADATA", 8, 6, NONE, E), // 6
    api("CONTROLLED_SHUTDOWN", 3, 3, NONE, E), // 7
    api("OFFSET_COMMIT", 10, 8, &[(0, "g[s[48s]]"), (1, "g4s[s[488s]]"), (2, "g4s8[s[48s]]"), (5, "g4s[s[48s]]"), (6, "g4s[s[484s]]"), (7, "g4ss[s[484s]]"), (10, "g4ss[u[484s]]")], &[(0, ""), (3, "t")]), // 8
    api("OFFSET_FETCH", 10, 6, &[(0, "g[s(4)]"), (7, "g[s(4)]1"), (8, "[g[s(4)]]1"), (9, "[gs4[s(4)]]1"), (10, "[gs4[u(4)]]1")], &[(0, ""), (2, "[s[48s2]]e"), (3, "t[s[48s2]]e"), (5, "t[s[484s2]]e"), (8, "t")]), // 9
    api("FIND_COORDINATOR", 6, 3, &[(0, "k"), (1, "ky"), (4, "y(k)")], &[(0, "e"), (1, "te"), (4, "t")]), // 10
    api("JOIN_GROUP", 9, 6, &[(0, "g4ss[sb]"), (1, "g44ss[sb]"), (5, "g44sss[sb]"), (8, "g44sss[sb]s")], &[(0, "e"), (2, "te")]), // 11
    api("HEARTBEAT", 4, 4, &[(0, "g4s"), (3, "g4ss")], &[(0, "e"), (1, "te")]), // 12
    api("LEAVE_GROUP", 5, 4, &[(0, "gs"), (3, "g[ss]"), (5, "g[sss]")], &[(0, "e"), (1, "te")]), // 13
    api("SYNC_GROUP", 5, 4, &[(0, "g4s[sb]"), (3, "g4ss[sb]"), (5, "g4ssss[sb]")], &[(0, "e"), (1, "te")]), // 14
    api("DESCRIBE_GROUPS", 6, 5, &[(0, "(g)"), (3, "(g)1")], &[(0, ""), (1, "t")]), // 15
    api("LIST_GROUPS", 5, 3, NONE, &[(0, "e"), (1, "te")]), // 16
    api("SASL_HANDSHAKE", 1, NEVER, &[(0, "s")], E), // 17
    api("API_VERSIONS", 4, 3, &[(0, ""), (3, "ss")], &[(0, "e"), (1, "e[222]t")]), // 18
    api("CREATE_TOPICS", 7, 5, &[(0, "[s42[4(4)][ss]]4"), (1, "[s42[4(4)][ss]]41")], &[(0, ""), (2, "t")]), // 19
    api("DELETE_TOPICS", 6, 4, NONE, &[(0, ""), (1, "t")]), // 20
    api("DELETE_RECORDS", 2, 2, NONE, T), // 21
    api("INIT_PRODUCER_ID", 6, 2, &[(0, "x4"), (3, "x482"), (6, "x48211")], TE), // 22
    api("OFFSET_FOR_LEADER_EPOCH", 4, 4, NONE, &[(0, ""), (2, "t")]), // 23
    api("ADD_PARTITIONS_TO_TXN", 5, 3, &[(0, "x82[s(4)]"), (4, "[x821[s(4)]]")], &[(0, "t"), (4, "te")]), // 24
    api("ADD_OFFSETS_TO_TXN", 4, 3, &[(0, "x82g")], TE), // 25
    api("END_TXN", 5, 3, &[(0, "x821")], TE), // 26
    api("WRITE_TXN_MARKERS", 2, 1, NONE, NONE), // 27
    api("TXN_OFFSET_COMMIT", 5, 3, &[(0, "xg82[s[48s]]"), (2, "xg82[s[484s]]"), (3, "xg824ss[s[484s]]")], T), // 28
    api("DESCRIBE_ACLS", 3, 2, NONE, TE), // 29
    api("CREATE_ACLS", 3, 2, NONE, T), // 30
    api("DELETE_ACLS", 3, 2, NONE, T), // 31
    api("DESCRIBE_CONFIGS", 4, 4, NONE, T), // 32
    api("ALTER_CONFIGS", 2, 2, NONE, T), // 33
    api("ALTER_REPLICA_LOG_DIRS", 2, 2, NONE, T), // 34
    api("DESCRIBE_LOG_DIRS", 4, 2, NONE, &[(0, "t"), (3, "te")]), // 35
    api("SASL_AUTHENTICATE", 2, 2, &[(0, "b")], E), // 36
    api("CREATE_PARTITIONS", 3, 2, NONE, T), // 37
    api("CREATE_DELEGATION_TOKEN", 3, 2, NONE, &[(0, "ess888sbt"), (3, "essss888sbt")]), // 38
    api("RENEW_DELEGATION_TOKEN", 2, 2, NONE, &[(0, "e8t")]), // 39
    api("EXPIRE_DELEGATION_TOKEN", 2, 2, NONE, &[(0, "e8t")]), // 40
    api("DESCRIBE_DELEGATION_TOKEN", 3, 2, NONE, &[(0, "e[ss888sb[ss]]t"), (3, "e[ssss888sb[ss]]t")]), // 41
    api("DELETE_GROUPS", 2, 2, &[(0, "(g)")], T), // 42
    api("ELECT_LEADERS", 2, 2, NONE, &[(0, "t"), (1, "te")]), // 43
    api("INCREMENTAL_ALTER_CONFIGS", 1, 1, NONE, T), // 44
    api("ALTER_PARTITION_REASSIGNMENTS", 1, 0, NONE, &[(0, "te"), (1, "t1e")]), // 45
    api("LIST_PARTITION_REASSIGNMENTS", 0, 0, NONE, TE), // 46
    api("OFFSET_DELETE", 0, NEVER, NONE, &[(0, "et")]), // 47
    api("DESCRIBE_CLIENT_QUOTAS", 1, 1, NONE, TE), // 48
    api("ALTER_CLIENT_QUOTAS", 1, 1, NONE, T), // 49
    api("DESCRIBE_USER_SCRAM_CREDENTIALS", 0, 0, NONE, TE), // 50
    api("ALTER_USER_SCRAM_CREDENTIALS", 0, 0, NONE, T), // 51
    api("VOTE", 2, 0, NONE, E), // 52
    api("BEGIN_QUORUM_EPOCH", 1, 1, NONE, E), // 53
    api("END_QUORUM_EPOCH", 1, 1, NONE, E), // 54
    api("DESCRIBE_QUORUM", 2, 0, NONE, E), // 55
    api("ALTER_PARTITION", 3, 0, NONE, TE), // 56
    api("UPDATE_FEATURES", 2, 0, NONE, TE), // 57
    api("ENVELOPE", 0, 0, NONE, &[(0, "be")]), // 58
    api("FETCH_SNAPSHOT", 1, 0, NONE, TE), // 59
    api("DESCRIBE_CLUSTER", 2, 0, NONE, TE), // 60
    api("DESCRIBE_PRODUCERS", 0, 0, NONE, T), // 61
    api("BROKER_REGISTRATION", 4, 0, NONE, TE), // 62
    api("BROKER_HEARTBEAT", 1, 0, NONE, TE), // 63
    api("UNREGISTER_BROKER", 0, 0, NONE, TE), // 64
    api("DESCRIBE_TRANSACTIONS", 0, 0, NONE, T), // 65
    api("LIST_TRANSACTIONS", 2, 0, NONE, TE), // 66
    api("ALLOCATE_PRODUCER_IDS", 0, 0, NONE, TE), // 67
    api("CONSUMER_GROUP_HEARTBEAT", 1, 0, &[(0, "gs4ss4(s)s[u(4)]"), (1, "gs4ss4(s)ss[u(4)]")], TE), // 68
    api("CONSUMER_GROUP_DESCRIBE", 1, 0, &[(0, "(g)1")], T), // 69
    api("CONTROLLER_REGISTRATION", 0, 0, NONE, TE), // 70
    api("GET_TELEMETRY_SUBSCRIPTIONS", 0, 0, NONE, TE), // 71
    api("PUSH_TELEMETRY", 0, 0, NONE, TE), // 72
    api("ASSIGN_REPLICAS_TO_DIRS", 0, 0, NONE, TE), // 73
    api("LIST_CONFIG_RESOURCES", 1, 0, NONE, TE), // 74
    api("DESCRIBE_TOPIC_PARTITIONS", 0, 0, NONE, T), // 75
    api("SHARE_GROUP_HEARTBEAT", 1, 0, &[(0, "gs4s(s)")], TE), // 76
    api("SHARE_GROUP_DESCRIBE", 1, 0, &[(0, "(g)1")], T), // 77
    api("SHARE_FETCH", 2, 0, NONE, TE), // 78
    api("SHARE_ACKNOWLEDGE", 2, 0, NONE, TE), // 79
    api("ADD_RAFT_VOTER", 1, 0, NONE, TE), // 80
    api("REMOVE_RAFT_VOTER", 0, 0, NONE, TE), // 81
    api("UPDATE_RAFT_VOTER", 0, 0, NONE, TE), // 82
    api("INITIALIZE_SHARE_GROUP_STATE", 0, 0, NONE, NONE), // 83
    api("READ_SHARE_GROUP_STATE", 0, 0, NONE, NONE), // 84
    api("WRITE_SHARE_GROUP_STATE", 1, 0, NONE, NONE), // 85
    api("DELETE_SHARE_GROUP_STATE", 0, 0, NONE, NONE), // 86
    api("READ_SHARE_GROUP_STATE_SUMMARY", 1, 0, NONE, NONE), // 87
    api("STREAMS_GROUP_HEARTBEAT", 0, 0, NONE, TE), // 88
    api("STREAMS_GROUP_DESCRIBE", 0, 0, NONE, T), // 89
    api("DESCRIBE_SHARE_GROUP_OFFSETS", 1, 0, NONE, T), // 90
    api("ALTER_SHARE_GROUP_OFFSETS", 0, 0, NONE, TE), // 91
    api("DELETE_SHARE_GROUP_OFFSETS", 0, 0, NONE, TE), // 92
];
