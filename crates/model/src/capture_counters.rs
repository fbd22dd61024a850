//! Counters of packets and the streams in them: what was seen and, above all, what was not. Does not count or print.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Everything counted since an analysis of packets began. A number that is zero means that nothing was lost there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureCounters {
    /// Requests that have a row, by Kafka's name of the API. Not read back.
    #[serde(skip_deserializing)]
    pub requests_by_api: BTreeMap<&'static str, u64>,
    /// Requests whose response was not seen, except those with acks=0.
    pub unanswered: u64,
    /// Packets handed in.
    pub packets: u64,
    /// Their bytes on the link, captured or not.
    pub bytes: u64,
    /// TCP connections followed; a reused port counts again.
    pub connections: u64,
    /// Responses to which no request was seen.
    pub unmatched_responses: u64,
    /// Holes in streams.
    pub gaps: u64,
    /// Bytes in them.
    pub gap_bytes: u64,
    /// Payload bytes seen more than once.
    pub retransmitted_bytes: u64,
    /// Segments that arrived before others that precede them in the stream.
    pub out_of_order_segments: u64,
    /// Keep-alive segments.
    pub keep_alives: u64,
    /// Holes skipped because no more bytes could be held; included in `gaps`.
    pub reassembly_overflows: u64,
    /// Segments of an earlier connection between the same ends, skipped.
    pub stray_segments: u64,
    /// Frames that could not be decoded completely.
    pub undecodable_frames: u64,
    /// Times the next frame had to be searched for.
    pub resyncs: u64,
    /// Bytes skipped by these searches.
    pub skipped_bytes: u64,
    /// Raw SASL tokens skipped (KIP-43): they belong to no request.
    pub sasl_tokens: u64,
    /// TLS connections, which cannot be read.
    pub tls_connections: u64,
    /// Connections that are neither Kafka nor TLS.
    pub other_connections: u64,
    /// Connections of which the capture has only one side: requests without answers, or answers, which say nothing by
    /// themselves.
    pub one_sided_connections: u64,
    /// Connections dropped because there were too many or they took too much memory. Does not count idle ones whose
    /// next request is recognised.
    pub evicted_connections: u64,
    /// Requests without a row: one packet completed too many, or (live) no side acknowledged what the other sent.
    pub dropped_requests: u64,
    /// Packets the kernel dropped before they were read (live).
    pub kernel_drops: u64,
    /// Packets that are not TCP over IP.
    pub not_tcp: u64,
    /// TCP packets of ports that were not requested.
    pub other_ports: u64,
    /// IP fragments, which are not decoded.
    pub fragments: u64,
    /// Packets whose headers are cut off or contradict themselves.
    pub malformed_packets: u64,
    /// Packets that a snap length cut.
    pub truncated_packets: u64,
}
