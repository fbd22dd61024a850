//! All requests: how long they took over time, and what each partition took of them. Does not judge.

use model::{Nanos, Request};

use super::axis::Axis;
use super::latency::Latency;
use super::partitions::Partitions;

/// Takes all requests.
pub struct Traffic {
    pub(super) axis: Axis,
    pub(super) latency: Latency,
    pub(super) partitions: Partitions,
}

impl Traffic {
    pub(super) fn new(origin: Option<Nanos>, slower_than: Nanos) -> Self {
        Self {
            axis: Axis::new(origin),
            latency: Latency::default(),
            partitions: Partitions::new(slower_than),
        }
    }

    /// Takes a request: of its partitions their names and bytes, of it when it was, its API, acks, terms and errors.
    pub fn request(&mut self, request: &Request) {
        let grid = self.axis.reach(request.last_seen());
        self.latency.request(grid, request);
        self.partitions.request(grid, request);
    }
}
