//! The Kafka APIs that the code treats specially: their keys, as in [`crate::Request::api_key`], and names
//! (`ApiKeys.java`). `wire` has all APIs, and a test in `capture` checks that both agree.

macro_rules! apis {
    ($($key:literal $name:ident;)*) => {
        $(#[doc = concat!("`", stringify!($name), "`.")] pub const $name: i16 = $key;)*

        /// Keys, each with Kafka's name of the API.
        pub const NAMES: &[(i16, &str)] = &[$(($key, stringify!($name))),*];
    };
}

apis! {
    0 PRODUCE;
    1 FETCH;
    2 LIST_OFFSETS;
    3 METADATA;
    8 OFFSET_COMMIT;
    9 OFFSET_FETCH;
    10 FIND_COORDINATOR;
    11 JOIN_GROUP;
    12 HEARTBEAT;
    13 LEAVE_GROUP;
    14 SYNC_GROUP;
    15 DESCRIBE_GROUPS;
    16 LIST_GROUPS;
    18 API_VERSIONS;
    19 CREATE_TOPICS;
    20 DELETE_TOPICS;
    22 INIT_PRODUCER_ID;
    23 OFFSET_FOR_LEADER_EPOCH;
    24 ADD_PARTITIONS_TO_TXN;
    25 ADD_OFFSETS_TO_TXN;
    26 END_TXN;
    28 TXN_OFFSET_COMMIT;
    37 CREATE_PARTITIONS;
    44 INCREMENTAL_ALTER_CONFIGS;
    49 ALTER_CLIENT_QUOTAS;
    56 ALTER_PARTITION;
    58 ENVELOPE;
    63 BROKER_HEARTBEAT;
    67 ALLOCATE_PRODUCER_IDS;
    78 SHARE_FETCH;
}

/// Kafka's name of an API; `UNKNOWN` if it is not in [`NAMES`].
pub const fn name(api_key: i16) -> &'static str {
    let mut left = NAMES;
    while let [(key, name), rest @ ..] = left {
        if *key == api_key {
            return name;
        }
        left = rest;
    }
    "UNKNOWN"
}
