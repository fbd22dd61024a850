//! The slowest requests of an input, slowest first: as many as were asked for are held, whatever its length.
//! Does not know how they are shown.

use std::io;

use model::Request;

use super::{RequestReport, RequestSummary};
use crate::slowest::Slowest;

/// Hands on the slowest requests when the input has ended.
pub struct TopRequests {
    to: Box<dyn RequestReport>,
    less_waits: bool,
    slowest: Slowest<Request>,
    unranked: u64,
}

impl TopRequests {
    /// The slowest `most` requests, to be handed to this output.
    pub fn new(most: usize, to: Box<dyn RequestReport>) -> Self {
        Self { to, less_waits: false, slowest: Slowest::new(most), unranked: 0 }
    }

    /// Whether to rank without the time in which fetches waited for data.
    #[must_use]
    pub fn less_waits(self, less_waits: bool) -> Self {
        Self { less_waits, ..self }
    }

    /// How many requests are held: those that will be shown.
    pub fn held(&self) -> u64 {
        self.slowest.held()
    }

    /// How many had no latency: no response is due, or none was seen.
    pub fn unranked(&self) -> u64 {
        self.unranked
    }

    /// Takes a request. Copies it only if it is among the slowest so far.
    pub fn request(&mut self, request: &Request) {
        match if self.less_waits { request.latency_less_wait() } else { request.latency() } {
            Some(latency) => self.slowest.offer(latency, || request.clone()),
            None => self.unranked += 1,
        }
    }

    /// Writes them, and ends the output.
    pub fn finish(mut self, summary: &RequestSummary) -> io::Result<()> {
        for request in self.slowest.into_sorted() {
            self.to.request(&request)?;
        }
        self.to.finish(summary)
    }
}
