//! Requests of Kafka's request log: when one really was. Kafka's own clock measures the duration of a request to a
//! microsecond. The time of its line has a resolution of a millisecond: it is right after the end, unless something
//! such as a JVM pause delayed the thread that writes it.
//!
//! A network thread writes the line after the response's last byte and before it reads on from that connection
//! (`SocketServer`'s `processCompletedSends`). So the last write to the connection before the line is the response's,
//! and the request ended with it. The connection is not read while a request is served: the request arrived after the
//! last read before that write.

use std::sync::Arc;

use model::{Nanos, Request, RequestSource};

use crate::time::TimeSpan;
use crate::window::sockets::SocketCall;
use crate::window::{CLOCK_SLACK, Window, connection_of};

/// Maximum delay of a line after its request's end.
pub(crate) const MAX_LATE: Nanos = Nanos::from_millis(1_000);

/// Whether a request is known by its line alone.
pub(crate) fn is_logged(request: &Request) -> bool {
    request.seen_by == Some(RequestSource::RequestLog)
}

/// The request with its real times, as far as they were seen.
pub(crate) fn correct_times(window: &Window, request: &Arc<Request>) -> Arc<Request> {
    let Some((write, end)) = last_write(window, request).zip(request.end) else { return Arc::clone(request) };
    let late = end - write.end;
    // Kafka's times end later than the write if something delayed its thread in between.
    let read = read_before(window, request, write).map(|read| request.arrival - read.end);
    let mut corrected = earlier(request, read.map_or(late, |since_read| late.min(since_read)));
    corrected.response = corrected.response.map(|at| at.min(write.end));
    corrected.end = Some(write.end);
    Arc::new(corrected)
}

/// Whether the end of a request of the log was seen.
pub(crate) fn is_end_seen(window: &Window, request: &Request) -> bool {
    last_write(window, request).is_some_and(|write| Some(write.end) == request.end)
}

/// The write that ended the response.
fn last_write(window: &Window, request: &Request) -> Option<SocketCall> {
    let end = request.end.filter(|_| is_logged(request))?;
    // The line's time is truncated to a millisecond. Anything written before the request arrived belongs to another.
    let first = (end - MAX_LATE).max(request.arrival + CLOCK_SLACK);
    let near = TimeSpan::new(first, end + CLOCK_SLACK);
    window.sockets.last_write_within(connection_of(request), near)
}

/// The last read of its connection before a write of its response.
fn read_before(window: &Window, request: &Request, write: SocketCall) -> Option<SocketCall> {
    window.sockets.last_read_within(connection_of(request), TimeSpan::new(Nanos::MIN, write.start))
}

/// The first write of its response.
pub(crate) fn answer_of(window: &Window, request: &Request) -> Option<SocketCall> {
    let (response, last) = (request.response?, last_write(window, request)?);
    let read = read_before(window, request, last).map(|read| read.end);
    let from = (response - CLOCK_SLACK).max(read.unwrap_or(Nanos::MIN));
    window.sockets.first_write_within(connection_of(request), TimeSpan::new(from, last.end))
}

fn earlier(request: &Request, late: Nanos) -> Request {
    Request {
        arrival: request.arrival - late,
        arrival_end: request.arrival_end - late,
        response: request.response.map(|at| at - late),
        end: request.end.map(|at| at - late),
        ..request.clone()
    }
}
