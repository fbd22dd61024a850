//! Small request bodies, compared with another implementation of the protocol. In every version that it has.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use kafka_protocol::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{self, BrokerId, GroupId, ProducerId, TopicName, TransactionalId};
use kafka_protocol::messages::{
    consumer_group_heartbeat_request, offset_commit_request, offset_fetch_request, share_acknowledge_request,
    share_fetch_request, txn_offset_commit_request,
};
use kafka_protocol::protocol::{Encodable, StrBytes};
use wire::api::Number;
use wire::{ApiKey, Error, ErrorKind};

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn encoded(body: &impl Encodable, version: i16) -> Vec<u8> {
    let mut bytes = Vec::new();
    body.encode(&mut bytes, version).unwrap();
    bytes
}

fn every_prefix_is_an_error(bytes: &[u8], what: &str, parse: impl Fn(&[u8]) -> Result<(), Error>) {
    parse(bytes).unwrap();
    for end in 0..bytes.len() {
        assert!(parse(&bytes[..end]).is_err(), "{what}: {end} of {} bytes were accepted", bytes.len());
    }
    assert!(parse(&[bytes, &[0]].concat()).is_err(), "{what}: a byte too many was accepted");
}

/// Checks the names in a body, and that nothing but the whole body is accepted.
fn check(
    api_key: ApiKey,
    version: i16,
    body: &impl Encodable,
    group: Option<&str>,
    transaction: Option<&str>,
) {
    let bytes = encoded(body, version);
    let values = api_key.read_request(&bytes, version, |_| {}).unwrap();
    assert_eq!((values.transactional_id(), values.group_id()), (transaction, group), "{api_key} v{version}");
    every_prefix_is_an_error(&bytes, &format!("{api_key} v{version}"), |bytes| {
        api_key.read_request(bytes, version, |_| {}).map(|_| ())
    });
}

fn group() -> GroupId {
    GroupId(text("group-1"))
}

fn transaction() -> TransactionalId {
    TransactionalId(text("tx-1"))
}

const GROUP: Option<&str> = Some("group-1");
const TRANSACTION: Option<&str> = Some("tx-1");

#[test]
fn reads_group_or_transaction_of_find_coordinator() {
    for version in 0..=6 {
        for key_type in 0..=if version >= 1 { 2 } else { 0 } {
            let request = messages::FindCoordinatorRequest::default().with_key_type(key_type);
            let request_for = |keys: &[&str]| match version {
                0..=3 => request.clone().with_key(text(keys[0])),
                _ => request.clone().with_coordinator_keys(keys.iter().map(|key| text(key)).collect()),
            };
            let of = |kind| (key_type == kind).then_some("key-é");
            check(ApiKey::FIND_COORDINATOR, version, &request_for(&["key-é"]), of(0), of(1));
            if version >= 4 {
                check(ApiKey::FIND_COORDINATOR, version, &request_for(&["one", "two"]), None, None);
                check(ApiKey::FIND_COORDINATOR, version, &request_for(&[]), None, None);
            }
        }
    }
}

#[test]
fn reads_the_group_of_member_requests() {
    let instance = |is_there: bool| is_there.then(|| text("static-1"));
    for version in 0..=9 {
        let protocol =
            JoinGroupRequestProtocol::default().with_name(text("range")).with_metadata(vec![7; 20].into());
        let mut body = messages::JoinGroupRequest::default()
            .with_group_id(group())
            .with_session_timeout_ms(45_000)
            .with_member_id(text("member-1"))
            .with_protocol_type(text("consumer"))
            .with_protocols(vec![protocol; 2]);
        if version >= 1 {
            body.rebalance_timeout_ms = 300_000;
        }
        body.group_instance_id = instance(version >= 5);
        body.reason = (version >= 8).then(|| text("because"));
        check(ApiKey::JOIN_GROUP, version, &body, GROUP, None);
    }
    for version in 0..=5 {
        let assignment = SyncGroupRequestAssignment::default()
            .with_member_id(text("member-1"))
            .with_assignment(vec![9; 30].into());
        let mut body = messages::SyncGroupRequest::default()
            .with_group_id(group())
            .with_generation_id(12)
            .with_member_id(text("member-1"))
            .with_assignments(vec![assignment]);
        body.group_instance_id = instance(version >= 3);
        body.protocol_name = (version >= 5).then(|| text("range"));
        check(ApiKey::SYNC_GROUP, version, &body, GROUP, None);
        let mut body = messages::LeaveGroupRequest::default().with_group_id(group());
        if version <= 2 {
            body.member_id = text("member-1");
        } else {
            let member = MemberIdentity::default().with_group_instance_id(instance(true));
            body.members = vec![member; 2];
        }
        check(ApiKey(13), version, &body, GROUP, None);
    }
    for version in 0..=4 {
        let mut body = messages::HeartbeatRequest::default()
            .with_group_id(group())
            .with_generation_id(12)
            .with_member_id(text("member-1"));
        body.group_instance_id = instance(version >= 3);
        check(ApiKey::HEARTBEAT, version, &body, GROUP, None);
    }
    for version in 0..=1 {
        let topics = consumer_group_heartbeat_request::TopicPartitions::default().with_partitions(vec![1, 2]);
        let mut body = messages::ConsumerGroupHeartbeatRequest::default()
            .with_group_id(group())
            .with_member_id(text("member-1"))
            .with_rack_id(Some(text("rack")))
            .with_subscribed_topic_names(Some(vec![TopicName(text("topicA")); 2]))
            .with_topic_partitions(Some(vec![topics; 2]));
        if version >= 1 {
            body.subscribed_topic_regex = Some(text("t.*"));
        }
        check(ApiKey(68), version, &body, GROUP, None);
    }
    let body = messages::ShareGroupHeartbeatRequest::default()
        .with_group_id(group())
        .with_subscribed_topic_names(Some(vec![TopicName(text("topicA"))]));
    check(ApiKey(76), 1, &body, GROUP, None);
}

#[test]
fn reads_the_group_of_offset_commits_and_fetches() {
    for version in 2..=9 {
        let partition = offset_commit_request::OffsetCommitRequestPartition::default()
            .with_committed_offset(77)
            .with_committed_metadata(Some(text("mine")));
        let topic = offset_commit_request::OffsetCommitRequestTopic::default()
            .with_name(TopicName(text("topicA")))
            .with_partitions(vec![partition; 2]);
        let mut body = messages::OffsetCommitRequest::default()
            .with_group_id(group())
            .with_member_id(text("member-1"))
            .with_topics(vec![topic; 2]);
        body.group_instance_id = (version >= 7).then(|| text("static-1"));
        check(ApiKey(8), version, &body, GROUP, None);
    }
    for version in 1..=9 {
        let name = TopicName(text("topicA"));
        if version <= 7 {
            let topic = offset_fetch_request::OffsetFetchRequestTopic::default()
                .with_name(name)
                .with_partition_indexes(vec![1, 2]);
            let body = messages::OffsetFetchRequest::default()
                .with_group_id(group())
                .with_topics(Some(vec![topic; 2]))
                .with_require_stable(version >= 7);
            check(ApiKey(9), version, &body, GROUP, None);
            continue;
        }
        let topic = offset_fetch_request::OffsetFetchRequestTopics::default()
            .with_name(name)
            .with_partition_indexes(vec![1, 2]);
        let one = offset_fetch_request::OffsetFetchRequestGroup::default()
            .with_group_id(group())
            .with_topics(Some(vec![topic; 2]));
        let body = messages::OffsetFetchRequest::default().with_groups(vec![one.clone()]);
        check(ApiKey(9), version, &body, GROUP, None);
        let several = messages::OffsetFetchRequest::default().with_groups(vec![one; 2]);
        check(ApiKey(9), version, &several, None, None);
    }
    // Version 0 as of 3.9, and version 10, whose topics have ids (KIP-848), which the other implementation does not
    // know.
    let old = b"\0\x01g\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x07\xff\xff";
    assert_eq!(ApiKey(8).read_request(old, 0, |_| {}).unwrap().group_id(), Some("g"));
    let mut new = b"\x02g\0\0\0\x01\x02m\0\x02".to_vec();
    new.extend([9; 16]);
    new.extend(b"\x02\0\0\0\x02\0\0\0\0\0\0\0\x07\xff\xff\xff\xff\0\0\0\0");
    assert_eq!(ApiKey(8).read_request(&new, 10, |_| {}).unwrap().group_id(), Some("g"));
    every_prefix_is_an_error(&new, "OffsetCommit v10", |bytes| {
        ApiKey(8).read_request(bytes, 10, |_| {}).map(|_| ())
    });
    let mut new = b"\x02\x02g\x02m\0\0\0\x01\x02".to_vec();
    new.extend([9; 16]);
    new.extend(b"\x02\0\0\0\x02\0\0\x01\0");
    assert_eq!(ApiKey(9).read_request(&new, 10, |_| {}).unwrap().group_id(), Some("g"));
    every_prefix_is_an_error(&new, "OffsetFetch v10", |bytes| {
        ApiKey(9).read_request(bytes, 10, |_| {}).map(|_| ())
    });
}

#[test]
fn reads_the_group_of_describe_and_delete_requests() {
    for version in 0..=6 {
        let body = messages::DescribeGroupsRequest::default()
            .with_groups(vec![group()])
            .with_include_authorized_operations(version >= 3);
        check(ApiKey(15), version, &body, GROUP, None);
    }
    for version in 0..=2 {
        let body = messages::DeleteGroupsRequest::default().with_groups_names(vec![group()]);
        check(ApiKey(42), version, &body, GROUP, None);
        let several = messages::DeleteGroupsRequest::default().with_groups_names(vec![group(), group()]);
        check(ApiKey(42), version, &several, None, None);
    }
    for version in 0..=1 {
        let body = messages::ConsumerGroupDescribeRequest::default().with_group_ids(vec![group()]);
        check(ApiKey(69), version, &body, GROUP, None);
    }
    let body = messages::ShareGroupDescribeRequest::default().with_group_ids(vec![group()]);
    check(ApiKey(77), 1, &body, GROUP, None);
}

#[test]
fn reads_the_transactional_id_of_producer_requests() {
    for version in 0..=5 {
        for id in [TRANSACTION, None] {
            let mut body = messages::InitProducerIdRequest::default()
                .with_transactional_id(id.map(|_| transaction()))
                .with_transaction_timeout_ms(60_000);
            if version >= 3 {
                body = body.with_producer_id(ProducerId(4711)).with_producer_epoch(3);
            }
            check(ApiKey::INIT_PRODUCER_ID, version, &body, None, id);
        }
        let body = messages::EndTxnRequest::default()
            .with_transactional_id(transaction())
            .with_producer_id(ProducerId(4711))
            .with_committed(true);
        check(ApiKey::END_TXN, version, &body, None, TRANSACTION);
        let partition = txn_offset_commit_request::TxnOffsetCommitRequestPartition::default()
            .with_committed_metadata(Some(text("mine")));
        let topic = txn_offset_commit_request::TxnOffsetCommitRequestTopic::default()
            .with_name(TopicName(text("topicA")))
            .with_partitions(vec![partition; 2]);
        let mut body = messages::TxnOffsetCommitRequest::default()
            .with_transactional_id(transaction())
            .with_group_id(group())
            .with_topics(vec![topic; 2]);
        body.group_instance_id = (version >= 3).then(|| text("static-1"));
        check(ApiKey(28), version, &body, GROUP, TRANSACTION);
    }
    for version in 0..=4 {
        let body = messages::AddOffsetsToTxnRequest::default()
            .with_transactional_id(transaction())
            .with_group_id(group());
        check(ApiKey(25), version, &body, GROUP, TRANSACTION);
    }
    // Version 6 has two-phase commit (KIP-939).
    let body = b"\x05tx-1\0\0\xea\x60\0\0\0\0\0\0\x12\x67\0\x03\x01\0\0";
    assert_eq!(
        ApiKey::INIT_PRODUCER_ID.read_request(body, 6, |_| {}).unwrap().transactional_id(),
        TRANSACTION
    );
    every_prefix_is_an_error(body, "v6", |bytes| {
        ApiKey::INIT_PRODUCER_ID.read_request(bytes, 6, |_| {}).map(|_| ())
    });
}

#[test]
fn reads_the_transactional_id_only_of_a_single_transaction() {
    for version in 0..=5 {
        let topic = AddPartitionsToTxnTopic::default()
            .with_name(TopicName(text("topicA")))
            .with_partitions(vec![1, 2, 3]);
        let topics = vec![topic.clone(), topic];
        if version <= 3 {
            let body = messages::AddPartitionsToTxnRequest::default()
                .with_v3_and_below_transactional_id(transaction())
                .with_v3_and_below_producer_id(ProducerId(4711))
                .with_v3_and_below_topics(topics);
            check(ApiKey::ADD_PARTITIONS_TO_TXN, version, &body, None, TRANSACTION);
            continue;
        }
        let of = |id: &str| {
            AddPartitionsToTxnTransaction::default()
                .with_transactional_id(TransactionalId(text(id)))
                .with_topics(topics.clone())
        };
        for (transactions, expected) in
            [(vec![of("tx-1")], TRANSACTION), (vec![of("tx-1"), of("tx-2")], None)]
        {
            let body = messages::AddPartitionsToTxnRequest::default().with_transactions(transactions);
            check(ApiKey::ADD_PARTITIONS_TO_TXN, version, &body, None, expected);
        }
    }
}

#[test]
fn reads_sasl_requests_without_the_token() {
    for version in 0..=1 {
        let body = messages::SaslHandshakeRequest::default().with_mechanism(text("PLAIN"));
        check(ApiKey::SASL_HANDSHAKE, version, &body, None, None);
    }
    for version in 0..=2 {
        let body = messages::SaslAuthenticateRequest::default().with_auth_bytes(b"\0user\0secret"[..].into());
        check(ApiKey::SASL_AUTHENTICATE, version, &body, None, None);
    }
}

#[test]
fn reads_create_topics_requests() {
    for version in 2..=7 {
        let assignment =
            CreatableReplicaAssignment::default().with_broker_ids(vec![BrokerId(1), BrokerId(2)]);
        let config = CreatableTopicConfig::default()
            .with_name(text("cleanup.policy"))
            .with_value(Some(text("compact")));
        let topic = |name: &str| {
            CreatableTopic::default()
                .with_name(TopicName(text(name)))
                .with_num_partitions(6)
                .with_replication_factor(3)
                .with_assignments(vec![assignment.clone(); 2])
                .with_configs(vec![config.clone(), CreatableTopicConfig::default().with_value(None)])
        };
        let body = messages::CreateTopicsRequest::default()
            .with_topics(vec![topic("topicA"), topic("topicB")])
            .with_timeout_ms(1500)
            .with_validate_only(true);
        check(ApiKey::CREATE_TOPICS, version, &body, None, None);
    }
    // One topic without assignments or configurations; `validateOnly` only since version 1.
    let old = b"\0\0\0\x01\0\x01t\0\0\0\x02\0\x01\0\0\0\0\0\0\0\0\0\0\x05\xdc";
    for (version, body) in [(0, old.to_vec()), (1, [&old[..], &[1]].concat())] {
        every_prefix_is_an_error(&body, &format!("v{version}"), |bytes| {
            ApiKey::CREATE_TOPICS.read_request(bytes, version, |_| {}).map(|_| ())
        });
    }
}

#[test]
fn reads_share_fetch_and_acknowledge_requests() {
    let id = "09090909-0909-0909-0909-090909090909";
    let acknowledged =
        share_fetch_request::AcknowledgementBatch::default().with_acknowledge_types(vec![1, 2]);
    let partition = |index| {
        share_fetch_request::FetchPartition::default()
            .with_partition_index(index)
            .with_acknowledgement_batches(vec![acknowledged.clone(); 2])
    };
    let topic = share_fetch_request::FetchTopic::default()
        .with_topic_id(id.parse().unwrap())
        .with_partitions(vec![partition(2), partition(3)]);
    let forgotten = share_fetch_request::ForgottenTopic::default()
        .with_topic_id(id.parse().unwrap())
        .with_partitions(vec![7, 8]);
    let body = messages::ShareFetchRequest::default()
        .with_group_id(Some(group()))
        .with_member_id(Some(text("member-1")))
        .with_max_wait_ms(500)
        .with_min_bytes(7)
        .with_topics(vec![topic])
        .with_forgotten_topics_data(vec![forgotten; 2]);
    let fetch = encoded(&body, 1);
    let acknowledged =
        share_acknowledge_request::AcknowledgementBatch::default().with_acknowledge_types(vec![1]);
    let partition = |index| {
        share_acknowledge_request::AcknowledgePartition::default()
            .with_partition_index(index)
            .with_acknowledgement_batches(vec![acknowledged.clone(); 2])
    };
    let topic = share_acknowledge_request::AcknowledgeTopic::default()
        .with_topic_id(id.parse().unwrap())
        .with_partitions(vec![partition(2), partition(3)]);
    let body = messages::ShareAcknowledgeRequest::default()
        .with_group_id(Some(group()))
        .with_member_id(Some(text("member-1")))
        .with_topics(vec![topic]);
    let acknowledge = encoded(&body, 1);
    // Version 2 adds an acquire mode to one, and a renewal flag to both, before the topics.
    let longer =
        |bytes: &[u8], at: usize, more: usize| [&bytes[..at], &vec![1; more][..], &bytes[at..]].concat();
    let session = 8 + 9 + 4;
    for (api_key, version, bytes, terms) in [
        (ApiKey::SHARE_FETCH, 1, fetch.clone(), Some(())),
        (ApiKey::SHARE_FETCH, 2, longer(&fetch, session + 5 * 4, 2), Some(())),
        (ApiKey::SHARE_ACKNOWLEDGE, 1, acknowledge.clone(), None),
        (ApiKey::SHARE_ACKNOWLEDGE, 2, longer(&acknowledge, session, 1), None),
    ] {
        let mut partitions = Vec::new();
        let mut read = |bytes: &[u8]| -> Result<_, Error> {
            partitions.clear();
            let row =
                |row: &wire::api::Values<'_>| partitions.push((row.topic_id, row.int(Number::Partition)));
            let values = api_key.read_request(bytes, version, row)?;
            let terms = [Number::MaxWaitMs, Number::MinBytes].map(|number| values.int(number));
            Ok((values.group_id().map(str::to_owned), terms))
        };
        let (group_id, [max_wait_ms, min_bytes]) = read(&bytes).unwrap();
        assert_eq!(group_id.as_deref(), GROUP, "{api_key} v{version}");
        assert_eq!((max_wait_ms, min_bytes), (terms.map(|()| 500), terms.map(|()| 7)));
        assert_eq!(partitions, [(Some([9; 16]), Some(2)), (Some([9; 16]), Some(3))]);
        every_prefix_is_an_error(&bytes, &format!("{api_key} v{version}"), |bytes| {
            api_key.read_request(bytes, version, |_| {}).map(|_| ())
        });
    }
    for version in [-1, 0, 3] {
        let kind = ApiKey::SHARE_FETCH.read_request(&fetch, version, |_| {}).unwrap_err().kind;
        assert_eq!(kind, ErrorKind::UnsupportedVersion(version));
    }
    assert!(ApiKey::FETCH.read_request(&fetch, 1, |_| {}).is_err());
}

#[test]
fn refuses_unknown_versions_and_apis() {
    for api_key in ApiKey::known() {
        for version in [-1, 20] {
            let error = api_key.read_request(&[0; 99], version, |_| {}).unwrap_err();
            assert_eq!(error.kind, ErrorKind::UnsupportedVersion(version));
            // The broker's answer about a version that it may not know either (KIP-511).
            let is_read = api_key == ApiKey::API_VERSIONS && version == 20;
            assert_eq!(api_key.read_response(&[0; 99], version, |_| {}).is_ok(), is_read, "{api_key}");
        }
    }
    assert_eq!(ApiKey(93).read_response(&[0; 99], 0, |_| {}).unwrap_err().kind, ErrorKind::UnknownApi(93));
}
