//! Divides the latency of an answered request into stages, each instant into one, and notes for every stage what is
//! known of it for the causes to look at. Does not name causes.
//!
//! A stage has time only where its ends were seen:
//! - packets: `network_in`, `head_of_line`, `network_out`; without them `network_in` begins when the first byte is read;
//! - the socket read that took the request's last byte and the write that gave the response's first byte, by TCP
//!   sequence numbers: `receive` ends with the one and what its thread went on with at once, `respond` with the other. Of a TLS
//!   connection those within the broker's calls for the request and the response, which the agent saw begin and end;
//! - the appends of the request's partitions, by their batches: `append`, with the waits and operations of the same
//!   thread around them `lock` and `handler`;
//! - followers' fetches, by partition and offset: `remote`. Where none is seen, and it is not known that there are no
//!   followers, the time after the last append is nobody's.
//!
//! Of Kafka's request log, Kafka says when: see [`logged`].
//!
//! Where a request handler took the request is not seen. `queue` lasts at least until that thread had ended what it did
//! before, and what follows is `handler`: see [`queue`].

pub(crate) mod logged;
pub(crate) mod produce;
pub(crate) mod response;
pub(crate) mod waiting;

use model::{FileOp, Nanos, Request, RequestSource, Stage, StageSpan, Stages};

use crate::joins::AppendJoin;
use crate::locks::{JavaWait, LockContention};
use crate::stages::response::{Remote, UnseenFollowers};
use crate::time::{TimeBudget, TimeSpan};
use crate::waits::LockHold;
use crate::window::sockets::SocketCall;
use crate::window::{CLOCK_SLACK, Window, connection_of};

/// What the broker did with a request, as far as it was seen; times are those of stages.
#[derive(Debug)]
pub(crate) struct Breakdown<'w> {
    pub(crate) window: &'w Window,
    pub(crate) request: &'w Request,
    pub(crate) appends: &'w [AppendJoin],
    /// What no stage has yet.
    free: TimeBudget,
    pub(crate) stages: Stages,
    /// The stretches that stages have.
    pub(crate) spans: Vec<StageSpan>,
    /// From when on the broker could serve it: it was complete, and none ahead of it on its connection.
    pub(crate) served_from: Nanos,
    /// The read that completed it.
    pub(crate) read: Option<SocketCall>,
    /// When the thread that read it put it into the queue, at the earliest.
    pub(crate) handed_on: Option<Nanos>,
    /// When its request handler can have taken it, at the earliest.
    pub(crate) taken: Option<Nanos>,
    /// What its handler did for it with files, each with the time that is the request's own.
    pub(crate) operations: Vec<LockHold<'w>>,
    /// What its handler waited for.
    pub(crate) locks: Vec<LockContention<'w>>,
    /// What else the JVM saw its handler wait for.
    pub(crate) java_waits: Vec<JavaWait<'w>>,
    /// When the work on this broker ended, as far as appends show.
    pub(crate) local_end: Option<Nanos>,
    /// The wait for others.
    pub(crate) remote: Option<Remote>,
    /// That it may have waited for others that are not seen.
    pub(crate) unseen_followers: Option<UnseenFollowers>,
    /// The write that began its response.
    pub(crate) answer: Option<SocketCall>,
    /// When the response began to leave.
    pub(crate) answered: Nanos,
    pub(crate) end: Nanos,
    /// Reads of files on the way of its response, by `sendfile`.
    pub(crate) sent: Vec<&'w FileOp>,
}

/// From when on the broker could serve an answered request: it was complete, and none ahead of it on its connection.
pub(crate) fn served_from(request: &Request) -> Option<Nanos> {
    Some(served_after(request.arrival_end, request.head_of_line, request.response?))
}

/// The same of one that was complete at a moment, waited behind others, and was answered.
fn served_after(arrival_end: Nanos, head_of_line: Option<Nanos>, response: Nanos) -> Nanos {
    let waited = (response - arrival_end).at_least_zero();
    arrival_end + head_of_line.unwrap_or_default().min(waited).at_least_zero()
}

/// The course of an answered request; none of one without an answer.
pub(crate) fn stages_of<'w>(
    window: &'w Window,
    request: &'w Request,
    appends: &'w [AppendJoin],
) -> Option<Breakdown<'w>> {
    let (response, end) = (request.response?, request.end?);
    let served_from = served_from(request)?;
    let answer = answer_of(window, request);
    let mut course = Breakdown {
        window,
        request,
        appends,
        free: TimeBudget::new(TimeSpan::new(request.arrival, end)),
        stages: Stages::default(),
        spans: Vec::new(),
        served_from,
        read: read_of(window, request, served_from),
        handed_on: None,
        taken: None,
        operations: Vec::new(),
        locks: Vec::new(),
        java_waits: Vec::new(),
        local_end: None,
        remote: None,
        unseen_followers: None,
        answer,
        answered: answer.map_or(response, |write| write.start.min(response)).max(served_from),
        end,
        sent: response::files_sent(window, request, answer),
    };
    course.divide();
    Some(course)
}

impl Breakdown<'_> {
    fn divide(&mut self) {
        let unread = unread(self.window, self.request);
        let from = unread.map_or(self.request.arrival, |unread| unread.end);
        self.take(Stage::NetworkIn, from, self.request.arrival_end);
        self.take(Stage::HeadOfLine, self.request.arrival_end, self.served_from);
        self.leave();
        if let Some(times) = self.log_times() {
            self.by_log(times);
        } else {
            self.serve();
        }
        // What no stage has had.
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

    /// How long it was in the queue, as far as it is known which handler took it.
    pub(crate) fn queued(&self) -> Option<TimeSpan> {
        let handed_on = self.handed_on.or(self.read.map(|read| read.end))?;
        Some(TimeSpan::new(handed_on, self.taken?))
    }

    /// What is left of a stretch becomes the stage's.
    fn take(&mut self, stage: Stage, start: Nanos, end: Nanos) {
        let span = TimeSpan::new(start, end);
        let given = self.free.pieces(span).map(|TimeSpan { start, end }| StageSpan { stage, start, end });
        self.spans.extend(given);
        self.stages.add(stage, self.free.take(span));
    }

    /// What stages have in the order of time, and what follows on itself as one.
    fn put_in_order(&mut self) {
        self.spans.sort_by_key(|span| span.start);
        self.spans.dedup_by(|next, kept| {
            let goes_on = next.stage == kept.stage && next.start == kept.end;
            if goes_on {
                kept.end = next.end;
            }
            goes_on
        });
    }
}

/// From when the broker had all of an answered request to when it began to answer, as far as that was seen.
pub(crate) fn served(window: &Window, request: &Request) -> Option<TimeSpan> {
    let served_from = served_from(request)?;
    let read = read_of(window, request, served_from);
    let from = read.map_or(served_from - CLOCK_SLACK, |read| read.end.max(served_from - CLOCK_SLACK));
    let until = answer_of(window, request).map_or(request.response? + CLOCK_SLACK, |write| write.start);
    Some(TimeSpan::new(from, until))
}

/// A new connection's receive window that nobody reads takes so much (`tcp_rmem`'s default of 128 KiB, of which half is
/// for data: `tcp_win_from_space`, include/net/tcp.h).
const TAKEN_UNREAD_BYTES: u32 = 64 * 1024;

/// Whether all of a request can come though nobody reads it.
pub(crate) fn fits_window(request: &Request) -> bool {
    request.request_bytes <= TAKEN_UNREAD_BYTES
}

/// How long a request lay in the socket before its first byte was read, of one that is known by the broker's calls and is too
/// large to come whole meanwhile: its client could not send the rest, and nobody saw that.
pub(crate) fn unread(window: &Window, request: &Request) -> Option<TimeSpan> {
    let by_calls = request.seen_by == Some(RequestSource::SocketCalls);
    let first = request.sequence.filter(|_| by_calls && !fits_window(request))?;
    let read = window.sockets.read_of(connection_of(request), first, request.arrival)?;
    (read.start > request.arrival).then_some(TimeSpan::new(request.arrival, read.start))
}

/// Whether the agent in the broker's JVM saw a request: its times are those of the broker's own calls, and of its bytes on the wire
/// only these calls tell the numbers.
pub(crate) fn is_by_agent(request: &Request) -> bool {
    request.seen_by == Some(RequestSource::TlsAgent)
}

/// The read by which the broker had all of a request, which it makes once it can serve it: where many wait on their
/// connection, that is long after it came.
fn read_of(window: &Window, request: &Request, served_from: Nanos) -> Option<SocketCall> {
    if is_by_agent(request) {
        let called = TimeSpan::new(request.arrival, request.arrival_end);
        return window.sockets.last_read_within(connection_of(request), called);
    }
    let last = request.sequence_end()?.wrapping_sub(1);
    let read = window.sockets.read_of(connection_of(request), last, served_from)?;
    let fits = read.end >= request.arrival_end - CLOCK_SLACK
        && request.response.is_none_or(|response| read.end <= response + CLOCK_SLACK);
    fits.then_some(read)
}

/// The write that began a request's response.
fn answer_of(window: &Window, request: &Request) -> Option<SocketCall> {
    if is_by_agent(request) {
        let called = TimeSpan::new(request.response?, request.end?);
        return window.sockets.first_write_within(connection_of(request), called);
    }
    let (first, response) = request.response_sequence.zip(request.response)?;
    let write = window.sockets.write_of(connection_of(request), first, response)?;
    let fits = write.start <= response + CLOCK_SLACK && write.start >= request.arrival_end - CLOCK_SLACK;
    fits.then_some(write)
}
