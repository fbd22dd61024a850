//! Counts how produce partitions were joined with their writes, by the same keys and the same rules as [`crate::join`],
//! of all requests and from those keys alone. Tells no write.

use std::collections::VecDeque;

use model::Nanos;
use model::sketch::{Sent, Written};

use crate::Config;
use crate::appends::{Append, Appends};
use crate::focus::MUCH_OF_RETENTION;
use crate::summary::Joins;
use crate::window::CLOCK_SLACK;

/// A request is joined when writes up to so long after it are known: they come nearly in order.
const LATENESS: Nanos = Nanos::from_millis(2_000);

/// Counts joins. Feed it with writes and requests, each in the order of their ends.
#[derive(Debug)]
pub struct Tally {
    writes: Appends<Written>,
    waiting: VecDeque<Sent>,
    written_until: Nanos,
    retention: Nanos,
    joins: Joins,
}

impl Append for Written {
    fn keys(&self) -> Option<(u32, i64)> {
        Some((self.crc, self.base_offset))
    }

    fn end(&self) -> Nanos {
        self.end
    }
}

impl Tally {
    /// Nothing yet, beside an engine that works like this. Where a produce request may have taken longer than a sixth of the
    /// time for which that keeps events, [`crate::Focus`] has everything read, and nothing is to be tallied.
    pub fn new(config: &Config) -> Self {
        let retention = Nanos(config.retention.0 / MUCH_OF_RETENTION);
        Self {
            writes: Appends::default(),
            waiting: VecDeque::new(),
            written_until: Nanos::MIN,
            retention: retention + LATENESS,
            joins: Joins::default(),
        }
    }

    /// Whether a write is wanted before another request.
    pub fn wants_writes(&self) -> bool {
        self.waiting.back().is_some_and(|last| last.last_seen + LATENESS >= self.written_until)
    }

    /// Takes a write.
    pub fn write(&mut self, write: Written) {
        self.written_until = self.written_until.max(write.end);
        self.writes.insert(write);
        while self.waiting.front().is_some_and(|first| first.last_seen + LATENESS < self.written_until) {
            self.join_first();
        }
    }

    /// Takes a request's partition.
    pub fn sent(&mut self, sent: Sent) {
        self.waiting.push_back(sent);
    }

    /// How all of them were joined.
    pub fn finish(mut self) -> Joins {
        while !self.waiting.is_empty() {
            self.join_first();
        }
        self.joins
    }

    fn join_first(&mut self) {
        let Some(sent) = self.waiting.pop_front() else { return };
        let joined = if sent.error_code.is_some_and(|code| code != 0) || sent.bytes == 0 {
            &mut self.joins.not_written
        } else if by_crc(&self.writes, &sent) {
            &mut self.joins.by_crc
        } else if by_base_offset(&self.writes, &sent) {
            &mut self.joins.by_base_offset
        } else {
            &mut self.joins.unjoined
        };
        *joined += 1;
        self.writes.forget(sent.last_seen - self.retention);
    }
}

fn by_crc(writes: &Appends<Written>, sent: &Sent) -> bool {
    let Some((crc, bytes)) = sent.batch else { return false };
    let mut fits = writes.by_crc(crc).filter(|write| is_of(write, sent) && write.bytes == bytes);
    let (first, second) = (fits.next(), fits.next());
    let Some(second) = second else { return first.is_some() };
    // The same bytes twice: see crate::join.
    let mut all = first.into_iter().chain([second]).chain(fits);
    known_offset(sent).is_some_and(|offset| all.any(|write| write.base_offset == offset))
}

fn by_base_offset(writes: &Appends<Written>, sent: &Sent) -> bool {
    known_offset(sent).is_some_and(|offset| writes.by_base_offset(offset).any(|write| is_of(write, sent)))
}

fn known_offset(sent: &Sent) -> Option<i64> {
    sent.base_offset.filter(|&offset| offset >= 0)
}

fn is_of(write: &Written, sent: &Sent) -> bool {
    Some(write.topic) == sent.topic
        && write.partition == sent.partition
        && write.start >= sent.arrival - CLOCK_SLACK
        && sent.response.is_none_or(|response| write.end <= response + CLOCK_SLACK)
}
