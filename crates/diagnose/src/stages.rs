//! Divides the latency of an answered request into stages.
//! Each instant goes into one stage. Records for every stage what the causes need to know. Does not name causes.
//!
//! A stage has time only if its ends were seen:
//! - packets: `network_in`, `head_of_line`, `network_out`; without packets `network_in` begins when the first byte is
//!   read;
//! - the socket read of the request's last byte and the write of the response's first byte, by TCP sequence numbers:
//!   `receive` ends with the read and the work with which its thread continued at once, `respond` ends with the
//!   write. On a TLS connection, the socket calls within the broker's calls for the request and the response, which
//!   the agent saw begin and end;
//! - the appends of the request's partitions, by their batches: `append`, with the waits and operations of the same
//!   thread around them as `lock` and `handler`;
//! - followers' fetches, by partition and offset: `remote`. If no fetch is seen and there may be followers, the time
//!   after the last append belongs to no stage.
//!
//! For requests of Kafka's request log, Kafka's times are used: see [`logged`].
//!
//! When a request handler took the request is not seen. `queue` lasts at least until that thread had ended its
//! previous work, and the following time is `handler`: see [`produce`].

pub(crate) mod logged;
pub(crate) mod produce;
pub(crate) mod response;
pub(crate) mod waiting;

use model::{FileOp, Nanos, Request, RequestSource, Stage, StageSpan, Stages};

use crate::joins::AppendJoin;
use crate::locks::{JavaWait, LockContention};
use crate::logged::is_logged;
use crate::stages::logged::LogTimes;
use crate::stages::response::{Remote, UnseenFollowers};
use crate::time::{TimeBudget, TimeSpan};
use crate::waits::LockHold;
use crate::window::sockets::SocketCall;
use crate::window::{CLOCK_SLACK, Window, connection_of};

/// The broker's work on a request, as far as it was seen; times are those of stages.
#[derive(Debug)]
pub(crate) struct Breakdown<'w> {
    pub(crate) window: &'w Window,
    pub(crate) request: &'w Request,
    pub(crate) appends: &'w [AppendJoin],
    /// Time that belongs to no stage yet.
    free: TimeBudget,
    pub(crate) stages: Stages,
    /// The stretches of the stages.
    pub(crate) spans: Vec<StageSpan>,
    /// Since when the broker could serve it: it was complete, and no request was ahead of it on its connection.
    pub(crate) served_from: Nanos,
    /// The read that completed it.
    pub(crate) read: Option<SocketCall>,
    /// When the thread that read it put it into the queue, at the earliest.
    pub(crate) enqueued_at: Option<Nanos>,
    /// When its request handler can have taken it, at the earliest.
    pub(crate) dequeued_at: Option<Nanos>,
    /// File operations of its handler for it. Each comes with the time that belongs to the request.
    pub(crate) operations: Vec<LockHold<'w>>,
    /// Its handler's waits for locks.
    pub(crate) locks: Vec<LockContention<'w>>,
    /// Other waits of its handler that the JVM saw.
    pub(crate) java_waits: Vec<JavaWait<'w>>,
    /// When the work on this broker ended, as far as appends show.
    pub(crate) local_end: Option<Nanos>,
    /// The wait for followers.
    pub(crate) remote: Option<Remote>,
    /// A possible wait for followers that are not seen.
    pub(crate) unseen_followers: Option<UnseenFollowers>,
    /// When Kafka's stages ended, if it is from Kafka's log.
    pub(crate) log_times: Option<LogTimes>,
    /// The write that began its response.
    pub(crate) answer: Option<SocketCall>,
    /// When the response began to leave.
    pub(crate) answered: Nanos,
    pub(crate) end: Nanos,
    /// File reads for its response, by `sendfile`.
    pub(crate) sent: Vec<&'w FileOp>,
}

/// Since when the broker could serve an answered request: it was complete, and no request was ahead of it on its
/// connection.
pub(crate) fn served_from(request: &Request) -> Option<Nanos> {
    Some(served_after(request.arrival_end, request.head_of_line, request.response?))
}

/// Like `served_from`, by the request's times.
fn served_after(arrival_end: Nanos, head_of_line: Option<Nanos>, response: Nanos) -> Nanos {
    let waited = (response - arrival_end).at_least_zero();
    arrival_end + head_of_line.unwrap_or_default().min(waited).at_least_zero()
}

/// The stages of an answered request; `None` without an answer.
pub(crate) fn stages_of<'w>(
    window: &'w Window,
    request: &'w Request,
    appends: &'w [AppendJoin],
) -> Option<Breakdown<'w>> {
    let (response, end) = (request.response?, request.end?);
    let served_from = served_from(request)?;
    let answer = answer_of(window, request);
    let begun = answer.filter(|_| !is_logged(request)).map(|write| write.start.min(response));
    let answered = begun.unwrap_or(response).max(served_from);
    let mut breakdown = Breakdown {
        window,
        request,
        appends,
        free: TimeBudget::new(TimeSpan::new(request.arrival, end)),
        stages: Stages::default(),
        spans: Vec::new(),
        served_from,
        read: read_of(window, request, served_from),
        enqueued_at: None,
        dequeued_at: None,
        operations: Vec::new(),
        locks: Vec::new(),
        java_waits: Vec::new(),
        local_end: None,
        remote: None,
        unseen_followers: None,
        log_times: LogTimes::of(request, answered),
        answer,
        answered,
        end,
        sent: response::files_sent(window, request, answer),
    };
    breakdown.divide();
    Some(breakdown)
}

impl Breakdown<'_> {
    fn divide(&mut self) {
        let unread = unread_span(self.window, self.request);
        let from = unread.map_or(self.request.arrival, |unread| unread.end);
        self.take(Stage::NetworkIn, from, self.request.arrival_end);
        self.take(Stage::HeadOfLine, self.request.arrival_end, self.served_from);
        self.leave();
        if let Some(times) = self.log_times {
            self.by_log(times);
        } else {
            self.serve();
        }
        // Time that no stage has taken.
        self.take(Stage::Unobserved, Nanos::MIN, Nanos::MAX);
        self.put_in_order();
    }

    /// From the read to the response.
    fn serve(&mut self) {
        if let Some(read) = self.read {
            self.take(Stage::Receive, self.served_from, read.end.min(self.answered));
        }
        if self.appends.is_empty() {
            self.without_append();
        } else {
            self.with_appends();
        }
    }

    /// When it was in the queue, if it is known which handler took it.
    pub(crate) fn queue_span(&self) -> Option<TimeSpan> {
        let enqueued_at = self.enqueued_at.or(self.read.map(|read| read.end))?;
        Some(TimeSpan::new(enqueued_at, self.dequeued_at?))
    }

    /// Until when a delay of the broker's threads delays the request.
    /// That is when the response begins to leave, or when the broker wrote its last byte.
    pub(crate) fn work_end(&self) -> Nanos {
        if ends_with_write(self.request) { self.end } else { self.answered }
    }

    /// Assigns the remaining time of a stretch to a stage.
    fn take(&mut self, stage: Stage, start: Nanos, end: Nanos) {
        let span = TimeSpan::new(start, end);
        let pieces = self.free.pieces(span).map(|TimeSpan { start, end }| StageSpan { stage, start, end });
        self.spans.extend(pieces);
        self.stages.add(stage, self.free.take(span));
    }

    /// Sorts the stages' stretches by time and merges adjacent ones.
    fn put_in_order(&mut self) {
        self.spans.sort_by_key(|span| span.start);
        self.spans.dedup_by(|next, previous| {
            let goes_on = next.stage == previous.stage && next.start == previous.end;
            if goes_on {
                previous.end = next.end;
            }
            goes_on
        });
    }
}

/// From when the broker had all of a request to when it began to answer it.
/// For an answered request, as far as that was seen.
pub(crate) fn served(window: &Window, request: &Request) -> Option<TimeSpan> {
    let served_from = served_from(request)?;
    let read = read_of(window, request, served_from);
    let from = read.map_or(served_from - CLOCK_SLACK, |read| read.end.max(served_from - CLOCK_SLACK));
    let until = answer_of(window, request).map_or(request.response? + CLOCK_SLACK, |write| write.start);
    Some(TimeSpan::new(from, until))
}

/// Bytes that fit into a new connection's receive window while nothing is read.
/// `tcp_rmem`'s default is 128 KiB, half of it for data (`tcp_win_from_space`, include/net/tcp.h).
const TAKEN_UNREAD_BYTES: u32 = 64 * 1024;

/// Whether all of a request can arrive while nothing is read.
pub(crate) fn fits_window(request: &Request) -> bool {
    request.request_bytes <= TAKEN_UNREAD_BYTES
}

/// When a request lay in the socket before its first byte was read.
/// For a request that is known by the broker's calls and too large to arrive completely meanwhile: its client could
/// not send the rest, and no source saw that.
pub(crate) fn unread_span(window: &Window, request: &Request) -> Option<TimeSpan> {
    let by_calls = request.seen_by == Some(RequestSource::SocketCalls);
    let first = request.sequence.filter(|_| by_calls && !fits_window(request))?;
    let read = window.sockets.read_of(connection_of(request), first, request.arrival)?;
    (read.start > request.arrival).then_some(TimeSpan::new(request.arrival, read.start))
}

/// Whether the agent in the broker's JVM saw a request: its times are those of the broker's own calls, and only these
/// calls show the sequence numbers of its bytes on the wire.
pub(crate) fn is_by_agent(request: &Request) -> bool {
    request.seen_by == Some(RequestSource::TlsAgent)
}

/// Whether the end of a request is that of the broker's last write, and not when the client has the bytes.
pub(crate) fn ends_with_write(request: &Request) -> bool {
    is_by_agent(request) || is_logged(request)
}

/// When the broker's calls read a request that the agent saw: that is its arrival too if the kernel did not see its bytes
/// arrive.
fn agent_calls(request: &Request) -> TimeSpan {
    let (start, end) = (request.read, request.read_end);
    TimeSpan::new(start.unwrap_or(request.arrival), end.unwrap_or(request.arrival_end))
}

/// The read that completed a request; the broker makes it once it can serve the request, which may be long after its
/// arrival if many wait on the connection.
fn read_of(window: &Window, request: &Request, served_from: Nanos) -> Option<SocketCall> {
    if is_by_agent(request) {
        return agent_read_of(window, request);
    }
    let last = request.sequence_end()?.wrapping_sub(1);
    let read = window.sockets.read_of(connection_of(request), last, served_from)?;
    let fits = read.end >= request.arrival_end - CLOCK_SLACK
        && request.response.is_none_or(|response| read.end <= response + CLOCK_SLACK);
    fits.then_some(read)
}

/// The system call that read a request within the agent's calls. An earlier one may have read its bytes with those of
/// the request before it: then the agent's calls themselves, by the thread that serves the connection.
fn agent_read_of(window: &Window, request: &Request) -> Option<SocketCall> {
    let (connection, called) = (connection_of(request), agent_calls(request));
    let mut call = window.sockets.last_read_within(connection, TimeSpan::new(Nanos::MIN, called.end))?;
    if call.start < called.start {
        (call.start, call.end) = (called.start, called.end);
    }
    Some(call)
}

/// The write that began a request's response.
fn answer_of(window: &Window, request: &Request) -> Option<SocketCall> {
    if is_by_agent(request) {
        let called = TimeSpan::new(request.response?, request.end?);
        return window.sockets.first_write_within(connection_of(request), called);
    }
    if is_logged(request) {
        return crate::logged::answer_of(window, request);
    }
    let (first, response) = request.response_sequence.zip(request.response)?;
    let write = window.sockets.write_of(connection_of(request), first, response)?;
    let fits = write.start <= response + CLOCK_SLACK && write.start >= request.arrival_end - CLOCK_SLACK;
    fits.then_some(write)
}
