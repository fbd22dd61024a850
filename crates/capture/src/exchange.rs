//! The requests of one connection waiting for their responses. Kafka answers a connection's requests in
//! order, so a response that is not the first one's tells that the earlier ones' were lost.
//!
//! It does not decode bytes, and knows of TCP only that bytes may be missing.

mod row;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use model::{Nanos, Request, TopicId};
use wire::ApiKey;
use wire::stream::{RequestBody, RequestFrame, ResponseBody, ResponseFrame};

use crate::context::{Context, add_error, between};
use crate::reassembly::Stamp;

pub(crate) struct Exchange {
    client: SocketAddr,
    broker: SocketAddr,
    pending: VecDeque<PendingRequest>,
    /// Bounds of the correlation ids in `pending`, so that a search through bytes that are no response
    /// is cheap.
    correlations: (i32, i32),
    /// When the last response seen ended.
    answered: Nanos,
    /// Bytes of the broker's answers that were not captured since the last response that was.
    answers_lost: u64,
    client_id: Option<Arc<str>>,
}

struct PendingRequest {
    api_key: ApiKey,
    /// A fetch that sees only what is committed: data may be there long before it may have it.
    read_committed: bool,
    row: Box<Request>,
}

/// How much of a frame was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// As far as its end.
    Whole,
    /// Its end is among bytes that were not captured.
    Lost,
    /// The connection or the capture ended before it did.
    Cut,
}

/// Why a request gets its row without a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoResponse {
    CaptureEnded,
    ConnectionEnded,
    LaterAnswered,
    TooLong,
    TooMany,
    Forgotten,
}

impl NoResponse {
    fn text(self) -> &'static str {
        match self {
            Self::CaptureEnded => "no response before the capture ended",
            Self::ConnectionEnded => "no response before the connection ended",
            Self::LaterAnswered => "no response was captured, but that of a later request was",
            Self::TooLong => "no response in the time allowed for one",
            Self::TooMany => "no response yet, and too many requests are waiting",
            Self::Forgotten => "no response yet, and too many connections are open",
        }
    }
}

impl Exchange {
    pub(crate) fn new(client: SocketAddr, broker: SocketAddr) -> Self {
        Self {
            client,
            broker,
            pending: VecDeque::new(),
            correlations: (i32::MAX, i32::MIN),
            answered: Nanos::MIN,
            answers_lost: 0,
            client_id: None,
        }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// A request was seen.
    pub(crate) fn request(&mut self, frame: &RequestFrame<Stamp>, extent: Extent, cx: &mut Context) {
        let mut row = row::of_request(frame, (self.client, self.broker), &mut self.client_id, cx);
        match extent {
            Extent::Whole if frame.api_key == ApiKey::PRODUCE => cx.arrivals.produced(&row, &cx.topics),
            Extent::Whole => {}
            Extent::Lost if row.error.is_some() => {}
            Extent::Lost => add_error(&mut row, "the end of the request was not captured"),
            Extent::Cut => row.error = Some("the capture ends inside the request".into()),
        }
        // Nothing is sent back for acks=0 (ProduceRequest, "acks").
        if row.acks == Some(0) {
            cx.emit(row);
            return;
        }
        self.make_room(cx);
        let (low, high) = self.correlations;
        self.correlations = (low.min(frame.correlation_id), high.max(frame.correlation_id));
        let read_committed = matches!(&frame.body, RequestBody::Fetch(body) if body.isolation_level != 0);
        self.pending.push_back(PendingRequest { api_key: frame.api_key, read_committed, row });
        cx.pending += 1;
    }

    /// What was asked under a correlation id and is not answered yet.
    pub(crate) fn asked(&self, correlation_id: i32) -> Option<(ApiKey, i16)> {
        let (low, high) = self.correlations;
        if correlation_id < low || correlation_id > high {
            return None;
        }
        let asked = self.pending.iter().find(|asked| asked.row.correlation_id == correlation_id)?;
        Some((asked.api_key, asked.row.api_version))
    }

    /// A response was seen.
    pub(crate) fn response(&mut self, frame: &ResponseFrame<Stamp>, extent: Extent, cx: &mut Context) {
        learn(&frame.body, cx);
        let place = self.pending.iter().position(|asked| asked.row.correlation_id == frame.correlation_id);
        let Some(place) = place else {
            cx.counters.unmatched_responses += 1;
            return;
        };
        for _ in 0..place {
            self.give_up_first(NoResponse::LaterAnswered, cx);
        }
        let Some(PendingRequest { api_key, read_committed, mut row }) = self.take_first(cx) else { return };
        self.stamp(&mut row, frame, extent);
        row::add_response(&mut row, frame, cx);
        match &frame.body {
            ResponseBody::Produce { .. } => cx.arrivals.answered(&row, &cx.topics),
            ResponseBody::Fetch(body)
                if api_key == ApiKey::FETCH && !read_committed && is_whole(&row, extent) =>
            {
                row.data = cx.arrivals.of_fetched(&row, &body.partitions, &cx.topics);
            }
            _ => {}
        }
        match extent {
            Extent::Whole => {}
            Extent::Lost => add_error(&mut row, "the end of the response was not captured"),
            Extent::Cut => add_error(&mut row, "the capture ends inside the response"),
        }
        self.answers_lost = 0;
        cx.emit(row);
    }

    fn stamp(&mut self, row: &mut Request, frame: &ResponseFrame<Stamp>, extent: Extent) {
        row.response = Some(frame.first.seen);
        if extent == Extent::Whole {
            let end = frame.last.complete;
            row.end = Some(end);
            row.head_of_line = Some(between(row.arrival_end, self.answered.min(end)));
            self.answered = end;
        } else {
            self.answered = frame.first.seen;
        }
    }

    /// So many bytes of the broker's answers were not captured.
    pub(crate) fn lose_answers(&mut self, bytes: u64) {
        self.answers_lost = self.answers_lost.saturating_add(bytes);
    }

    /// Gives their rows to requests that have waited too long.
    pub(crate) fn give_up_late(&mut self, now: Nanos, cx: &mut Context) {
        let answer_within = cx.limits.answer_within;
        while self.pending.front().is_some_and(|asked| now - asked.row.arrival_end > answer_within) {
            self.give_up_first(NoResponse::TooLong, cx);
        }
    }

    /// Gives their rows to all that still wait.
    pub(crate) fn give_up_all(&mut self, why: NoResponse, cx: &mut Context) {
        while self.is_waiting() {
            self.give_up_first(why, cx);
        }
    }

    fn make_room(&mut self, cx: &mut Context) {
        if cx.pending >= cx.limits.pending {
            self.give_up_first(NoResponse::TooMany, cx);
        }
        while self.is_waiting() && self.pending.len() >= cx.limits.pending_per_connection {
            self.give_up_first(NoResponse::TooMany, cx);
        }
    }

    fn give_up_first(&mut self, why: NoResponse, cx: &mut Context) {
        let Some(PendingRequest { mut row, .. }) = self.take_first(cx) else { return };
        add_error(&mut row, why.text());
        if self.answers_lost > 0 {
            add_error(
                &mut row,
                &format!("{} bytes of the broker's answers were not captured", self.answers_lost),
            );
        }
        cx.counters.unanswered += 1;
        cx.emit(row);
    }

    fn take_first(&mut self, cx: &mut Context) -> Option<PendingRequest> {
        let asked = self.pending.pop_front()?;
        cx.pending = cx.pending.saturating_sub(1);
        if self.pending.is_empty() {
            self.correlations = (i32::MAX, i32::MIN);
        }
        Some(asked)
    }
}

/// Whether all of a request and its response was read.
fn is_whole(row: &Request, extent: Extent) -> bool {
    extent == Extent::Whole && row.error.is_none()
}

fn learn(body: &ResponseBody, cx: &mut Context) {
    if let ResponseBody::Metadata { topics } = body {
        for (id, name) in topics {
            if let Some(name) = name {
                cx.topics.learn(TopicId(*id), name);
            }
        }
    }
}

#[cfg(test)]
mod tests;
