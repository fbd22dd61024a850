//! What is counted of the requests of one group. Does not decide which requests those are.

use model::{Nanos, Request};

use crate::distribution::Distribution;

/// The requests of one group.
#[derive(Clone, Debug)]
pub struct Group {
    /// Requests.
    pub requests: u64,
    /// Those that failed: an error code, something unreadable, or no answer.
    pub errors: u64,
    /// Those that were not answered though an answer was due; among `errors`.
    pub unanswered: u64,
    /// Bytes of the requests' frames.
    pub request_bytes: u64,
    /// Bytes of the responses' frames.
    pub response_bytes: u64,
    /// Bytes of records, produced or fetched.
    pub record_bytes: u64,
    /// Partitions named, over all requests.
    pub partitions: u64,
    latency: Distribution,
    /// Made once a request has waited behind another: until then both are the same.
    less_head_of_line: Option<Distribution>,
}

/// What one request adds, beside its latency: all of it, or one topic's share.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    pub(super) failed: bool,
    pub(super) record_bytes: u64,
    pub(super) partitions: u64,
}

impl Default for Group {
    fn default() -> Self {
        Self {
            requests: 0,
            errors: 0,
            unanswered: 0,
            request_bytes: 0,
            response_bytes: 0,
            record_bytes: 0,
            partitions: 0,
            latency: Distribution::of_latencies(),
            less_head_of_line: None,
        }
    }
}

impl Group {
    /// Latencies on the wire, in nanoseconds: first byte of the request to last byte of the response, without the
    /// time in which a fetch waited for data that it brought.
    pub fn latency(&self) -> &Distribution {
        &self.latency
    }

    /// The same without the time behind an earlier request of the connection.
    pub fn less_head_of_line(&self) -> &Distribution {
        self.less_head_of_line.as_ref().unwrap_or(&self.latency)
    }

    /// Whether any request waited behind another.
    pub fn waited_in_line(&self) -> bool {
        self.less_head_of_line.is_some()
    }

    pub(super) fn add(&mut self, request: &Request, share: Share) {
        self.requests += 1;
        self.errors += u64::from(share.failed);
        self.unanswered += u64::from(request.is_unanswered());
        self.request_bytes += u64::from(request.request_bytes);
        self.response_bytes += u64::from(request.response_bytes.unwrap_or(0));
        self.record_bytes += share.record_bytes;
        self.partitions += share.partitions;
        let (Some(latency), Some(less)) = (request.latency_less_wait(), request.latency_less_head_of_line())
        else {
            return;
        };
        let less = less - request.waited_for_data();
        if less != latency && self.less_head_of_line.is_none() {
            self.less_head_of_line = Some(self.latency.clone());
        }
        self.latency.add(ns(latency));
        if let Some(spread) = &mut self.less_head_of_line {
            spread.add(ns(less));
        }
    }
}

fn ns(length: Nanos) -> u64 {
    u64::try_from(length.0).unwrap_or(0)
}

impl From<&Request> for Share {
    fn from(request: &Request) -> Self {
        Self {
            failed: request.failed(),
            record_bytes: request.partitions.iter().map(|partition| u64::from(partition.bytes)).sum(),
            partitions: request.partitions.len() as u64,
        }
    }
}
