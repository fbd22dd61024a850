//! Selects what verdicts on a recording can depend on: stretches of time around its slow requests, and rows that bear
//! on them from afar. Everything else need not be read, and the verdicts stay the same (`analysis` tests it).
//!
//! A request's verdict depends on what shares time with it, with the requests ahead of it on its connection, and with
//! what these waited for. A lock's holder may have held it for seconds, so long events are followed to their start.
//! Beyond that:
//! - a thread's last and next event, however long before or after: the first and last event of each kind of every
//!   thread in each gap between stretches is read;
//! - the previous request of a connection: likewise;
//! - the start of trouble (`window::episodes`) and the events that show it: read everywhere;
//! - followers' fetches, replica counts of partitions, and requests to a transaction's coordinator: read everywhere;
//! - the writer of what a network thread had to read from the device: then writes are read for the whole retention.
//!
//! The engine decides what is slow; this module only decides what may be.

use std::sync::Arc;

use model::api_key::{JOIN_GROUP, SHARE_FETCH, SYNC_GROUP};
use model::row_summary::{
    FileOpSummary, OffCpuSummary, RequestPosition, RequestTiming, RowChoice, RowFilter, RowSummary,
};
use model::{FileKind, FileOpKind, Nanos, Tid};

use crate::config::Config;
use crate::stages::response::is_read;
use crate::stages::waiting;
use crate::time::TimeSpan;
use crate::window::requests::is_follower;
use crate::window::trouble::{MIN_WAIT_FOR_CPU, is_of_transaction};

/// Everything is read this long before a stretch; longer events are followed to their start.
const MARGIN_BEFORE: Nanos = Nanos::from_millis(2_000);
/// And this long after it: clocks differ, and what came right after belongs to it.
const MARGIN_AFTER: Nanos = Nanos::from_millis(500);
/// Events of at least this length are followed to their start.
const MIN_LONG: Nanos = Nanos::from_millis(1_000);
/// File reads of at least this length are examined (`causes::network::disk_read`).
const LONG_READ: Nanos = Nanos::from_millis(1);
/// If a request takes longer than this share of the retention, everything is read: a sixth.
pub(crate) const RETENTION_SHARE: i64 = 6;
/// If stretches cover more than half of a recording, a selection is not worthwhile.
const MAX_COVERED_DIVISOR: i64 = 2;

/// Kafka's keys of requests that wait for others on purpose: a wait behind one needs no other cause.
const INTENDED_WAITS: [i16; 3] = [JOIN_GROUP, SYNC_GROUP, SHARE_FETCH];

/// Collects requests that may be slow, and long events.
#[derive(Debug)]
pub struct ReadPlan {
    config: Config,
    near: Vec<TimeSpan>,
    long: Vec<TimeSpan>,
    /// Whether a network thread may have read from a device.
    reads_files: bool,
    /// Whether a request took so long that everything must be read.
    too_long: bool,
    /// Whether any request took long enough to count as slow.
    any_slow: bool,
    /// The longest request.
    longest: Nanos,
}

impl ReadPlan {
    /// An empty plan for an engine with this configuration.
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

    /// An upper bound of all requests' latencies.
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

    /// Whether no request may be slow or counted as not judged.
    pub fn is_empty(&self) -> bool {
        self.near.is_empty() && !self.any_slow
    }

    /// Takes a recorded row, in any order.
    pub fn take(&mut self, row: &RowSummary) {
        match row {
            RowSummary::LongRequest(request) => self.request(request),
            RowSummary::FileOp(op) => self.file_op(op),
            RowSummary::Span { start, end } => self.long(TimeSpan::new(*start, *end)),
            RowSummary::Request(_) | RowSummary::OffCpu(_) | RowSummary::SocketOp { .. } => {}
        }
    }

    /// Adds everything that another plan has taken.
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
        // An unanswered request makes nothing longer.
        let latency = row.latency().unwrap_or(Nanos::ZERO);
        self.longest = self.longest.max(latency);
        if self.may_be_judged(row) {
            self.near.push(TimeSpan::new(row.arrival, row.last_seen()));
            self.too_long |= latency.0.saturating_mul(RETENTION_SHARE) > self.config.retention.0;
        } else if !self.config.apis.contains(&row.api) && !INTENDED_WAITS.contains(&row.api_key) {
            // Others may wait behind it.
            self.long(TimeSpan::new(row.arrival, row.last_seen()));
        }
    }

    fn may_be_judged(&self, row: &RequestTiming) -> bool {
        match self.config.only_request {
            Some(number) => row.correlation_id == number,
            None => self.config.apis.contains(&row.api) && is_slow(row, self.config.slower_than),
        }
    }

    fn file_op(&mut self, op: &FileOpSummary) {
        let span = TimeSpan::new(op.start, op.end);
        self.reads_files |= is_read(op.op) && span.length() >= LONG_READ;
        self.long(span);
    }

    fn long(&mut self, span: TimeSpan) {
        if span.length() >= MIN_LONG {
            self.long.push(span);
        }
    }

    /// What to read of a recording of this length; `None` for all of it.
    pub fn settle(self, lasts: Nanos) -> Option<Arc<dyn RowFilter>> {
        let since = LongSpans::of(self.long);
        let near = self
            .near
            .into_iter()
            .map(|span| TimeSpan::new(since.trace_back(span.start - MARGIN_BEFORE), span.end + MARGIN_AFTER));
        let near = merge_spans(near.collect());
        let covered: Nanos = near.iter().map(|span| span.length()).sum();
        if self.too_long || covered.0.saturating_mul(MAX_COVERED_DIVISOR) > lasts.0 {
            return None;
        }
        let retention = self.config.retention;
        let with_retention = near.iter().map(|span| TimeSpan::new(span.start - retention, span.end));
        let written = self.reads_files.then(|| Spans(merge_spans(with_retention.collect())));
        let slower_than = self.config.only_request.map_or(self.config.slower_than, |_| Nanos::MAX);
        Some(Arc::new(NearFilter { all: Spans(near), written, slower_than }))
    }
}

/// Whether a request may count as slow without its intended wait for data.
fn is_slow(row: &RequestTiming, slower_than: Nanos) -> bool {
    row.latency().is_some_and(|latency| latency - waiting::min_wait(row) >= slower_than)
}

/// Long events by their ends. Each has the earliest start of it and those after it.
struct LongSpans(Vec<TimeSpan>);

impl LongSpans {
    fn of(mut long: Vec<TimeSpan>) -> Self {
        long.sort_unstable_by_key(|span| span.end);
        let mut earliest = Nanos::MAX;
        for span in long.iter_mut().rev() {
            earliest = earliest.min(span.start);
            span.start = earliest;
        }
        Self(long)
    }

    /// Traces a moment back to before the long events that were in progress.
    /// Returns the moment itself, or a margin before the start of the long events in progress then, and of those in
    /// progress at that start.
    fn trace_back(&self, mut at: Nanos) -> Nanos {
        loop {
            let next = self.0.partition_point(|span| span.end <= at);
            match self.0.get(next) {
                Some(span) if span.start < at => at = span.start - MARGIN_BEFORE,
                _ => return at,
            }
        }
    }
}

/// Merges spans into disjoint ones, in order.
fn merge_spans(mut spans: Vec<TimeSpan>) -> Vec<TimeSpan> {
    spans.sort_unstable();
    spans.dedup_by(|next, previous| {
        let touches = next.start <= previous.end;
        if touches {
            previous.end = previous.end.max(next.end);
        }
        touches
    });
    spans
}

/// The rows to read.
struct NearFilter {
    all: Spans,
    /// For writes to logs, if these differ.
    written: Option<Spans>,
    slower_than: Nanos,
}

struct Spans(Vec<TimeSpan>);

impl Spans {
    /// `Ok` if a span shares time with one of these. `Err` is the number of those that begin before it.
    fn meet(&self, span: TimeSpan) -> Result<(), u32> {
        let begun = self.0.partition_point(|near| near.start <= span.end);
        match begun.checked_sub(1).and_then(|last| self.0.get(last)) {
            Some(last) if last.end >= span.start => Ok(()),
            _ => Err(begun as u32),
        }
    }
}

impl RowFilter for NearFilter {
    fn choose(&self, row: &RowSummary) -> RowChoice {
        let of_thread = |tid: Tid, kind: u64| u64::from(tid) << 1 | kind;
        let (span, kind) = match row {
            RowSummary::Request(request) if self.is_always_read(request) => return RowChoice::Read,
            RowSummary::Request(request) => {
                (TimeSpan::new(request.arrival, request.last_seen()), request.connection)
            }
            RowSummary::FileOp(op) => {
                let span = TimeSpan::new(op.start, op.end);
                let is_append = op.kind == FileKind::Log && op.op == FileOpKind::Write;
                let written = self.written.as_ref().filter(|_| is_append);
                if written.is_some_and(|written| written.meet(span).is_ok()) {
                    return RowChoice::Read;
                }
                (span, of_thread(op.tid, is_append.into()))
            }
            RowSummary::OffCpu(interval) if is_without_cpu(interval) => return RowChoice::Read,
            RowSummary::OffCpu(interval) => {
                (TimeSpan::new(interval.start, interval.end), of_thread(interval.tid, 0))
            }
            RowSummary::SocketOp { start, end, tid } => (TimeSpan::new(*start, *end), of_thread(*tid, 0)),
            RowSummary::LongRequest(_) | RowSummary::Span { .. } => return RowChoice::Read,
        };
        self.all.meet(span).map_or_else(|gap| RowChoice::Edge { kind, gap }, |()| RowChoice::Read)
    }
}

impl NearFilter {
    /// Whether a request is read wherever it lies: it is counted, or bears on others from afar.
    fn is_always_read(&self, request: &RequestPosition) -> bool {
        request.latency().is_some_and(|latency| latency >= self.slower_than)
            || is_of_transaction(request.api_key)
            || is_follower(request.api_key, request.client_id.as_ref())
    }
}

/// Whether an interval belongs to an episode without CPUs.
fn is_without_cpu(interval: &OffCpuSummary) -> bool {
    let since = if interval.preempted { Some(interval.start) } else { interval.woken };
    since.is_some_and(|since| interval.end - since >= MIN_WAIT_FOR_CPU)
}

#[cfg(test)]
mod tests {
    use model::Nanos;

    use super::{LongSpans, MARGIN_BEFORE, Spans, merge_spans};
    use crate::time::TimeSpan;

    fn ms(n: i64) -> Nanos {
        Nanos::from_millis(n)
    }

    fn span((start, end): (i64, i64)) -> TimeSpan {
        TimeSpan::new(ms(start), ms(end))
    }

    #[test]
    fn trace_back_follows_long_spans_in_progress_to_their_starts() {
        let since = LongSpans::of([(50_000, 60_000), (40_000, 49_000), (1_000, 5_000)].map(span).to_vec());
        assert_eq!(
            since.trace_back(ms(55_000)),
            ms(40_000) - MARGIN_BEFORE,
            "over the one that ended within the margin"
        );
        assert_eq!(since.trace_back(ms(61_000)), ms(61_000));
        assert_eq!(since.trace_back(ms(20_000)), ms(20_000));
        assert_eq!(since.trace_back(ms(4_000)), ms(1_000) - MARGIN_BEFORE);
    }

    #[test]
    fn meet_finds_an_overlap_or_the_number_of_earlier_spans() {
        let stretches = Spans(merge_spans([(10, 20), (30, 40), (18, 25)].map(span).to_vec()));
        assert_eq!(stretches.0, [(10, 25), (30, 40)].map(span));
        for (start, end, expected) in [
            (0, 9, Err(0)),
            (0, 10, Ok(())),
            (25, 26, Ok(())),
            (26, 29, Err(1)),
            (5, 50, Ok(())),
            (26, 50, Ok(())),
            (41, 50, Err(2)),
        ] {
            assert_eq!(stretches.meet(span((start, end))), expected, "{start} to {end}");
        }
    }
}
