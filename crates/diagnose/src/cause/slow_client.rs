//! `slow-client`: bytes of the request came slowly, or those of its response went slowly: for the client, or for the
//! network before it.
//!
//! Needs, of a request: its packets, and that the broker would have taken it: no earlier request of the connection was
//! served meanwhile, and it fits into a receive buffer that nobody reads. What is larger may have waited for the broker.
//! Of a response: that its last byte had been given to the kernel (the write by its TCP sequence number), so that only
//! the other end's window and acknowledgements were waited for. Before that, the network thread may have been at work
//! elsewhere: that time needs trouble of this connection to be the client's (a closed window, segments sent again), or a
//! window that had no room for what was left while the network thread was at no other work, had a CPU and was not
//! stopped. A slow disk is no part of either.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, Nanos, Request, TcpEventKind, Tid};

use super::{Finding, run_queue, stop};
use crate::free::Free;
use crate::stages::Course;
use crate::window::{CLOCK_SLACK, Window};

/// A new connection's receive window that nobody reads takes so much (`tcp_rmem`'s default of 128 KiB, of which half is
/// for data: `tcp_win_from_space`, include/net/tcp.h).
const TAKEN_UNREAD_BYTES: u32 = 64 * 1024;

/// A request whose own bytes came slowly.
pub(crate) fn arrival(window: &Window, request: &Request) -> Option<Finding> {
    let (start, end) = (request.arrival, request.arrival_end);
    let muted = window.connection_busy(request, start, end);
    let fits = request.request_bytes <= TAKEN_UNREAD_BYTES;
    let stops = if fits { Vec::new() } else { stop::stops(window, 0, start, end) };
    let stopped: Nanos = stops.iter().map(|stop| stop.overlap(start, end)).sum();
    let time = (end - start - muted - stopped).at_least_zero();
    let confidence = if fits { Confidence::Exact } else { Confidence::Strong };
    (time > Nanos::ZERO).then(|| {
        let text = format!("the request's {} bytes took {} to arrive", request.request_bytes, end - start);
        let evidence = vec![seen(EvidenceKind::Request, start, end, text)];
        finding(window, request, confidence, evidence, time)
    })
}

/// A response whose bytes went slowly, within what is left of the time from its first byte on.
pub(crate) fn departure(
    window: &Window,
    request: &Request,
    course: &Course<'_>,
    mut take: impl FnMut(Nanos, Nanos) -> Nanos,
) -> Option<Finding> {
    let (begun, end) = (course.answered, course.end);
    let trouble = trouble(window, request, begun, end);
    let last = request.response_sequence_end()?.wrapping_sub(1);
    let handed =
        window.sockets().write_of((request.client, request.broker), last, end).map(|write| write.end);
    let handed = handed.filter(|handed| *handed >= begun);
    let given = handed.map_or(Nanos::ZERO, |handed| take(handed.min(end), end));
    let until = handed.unwrap_or(end).min(end);
    let waited = if trouble.is_empty() {
        no_room(window, request, course, until).into_iter().map(|(from, until)| take(from, until)).sum()
    } else {
        take(begun, until)
    };
    let time = given + waited;
    if time <= Nanos::ZERO {
        return None;
    }
    let confidence = if waited > given { Confidence::Strong } else { Confidence::Exact };
    let bytes = request.response_bytes.unwrap_or_default();
    let unsent = handed.map(|handed| (end - handed).at_least_zero());
    let unsent = unsent.map(|rest| format!(", {rest} of it after the broker had written the last"));
    let text =
        format!("the response's {bytes} bytes took {} to leave{}", end - begun, unsent.unwrap_or_default());
    let mut evidence = vec![seen(EvidenceKind::Request, begun, end, text)];
    evidence.extend(trouble);
    Some(finding(window, request, confidence, evidence, time))
}

/// The times between two writes of a response in which the client's window had no room for what was left.
fn no_room(window: &Window, request: &Request, course: &Course<'_>, until: Nanos) -> Vec<(Nanos, Nanos)> {
    let (Some(first), Some(last)) = (course.answer, request.response_sequence_end()) else {
        return Vec::new();
    };
    let writes = window.sockets().writes_within((request.client, request.broker), first, until);
    let mut gaps = Vec::new();
    let mut before = first;
    for write in writes {
        let no_room = write.peer_window.is_some_and(|room| room < write.left_until(last));
        let gap = (before.end, write.start);
        if no_room && gap.0 < gap.1 && was_free(window, write.tid, gap) {
            gaps.push(gap);
        }
        before = *write;
    }
    gaps
}

/// Whether a network thread could have written for most of a stretch.
fn was_free(window: &Window, tid: Tid, (start, end): (Nanos, Nanos)) -> bool {
    let mut free = Free::new(start, end);
    let all = free.left();
    for call in window.sockets().of_thread(tid, start, end) {
        free.take(call.start, call.end);
    }
    for stop in stop::stops(window, 0, start, end) {
        free.take(stop.start, stop.end);
    }
    run_queue::of_thread(window, tid, (start, end), &mut free);
    free.left().0.saturating_mul(2) > all.0
}

fn finding(
    window: &Window,
    request: &Request,
    confidence: Confidence,
    mut evidence: Vec<Evidence>,
    time: Nanos,
) -> Finding {
    if window.trouble.is_unscaled(request.client, request.broker) {
        let text = "the connection has no window scaling: it carries 64 KiB a round trip at most".to_owned();
        evidence.push(seen(EvidenceKind::Network, request.arrival, request.last_seen(), text));
    }
    Finding {
        cause: Cause::SlowClient,
        chain: vec![Cause::SlowClient],
        root: Arc::from(format!("slow-client:{}", request.client)),
        confidence,
        evidence,
        time,
        partition: None,
    }
}

/// What went wrong with the connection in a stretch, each kind once.
fn trouble(window: &Window, request: &Request, start: Nanos, end: Nanos) -> Vec<Evidence> {
    let (start, end) = (start - CLOCK_SLACK, end + CLOCK_SLACK);
    let of = |kind| {
        let all = window.trouble.of_connection(request.client, request.broker, start, end);
        let times: Vec<_> = all.filter(|trouble| trouble.kind == kind).map(|trouble| trouble.at).collect();
        let (first, last) = (times.first().copied()?, times.last().copied()?);
        let text = match (kind, times.len()) {
            (TcpEventKind::Retransmit, 1) => "a segment had to be sent again".to_owned(),
            (TcpEventKind::Retransmit, count) => format!("{count} segments had to be sent again"),
            _ => "the client's receive window was closed".to_owned(),
        };
        Some(seen(EvidenceKind::Network, first, last, text))
    };
    [TcpEventKind::ZeroWindow, TcpEventKind::Retransmit].into_iter().filter_map(of).collect()
}

fn seen(kind: EvidenceKind, start: Nanos, end: Nanos, text: String) -> Evidence {
    Evidence { kind, start, end, tid: None, thread: None, waiter: None, text }
}
