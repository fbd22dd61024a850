//! How much input was examined to find the requests, and what could not be read. Does not count: the capture
//! does.

use model::CaptureCounters;
use serde::Serialize;

use crate::quantity::{format_bytes, format_count, format_count_of};

/// Counts over a whole capture.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "summary")]
pub struct RequestSummary {
    /// Requests read.
    pub requests: u64,
    /// Requests that passed the filters.
    pub matched: u64,
    /// How much input was examined, and what could not be read.
    #[serde(flatten)]
    pub counters: CaptureCounters,
    /// Further notes from the reader of the input.
    pub notes: Vec<String>,
}

impl RequestSummary {
    /// The summary for people: what was read, then one sentence for each thing that is missing.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = vec![format!(
            "{} matched of {}; {} ({}) of {}",
            format_count(self.matched),
            format_count_of(self.requests, "request"),
            format_count_of(self.counters.packets, "packet"),
            format_bytes(self.counters.bytes),
            format_count_of(self.counters.connections, "connection"),
        )];
        sentences.extend(self.missing());
        sentences.extend(self.notes.iter().cloned());
        sentences
    }

    /// One sentence for each count that is not 0.
    fn missing(&self) -> Vec<String> {
        let of = &self.counters;
        let lacks = format!(" the capture lacks {}", format_bytes(of.gap_bytes));
        let counts = [
            ("the kernel dropped ", of.kernel_drops, "packet", ""),
            ("in ", of.gaps, "place", lacks.as_str()),
            ("", of.truncated_packets, "packet", " cut short by the capture"),
            ("", of.malformed_packets, "packet", " malformed"),
            ("", of.fragments, "IP fragment", " not reassembled"),
            ("", of.undecodable_frames, "frame", " unreadable"),
            ("", of.unanswered, "request", " without a response"),
            ("", of.sasl_tokens, "raw SASL token", " that belong to no request"),
            ("", of.tls_connections, "connection", " encrypted (TLS)"),
            ("", of.other_connections, "connection", " not Kafka"),
            (
                "",
                of.one_sided_connections,
                "connection",
                " captured in one direction only: capture where both directions pass",
            ),
        ];
        let counts = counts.into_iter().filter(|(_, count, ..)| *count > 0);
        let sentence = |(before, count, noun, after): (&str, u64, &str, &str)| {
            format!("{before}{}{after}", format_count_of(count, noun))
        };
        counts.map(sentence).collect()
    }
}
