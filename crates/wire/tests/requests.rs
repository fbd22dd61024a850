//! Small request bodies against another implementation of the protocol: every version it has.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use kafka_protocol::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{self, BrokerId, GroupId, ProducerId, TopicName, TransactionalId};
use kafka_protocol::protocol::{Encodable, StrBytes};
use wire::create_topics::{CreateTopicsRequest, NewTopic};
use wire::group::{FindCoordinatorRequest, MemberRequest};
use wire::sasl::{SaslAuthenticateRequest, SaslHandshakeRequest};
use wire::transaction::{AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest, Transaction};
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

#[test]
fn coordinators_are_sought_by_their_keys() {
    for version in 0..=6 {
        let request = messages::FindCoordinatorRequest::default();
        let request = if version >= 1 { request.with_key_type(1) } else { request };
        let request = match version {
            0..=3 => request.with_key(text("tx-1")),
            _ => request.with_coordinator_keys(vec![text("tx-1"), text("tx-é")]),
        };
        let bytes = encoded(&request, version);
        let found = FindCoordinatorRequest::parse(&bytes, version).unwrap();
        assert_eq!(found.key_type, i8::from(version >= 1));
        let expected: &[_] = if version <= 3 { &["tx-1"] } else { &["tx-1", "tx-é"] };
        assert_eq!(found.keys().collect::<Vec<_>>(), expected, "v{version}");
        every_prefix_is_an_error(&bytes, &format!("v{version}"), |bytes| {
            FindCoordinatorRequest::parse(bytes, version).map(|_| ())
        });
    }
}

fn members(api_key: ApiKey, version: i16, body: &impl Encodable, expected: MemberRequest<'_>) {
    let bytes = encoded(body, version);
    assert_eq!(MemberRequest::parse(api_key, &bytes, version), Ok(expected), "{api_key} v{version}");
    every_prefix_is_an_error(&bytes, &format!("{api_key} v{version}"), |bytes| {
        MemberRequest::parse(api_key, bytes, version).map(|_| ())
    });
}

#[test]
fn members_say_their_group() {
    let instance = |is_there: bool| is_there.then_some("static-1");
    for version in 0..=9 {
        let protocol =
            JoinGroupRequestProtocol::default().with_name(text("range")).with_metadata(vec![7; 20].into());
        let mut body = messages::JoinGroupRequest::default()
            .with_group_id(GroupId(text("group-1")))
            .with_session_timeout_ms(45_000)
            .with_member_id(text("member-1"))
            .with_protocol_type(text("consumer"))
            .with_protocols(vec![protocol; 2]);
        if version >= 1 {
            body.rebalance_timeout_ms = 300_000;
        }
        body.group_instance_id = instance(version >= 5).map(text);
        body.reason = (version >= 8).then(|| text("because"));
        let expected = MemberRequest {
            group_id: "group-1",
            generation: None,
            member_id: "member-1",
            group_instance_id: instance(version >= 5),
        };
        members(ApiKey::JOIN_GROUP, version, &body, expected);
    }
    let expected = |version| MemberRequest {
        group_id: "group-1",
        generation: Some(12),
        member_id: "member-1",
        group_instance_id: instance(version >= 3),
    };
    for version in 0..=5 {
        let assignment = SyncGroupRequestAssignment::default()
            .with_member_id(text("member-1"))
            .with_assignment(vec![9; 30].into());
        let mut body = messages::SyncGroupRequest::default()
            .with_group_id(GroupId(text("group-1")))
            .with_generation_id(12)
            .with_member_id(text("member-1"))
            .with_assignments(vec![assignment]);
        body.group_instance_id = instance(version >= 3).map(text);
        body.protocol_name = (version >= 5).then(|| text("range"));
        members(ApiKey::SYNC_GROUP, version, &body, expected(version));
    }
    for version in 0..=4 {
        let mut body = messages::HeartbeatRequest::default()
            .with_group_id(GroupId(text("group-1")))
            .with_generation_id(12)
            .with_member_id(text("member-1"));
        body.group_instance_id = instance(version >= 3).map(text);
        members(ApiKey::HEARTBEAT, version, &body, expected(version));
    }
    let other = MemberRequest::parse(ApiKey::PRODUCE, &[], 0).unwrap_err();
    assert_eq!(other.kind, ErrorKind::BadValue);
}

#[test]
fn producers_say_their_transaction() {
    for version in 0..=5 {
        for id in [Some("tx-1"), None] {
            let mut body = messages::InitProducerIdRequest::default()
                .with_transactional_id(id.map(|id| TransactionalId(text(id))))
                .with_transaction_timeout_ms(60_000);
            if version >= 3 {
                body = body.with_producer_id(ProducerId(4711)).with_producer_epoch(3);
            }
            let bytes = encoded(&body, version);
            let expected = InitProducerIdRequest {
                transactional_id: id,
                transaction_timeout_ms: 60_000,
                producer_id: if version >= 3 { 4711 } else { -1 },
            };
            assert_eq!(InitProducerIdRequest::parse(&bytes, version), Ok(expected), "v{version}");
            every_prefix_is_an_error(&bytes, &format!("v{version}"), |bytes| {
                InitProducerIdRequest::parse(bytes, version).map(|_| ())
            });
        }
    }
    for version in 0..=5 {
        for committed in [true, false] {
            let body = messages::EndTxnRequest::default()
                .with_transactional_id(TransactionalId(text("tx-1")))
                .with_producer_id(ProducerId(4711))
                .with_committed(committed);
            let bytes = encoded(&body, version);
            let expected = EndTxnRequest { transactional_id: "tx-1", producer_id: 4711, committed };
            assert_eq!(EndTxnRequest::parse(&bytes, version), Ok(expected), "v{version}");
            every_prefix_is_an_error(&bytes, &format!("v{version}"), |bytes| {
                EndTxnRequest::parse(bytes, version).map(|_| ())
            });
        }
    }
}

#[test]
fn partitions_are_added_to_one_or_several_transactions() {
    for version in 0..=5 {
        let topic = AddPartitionsToTxnTopic::default()
            .with_name(TopicName(text("topicA")))
            .with_partitions(vec![1, 2, 3]);
        let topics = vec![topic.clone(), topic];
        let body = if version <= 3 {
            messages::AddPartitionsToTxnRequest::default()
                .with_v3_and_below_transactional_id(TransactionalId(text("tx-1")))
                .with_v3_and_below_producer_id(ProducerId(4711))
                .with_v3_and_below_topics(topics)
        } else {
            let transaction = |id: &str| {
                AddPartitionsToTxnTransaction::default()
                    .with_transactional_id(TransactionalId(text(id)))
                    .with_producer_id(ProducerId(4711))
                    .with_topics(topics.clone())
            };
            messages::AddPartitionsToTxnRequest::default()
                .with_transactions(vec![transaction("tx-1"), transaction("tx-2")])
        };
        let bytes = encoded(&body, version);
        let found: Vec<_> =
            AddPartitionsToTxnRequest::parse(&bytes, version).unwrap().transactions().collect();
        let expected = |transactional_id| Transaction { transactional_id, producer_id: 4711, partitions: 6 };
        let all = [expected("tx-1"), expected("tx-2")];
        assert_eq!(found, all[..if version <= 3 { 1 } else { 2 }], "v{version}");
        every_prefix_is_an_error(&bytes, &format!("v{version}"), |bytes| {
            AddPartitionsToTxnRequest::parse(bytes, version).map(|_| ())
        });
    }
}

#[test]
fn clients_authenticate_without_giving_their_token_away() {
    for version in 0..=1 {
        let bytes =
            encoded(&messages::SaslHandshakeRequest::default().with_mechanism(text("PLAIN")), version);
        assert_eq!(SaslHandshakeRequest::parse(&bytes, version).unwrap().mechanism, "PLAIN");
        every_prefix_is_an_error(&bytes, &format!("v{version}"), |bytes| {
            SaslHandshakeRequest::parse(bytes, version).map(|_| ())
        });
    }
    for version in 0..=2 {
        let body = messages::SaslAuthenticateRequest::default().with_auth_bytes(b"\0user\0secret"[..].into());
        let bytes = encoded(&body, version);
        let request = SaslAuthenticateRequest::parse(&bytes, version).unwrap();
        assert_eq!(request.token_bytes, 12);
        assert!(!format!("{request:?}").contains("secret"));
        every_prefix_is_an_error(&bytes, &format!("v{version}"), |bytes| {
            SaslAuthenticateRequest::parse(bytes, version).map(|_| ())
        });
    }
}

#[test]
fn new_topics_are_named() {
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
        let bytes = encoded(&body, version);
        let request = CreateTopicsRequest::parse(&bytes, version).unwrap();
        assert_eq!((request.timeout_ms, request.validate_only), (1500, true));
        let expected = |name| NewTopic { name, partitions: 6, replication_factor: 3 };
        let topics: Vec<_> = request.topics().collect();
        assert_eq!(topics, [expected("topicA"), expected("topicB")], "v{version}");
        every_prefix_is_an_error(&bytes, &format!("v{version}"), |bytes| {
            CreateTopicsRequest::parse(bytes, version).map(|_| ())
        });
    }
    // Version 0: one topic without assignments or configurations.
    let old = b"\0\0\0\x01\0\x01t\0\0\0\x02\0\x01\0\0\0\0\0\0\0\0\0\0\x05\xdc";
    let request = CreateTopicsRequest::parse(old, 0).unwrap();
    assert_eq!((request.timeout_ms, request.validate_only, request.topics().count()), (1500, false, 1));
}

#[test]
fn versions_of_the_future_are_refused() {
    let refused = |result: Result<(), Error>, version: i16| {
        assert_eq!(result.unwrap_err().kind, ErrorKind::UnsupportedVersion { version });
    };
    for version in [-1, 20] {
        refused(FindCoordinatorRequest::parse(&[0; 99], version).map(|_| ()), version);
        refused(MemberRequest::parse(ApiKey::HEARTBEAT, &[0; 99], version).map(|_| ()), version);
        refused(InitProducerIdRequest::parse(&[0; 99], version).map(|_| ()), version);
        refused(AddPartitionsToTxnRequest::parse(&[0; 99], version).map(|_| ()), version);
        refused(EndTxnRequest::parse(&[0; 99], version).map(|_| ()), version);
        refused(SaslHandshakeRequest::parse(&[0; 99], version).map(|_| ()), version);
        refused(SaslAuthenticateRequest::parse(&[0; 99], version).map(|_| ()), version);
        refused(CreateTopicsRequest::parse(&[0; 99], version).map(|_| ()), version);
    }
}
