//! Positions of throttle times and error codes in answers. For every API and version, compared with another
//! implementation of the protocol.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Encodable, Message};
use wire::api::Number;
use wire::stream::{Options, ResponseBody, ResponseFrame, ResponseStream, Start};
use wire::{ApiKey, Error, ErrorKind};

const THROTTLE_MS: i32 = 0x0102_0304;
const ERROR_CODE: i16 = 0x0506;

fn encoded<R: Encodable>(response: &R, version: i16) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    response.encode(&mut bytes, version).ok().map(|()| bytes)
}

/// Whether setting a field changes the bytes: the other implementation leaves out fields that a version does not have.
fn has_field<R: Encodable>(plain: &[u8], response: &R, version: i16) -> bool {
    encoded(response, version).is_some_and(|bytes| bytes != plain)
}

fn status(api: ApiKey, body: &[u8], version: i16) -> Result<(Option<i32>, Option<i16>), Error> {
    let values = api.read_response(body, version, |_| {})?;
    Ok((values.int(Number::ThrottleMs), values.short(Number::ErrorCode)))
}

/// Encodes an answer of every version and reads it back: alone, and from a stream, in pieces.
fn check<R: Encodable + Message + Default>(
    api_key: i16,
    throttled: impl Fn(R) -> R,
    refused: impl Fn(R) -> R,
) -> usize {
    let api = ApiKey(api_key);
    let mut checked = 0;
    for version in R::VERSIONS.min..=R::VERSIONS.max {
        let plain = encoded(&R::default(), version).unwrap_or_else(|| panic!("{api} v{version}"));
        let has_throttle = has_field(&plain, &throttled(R::default()), version);
        let has_error = has_field(&plain, &refused(R::default()), version);
        let mut response = R::default();
        response = if has_throttle { throttled(response) } else { response };
        response = if has_error { refused(response) } else { response };
        let bytes = encoded(&response, version).unwrap();
        let expected = (has_throttle.then_some(THROTTLE_MS), has_error.then_some(ERROR_CODE));
        assert_eq!(status(api, &bytes, version), Ok(expected), "{api} v{version}");
        for pieces in [1, 3, usize::MAX] {
            let frame = streamed(api, version, &bytes, pieces);
            let found = (frame.throttle_ms, frame.error_code);
            assert_eq!((found, frame.error), (expected, None), "{api} v{version}");
        }
        // A truncated answer never returns a field that is incomplete, and every value that it returns is correct.
        for end in 0..bytes.len() {
            let cut = streamed(api, version, &bytes[..end], usize::MAX);
            assert!(cut.throttle_ms.is_none() || cut.throttle_ms == expected.0, "{api} v{version}");
            assert!(cut.error_code.is_none() || cut.error_code == expected.1, "{api} v{version}");
            let complete = cut.throttle_ms == expected.0 && cut.error_code == expected.1;
            assert!(complete || cut.error.is_some(), "{api} v{version}, {end} bytes");
        }
        checked += 1;
    }
    checked
}

/// The decoded frame with this body.
fn streamed(api: ApiKey, version: i16, body: &[u8], pieces: usize) -> ResponseFrame<u32> {
    let header: &[u8] =
        if api.response_header_version(version) == 1 { &[0, 0, 0, 7, 0] } else { &[0, 0, 0, 7] };
    let size = u32::try_from(header.len() + body.len()).unwrap();
    let bytes = [&size.to_be_bytes(), header, body].concat();
    let mut stream = ResponseStream::new(Options::default(), Start::Boundary);
    let mut seen = None;
    for mut rest in bytes.chunks(pieces.min(bytes.len())) {
        while !rest.is_empty() {
            let (used, frame) = stream.advance(rest, 0, &mut |_| Some((api, version)));
            seen = frame.cloned().or(seen);
            rest = &rest[used..];
        }
    }
    seen.unwrap_or_else(|| panic!("{api} v{version}: no frame"))
}

macro_rules! check_all {
    ($throttled:expr, $refused:expr; $($key:literal $response:ident),* $(,)?) => {
        [$(check::<$response>($key, $throttled, $refused)),*]
    };
}

#[test]
fn reads_throttle_time_and_error_code() {
    let checked = check_all!(
        |r| r.with_throttle_time_ms(THROTTLE_MS), |r| r.with_error_code(ERROR_CODE);
        1 FetchResponse, 3 MetadataResponse, 9 OffsetFetchResponse, 10 FindCoordinatorResponse, 11 JoinGroupResponse, 12 HeartbeatResponse, 13 LeaveGroupResponse, 14 SyncGroupResponse, 16 ListGroupsResponse, 18 ApiVersionsResponse, 22 InitProducerIdResponse, 24 AddPartitionsToTxnResponse, 25 AddOffsetsToTxnResponse, 26 EndTxnResponse, 29 DescribeAclsResponse, 35 DescribeLogDirsResponse, 38 CreateDelegationTokenResponse, 39 RenewDelegationTokenResponse, 40 ExpireDelegationTokenResponse, 41 DescribeDelegationTokenResponse, 43 ElectLeadersResponse, 45 AlterPartitionReassignmentsResponse, 46 ListPartitionReassignmentsResponse, 47 OffsetDeleteResponse, 48 DescribeClientQuotasResponse, 50 DescribeUserScramCredentialsResponse, 56 AlterPartitionResponse, 57 UpdateFeaturesResponse, 59 FetchSnapshotResponse, 60 DescribeClusterResponse, 62 BrokerRegistrationResponse, 63 BrokerHeartbeatResponse, 64 UnregisterBrokerResponse, 66 ListTransactionsResponse, 67 AllocateProducerIdsResponse, 68 ConsumerGroupHeartbeatResponse, 70 ControllerRegistrationResponse, 71 GetTelemetrySubscriptionsResponse, 72 PushTelemetryResponse, 73 AssignReplicasToDirsResponse, 74 ListConfigResourcesResponse, 76 ShareGroupHeartbeatResponse, 78 ShareFetchResponse, 79 ShareAcknowledgeResponse, 80 AddRaftVoterResponse, 81 RemoveRaftVoterResponse, 82 UpdateRaftVoterResponse, 91 AlterShareGroupOffsetsResponse, 92 DeleteShareGroupOffsetsResponse,
    );
    assert!(checked.iter().all(|versions| *versions > 0));
}

#[test]
fn reads_only_a_throttle_time() {
    let checked = check_all!(
        |r| r.with_throttle_time_ms(THROTTLE_MS), |r| r;
        0 ProduceResponse, 2 ListOffsetsResponse, 8 OffsetCommitResponse, 15 DescribeGroupsResponse, 19 CreateTopicsResponse, 20 DeleteTopicsResponse, 21 DeleteRecordsResponse, 23 OffsetForLeaderEpochResponse, 28 TxnOffsetCommitResponse, 30 CreateAclsResponse, 31 DeleteAclsResponse, 32 DescribeConfigsResponse, 33 AlterConfigsResponse, 34 AlterReplicaLogDirsResponse, 37 CreatePartitionsResponse, 42 DeleteGroupsResponse, 44 IncrementalAlterConfigsResponse, 49 AlterClientQuotasResponse, 51 AlterUserScramCredentialsResponse, 61 DescribeProducersResponse, 65 DescribeTransactionsResponse, 69 ConsumerGroupDescribeResponse, 75 DescribeTopicPartitionsResponse, 77 ShareGroupDescribeResponse, 90 DescribeShareGroupOffsetsResponse,
    );
    assert!(checked.iter().all(|versions| *versions > 0));
}

#[test]
fn reads_only_an_error_code() {
    let checked = check_all!(
        |r| r, |r| r.with_error_code(ERROR_CODE);
        17 SaslHandshakeResponse, 36 SaslAuthenticateResponse, 52 VoteResponse, 53 BeginQuorumEpochResponse, 54 EndQuorumEpochResponse, 55 DescribeQuorumResponse, 58 EnvelopeResponse,
    );
    assert!(checked.iter().all(|versions| *versions > 0));
}

#[test]
fn reads_neither_throttle_time_nor_error_code() {
    let checked = check_all!(
        |r| r, |r| r;
        27 WriteTxnMarkersResponse, 83 InitializeShareGroupStateResponse, 84 ReadShareGroupStateResponse, 85 WriteShareGroupStateResponse, 86 DeleteShareGroupStateResponse, 87 ReadShareGroupStateSummaryResponse,
    );
    assert!(checked.iter().all(|versions| *versions > 0));
}

#[test]
fn reads_answers_unknown_to_the_other_implementation() {
    for (api_key, version, body, throttle_ms, error_code) in [
        // As of 3.9: LeaderAndIsr, StopReplica, UpdateMetadata, ControlledShutdown; OffsetCommit 2 and 3.
        (4, 3, &[5, 6][..], None, Some(0x0506)),
        (5, 3, &[5, 6], None, Some(0x0506)),
        (6, 8, &[5, 6], None, Some(0x0506)),
        (7, 0, &[5, 6], None, Some(0x0506)),
        (8, 2, &[0, 0, 0, 0], None, None),
        (8, 3, &[1, 2, 3, 4, 0, 0, 0, 0], Some(THROTTLE_MS), None),
        // Versions that 4.2 added, and the groups of Kafka Streams.
        (2, 11, &[1, 2, 3, 4, 1, 0], Some(THROTTLE_MS), None),
        (78, 2, &[1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 9, 1, 1, 0], Some(THROTTLE_MS), Some(0x0506)),
        (79, 2, &[1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 9, 1, 1, 0], Some(THROTTLE_MS), Some(0x0506)),
        (80, 1, &[1, 2, 3, 4, 5, 6, 0, 0], Some(THROTTLE_MS), Some(0x0506)),
        (88, 0, &[1, 2, 3, 4, 5, 6, 0, 0], Some(THROTTLE_MS), Some(0x0506)),
        (89, 0, &[1, 2, 3, 4, 1, 0], Some(THROTTLE_MS), None),
        // A broker that does not know the version of ApiVersions answers in version 0 (KIP-511).
        (18, 4, &[0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4], None, Some(35)),
        // This table does not know the version either; a broker that does also begins its answer with the error code.
        (18, 5, &[0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4], None, Some(35)),
        (18, 11, &[0, 0, 2, 0, 18, 0, 0, 0, 12, 0, 0, 0, 0, 7, 0], None, Some(0)),
    ] {
        let api = ApiKey(api_key);
        let expected = (throttle_ms, error_code);
        assert_eq!(status(api, body, version), Ok(expected), "{api} v{version}");
        let frame = streamed(api, version, body, 1);
        assert_eq!(
            (frame.throttle_ms, frame.error_code, frame.error),
            (throttle_ms, error_code, None),
            "{api}"
        );
    }
    // In an API or a version from the future, their positions are unknown.
    let newer = ApiKey::known().filter(|&api| api != ApiKey::API_VERSIONS);
    let newer = newer.flat_map(|api| [1, 7].map(|more| (api, api.max_version().unwrap() + more)));
    for (api, version) in newer.chain([(ApiKey(10), 99), (ApiKey(93), 0)]) {
        let frame = streamed(api, version, &[1; 20], 1);
        let is_read = frame.error.is_none() && frame.body != ResponseBody::Other;
        assert_eq!((frame.throttle_ms, frame.error_code, is_read), (None, None, false), "{api} v{version}");
    }
    let error = ApiKey(10).read_response(&[1; 20], 99, |_| {}).unwrap_err();
    assert_eq!(error.kind, ErrorKind::UnsupportedVersion(99));
}
