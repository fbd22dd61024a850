//! How many requests there were in the last seconds, and how long they took. Does not judge them.

use model::{Nanos, Request};

use super::latencies::Latencies;
use super::seconds::Seconds;

/// Seconds that are kept, for lines over time.
const KEPT: usize = 241;
/// Seconds that figures are of.
pub(crate) const WINDOW: usize = 10;

/// Requests by second.
#[derive(Clone, Debug)]
pub(crate) struct Pulse {
    seconds: Seconds<Second>,
    requests: u64,
}

#[derive(Clone, Debug, Default)]
struct Second {
    requests: u64,
    latencies: Latencies,
}

/// What the last seconds come to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Requests a second; none before the first second is over.
    pub(crate) requests_per_second: Option<f64>,
    /// Half of them took no longer.
    pub(crate) median: Option<Nanos>,
    /// 99 of a hundred took no longer.
    pub(crate) p99: Option<Nanos>,
    /// The longest.
    pub(crate) longest: Option<Nanos>,
}

impl Pulse {
    pub(crate) fn new() -> Self {
        Self { seconds: Seconds::new(KEPT), requests: 0 }
    }

    /// Counts a request when it is answered. What the broker kept on purpose has no latency to answer for, nor has the wait of
    /// a fetch for data.
    pub(crate) fn request(&mut self, request: &Request) {
        self.requests += 1;
        let Some(second) = self.seconds.at(request.last_seen()) else { return };
        second.requests += 1;
        let latency = request.latency().map(|latency| latency - request.may_have_waited());
        if let Some(latency) = latency.filter(|_| request.intended_wait().is_none()) {
            second.latencies.add(latency);
        }
    }

    pub(crate) fn reach(&mut self, now: Nanos) {
        self.seconds.reach(now);
    }

    /// All requests.
    pub(crate) fn requests(&self) -> u64 {
        self.requests
    }

    /// What the last [`WINDOW`] seconds that are over come to.
    pub(crate) fn figures(&self) -> Figures {
        let window = self.seconds.over(WINDOW);
        let seconds = window.len();
        let (mut requests, mut latencies) = (0, Latencies::default());
        for second in window {
            requests += second.requests;
            latencies.add_all(&second.latencies);
        }
        Figures {
            requests_per_second: (seconds > 0).then(|| requests as f64 / seconds as f64),
            median: latencies.quantile(0.5),
            p99: latencies.quantile(0.99),
            longest: latencies.longest(),
        }
    }

    /// Requests of each of the last seconds that are over, oldest first.
    pub(crate) fn rates(&self, most: usize) -> Vec<u64> {
        self.seconds.over(most).map(|second| second.requests).collect()
    }

    /// The longest latency of each; none where nothing was answered.
    pub(crate) fn longest(&self, most: usize) -> Vec<Option<Nanos>> {
        self.seconds.over(most).map(|second| second.latencies.longest()).collect()
    }
}
