//! Keys of Kafka's requests by their names (`ApiKeys.java`), as [`crate::Request::api_key`] holds them: those that
//! something is known of besides the name. `wire` has all of them.

/// `PRODUCE`.
pub const PRODUCE: i16 = 0;
/// `FETCH`.
pub const FETCH: i16 = 1;
/// `JOIN_GROUP`.
pub const JOIN_GROUP: i16 = 11;
/// `SYNC_GROUP`.
pub const SYNC_GROUP: i16 = 14;
/// `ADD_PARTITIONS_TO_TXN`: partitions are added to a transaction, or verified to be in it.
pub const ADD_PARTITIONS_TO_TXN: i16 = 24;
/// `SHARE_FETCH`.
pub const SHARE_FETCH: i16 = 78;
