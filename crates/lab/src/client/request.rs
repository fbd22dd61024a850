//! Requests and responses in versions without flexible fields (KIP-482). Kafka 3 and 4 speak these (KIP-896): Produce
//! 7, Fetch 4, `CreateTopics` 2, `AlterClientQuotas` 0, `FindCoordinator` 2, `OffsetCommit` 7, `JoinGroup` 3,
//! `SyncGroup` 2.

use bytes::{Bytes, BytesMut};
use fastrand::Rng;
use kafka_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, ApiKey, BrokerId, CreateTopicsRequest,
    CreateTopicsResponse, FetchRequest, FetchResponse, FindCoordinatorRequest, FindCoordinatorResponse,
    GroupId, JoinGroupRequest, JoinGroupResponse, OffsetCommitRequest, OffsetCommitResponse, ProduceRequest,
    ProduceResponse, RequestHeader, SyncGroupRequest, SyncGroupResponse, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes, encode_request_header_into_buffer};
use kafka_protocol::records::{
    Compression, NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Record, RecordBatchEncoder,
    RecordEncodeOptions, TimestampType,
};

use super::traffic::now_ns;

/// Timeout of a request at the broker, in milliseconds.
const TIMEOUT_MS: i32 = 30_000;

/// A client's request, without its frame.
#[derive(Clone, Debug)]
pub struct Request {
    /// The API.
    pub(super) api: ApiKey,
    version: i16,
    body: BytesMut,
}

/// A topic to create.
#[derive(Clone, Debug, Default)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// The number of partitions.
    pub partitions: u32,
    /// The brokers of each partition, the leader first; if empty, the broker chooses.
    pub brokers: Vec<u32>,
    /// Its settings, such as `segment.bytes`.
    pub configs: Vec<(String, String)>,
}

impl Request {
    #[expect(clippy::expect_used, reason = "only fields that the version lacks cannot be encoded")]
    fn new(api: ApiKey, version: i16, message: &impl Encodable) -> Self {
        let mut body = BytesMut::new();
        message.encode(&mut body, version).expect("the version has every field that is set");
        Self { api, version, body }
    }

    /// Appends a batch of these values to one partition.
    pub fn produce(topic: &str, partition: u32, acks: i16, values: &[&[u8]]) -> Self {
        let partition = PartitionProduceData::default()
            .with_index(partition as i32)
            .with_records(Some(batch(values, now_ns() / 1_000_000)));
        let topic =
            TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(vec![partition]);
        let request = ProduceRequest::default().with_acks(acks).with_timeout_ms(TIMEOUT_MS);
        Self::new(ApiKey::Produce, 7, &request.with_topic_data(vec![topic]))
    }

    /// Reads one partition: at most `max_bytes`, waiting up to `max_wait_ms` for a byte.
    pub fn fetch(topic: &str, partition: u32, offset: i64, max_bytes: u32, max_wait_ms: u32) -> Self {
        let partition = FetchPartition::default()
            .with_partition(partition as i32)
            .with_fetch_offset(offset)
            .with_partition_max_bytes(max_bytes as i32);
        let topic = FetchTopic::default().with_topic(topic_name(topic)).with_partitions(vec![partition]);
        let request = FetchRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_max_wait_ms(max_wait_ms as i32)
            .with_min_bytes(1)
            .with_max_bytes(max_bytes as i32)
            .with_topics(vec![topic]);
        Self::new(ApiKey::Fetch, 4, &request)
    }

    /// Creates a topic.
    pub fn create_topic(topic: &Topic) -> Self {
        Self::create_topics(std::slice::from_ref(topic))
    }

    /// Creates topics with one request.
    pub fn create_topics(topics: &[Topic]) -> Self {
        let made = topics.iter().map(creatable).collect();
        let request = CreateTopicsRequest::default().with_topics(made).with_timeout_ms(TIMEOUT_MS);
        Self::new(ApiKey::CreateTopics, 2, &request)
    }

    /// Asks which broker coordinates a group.
    pub fn find_coordinator(group: &str) -> Self {
        let request = FindCoordinatorRequest::default().with_key(text(group)).with_key_type(0);
        Self::new(ApiKey::FindCoordinator, 2, &request)
    }

    /// Stores an offset of a partition for a group without members.
    pub fn commit_offset(group: &str, topic: &str, partition: u32, offset: i64) -> Self {
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(partition as i32)
            .with_committed_offset(offset);
        let topic =
            OffsetCommitRequestTopic::default().with_name(topic_name(topic)).with_partitions(vec![partition]);
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(text(group)))
            .with_generation_id_or_member_epoch(-1)
            .with_topics(vec![topic]);
        Self::new(ApiKey::OffsetCommit, 7, &request)
    }

    /// Joins a group, or joins it again as `member`.
    pub fn join_group(group: &str, member: &str) -> Self {
        let protocol = JoinGroupRequestProtocol::default().with_name(text("any"));
        let request = JoinGroupRequest::default()
            .with_group_id(GroupId(text(group)))
            .with_session_timeout_ms(TIMEOUT_MS)
            .with_rebalance_timeout_ms(TIMEOUT_MS)
            .with_member_id(text(member))
            .with_protocol_type(text("lab"))
            .with_protocols(vec![protocol]);
        Self::new(ApiKey::JoinGroup, 3, &request)
    }

    /// Sends the assignment of a group whose leader and only member this is.
    pub fn sync_group(group: &str, member: &Member) -> Self {
        let assignment = SyncGroupRequestAssignment::default()
            .with_member_id(text(&member.id))
            .with_assignment(Bytes::from_static(b"all"));
        let request = SyncGroupRequest::default()
            .with_group_id(GroupId(text(group)))
            .with_generation_id(member.generation)
            .with_member_id(text(&member.id))
            .with_assignments(vec![assignment]);
        Self::new(ApiKey::SyncGroup, 2, &request)
    }

    /// Sets or removes a client id's limit on bytes per second. `key` selects whether that limits what it produces
    /// (`producer_byte_rate`) or fetches.
    pub fn alter_quota(client_id: &str, key: &str, bytes_per_second: Option<f64>) -> Self {
        let entity =
            EntityData::default().with_entity_type(text("client-id")).with_entity_name(Some(text(client_id)));
        let op = OpData::default()
            .with_key(text(key))
            .with_value(bytes_per_second.unwrap_or_default())
            .with_remove(bytes_per_second.is_none());
        let entry = EntryData::default().with_entity(vec![entity]).with_ops(vec![op]);
        let request = AlterClientQuotasRequest::default().with_entries(vec![entry]);
        Self::new(ApiKey::AlterClientQuotas, 0, &request)
    }

    /// The bytes on the wire: size, header, body.
    #[expect(clippy::missing_panics_doc, reason = "it never panics")]
    #[expect(clippy::expect_used, reason = "a header with a client id can be encoded")]
    pub fn frame(&self, correlation_id: i32, client_id: &str) -> Vec<u8> {
        let header = RequestHeader::default()
            .with_request_api_key(self.api as i16)
            .with_request_api_version(self.version)
            .with_correlation_id(correlation_id)
            .with_client_id(Some(text(client_id)));
        let mut encoded = BytesMut::new();
        encode_request_header_into_buffer(&mut encoded, &header).expect("a client id fits into a header");
        let size = (encoded.len() + self.body.len()) as u32;
        [&size.to_be_bytes()[..], &encoded, &self.body].concat()
    }
}

/// A batch of these values, all at `timestamp_ms`: no keys, no headers, no compression.
#[expect(clippy::expect_used, reason = "version 2 is known, and no compressor is called")]
fn batch(values: &[&[u8]], timestamp_ms: i64) -> Bytes {
    let records: Vec<Record> = (0..)
        .zip(values)
        .map(|(offset, value)| Record {
            transactional: false,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
            producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            timestamp_type: TimestampType::Creation,
            offset,
            // The first has none (-1); the encoder puts records with consecutive sequences into one batch.
            sequence: offset as i32 - 1,
            timestamp: timestamp_ms,
            key: None,
            value: Some(Bytes::copy_from_slice(value)),
            headers: std::iter::empty::<(StrBytes, Option<Bytes>)>().collect(),
        })
        .collect();
    let mut batch = BytesMut::new();
    let options = RecordEncodeOptions { version: 2, compression: Compression::None };
    RecordBatchEncoder::encode(&mut batch, &records, &options).expect("version 2 is encoded");
    batch.freeze()
}

/// Result of a fetch of one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchResult {
    /// The partition's error code.
    pub error: i16,
    /// Bytes of records.
    pub bytes: u64,
    /// The offset to continue from, if a whole batch came.
    pub next_offset: Option<i64>,
}

/// A member of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// The id that the coordinator gave it.
    pub id: String,
    /// The group's generation that it joined.
    pub generation: i32,
}

/// Parses a `JoinGroup` 3 response; `None` if it is truncated or reports an error.
pub(super) fn parse_join(body: Vec<u8>) -> Option<Member> {
    let response = JoinGroupResponse::decode(&mut Bytes::from(body), 3).ok()?;
    let member = Member { id: response.member_id.to_string(), generation: response.generation_id };
    (response.error_code == 0).then_some(member)
}

/// The first error code in a response; `None` if the response is truncated. That of the first partition of Produce 7 or
/// `OffsetCommit` 7, of the first topic of `CreateTopics` 2, of `FindCoordinator` 2, of `SyncGroup` 2, or of the first
/// entry of `AlterClientQuotas` 0. The body starts after the correlation id.
pub(super) fn first_error(api: ApiKey, body: Vec<u8>) -> Option<i16> {
    let mut body = Bytes::from(body);
    match api {
        ApiKey::Produce => {
            let response = ProduceResponse::decode(&mut body, 7).ok()?;
            Some(response.responses.first()?.partition_responses.first()?.error_code)
        }
        ApiKey::CreateTopics => {
            Some(CreateTopicsResponse::decode(&mut body, 2).ok()?.topics.first()?.error_code)
        }
        ApiKey::FindCoordinator => Some(FindCoordinatorResponse::decode(&mut body, 2).ok()?.error_code),
        ApiKey::OffsetCommit => {
            let response = OffsetCommitResponse::decode(&mut body, 7).ok()?;
            Some(response.topics.first()?.partitions.first()?.error_code)
        }
        ApiKey::SyncGroup => Some(SyncGroupResponse::decode(&mut body, 2).ok()?.error_code),
        _ => Some(AlterClientQuotasResponse::decode(&mut body, 0).ok()?.entries.first()?.error_code),
    }
}

/// Parses a Fetch 4 response of one partition; `None` if it is truncated.
pub(super) fn parse_fetch(body: Vec<u8>) -> Option<FetchResult> {
    let response = FetchResponse::decode(&mut Bytes::from(body), 4).ok()?;
    let partition = response.responses.first()?.partitions.first()?;
    let records = partition.records.as_deref().unwrap_or_default();
    Some(FetchResult {
        error: partition.error_code,
        bytes: records.len() as u64,
        next_offset: offset_after(records),
    })
}

/// The offset after the last whole batch: base offset 8 bytes, length 4, last offset delta at 23. A broker may truncate
/// the last batch anywhere, which a batch decoder would report as an error.
fn offset_after(mut records: &[u8]) -> Option<i64> {
    let mut next = None;
    while let Some((head, _)) = records.split_first_chunk::<27>() {
        let base = i64::from_be_bytes(*head.first_chunk()?);
        let length = u32::from_be_bytes(*head.get(8..)?.first_chunk()?);
        let Some(rest) = records.get((length as usize).checked_add(12)?..) else { break };
        let last = i32::from_be_bytes(*head.last_chunk()?);
        next = base.checked_add(i64::from(last))?.checked_add(1);
        records = rest;
    }
    next
}

fn creatable(topic: &Topic) -> CreatableTopic {
    let brokers: Vec<BrokerId> = topic.brokers.iter().map(|&broker| BrokerId(broker as i32)).collect();
    let assignment = |partition| {
        let assignment = CreatableReplicaAssignment::default().with_partition_index(partition as i32);
        assignment.with_broker_ids(brokers.clone())
    };
    let config = |(name, value): &(String, String)| {
        CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value)))
    };
    let made = CreatableTopic::default()
        .with_name(topic_name(&topic.name))
        .with_configs(topic.configs.iter().map(config).collect());
    if brokers.is_empty() {
        return made.with_num_partitions(topic.partitions as i32).with_replication_factor(1);
    }
    // Both numbers then follow from the assignment (CreateTopicsRequest.json).
    made.with_num_partitions(-1)
        .with_replication_factor(-1)
        .with_assignments((0..topic.partitions).map(assignment).collect())
}

fn text(value: &str) -> StrBytes {
    StrBytes::from_string(value.to_owned())
}

fn topic_name(name: &str) -> TopicName {
    TopicName(text(name))
}

/// Draws this many bytes of made-up words: unlike random bytes, they contain repetitions, which a compressor has to
/// search for.
pub(crate) fn words(bytes: usize, rng: &mut Rng) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + 16);
    while text.len() < bytes {
        let mut word = rng.u64(..9_973);
        for _ in 0..3 + word % 5 {
            text.push(b'a' + (word % 26) as u8);
            word = word / 3 + 7;
        }
        text.push(b' ');
    }
    text.truncate(bytes);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_produce_version_7() {
        let frame = Request::produce("t", 3, 1, &[b"one", b"second"]).frame(9, "me");
        let expected = b"\0\0\0\x07\0\0\0\x09\0\x02me\
            \xff\xff\0\x01\0\0\x75\x30\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x03";
        assert_eq!(frame[..4], (frame.len() as u32 - 4).to_be_bytes());
        assert_eq!(frame[4..4 + expected.len()], *expected);
    }

    #[test]
    fn batch_has_its_length_record_count_and_checksum() {
        let batch = batch(&[b"one", b"second"], 7);
        let number = |at: usize| u32::from_be_bytes(batch[at..at + 4].try_into().unwrap());
        assert_eq!(number(8) as usize, batch.len() - 12);
        assert_eq!(batch[16], 2);
        assert_eq!(number(17), crc32c::crc32c(&batch[21..]));
        assert_eq!(number(23), 1);
        assert_eq!(batch[43..57], [[0xff; 8].as_slice(), &[0xff; 6]].concat(), "no producer");
        assert_eq!(number(57), 2);
        assert_eq!(batch[61..], *b"\x12\0\0\0\x01\x06one\0\x18\0\0\x02\x01\x0csecond\0");
    }

    #[test]
    fn encodes_topics_by_partition_count_or_assignment() {
        let mut topic = Topic { name: "t".to_owned(), partitions: 2, ..Topic::default() };
        let anywhere = b"\0\0\0\x01\0\x01t\0\0\0\x02\0\x01\0\0\0\0\0\0\0\0\0\0\x75\x30\0";
        assert_eq!(Request::create_topic(&topic).body[..], *anywhere);
        topic.brokers = vec![2];
        let there = b"\0\0\0\x01\0\x01t\xff\xff\xff\xff\xff\xff\0\0\0\x02\0\0\0\0\0\0\0\x01\0\0\0\x02\
            \0\0\0\x01\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\x75\x30\0";
        assert_eq!(Request::create_topic(&topic).body[..], *there);
    }

    #[test]
    fn encodes_offset_commit_and_find_coordinator() {
        let body = Request::commit_offset("g", "t", 3, 7).body;
        let expected = b"\0\x01g\xff\xff\xff\xff\0\0\xff\xff\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x03\0\0\0\0\0\0\0\x07\xff\xff\xff\xff\0\0";
        assert_eq!(body[..], *expected);
        let committed = b"\0\0\0\0\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x03\0\x19";
        assert_eq!(first_error(ApiKey::OffsetCommit, committed.to_vec()), Some(25));
        assert_eq!(Request::find_coordinator("g").body[..], *b"\0\x01g\0");
        let found = b"\0\0\0\0\0\x0f\xff\xff\xff\xff\xff\xff\0\0\xff\xff\xff\xff";
        assert_eq!(first_error(ApiKey::FindCoordinator, found.to_vec()), Some(15));
    }

    #[test]
    fn encodes_join_group_and_sync_group() {
        let expected = b"\0\x01g\0\0\x75\x30\0\0\x75\x30\0\x01m\0\x03lab\0\0\0\x01\0\x03any\0\0\0\0";
        assert_eq!(Request::join_group("g", "m").body[..], *expected);
        let answer = |error: u8| {
            let head = [0, 0, 0, 0, 0, error, 0, 0, 0, 7];
            [&head[..], b"\0\x03any\0\x01m\0\x01m\0\0\0\0"].concat()
        };
        let member = Member { id: "m".to_owned(), generation: 7 };
        assert_eq!(parse_join(answer(0)), Some(member.clone()));
        assert_eq!((parse_join(answer(25)), parse_join(answer(0)[..9].to_vec())), (None, None));
        let expected = b"\0\x01g\0\0\0\x07\0\x01m\0\0\0\x01\0\x01m\0\0\0\x03all";
        assert_eq!(Request::sync_group("g", &member).body[..], *expected);
        let refused = b"\0\0\0\0\0\x1b\0\0\0\0";
        assert_eq!(first_error(ApiKey::SyncGroup, refused.to_vec()), Some(27));
    }

    #[test]
    fn encodes_quota_changes_and_removals() {
        let set = b"\0\0\0\x01\0\0\0\x01\0\x09client-id\0\x01c\0\0\0\x01\0\x01k\x3f\xf0\0\0\0\0\0\0\0\0";
        assert_eq!(Request::alter_quota("c", "k", Some(1.0)).body[..], *set);
        let taken = Request::alter_quota("c", "k", None).body;
        assert_eq!(taken[taken.len() - 10..], [0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
    }

    #[test]
    fn encodes_fetch_version_4() {
        let frame = Request::fetch("t", 0, 5, 1024, 10).frame(1, "c");
        let expected =
            b"\0\0\0\x37\0\x01\0\x04\0\0\0\x01\0\x01c\xff\xff\xff\xff\0\0\0\x0a\0\0\0\x01\0\0\x04\0\0\
            \0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x05\0\0\x04\0";
        assert_eq!(frame, expected);
    }

    #[test]
    fn finds_error_codes_and_rejects_truncated_responses() {
        let produce = b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x03\0\x06\0\0\0\0\0\0\0\0\
            \0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        assert_eq!(first_error(ApiKey::Produce, produce.to_vec()), Some(6));
        let topics = b"\0\0\0\0\0\0\0\x01\0\x01t\0\x24\xff\xff";
        assert_eq!(first_error(ApiKey::CreateTopics, topics.to_vec()), Some(36));
        for length in 0..produce.len() {
            assert_eq!(first_error(ApiKey::Produce, produce[..length].to_vec()), None);
        }
    }

    #[test]
    fn next_offset_follows_the_last_complete_batch() {
        let mut first = batch(&[b"a", b"b"], 1).to_vec();
        first[..8].copy_from_slice(&10_i64.to_be_bytes());
        let cut = &batch(&[b"c"], 1)[..40];
        let records = [first.as_slice(), cut].concat();
        let mut body = b"\0\0\0\0\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\0\0".to_vec();
        body.extend([0; 16]);
        body.extend(0_i32.to_be_bytes());
        body.extend((records.len() as i32).to_be_bytes());
        body.extend(&records);
        let expected = FetchResult { error: 0, bytes: records.len() as u64, next_offset: Some(12) };
        assert_eq!(parse_fetch(body.clone()), Some(expected));
        assert_eq!(parse_fetch(body[..body.len() - 1].to_vec()), None);
    }

    #[test]
    fn same_seed_yields_the_same_words() {
        let of = |seed| words(1000, &mut Rng::with_seed(seed));
        assert_eq!(of(1).len(), 1000);
        assert!(of(1).iter().all(|byte| byte.is_ascii_lowercase() || *byte == b' '));
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
