//! What was looked at to find the requests, and what of it could not be read. Does not count: the capture
//! does.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::quantity::{format_bytes, format_count, format_count_of};

/// Counts over a whole capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "summary")]
pub struct RequestSummary {
    /// Requests read.
    pub requests: u64,
    /// Requests shown: those that passed the filters.
    pub shown: u64,
    /// Requests by Kafka's name of their API.
    pub requests_by_api: BTreeMap<String, u64>,
    /// Requests for which no response was seen.
    pub unanswered: u64,
    /// Packets read.
    pub packets: u64,
    /// Bytes of them on the wire.
    pub bytes: u64,
    /// TCP connections.
    pub connections: u64,
    /// Responses to which no request was seen.
    pub unmatched_responses: u64,
    /// Times that bytes of a stream were in no packet.
    pub gaps: u64,
    /// Bytes that were in no packet.
    pub gap_bytes: u64,
    /// Bytes that came again.
    pub retransmitted_bytes: u64,
    /// Segments that came before others they follow in the stream.
    pub out_of_order_segments: u64,
    /// Keep-alive segments.
    pub keep_alives: u64,
    /// Gaps given up because no more bytes could be held; among `gaps`.
    pub reassembly_overflows: u64,
    /// Segments of an earlier connection between the same ends.
    pub stray_segments: u64,
    /// Frames that could not be decoded.
    pub undecodable_frames: u64,
    /// Times that the start of a frame had to be searched for.
    pub resyncs: u64,
    /// Bytes passed over in that.
    pub skipped_bytes: u64,
    /// Raw SASL tokens, which belong to no request.
    pub sasl_tokens: u64,
    /// Connections that are encrypted.
    pub tls_connections: u64,
    /// Connections that speak something else.
    pub other_connections: u64,
    /// Connections of which only one side was captured.
    pub one_sided_connections: u64,
    /// Connections forgotten because there were too many.
    pub evicted_connections: u64,
    /// Packets the kernel dropped before they could be read.
    pub kernel_drops: u64,
    /// Packets that carry no TCP.
    pub not_tcp: u64,
    /// TCP packets of ports that were not asked for.
    pub other_ports: u64,
    /// IP fragments, which are not looked into.
    pub fragments: u64,
    /// Packets whose headers are cut off or contradict themselves.
    pub malformed_packets: u64,
    /// Packets cut by the capture's snap length.
    pub truncated_packets: u64,
    /// What else the reader of the input has to say.
    pub notes: Vec<String>,
}

impl RequestSummary {
    /// The summary for people: what was read, then one sentence for everything that is missing.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = vec![format!(
            "{} shown of {}; {} ({}) of {}",
            format_count(self.shown),
            format_count_of(self.requests, "request"),
            format_count_of(self.packets, "packet"),
            format_bytes(self.bytes),
            format_count_of(self.connections, "connection"),
        )];
        sentences.extend(self.missing());
        sentences.extend(self.notes.iter().cloned());
        sentences
    }

    /// Where there is anything: what comes before the count, what is counted, and what it is said of it.
    fn missing(&self) -> Vec<String> {
        let lacks = format!(" the capture lacks {}", format_bytes(self.gap_bytes));
        let counts = [
            ("the kernel dropped ", self.kernel_drops, "packet", ""),
            ("in ", self.gaps, "place", lacks.as_str()),
            ("", self.truncated_packets, "packet", " cut short by the capture"),
            ("", self.malformed_packets, "packet", " malformed"),
            ("", self.fragments, "IP fragment", " not looked into"),
            ("", self.undecodable_frames, "frame", " unreadable"),
            ("", self.unanswered, "request", " without a response"),
            ("", self.sasl_tokens, "raw SASL token", " that belong to no request"),
            ("", self.tls_connections, "connection", " encrypted (TLS)"),
            ("", self.other_connections, "connection", " not Kafka"),
            (
                "",
                self.one_sided_connections,
                "connection",
                " captured on one side only: capture where both ways pass",
            ),
        ];
        let counts = counts.into_iter().filter(|(_, count, ..)| *count > 0);
        let sentence = |(before, count, noun, after): (&str, u64, &str, &str)| {
            format!("{before}{}{after}", format_count_of(count, noun))
        };
        counts.map(sentence).collect()
    }
}
