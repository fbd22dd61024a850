//! The slowest requests of an input, slowest first: as many as were asked for are held, whatever its length.
//! Does not know how they are shown.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io;

use model::{Nanos, Request};

use super::{RequestReport, RequestSummary};

/// Hands on the slowest requests when the input has ended.
pub struct TopRequests {
    to: Box<dyn RequestReport>,
    most: usize,
    less_waits: bool,
    held: BinaryHeap<Reverse<Ranked>>,
    unranked: u64,
}

/// A request by its latency; of two equally slow ones the earlier ranks higher.
struct Ranked {
    latency: Nanos,
    nth: Reverse<u64>,
    request: Request,
}

impl TopRequests {
    /// The slowest `most` requests, to be handed to this output.
    pub fn new(most: usize, to: Box<dyn RequestReport>) -> Self {
        Self { to, most, less_waits: false, held: BinaryHeap::new(), unranked: 0 }
    }

    /// Whether to rank without the time in which fetches waited for data.
    #[must_use]
    pub fn less_waits(self, less_waits: bool) -> Self {
        Self { less_waits, ..self }
    }

    /// How many requests are held: those that will be shown.
    pub fn held(&self) -> u64 {
        self.held.len() as u64
    }

    /// How many had no latency: no response is due, or none was seen.
    pub fn unranked(&self) -> u64 {
        self.unranked
    }

    /// Takes a request; `nth` is its place in the input. Copies it only if it is among the slowest so far.
    pub fn request(&mut self, nth: u64, request: &Request) {
        let latency = if self.less_waits { request.latency_less_wait() } else { request.latency() };
        let Some(latency) = latency else {
            self.unranked += 1;
            return;
        };
        let full = self.held.len() >= self.most;
        if full && self.held.peek().is_none_or(|Reverse(fastest)| fastest.latency >= latency) {
            return;
        }
        if full {
            self.held.pop();
        }
        self.held.push(Reverse(Ranked { latency, nth: Reverse(nth), request: request.clone() }));
    }

    /// Writes them, and ends the output.
    pub fn finish(mut self, summary: &RequestSummary) -> io::Result<()> {
        for Reverse(ranked) in self.held.into_sorted_vec() {
            self.to.request(&ranked.request)?;
        }
        self.to.finish(summary)
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.latency, self.nth).cmp(&(other.latency, other.nth))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ranked {}
