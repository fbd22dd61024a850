//! Converts the kernel's histograms of all requests to a recording's rows: one for each API and listener with requests.
//!
//! Holds at most [`probes::always_on::Options::histograms`]. A row has at most as many latencies as answered requests and as
//! histogram buckets (2,240), of 16 bytes each.

use std::collections::HashMap;

use ahash::RandomState;
use model::{ClockOffset, Event, LatencyCount, Nanos, RequestLatencies};
use probes::Slice;
use probes::always_on::Histogram;
use wire::ApiKey;

use super::slow::SIZE_BYTES;

/// The histograms of one session, as last read.
pub(super) struct LatencyReader {
    read_ns: u64,
    histograms: HashMap<(i16, u16), Histogram, RandomState>,
}

impl LatencyReader {
    /// Creates a reader for a session that began at this time, with empty histograms.
    pub(super) fn new(now_ns: u64) -> Self {
        Self { read_ns: now_ns, histograms: HashMap::default() }
    }

    /// Returns the requests since the last call. Pauses in between if there is much to read.
    pub(super) fn read(
        &mut self,
        histograms: impl Iterator<Item = Histogram>,
        now_ns: u64,
        clock: ClockOffset,
    ) -> Vec<Event> {
        let time = (clock.from_monotonic(self.read_ns), clock.from_monotonic(now_ns));
        self.read_ns = now_ns;
        let mut slice = Slice::new(Slice::LONG);
        let mut events = Vec::new();
        for histogram in histograms {
            let earlier = self.histograms.entry((histogram.api_key, histogram.local_port)).or_default();
            if *earlier != histogram {
                events.push(row(&histogram.since(earlier), time).into());
                *earlier = histogram;
            }
            slice.rest_if_over(|| false);
        }
        events
    }
}

fn row(added: &Histogram, (start, end): (Nanos, Nanos)) -> RequestLatencies {
    let sizes = u64::from(SIZE_BYTES);
    let latencies = added.latencies().map(|(ns, requests)| LatencyCount { latency: nanos(ns), requests });
    RequestLatencies {
        start,
        end,
        port: added.local_port.into(),
        api_key: added.api_key,
        api: ApiKey(added.api_key).name(),
        requests: added.requests,
        request_bytes: added.request_bytes.saturating_sub(sizes * added.requests),
        unanswered: added.unanswered,
        given_up: added.given_up,
        response_bytes: added.answer_bytes.saturating_sub(sizes * added.answered()),
        total_latency: nanos(added.total_ns),
        latencies: latencies.collect(),
    }
}

fn nanos(ns: u64) -> Nanos {
    Nanos(i64::try_from(ns).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use model::{ClockOffset, Event};
    use probes::always_on::Histogram;

    use super::LatencyReader;

    /// A histogram of this many produce requests on a port since the session began.
    /// Each has 104 bytes.
    fn requests(local_port: u16, requests: u64) -> Histogram {
        let mut histogram = Histogram::default();
        (histogram.local_port, histogram.requests) = (local_port, requests);
        histogram.request_bytes = requests * 104;
        histogram
    }

    #[test]
    fn each_request_is_in_one_row_and_idle_ports_have_none() {
        let mut reader = LatencyReader::new(1_000);
        let mut read = |now_ns, histograms: Vec<Histogram>| -> Vec<_> {
            let events = reader.read(histograms.into_iter(), now_ns, ClockOffset::from_ns(0));
            let row = |event: Event| match event {
                Event::RequestLatencies(row) => {
                    ((row.start.0, row.end.0), row.port, row.api, row.requests, row.request_bytes)
                }
                other => panic!("{other:?}"),
            };
            events.into_iter().map(row).collect()
        };
        let first = ((1_000, 2_000), 9_092, "PRODUCE", 3, 300);
        assert_eq!(read(2_000, vec![requests(9_092, 3)]), [first]);
        assert_eq!(read(3_000, vec![requests(9_092, 3)]), []);
        let other = ((3_000, 4_000), 9_093, "PRODUCE", 2, 200);
        let second = ((3_000, 4_000), 9_092, "PRODUCE", 4, 400);
        assert_eq!(read(4_000, vec![requests(9_093, 2), requests(9_092, 7)]), [other, second]);
    }
}
