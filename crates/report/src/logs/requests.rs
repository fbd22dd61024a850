//! Where the time of an API's requests went, by the broker's own clock. Does not print.

use model::{KafkaTimes, Nanos};

use crate::distribution::Distribution;

/// The times of all requests of an API.
#[derive(Clone, Debug)]
pub struct ApiTimes {
    /// Each time, by its name in JSON.
    pub(super) times: [(&'static str, Distribution); 7],
}

impl ApiTimes {
    pub(super) fn new() -> Self {
        let names = ["total", "queue", "local", "remote", "response_queue", "send", "throttle"];
        Self { times: names.map(|name| (name, Distribution::of_latencies())) }
    }

    pub(super) fn add(&mut self, times: &KafkaTimes) {
        let KafkaTimes { queue, local, remote, throttle, response_queue, send, total } = *times;
        let lengths = [total, queue, local, remote, response_queue, send, throttle];
        for ((_, spread), Nanos(length)) in self.times.iter_mut().zip(lengths) {
            spread.add(u64::try_from(length).unwrap_or(0));
        }
    }

    /// Whole times.
    pub fn total(&self) -> &Distribution {
        let [(_, total), ..] = &self.times;
        total
    }
}
