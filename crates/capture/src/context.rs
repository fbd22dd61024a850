//! State shared by all connections of an analysis: limits, counters, topic names, produced batches, held bytes, and
//! finished rows.

use std::sync::Arc;

use model::{Nanos, Request, TlsTotals};

use crate::arrivals::Arrivals;
use crate::config::{Config, Limits};
use crate::connection::Connection;
use crate::counters::Counters;
use crate::idle::IdleConnections;
use crate::reassembly::Pool;
use crate::replicas::Replicas;
use crate::topics::Topics;

pub(crate) struct Context {
    pub(crate) limits: Limits,
    pub(crate) both_directions: bool,
    pub(crate) is_plaintext: bool,
    pub(crate) stream_options: wire::stream::Options,
    pub(crate) counters: Counters,
    pub(crate) topics: Topics,
    pub(crate) arrivals: Arrivals,
    pub(crate) pool: Pool,
    pub(crate) idle: IdleConnections,
    /// The connection that became idle last: the next one to resume reuses its buffers.
    pub(crate) spare_connection: Option<Box<Connection>>,
    pub(crate) replicas: Replicas,
    /// TLS traffic since it was last taken.
    pub(crate) tls: TlsTotals,
    /// Rows not yet passed to the caller; boxed from the start, because a row is large and is moved often.
    #[expect(clippy::vec_box, reason = "moving a box is cheaper than moving a row")]
    finished: Vec<Box<Request>>,
    finished_bytes: usize,
}

impl Context {
    pub(crate) fn new(config: Config) -> Self {
        let limits = config.limits;
        Self {
            limits,
            both_directions: config.both_directions,
            is_plaintext: config.is_plaintext,
            stream_options: config.stream_options(),
            counters: Counters::default(),
            topics: Topics::new(config.topics, limits.topic_bytes),
            arrivals: Arrivals::new(limits.produced_partitions),
            pool: Pool::new(limits.held_bytes_per_direction, limits.held_bytes),
            idle: IdleConnections::new(limits.idle_bytes),
            spare_connection: None,
            replicas: Replicas::default(),
            tls: TlsTotals::default(),
            finished: Vec::new(),
            finished_bytes: 0,
        }
    }

    /// Finishes a row and adds the topic names known by now.
    pub(crate) fn emit(&mut self, mut row: Box<Request>) {
        for partition in &mut row.partitions {
            if let (None, Some(id)) = (&partition.topic, partition.topic_id) {
                partition.topic = self.topics.name_of(id).cloned();
            }
        }
        *self.counters.requests_by_api.entry(row.api).or_default() += 1;
        self.finished_bytes += row.memory_bytes();
        self.finished.push(row);
    }

    /// The TCP sequence number at an offset of a stream, if the stream is TCP.
    pub(crate) fn sequence(&self, offset: u64) -> Option<u32> {
        (!self.is_plaintext).then_some(offset as u32)
    }

    /// Whether so many rows are finished that no more requests are accepted. They are accepted again once the rows are
    /// passed on.
    pub(crate) fn is_full(&self) -> bool {
        self.finished_bytes > self.limits.row_bytes
    }

    /// Passes the finished rows to `out`.
    pub(crate) fn drain(&mut self, out: &mut impl FnMut(Box<Request>)) {
        self.finished_bytes = 0;
        self.finished.drain(..).for_each(out);
    }
}

/// Appends to a request's error text; if it is long already, only notes that there are more errors.
pub(crate) fn add_error(row: &mut Request, text: &str) {
    row.error = Some(match &row.error {
        None => Arc::from(text),
        Some(before) if before.ends_with(MORE_ERRORS) => return,
        Some(before) if before.len() + text.len() > MAX_ERROR_BYTES => {
            Arc::from(format!("{before}{MORE_ERRORS}"))
        }
        Some(before) => Arc::from(format!("{before}; {text}")),
    });
}

/// The longest error text of a request to which another error is added.
const MAX_ERROR_BYTES: usize = 1_024;
const MORE_ERRORS: &str = "; and more";

/// The time between two instants; zero if clocks disagree.
pub(crate) fn between(earlier: Nanos, later: Nanos) -> Nanos {
    (later - earlier).at_least_zero()
}

#[cfg(test)]
mod tests {
    use model::Request;

    use super::{MAX_ERROR_BYTES, add_error};

    #[test]
    fn error_text_of_a_row_is_bounded() {
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 9092));
        let mut row = Request::new(address, address);
        for partition in 0..10_000 {
            add_error(&mut row, &format!("partition {partition}: the bytes end 7 too early"));
        }
        let text = row.error.expect("a text");
        assert!(text.len() < MAX_ERROR_BYTES + 20, "{} bytes", text.len());
        assert!(text.starts_with("partition 0: ") && text.ends_with("; and more"), "{text}");
    }
}
