//! Every API of Kafka 4.2 and of earlier brokers: key, name, versions, first flexible version, and the layouts of
//! request and response. Everything about an API is here; see `docs/contributing/add-an-api-version.md`. Does not read
//! bytes.
//!
//! A request's layout is complete if it names a group, a transaction or partitions or is otherwise worth checking. A
//! response's layout is complete if it lists partitions, topics or APIs; otherwise it ends with the throttle time
//! (KIP-124, KIP-219) and error code. Source: `clients/src/main/resources/common/message/*.json` of Apache Kafka 4.2.0;
//! for the four APIs that 4.0 removed (keys 4 to 7), and for versions that it removed, the files of 3.9.

use super::ApiKey;
use super::layout::Layout;
#[allow(clippy::wildcard_imports, reason = "layouts use all of the constants")]
use super::layout::spelling::*;

pub(super) struct Api {
    pub(super) name: &'static str,
    /// The versions that are read: the highest is that of Kafka 4.2, including unstable ones.
    pub(super) min_version: i16,
    pub(super) max_version: i16,
    /// The first version with compact types and tagged fields (KIP-482); requests and responses agree.
    pub(super) first_flexible: i16,
    pub(super) request: Layout,
    pub(super) response: Layout,
}

/// No version is flexible.
pub(super) const NEVER: i16 = i16::MAX;

macro_rules! apis {
    ($($key:literal $name:ident $min:literal..=$max:literal $flexible:tt [$($request:tt)*] [$($response:tt)*];)*) => {
        impl ApiKey {
            $(#[doc = concat!("`", stringify!($name), "`.")] pub const $name: Self = Self($key);)*
        }

        /// A row whose index is not its key does not compile.
        const _: () = {
            let (mut keys, mut place): (&[usize], usize) = (&[$($key),*], 0);
            while let [key, rest @ ..] = keys {
                assert!(*key == place);
                (keys, place) = (rest, place + 1);
            }
        };

        /// Indexed by API key.
        pub(super) const APIS: &[Api] = &[$(Api {
            name: stringify!($name),
            min_version: $min,
            max_version: $max,
            first_flexible: $flexible,
            request: &[$($request)*],
            response: &[$($response)*],
        }),*];
    };
}

// Key, name, versions, first flexible version; request; response. Early access of share groups (version 0, Kafka 4.0)
// is not read.
apis! {
0 PRODUCE 0..=13 9
  [TRANSACTION.since(3), ACKS, TIMEOUT, topics(&[TOPIC_NAME.until(12), TOPIC_ID.since(13), rows(&[PARTITION,
    RECORDS])])]
  [topics(&[TOPIC_NAME.until(12), TOPIC_ID.since(13), rows(&[PARTITION, PARTITION_ERROR, BASE_OFFSET,
    LOG_APPEND_TIME.since(2), LOG_START_OFFSET.since(5), structs(&[INT32, STRING]).since(8), STRING.since(8)])]),
    THROTTLE.since(1)];
1 FETCH 0..=18 12
  [INT32.until(14), MAX_WAIT, MIN_BYTES, MAX_BYTES.since(3), ISOLATION_LEVEL.since(4), SESSION_ID.since(7),
    SESSION_EPOCH.since(7), topics(&[TOPIC_NAME.until(12), TOPIC_ID.since(13), rows(&[PARTITION, INT32.since(9),
    FETCH_OFFSET, INT32.since(12), INT64.since(5), INT32])]), structs(&[STRING.until(12), UUID.since(13),
    array(&[INT32])]).since(7), STRING.since(11)]
  [THROTTLE.since(1), ERROR.since(7), SESSION_ID.since(7), topics(&[TOPIC_NAME.until(12), TOPIC_ID.since(13),
    rows(&[PARTITION, PARTITION_ERROR, HIGH_WATERMARK, INT64.since(4), LOG_START_OFFSET.since(5),
    structs(&[INT64, INT64]).since(4), INT32.since(11), RECORDS])])];
2 LIST_OFFSETS 0..=11 6 [] [THROTTLE.since(2)];
3 METADATA 0..=13 9 []
  [THROTTLE.since(3), structs(&[INT32, STRING, INT32, STRING.since(1)]), STRING.since(2), INT32.since(1),
    rows(&[PARTITION_ERROR, TOPIC_NAME.until(11), NULLABLE_TOPIC_NAME.since(12), TOPIC_ID.since(10),
    INT8.since(1), rows(&[INT16, PARTITION, INT32, INT32.since(7), REPLICAS, array(&[INT32]),
    array(&[INT32]).since(5)]), INT32.since(8)]), INT32.since(8).until(10), ERROR.since(13)];
4 LEADER_AND_ISR 0..=7 4 [] [ERROR];
5 STOP_REPLICA 0..=4 2 [] [ERROR];
6 UPDATE_METADATA 0..=8 6 [] [ERROR];
7 CONTROLLED_SHUTDOWN 0..=3 3 [] [ERROR];
8 OFFSET_COMMIT 0..=10 8
  [GROUP, INT32.since(1), STRING.since(1), STRING.since(7), INT64.since(2).until(4), structs(&[STRING.until(9),
    UUID.since(10), structs(&[INT32, INT64, INT32.since(6), INT64.since(1).until(1), STRING])])]
  [THROTTLE.since(3)];
9 OFFSET_FETCH 0..=10 6
  [GROUP.until(7), structs(&[STRING.until(7), array(&[INT32]).until(7), GROUP.since(8), STRING.since(9),
    INT32.since(9), structs(&[STRING.until(9), UUID.since(10), array(&[INT32])]).since(8)]), INT8.since(7)]
  [THROTTLE.since(3), structs(&[STRING, structs(&[INT32, INT64, INT32.since(5), STRING, INT16])]).since(2).until(7),
    ERROR.since(2).until(7)];
10 FIND_COORDINATOR 0..=6 3
  [KEY.until(3), KEY_TYPE.since(1), array(&[KEY]).since(4)]
  [THROTTLE.since(1), ERROR.until(3)];
11 JOIN_GROUP 0..=9 6
  [GROUP, INT32.since(1), INT32, STRING, STRING, STRING.since(5), structs(&[STRING, BYTES]), STRING.since(8)]
  [THROTTLE.since(2), ERROR];
12 HEARTBEAT 0..=4 4 [GROUP, INT32, STRING, STRING.since(3)] [THROTTLE.since(1), ERROR];
13 LEAVE_GROUP 0..=5 4
  [GROUP, STRING.until(2), structs(&[STRING, STRING, STRING.since(5)]).since(3)]
  [THROTTLE.since(1), ERROR];
14 SYNC_GROUP 0..=5 4
  [GROUP, INT32, STRING, STRING.since(3), STRING.since(5), STRING.since(5), structs(&[STRING, BYTES])]
  [THROTTLE.since(1), ERROR];
15 DESCRIBE_GROUPS 0..=6 5 [array(&[GROUP]), INT8.since(3)] [THROTTLE.since(1)];
16 LIST_GROUPS 0..=5 3 [] [THROTTLE.since(1), ERROR];
17 SASL_HANDSHAKE 0..=1 NEVER [STRING] [ERROR];
18 API_VERSIONS 0..=4 3
  [STRING.since(3), STRING.since(3)]
  [ERROR, rows(&[INT16, INT16, INT16]), THROTTLE.since(1)];
19 CREATE_TOPICS 0..=7 5
  [structs(&[STRING, INT32, INT16, structs(&[INT32, array(&[INT32])]), structs(&[STRING, STRING])]), INT32,
    INT8.since(1)]
  [THROTTLE.since(2)];
20 DELETE_TOPICS 0..=6 4 [] [THROTTLE.since(1)];
21 DELETE_RECORDS 0..=2 2 [] [THROTTLE];
22 INIT_PRODUCER_ID 0..=6 2
  [TRANSACTION, INT32, INT64.since(3), INT16.since(3), INT8.since(6), INT8.since(6)]
  [THROTTLE, ERROR];
23 OFFSET_FOR_LEADER_EPOCH 0..=4 4 [] [THROTTLE.since(2)];
24 ADD_PARTITIONS_TO_TXN 0..=5 3
  [TRANSACTION.until(3), INT64.until(3), INT16.until(3), structs(&[STRING.until(3), array(&[INT32]).until(3),
    TRANSACTION.since(4), INT64.since(4), INT16.since(4), INT8.since(4), structs(&[STRING,
    array(&[INT32])]).since(4)])]
  [THROTTLE, ERROR.since(4)];
25 ADD_OFFSETS_TO_TXN 0..=4 3 [TRANSACTION, INT64, INT16, GROUP] [THROTTLE, ERROR];
26 END_TXN 0..=5 3 [TRANSACTION, INT64, INT16, INT8] [THROTTLE, ERROR];
27 WRITE_TXN_MARKERS 0..=2 1 [] [];
28 TXN_OFFSET_COMMIT 0..=5 3
  [TRANSACTION, GROUP, INT64, INT16, INT32.since(3), STRING.since(3), STRING.since(3), structs(&[STRING,
    structs(&[INT32, INT64, INT32.since(2), STRING])])]
  [THROTTLE];
29 DESCRIBE_ACLS 0..=3 2 [] [THROTTLE, ERROR];
30 CREATE_ACLS 0..=3 2 [] [THROTTLE];
31 DELETE_ACLS 0..=3 2 [] [THROTTLE];
32 DESCRIBE_CONFIGS 0..=4 4 [] [THROTTLE];
33 ALTER_CONFIGS 0..=2 2 [] [THROTTLE];
34 ALTER_REPLICA_LOG_DIRS 0..=2 2 [] [THROTTLE];
35 DESCRIBE_LOG_DIRS 0..=4 2 [] [THROTTLE, ERROR.since(3)];
36 SASL_AUTHENTICATE 0..=2 2 [BYTES] [ERROR];
37 CREATE_PARTITIONS 0..=3 2 [] [THROTTLE];
38 CREATE_DELEGATION_TOKEN 0..=3 2 []
  [ERROR, STRING.since(3), STRING.since(3), STRING, STRING, INT64, INT64, INT64, STRING, BYTES, THROTTLE];
39 RENEW_DELEGATION_TOKEN 0..=2 2 [] [ERROR, INT64, THROTTLE];
40 EXPIRE_DELEGATION_TOKEN 0..=2 2 [] [ERROR, INT64, THROTTLE];
41 DESCRIBE_DELEGATION_TOKEN 0..=3 2 []
  [ERROR, structs(&[STRING.since(3), STRING.since(3), STRING, STRING, INT64, INT64, INT64, STRING, BYTES,
    structs(&[STRING, STRING])]), THROTTLE];
42 DELETE_GROUPS 0..=2 2 [array(&[GROUP])] [THROTTLE];
43 ELECT_LEADERS 0..=2 2 [] [THROTTLE, ERROR.since(1)];
44 INCREMENTAL_ALTER_CONFIGS 0..=1 1 [] [THROTTLE];
45 ALTER_PARTITION_REASSIGNMENTS 0..=1 0 [] [THROTTLE, INT8.since(1), ERROR];
46 LIST_PARTITION_REASSIGNMENTS 0..=0 0 [] [THROTTLE, ERROR];
47 OFFSET_DELETE 0..=0 NEVER [] [ERROR, THROTTLE];
48 DESCRIBE_CLIENT_QUOTAS 0..=1 1 [] [THROTTLE, ERROR];
49 ALTER_CLIENT_QUOTAS 0..=1 1 [] [THROTTLE];
50 DESCRIBE_USER_SCRAM_CREDENTIALS 0..=0 0 [] [THROTTLE, ERROR];
51 ALTER_USER_SCRAM_CREDENTIALS 0..=0 0 [] [THROTTLE];
52 VOTE 0..=2 0 [] [ERROR];
53 BEGIN_QUORUM_EPOCH 0..=1 1 [] [ERROR];
54 END_QUORUM_EPOCH 0..=1 1 [] [ERROR];
55 DESCRIBE_QUORUM 0..=2 0 [] [ERROR];
56 ALTER_PARTITION 0..=3 0 [] [THROTTLE, ERROR];
57 UPDATE_FEATURES 0..=2 0 [] [THROTTLE, ERROR];
58 ENVELOPE 0..=0 0 [] [BYTES, ERROR];
59 FETCH_SNAPSHOT 0..=1 0 [] [THROTTLE, ERROR];
60 DESCRIBE_CLUSTER 0..=2 0 [] [THROTTLE, ERROR];
61 DESCRIBE_PRODUCERS 0..=0 0 [] [THROTTLE];
62 BROKER_REGISTRATION 0..=4 0 [] [THROTTLE, ERROR];
63 BROKER_HEARTBEAT 0..=1 0 [] [THROTTLE, ERROR];
64 UNREGISTER_BROKER 0..=0 0 [] [THROTTLE, ERROR];
65 DESCRIBE_TRANSACTIONS 0..=0 0 [] [THROTTLE];
66 LIST_TRANSACTIONS 0..=2 0 [] [THROTTLE, ERROR];
67 ALLOCATE_PRODUCER_IDS 0..=0 0 [] [THROTTLE, ERROR];
68 CONSUMER_GROUP_HEARTBEAT 0..=1 0
  [GROUP, STRING, INT32, STRING, STRING, INT32, array(&[STRING]), STRING, STRING.since(1), structs(&[UUID,
    array(&[INT32])])]
  [THROTTLE, ERROR];
69 CONSUMER_GROUP_DESCRIBE 0..=1 0 [array(&[GROUP]), INT8] [THROTTLE];
70 CONTROLLER_REGISTRATION 0..=0 0 [] [THROTTLE, ERROR];
71 GET_TELEMETRY_SUBSCRIPTIONS 0..=0 0 [] [THROTTLE, ERROR];
72 PUSH_TELEMETRY 0..=0 0 [] [THROTTLE, ERROR];
73 ASSIGN_REPLICAS_TO_DIRS 0..=0 0 [] [THROTTLE, ERROR];
74 LIST_CONFIG_RESOURCES 0..=1 0 [] [THROTTLE, ERROR];
75 DESCRIBE_TOPIC_PARTITIONS 0..=0 0 [] [THROTTLE];
76 SHARE_GROUP_HEARTBEAT 0..=1 0 [GROUP, STRING, INT32, STRING, array(&[STRING])] [THROTTLE, ERROR];
77 SHARE_GROUP_DESCRIBE 0..=1 0 [array(&[GROUP]), INT8] [THROTTLE];
78 SHARE_FETCH 1..=2 0
  [GROUP, STRING, INT32, MAX_WAIT, MIN_BYTES, INT32, INT32, INT32, INT16.since(2), topics(&[TOPIC_ID,
    rows(&[PARTITION, structs(&[INT64, INT64, array(&[INT8])])])]), structs(&[UUID, array(&[INT32])])]
  [THROTTLE, ERROR, STRING, INT32, topics(&[TOPIC_ID, rows(&[PARTITION, PARTITION_ERROR, STRING,
    ACKNOWLEDGE_ERROR, STRING, INT32, INT32, TAGS, RECORDS, structs(&[INT64, INT64, INT16])])]), structs(&[INT32,
    STRING, INT32, STRING])];
79 SHARE_ACKNOWLEDGE 1..=2 0
  [GROUP, STRING, INT32, INT8.since(2), topics(&[TOPIC_ID, rows(&[PARTITION, structs(&[INT64, INT64,
    array(&[INT8])])])])]
  [THROTTLE, ERROR, STRING, INT32.since(2), topics(&[TOPIC_ID, rows(&[PARTITION, PARTITION_ERROR, STRING, INT32,
    INT32, TAGS])]), structs(&[INT32, STRING, INT32, STRING])];
80 ADD_RAFT_VOTER 0..=1 0 [] [THROTTLE, ERROR];
81 REMOVE_RAFT_VOTER 0..=0 0 [] [THROTTLE, ERROR];
82 UPDATE_RAFT_VOTER 0..=0 0 [] [THROTTLE, ERROR];
83 INITIALIZE_SHARE_GROUP_STATE 0..=0 0 [] [];
84 READ_SHARE_GROUP_STATE 0..=0 0 [] [];
85 WRITE_SHARE_GROUP_STATE 0..=1 0 [] [];
86 DELETE_SHARE_GROUP_STATE 0..=0 0 [] [];
87 READ_SHARE_GROUP_STATE_SUMMARY 0..=1 0 [] [];
88 STREAMS_GROUP_HEARTBEAT 0..=0 0 [] [THROTTLE, ERROR];
89 STREAMS_GROUP_DESCRIBE 0..=0 0 [] [THROTTLE];
90 DESCRIBE_SHARE_GROUP_OFFSETS 0..=1 0 [] [THROTTLE];
91 ALTER_SHARE_GROUP_OFFSETS 0..=0 0 [] [THROTTLE, ERROR];
92 DELETE_SHARE_GROUP_OFFSETS 0..=0 0 [] [THROTTLE, ERROR];}
