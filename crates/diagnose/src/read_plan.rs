//! What verdicts on a recording can depend on: stretches of time around its slow requests, and what
//! bears on them from afar. What lies elsewhere need not be read, and the verdicts are the same (`analysis` tests it).
//!
//! A request's verdict looks at what shares time with it, with those ahead of it on its connection, and with what these
//! waited for: a lock's holder may have been at it for seconds, so what took long is followed to its start. Beyond that:
//! - what a thread did last and does next, however long before or after: of every thread the first and last event of
//!   each kind in each gap between stretches is read;
//! - a connection's request before: the same;
//! - when trouble began (`window::episodes`) and what shows it: read everywhere;
//! - followers' fetches, and what a transaction's coordinator was asked: everywhere;
//! - who wrote what a network thread had to read from the device: writes are then read for as long as they are kept.
//!
//! What is slow is decided by the engine: here is only what may be.

use std::sync::Arc;

use model::api_key::{JOIN_GROUP, SHARE_FETCH, SYNC_GROUP};
use model::row_summary::{
    FileOpSummary, OffCpuSummary, RequestPosition, RequestTiming, RowChoice, RowFilter, RowSummary,
};
use model::{FileKind, FileOpKind, Nanos};

use crate::config::Config;
use crate::stages::waiting;
use crate::window::requests::is_follower;
use crate::window::trouble::{MIN_WAIT_FOR_CPU, is_of_transaction};

/// So long before what is looked at, all is read: what took longer is followed to its start.
const MARGIN_BEFORE: Nanos = Nanos::from_millis(2_000);
/// And so long after it: clocks differ, and what came right after belongs to it.
const MARGIN_AFTER: Nanos = Nanos::from_millis(500);
/// What took as long as that is followed to its start.
const MIN_LONG: Nanos = Nanos::from_millis(1_000);
/// Reads of files that took as long are looked into (`cause::disk_read`).
const LONG_READ: Nanos = Nanos::from_millis(1);
/// Where requests take longer than this share of the time for which events are kept, it matters what exactly is: a sixth.
pub(crate) const RETENTION_SHARE: i64 = 6;
/// Where stretches cover more than half of a recording, leaving out the rest is not worth the trouble.
const MAX_COVERED_DIVISOR: i64 = 2;

/// Kafka's keys of requests that wait for others on purpose: a wait behind one needs no other cause.
const PATIENT: [i16; 3] = [JOIN_GROUP, SYNC_GROUP, SHARE_FETCH];

/// Collects what may be slow, and what took long.
#[derive(Debug)]
pub struct ReadPlan {
    config: Config,
    near: Vec<(Nanos, Nanos)>,
    long: Vec<(Nanos, Nanos)>,
    /// Whether a network thread may have read from a device.
    reads_files: bool,
    /// Whether one took so long that all is to be read.
    too_long: bool,
    /// Whether any took long enough to be counted as slow.
    any_slow: bool,
    /// The longest request.
    longest: Nanos,
}

impl ReadPlan {
    /// Nothing yet, for an engine that works like this.
    pub fn new(config: &Config) -> Self {
        let config = config.clone();
        Self {
            config,
            near: Vec::new(),
            long: Vec::new(),
            reads_files: false,
            too_long: false,
            any_slow: false,
            longest: Nanos::ZERO,
        }
    }

    /// Requests that took less need not be added.
    pub fn min_request_latency(&self) -> Nanos {
        if self.config.only_request.is_some() { Nanos::MIN } else { self.config.slower_than.min(MIN_LONG) }
    }

    /// No request took longer than that.
    pub fn longest_request(&self) -> Nanos {
        self.longest.max(self.min_request_latency())
    }

    /// File operations that took less need not be added.
    pub fn min_file_op_latency() -> Nanos {
        LONG_READ
    }

    /// Lock waits and JVM pauses that took less need not be added.
    pub fn min_span_length() -> Nanos {
        MIN_LONG
    }

    /// Whether no request may be slow or is counted as not judged.
    pub fn is_empty(&self) -> bool {
        self.near.is_empty() && !self.any_slow
    }

    /// Takes what was recorded, in any order.
    pub fn take(&mut self, row: &RowSummary) {
        match row {
            RowSummary::LongRequest(request) => self.request(request),
            RowSummary::FileOp(op) => self.file_op(op),
            RowSummary::Span { start, end } => self.long(*start, *end),
            RowSummary::Request(_) | RowSummary::OffCpu(_) | RowSummary::SocketOp { .. } => {}
        }
    }

    /// Adds what another plan was given.
    pub fn add(&mut self, other: Self) {
        self.near.extend(other.near);
        self.long.extend(other.long);
        self.reads_files |= other.reads_files;
        self.too_long |= other.too_long;
        self.any_slow |= other.any_slow;
        self.longest = self.longest.max(other.longest);
    }

    fn request(&mut self, row: &RequestTiming) {
        self.any_slow |= row.latency().is_some_and(|latency| latency >= self.config.slower_than);
        self.longest = self.longest.max(row.latency().unwrap_or_default());
        if self.may_be_judged(row) {
            self.near.push((row.arrival, row.last_seen()));
            let latency = row.latency().unwrap_or_default();
            self.too_long |= latency.0.saturating_mul(RETENTION_SHARE) > self.config.retention.0;
        } else if !self.config.apis.contains(&row.api) && !PATIENT.contains(&row.api_key) {
            // Others may wait behind it.
            self.long(row.arrival, row.last_seen());
        }
    }

    fn may_be_judged(&self, row: &RequestTiming) -> bool {
        match self.config.only_request {
            Some(number) => row.correlation_id == number,
            None => self.config.apis.contains(&row.api) && is_slow(row, self.config.slower_than),
        }
    }

    fn file_op(&mut self, op: &FileOpSummary) {
        let reads = matches!(op.op, FileOpKind::Sendfile | FileOpKind::Splice | FileOpKind::Read);
        self.reads_files |= reads && op.end - op.start >= LONG_READ;
        self.long(op.start, op.end);
    }

    fn long(&mut self, start: Nanos, end: Nanos) {
        if end - start >= MIN_LONG {
            self.long.push((start, end));
        }
    }

    /// What is to be read of a recording that lasts so long; none where that is all of it.
    pub fn settle(mut self, lasts: Nanos) -> Option<Arc<dyn RowFilter>> {
        let since = LongSpans::of(self.long);
        for (start, end) in &mut self.near {
            *start = since.followed(*start - MARGIN_BEFORE);
            *end += MARGIN_AFTER;
        }
        let near = merge_spans(self.near);
        let covered: Nanos = near.iter().map(|(start, end)| *end - *start).sum();
        if self.too_long || covered.0.saturating_mul(MAX_COVERED_DIVISOR) > lasts.0 {
            return None;
        }
        let kept = self.config.retention;
        let written = self
            .reads_files
            .then(|| merge_spans(near.iter().map(|&(start, end)| (start - kept, end)).collect()));
        let slower_than = self.config.only_request.map_or(self.config.slower_than, |_| Nanos::MAX);
        Some(Arc::new(NearFilter { all: Spans(near), written: written.map(Spans), slower_than }))
    }
}

/// Whether a request may count as slow: a fetch had asked the broker to wait for data.
fn is_slow(row: &RequestTiming, slower_than: Nanos) -> bool {
    row.latency().is_some_and(|latency| latency - waiting::least_wait(row) >= slower_than)
}

/// What took long, by when it ended; with each, when the earliest of it and those after it began.
struct LongSpans(Vec<(Nanos, Nanos)>);

impl LongSpans {
    fn of(mut long: Vec<(Nanos, Nanos)>) -> Self {
        long.sort_unstable_by_key(|(_, end)| *end);
        let mut earliest = Nanos::MAX;
        for (start, _) in long.iter_mut().rev() {
            earliest = earliest.min(*start);
            *start = earliest;
        }
        Self(long)
    }

    /// A moment, or a while before what was under way then began, and what was under way then.
    fn followed(&self, mut at: Nanos) -> Nanos {
        loop {
            let next = self.0.partition_point(|(_, end)| *end <= at);
            match self.0.get(next) {
                Some((start, _)) if *start < at => at = *start - MARGIN_BEFORE,
                _ => return at,
            }
        }
    }
}

/// Spans in order and apart from each other.
fn merge_spans(mut stretches: Vec<(Nanos, Nanos)>) -> Vec<(Nanos, Nanos)> {
    stretches.sort_unstable();
    stretches.dedup_by(|next, kept| {
        let touches = next.0 <= kept.1;
        if touches {
            kept.1 = kept.1.max(next.1);
        }
        touches
    });
    stretches
}

/// What is read.
struct NearFilter {
    all: Spans,
    /// For writes to logs, where these are.
    written: Option<Spans>,
    slower_than: Nanos,
}

struct Spans(Vec<(Nanos, Nanos)>);

impl Spans {
    /// Whether something shares time with one of them; else how many of them begin before it.
    fn meet(&self, start: Nanos, end: Nanos) -> Result<(), u32> {
        let begun = self.0.partition_point(|(from, _)| *from <= end);
        match begun.checked_sub(1).and_then(|last| self.0.get(last)) {
            Some((_, until)) if *until >= start => Ok(()),
            _ => Err(begun as u32),
        }
    }
}

impl RowFilter for NearFilter {
    fn choose(&self, row: &RowSummary) -> RowChoice {
        let (start, end, tid, kind) = match row {
            RowSummary::Request(request) => {
                if self.is_told(request) {
                    return RowChoice::Read;
                }
                return match self.all.meet(request.arrival, request.last_seen()) {
                    Ok(()) => RowChoice::Read,
                    Err(gap) => RowChoice::Edge { kind: request.connection, gap },
                };
            }
            RowSummary::FileOp(op) => {
                let is_append = op.kind == FileKind::Log && op.op == FileOpKind::Write;
                let written = self.written.as_ref().filter(|_| is_append);
                if written.is_some_and(|written| written.meet(op.start, op.end).is_ok()) {
                    return RowChoice::Read;
                }
                (op.start, op.end, op.tid, u64::from(is_append))
            }
            RowSummary::OffCpu(interval) if is_without_cpu(interval) => return RowChoice::Read,
            RowSummary::OffCpu(interval) => (interval.start, interval.end, interval.tid, 0),
            RowSummary::SocketOp { start, end, tid } => (*start, *end, *tid, 0),
            RowSummary::LongRequest(_) | RowSummary::Span { .. } => return RowChoice::Read,
        };
        match self.all.meet(start, end) {
            Ok(()) => RowChoice::Read,
            Err(gap) => RowChoice::Edge { kind: u64::from(tid) << 1 | kind, gap },
        }
    }
}

impl NearFilter {
    /// Whether a request is read wherever it lies: it is counted, or bears on others from afar.
    fn is_told(&self, request: &RequestPosition) -> bool {
        request.latency().is_some_and(|latency| latency >= self.slower_than)
            || is_of_transaction(request.api_key)
            || is_follower(request.api_key, request.client_id.as_ref())
    }
}

/// Whether it is of an episode in which threads have no CPU.
fn is_without_cpu(interval: &OffCpuSummary) -> bool {
    let since = if interval.preempted { Some(interval.start) } else { interval.woken };
    since.is_some_and(|since| interval.end - since >= MIN_WAIT_FOR_CPU)
}

#[cfg(test)]
mod tests {
    use model::Nanos;

    use super::{LongSpans, MARGIN_BEFORE, Spans, merge_spans};

    fn ms(n: i64) -> Nanos {
        Nanos::from_millis(n)
    }

    #[test]
    fn what_was_under_way_is_followed_to_its_start_and_on() {
        let since =
            LongSpans::of(vec![(ms(50_000), ms(60_000)), (ms(40_000), ms(49_000)), (ms(1_000), ms(5_000))]);
        assert_eq!(
            since.followed(ms(55_000)),
            ms(40_000) - MARGIN_BEFORE,
            "over the one that ended within the margin"
        );
        assert_eq!(since.followed(ms(61_000)), ms(61_000));
        assert_eq!(since.followed(ms(20_000)), ms(20_000));
        assert_eq!(since.followed(ms(4_000)), ms(1_000) - MARGIN_BEFORE);
    }

    #[test]
    fn a_row_is_met_or_lies_in_a_gap() {
        let stretches = Spans(merge_spans(vec![(ms(10), ms(20)), (ms(30), ms(40)), (ms(18), ms(25))]));
        assert_eq!(stretches.0, [(ms(10), ms(25)), (ms(30), ms(40))]);
        for (start, end, expected) in [
            (0, 9, Err(0)),
            (0, 10, Ok(())),
            (25, 26, Ok(())),
            (26, 29, Err(1)),
            (5, 50, Ok(())),
            (26, 50, Ok(())),
            (41, 50, Err(2)),
        ] {
            assert_eq!(stretches.meet(ms(start), ms(end)), expected, "{start} to {end}");
        }
    }
}
