//! Counts joins by their keys alone, for a recording that is only partly read.

use std::collections::VecDeque;

use model::Nanos;
use model::row_summary::{ProduceKey, WriteKey};

use crate::config::Config;
use crate::joins;
use crate::joins::{JoinKey, JoinQuery, JoinStats};
use crate::read_plan::RETENTION_SHARE;
use crate::window::appends::{Append, Appends, Keys};

/// A request is joined once writes up to this long after it are known: writes arrive nearly in order.
const LATENESS: Nanos = Nanos::from_millis(2_000);

/// Counts joins. Feed it with writes and requests, each in the order of their ends.
#[derive(Debug)]
pub struct JoinCounter {
    writes: Appends<WriteKey>,
    waiting: VecDeque<ProduceKey>,
    written_until: Nanos,
    retention: Nanos,
    joins: JoinStats,
}

impl Append for WriteKey {
    fn keys(&self) -> Option<Keys> {
        Some(Keys { crc: self.crc, bytes: self.bytes, base_offset: self.base_offset })
    }
}

impl JoinCounter {
    /// An empty counter that matches an engine with this configuration.
    /// For requests that took no longer than `longest`. If a produce request may have taken longer than a sixth of the
    /// engine's retention, [`crate::read_plan::ReadPlan`] reads everything, and no counter is needed.
    pub fn new(config: &Config, longest: Nanos) -> Self {
        let retention = longest.min(Nanos(config.retention.0 / RETENTION_SHARE));
        Self {
            writes: Appends::default(),
            waiting: VecDeque::new(),
            written_until: Nanos::MIN,
            retention: retention + LATENESS,
            joins: JoinStats::default(),
        }
    }

    /// Whether it needs writes before another request.
    pub fn needs_writes(&self) -> bool {
        self.waiting.back().is_some_and(|last| last.last_seen + LATENESS >= self.written_until)
    }

    /// Takes a write.
    pub fn write(&mut self, write: WriteKey) {
        self.written_until = self.written_until.max(write.end);
        self.writes.insert(write);
        while self.waiting.front().is_some_and(|first| first.last_seen + LATENESS < self.written_until) {
            self.join_first();
        }
    }

    /// Takes one partition of a request.
    pub fn sent(&mut self, sent: ProduceKey) {
        self.waiting.push_back(sent);
    }

    /// The joins of all requests.
    pub fn finish(mut self) -> JoinStats {
        while !self.waiting.is_empty() {
            self.join_first();
        }
        self.joins
    }

    fn join_first(&mut self) {
        let Some(sent) = self.waiting.pop_front() else { return };
        let is_written = joins::is_written(sent.error_code, sent.bytes);
        let found = if is_written { find_key(&self.writes, &sent) } else { None };
        self.joins.count(is_written, found);
        self.writes.forget(sent.last_seen - self.retention);
    }
}

fn find_key(writes: &Appends<WriteKey>, sent: &ProduceKey) -> Option<JoinKey> {
    let &ProduceKey { arrival, response, batch, base_offset, .. } = sent;
    let query = JoinQuery { arrival, response, batch, base_offset };
    let is_of = |write: &WriteKey| Some(write.topic) == sent.topic && write.partition == sent.partition;
    joins::find(writes, &query, is_of).map(|(_, key)| key)
}
