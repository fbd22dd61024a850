//! Requests that the broker keeps because they ask for it, which is not slowness: fetches until there is data to
//! read, members of a group until the others have joined. And the stages of requests that append nothing.

use model::api_key::{FETCH, PRODUCE};
use model::row_summary::RequestTiming;
use model::{Nanos, Request, Stage};

use crate::stages::response::named;
use crate::stages::{Breakdown, served_after, served_from};
use crate::time::{TimeSpan, is_most};
use crate::window::Window;
use crate::{coordinators, joins};

/// A request's latency without its intended wait; `None` if the broker kept it on purpose. For a member of a group,
/// the time since the group's record was written still counts.
pub(crate) fn latency_less_wait(window: &Window, request: &Request) -> Option<Nanos> {
    let latency = request.latency()?;
    if request.api_key == PRODUCE {
        return Some(latency);
    }
    if request.intended_wait().is_some() {
        let wait_end = coordinators::join(window, request)?.op.start;
        return Some(request.end? - wait_end);
    }
    let own = readable(window, request).map(|until| until - served_from(request).unwrap_or(until));
    Some((latency - own.unwrap_or_default().at_least_zero() - behind_a_wait(window, request)).at_least_zero())
}

/// Until when a fetch waited, or may have waited, for the data that it wants.
/// Not longer than its `max.wait`, and not if all of the data was there.
///
/// Data of a produce request can be read when it has been appended: the last byte of that request is the earliest
/// bound, the end of the write of the first fetched batch a later one. If neither is known, the fetch may have
/// waited.
pub(crate) fn readable(window: &Window, request: &Request) -> Option<Nanos> {
    let from = served_from(request)?;
    let until =
        max_wait_end(from, request.api_key, request.min_bytes, request.max_wait_ms, request.response)?;
    let Some(data) = request.data else { return Some(until) };
    Some(data.max(appended(window, request).unwrap_or(data)).clamp(from, until.max(from)))
}

/// The minimum wait of a fetch, or its possible wait if `data` is unknown: the write can only have been later.
pub(crate) fn min_wait(row: &RequestTiming) -> Nanos {
    let wait = || {
        let from = served_after(row.arrival_end, row.head_of_line, row.response?);
        let until = max_wait_end(from, row.api_key, row.min_bytes, row.max_wait_ms, row.response)?;
        Some(row.data.map_or(until, |data| data.clamp(from, until.max(from))) - from)
    };
    wait().unwrap_or_default().at_least_zero()
}

/// Until when a fetch that can be served from `from` on allows the broker to wait.
fn max_wait_end(
    from: Nanos,
    api_key: i16,
    min_bytes: Option<i32>,
    max_wait_ms: Option<i32>,
    response: Option<Nanos>,
) -> Option<Nanos> {
    let patient = api_key == FETCH && min_bytes.is_none_or(|bytes| bytes > 0);
    let most = Nanos::from_millis(i64::from(max_wait_ms.filter(|_| patient)?));
    Some((from + most).min(response?))
}

/// When the first batches that a fetch returned were written, if that was seen.
fn appended(window: &Window, request: &Request) -> Option<Nanos> {
    let with_data = request.partitions.iter().filter(|partition| partition.bytes > 0);
    let ends = with_data.filter_map(|partition| {
        let name = named(partition)?;
        let mut appends = window.appends.by_base_offset(partition.fetch_offset?);
        appends.find(|op| op.topic_partition.as_ref() == Some(&name)).map(|op| op.end)
    });
    ends.max()
}

/// The wait behind a request of the same connection with an intended wait.
fn behind_a_wait(window: &Window, request: &Request) -> Nanos {
    let waited = request.head_of_line.filter(|waited| *waited > Nanos::ZERO);
    let ahead = || window.ahead_of(request, request.arrival_end).next();
    waited.filter(|_| ahead().is_some_and(|ahead| is_mostly_intended_wait(window, ahead))).unwrap_or_default()
}

/// Whether most of a request's latency is its intended wait.
pub(crate) fn is_mostly_intended_wait(window: &Window, request: &Request) -> bool {
    let own = readable(window, request).zip(served_from(request)).map(|(until, from)| until - from);
    let is_most_of_it = own.zip(request.latency()).is_some_and(|(own, latency)| is_most(own, latency));
    request.intended_wait().is_some() || is_most_of_it
}

impl Breakdown<'_> {
    /// When the response was due but not sent; a fetch may have asked for a wait before.
    pub(crate) fn due_span(&self) -> TimeSpan {
        let from = readable(self.window, self.request).unwrap_or(self.served_from);
        TimeSpan::new(from.clamp(self.served_from, self.answered), self.answered)
    }

    /// A request that appended nothing: its wait, and the work on it including its time in the queues.
    pub(super) fn without_append(&mut self) {
        let request = self.request;
        let until = self.answer.map_or(self.served_from, |answer| answer.start);
        let from = self.enqueue(until).map_or(self.served_from, |at| at.max(self.served_from));
        if request.api_key == PRODUCE
            && request.partitions.iter().any(|of| joins::is_written(of.error_code, of.bytes))
        {
            return;
        }
        if request.intended_wait().is_some() {
            self.take(Stage::Remote, from, self.answered);
        } else if let Some(until) = readable(self.window, request) {
            self.take(Stage::Remote, from, until);
        }
        if self.read.is_some() && self.answer.is_some() {
            self.take(Stage::Handler, from, self.answered);
        }
    }
}
