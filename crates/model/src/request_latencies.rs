//! Numbers and latencies of requests, as an always-on watch counts them. Says nothing about a single request.

use crate::Nanos;

row! {
    request_latencies_row =>
    /// Requests of one API on one listener in a span of time, and the latencies of those that were answered in it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RequestLatencies {
        /// When they were last counted before.
        start: Nanos as "start_ns",
        /// When they were counted.
        end: Nanos as "end_ns",
        /// The listener's port.
        port: u32,
        /// The API key as on the wire, known or not.
        api_key: i16,
        /// Kafka's name of the API (`PRODUCE`), or `UNKNOWN`.
        api: &'static str,
        /// Requests whose header the broker read in that time.
        requests: u64,
        /// Bytes of their frames, without the four of the length.
        request_bytes: u64,
        /// Requests that get no answer, such as those of a producer with acks=0.
        unanswered: u64,
        /// Requests whose answers could not be followed: their latencies are unknown.
        given_up: u64,
        /// Bytes of the answered requests' responses, without the four of the length.
        response_bytes: u64,
        /// Sum of the latencies of the requests that were answered in that time: from the first byte in the socket to
        /// the last byte that the broker wrote.
        total_latency: Nanos as "total_latency_ns"
            => answered: u64 as "answered" "Requests that were answered in that time.",
        /// These latencies, in ascending order, each within 1 %.
        latencies: Vec<LatencyCount>,
    }
}

row! {
    latency_count_row =>
    /// Requests of about the same latency.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LatencyCount {
        /// The latency.
        latency: Nanos as "latency_ns",
        /// Number of requests with about this latency.
        requests: u64,
    }
}

impl RequestLatencies {
    /// Requests that were answered.
    pub fn answered(&self) -> u64 {
        self.latencies.iter().fold(0, |sum, one| sum.saturating_add(one.requests))
    }
}
