//! Where a response's throttle time is, against another implementation of the protocol.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Encodable, Message};
use wire::ApiKey;

/// Encodes a response of every version with a throttle time and looks whether it comes first.
fn check<R: Encodable + Message>(api_key: i16, response: &R) {
    let api = ApiKey(api_key);
    let mut encoded = 0;
    for version in R::VERSIONS.min..=R::VERSIONS.max.min(api.max_version().unwrap()) {
        let mut bytes = Vec::new();
        if response.encode(&mut bytes, version).is_err() {
            continue;
        }
        encoded += 1;
        let leads = bytes.starts_with(&[0x01, 0x02, 0x03, 0x04]);
        let expected = api.first_throttled_version().is_some_and(|first| version >= first);
        assert_eq!(leads, expected, "{api} v{version}");
    }
    assert!(encoded > 0, "{api}: no version could be encoded");
}

macro_rules! check_throttled {
    ($($key:literal $response:ident),* $(,)?) => {
        $(check($key, &$response::default().with_throttle_time_ms(0x0102_0304));)*
    };
}

macro_rules! check_others {
    ($($key:literal $response:ident),* $(,)?) => {
        $(check($key, &$response::default());)*
    };
}

#[test]
fn throttle_times_lead_where_the_table_says() {
    check_throttled!(
        0 ProduceResponse, 1 FetchResponse, 2 ListOffsetsResponse, 3 MetadataResponse,
        8 OffsetCommitResponse, 9 OffsetFetchResponse, 10 FindCoordinatorResponse, 11 JoinGroupResponse,
        12 HeartbeatResponse, 13 LeaveGroupResponse, 14 SyncGroupResponse, 15 DescribeGroupsResponse,
        16 ListGroupsResponse, 18 ApiVersionsResponse, 19 CreateTopicsResponse, 20 DeleteTopicsResponse,
        21 DeleteRecordsResponse, 22 InitProducerIdResponse, 23 OffsetForLeaderEpochResponse,
        24 AddPartitionsToTxnResponse, 25 AddOffsetsToTxnResponse, 26 EndTxnResponse,
        28 TxnOffsetCommitResponse, 29 DescribeAclsResponse, 30 CreateAclsResponse, 31 DeleteAclsResponse,
        32 DescribeConfigsResponse, 33 AlterConfigsResponse, 34 AlterReplicaLogDirsResponse,
        35 DescribeLogDirsResponse, 37 CreatePartitionsResponse, 38 CreateDelegationTokenResponse,
        39 RenewDelegationTokenResponse, 40 ExpireDelegationTokenResponse,
        41 DescribeDelegationTokenResponse, 42 DeleteGroupsResponse, 43 ElectLeadersResponse,
        44 IncrementalAlterConfigsResponse, 45 AlterPartitionReassignmentsResponse,
        46 ListPartitionReassignmentsResponse, 47 OffsetDeleteResponse, 48 DescribeClientQuotasResponse,
        49 AlterClientQuotasResponse, 50 DescribeUserScramCredentialsResponse,
        51 AlterUserScramCredentialsResponse, 56 AlterPartitionResponse, 57 UpdateFeaturesResponse,
        59 FetchSnapshotResponse, 60 DescribeClusterResponse, 61 DescribeProducersResponse,
        62 BrokerRegistrationResponse, 63 BrokerHeartbeatResponse, 64 UnregisterBrokerResponse,
        65 DescribeTransactionsResponse, 66 ListTransactionsResponse, 67 AllocateProducerIdsResponse,
        68 ConsumerGroupHeartbeatResponse, 69 ConsumerGroupDescribeResponse,
        70 ControllerRegistrationResponse, 71 GetTelemetrySubscriptionsResponse, 72 PushTelemetryResponse,
        73 AssignReplicasToDirsResponse, 74 ListConfigResourcesResponse, 75 DescribeTopicPartitionsResponse,
        76 ShareGroupHeartbeatResponse, 77 ShareGroupDescribeResponse, 78 ShareFetchResponse,
        79 ShareAcknowledgeResponse, 80 AddRaftVoterResponse, 81 RemoveRaftVoterResponse,
        82 UpdateRaftVoterResponse, 90 DescribeShareGroupOffsetsResponse,
        91 AlterShareGroupOffsetsResponse, 92 DeleteShareGroupOffsetsResponse,
    );
    check_others!(
        17 SaslHandshakeResponse, 27 WriteTxnMarkersResponse, 36 SaslAuthenticateResponse, 52 VoteResponse,
        53 BeginQuorumEpochResponse, 54 EndQuorumEpochResponse, 55 DescribeQuorumResponse,
        58 EnvelopeResponse, 83 InitializeShareGroupStateResponse, 84 ReadShareGroupStateResponse,
        85 WriteShareGroupStateResponse, 86 DeleteShareGroupStateResponse,
        87 ReadShareGroupStateSummaryResponse,
    );
}
