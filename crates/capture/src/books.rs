//! What all connections of an analysis share: bounds, counters, topic names, produced data, and the one place where a
//! finished row leaves.

use std::sync::Arc;

use model::{Nanos, Request};

use crate::arrivals::Arrivals;
use crate::config::{Config, Limits};
use crate::counters::Counters;
use crate::topics::Topics;

/// Where finished rows go: boxed from the beginning, because a row is large and changes hands often.
pub(crate) type Rows<'a> = dyn FnMut(Box<Request>) + 'a;

pub(crate) struct Books {
    pub(crate) limits: Limits,
    pub(crate) stream_options: wire::stream::Options,
    pub(crate) counters: Counters,
    pub(crate) topics: Topics,
    pub(crate) arrivals: Arrivals,
    /// Requests waiting for their responses, over all connections.
    pub(crate) pending: usize,
}

impl Books {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            limits: config.limits,
            stream_options: config.stream_options(),
            counters: Counters::default(),
            topics: Topics::new(config.topics),
            arrivals: Arrivals::new(config.limits.produced_partitions),
            pending: 0,
        }
    }

    /// Hands a row over, its topics named as far as anything names them by now.
    pub(crate) fn emit(&mut self, mut row: Box<Request>, out: &mut Rows<'_>) {
        for partition in &mut row.partitions {
            if let (None, Some(id)) = (&partition.topic, partition.topic_id) {
                partition.topic = self.topics.name_of(id).cloned();
            }
        }
        *self.counters.requests_by_api.entry(row.api).or_default() += 1;
        out(row);
    }
}

/// Adds to what could not be read of a request.
pub(crate) fn add_error(row: &mut Request, text: &str) {
    row.error = Some(match &row.error {
        None => Arc::from(text),
        Some(before) => Arc::from(format!("{before}; {text}")),
    });
}

/// A length of time that is nothing where clocks disagree.
pub(crate) fn between(earlier: Nanos, later: Nanos) -> Nanos {
    (later - earlier).at_least_zero()
}
