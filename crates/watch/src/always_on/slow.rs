//! Converts slow requests to a recording's events: the requests, the socket calls that read them, and their responses' content.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use broker::topic_ids::TopicIds;
use libc::c_long;
use model::{
    ClockOffset, Event, Nanos, Partition, RequestSource, SocketOp, SocketOpKind, Tid, TopicId, TopicPartition,
};
use probes::always_on::{Connection, Outcome, Record, Request, SlowRequest, Wait};
use wire::ApiKey;
use wire::stream::{self, ResponseBody, ResponseStream, Start, TopicRef};

use super::convert::Names;
use super::segments::SCAN_INTERVAL;

/// Bytes of a frame's size.
pub(super) const SIZE_BYTES: u32 = 4;

/// Topic names by id, read again for an unknown id.
pub(super) struct Topics {
    log_dirs: Vec<PathBuf>,
    ids: TopicIds,
    names: HashMap<TopicId, Arc<str>>,
    scanned: Instant,
}

impl Topics {
    pub(super) fn of(log_dirs: &[PathBuf]) -> Self {
        let mut ids = TopicIds::default();
        let names = ids.changes(log_dirs, &mut || ()).into_iter().collect();
        Self { log_dirs: log_dirs.to_vec(), ids, names, scanned: Instant::now() }
    }

    fn name(&mut self, id: TopicId) -> Option<Arc<str>> {
        if !self.names.contains_key(&id) && self.scanned.elapsed() >= SCAN_INTERVAL {
            self.names.extend(self.ids.changes(&self.log_dirs, &mut || ()));
            self.scanned = Instant::now();
        }
        self.names.get(&id).cloned()
    }
}

/// Content of the response to a slow request.
#[derive(Default)]
pub(super) struct Answer {
    /// How long the client was throttled.
    throttle_ms: Option<i32>,
    /// The partitions that the request wrote to.
    pub(super) written: Vec<WrittenPartition>,
}

/// A partition that a slow request wrote to, from its response.
pub(super) struct WrittenPartition {
    pub(super) partition: Partition,
    pub(super) topic_partition: Option<TopicPartition>,
    /// Start and end of the request in the broker.
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
}

impl Names {
    /// Builds a slow request, and the calls that read it and wrote its response.
    pub(super) fn slow_request(
        &mut self,
        slow: &SlowRequest,
        answer: Answer,
        clock: ClockOffset,
    ) -> Vec<Event> {
        let Some(mut request) = row(&slow.request, &slow.connection, clock) else { return Vec::new() };
        request.client_id.clone_from(&slow.client_id);
        request.sequence = Some(slow.read_sequence);
        request.response_sequence = Some(slow.write_sequence);
        request.max_wait_ms = i32::try_from(slow.max_wait_ms).ok().filter(|ms| *ms > 0);
        request.throttle_ms = answer.throttle_ms;
        request.partitions = answer.written.into_iter().map(|written| written.partition).collect();
        request.arrival_end = clock.from_monotonic(slow.complete_ns);
        let behind = clock.from_monotonic(slow.previous_ns) - request.arrival_end;
        request.head_of_line = Some(behind.at_least_zero());
        let written =
            (request.response.unwrap_or(request.arrival_end), request.end.unwrap_or(request.arrival_end));
        let written = (written, slow.write_sequence, Some(slow.request.answer_bytes));
        let mut ops = self.reads(slow, clock);
        ops.push(self.socket_op(slow, SocketOpKind::Write, slow.request.tid, written));
        ops.into_iter().map(Event::from).chain([request.into()]).collect()
    }

    /// The calls that read a slow request.
    /// If the first call read all of it, that is the only one. Otherwise the number of calls is unknown: the first and
    /// the last are reported, each with one byte that it read.
    fn reads(&mut self, slow: &SlowRequest, clock: ClockOffset) -> Vec<SocketOp> {
        let Request { reader_tid, last_read_ns, request_bytes, .. } = slow.request;
        let (first, last) = (clock.from_monotonic(slow.first_read_ns), clock.from_monotonic(last_read_ns));
        let mut read = |time, byte, bytes| {
            let sequence = slow.read_sequence.wrapping_add(byte);
            self.socket_op(slow, SocketOpKind::Read, reader_tid, (time, sequence, Some(bytes)))
        };
        if slow.complete_ns <= slow.first_read_ns {
            return vec![read((first, last), 0, request_bytes)];
        }
        let reads = [read((first, first), 0, 1), read((last, last), request_bytes.saturating_sub(1), 1)];
        reads.map(|read| SocketOp { bytes: None, ..read }).into()
    }

    /// The calls that sent files into a slow response.
    /// Only the time in which their thread slept is known.
    pub(super) fn sendfiles(
        &mut self,
        slow: &SlowRequest,
        records: &[Record],
        clock: ClockOffset,
    ) -> Vec<Event> {
        let Request { tid, first_write_ns, last_ns, .. } = slow.request;
        let is_of_it = |wait: &&Wait| {
            wait.tid == tid
                && wait.call.is_some_and(|call| c_long::from(call) == libc::SYS_sendfile)
                && wait.argument.is_some_and(|descriptor| descriptor as i32 == slow.descriptor)
                && first_write_ns <= wait.first_ns
                && wait.last_ns <= last_ns
        };
        let waits = records.iter().filter_map(|record| match record {
            Record::Wait(wait) => Some(wait).filter(is_of_it),
            _ => None,
        });
        let op = |wait: &Wait| {
            let time = (clock.from_monotonic(wait.first_ns), clock.from_monotonic(wait.last_ns));
            self.socket_op(slow, SocketOpKind::Sendfile, tid, (time, slow.write_sequence, None)).into()
        };
        waits.map(op).collect()
    }

    /// Builds a call on a slow request's connection.
    /// Takes its start and end, its first sequence number and its bytes.
    fn socket_op(
        &mut self,
        slow: &SlowRequest,
        op: SocketOpKind,
        tid: Tid,
        ((start, end), sequence, bytes): ((Nanos, Nanos), u32, Option<u32>),
    ) -> SocketOp {
        SocketOp {
            start,
            end,
            op,
            pid: self.pid,
            tid,
            thread: self.thread(tid),
            local: slow.connection.local,
            remote: slow.connection.remote,
            bytes: bytes.map(u64::from),
            errno: None,
            sequence,
            sequence_end: sequence.wrapping_add(bytes.unwrap_or_default()),
            peer_window: None,
        }
    }

    /// Parses the response; empty if not all of it was kept.
    pub(super) fn answer(&mut self, slow: &SlowRequest) -> Answer {
        let api = (ApiKey(slow.request.api_key), slow.request.api_version);
        let mut answers = ResponseStream::new(stream::Options::default(), Start::Boundary);
        let (_, frame) = answers.advance(&slow.answer, (), &mut |_| Some(api));
        let Some(frame) = frame else { return Answer::default() };
        let throttle_ms = frame.throttle_ms;
        let ResponseBody::Produce(partitions) = &frame.body else {
            return Answer { throttle_ms, ..Answer::default() };
        };
        let row = |response: &stream::Partition| {
            let (topic, topic_id) = match &response.topic {
                TopicRef::Name(name) => (Some(Arc::from(name.as_str())), None),
                TopicRef::Id(id) => (self.topics.name(TopicId(*id)), Some(TopicId(*id))),
            };
            let partition = response.partition;
            WrittenPartition {
                topic_partition: topic.clone().map(|topic| TopicPartition { topic, partition }),
                partition: Partition {
                    topic,
                    topic_id,
                    partition,
                    base_offset: Some(response.base_offset),
                    error_code: Some(response.error_code),
                    ..Partition::default()
                },
                first_ns: slow.request.arrival_ns,
                last_ns: slow.request.last_ns,
            }
        };
        Answer { throttle_ms, written: partitions.iter().map(row).collect() }
    }
}

/// Converts the record of a request; `None` without a response.
pub(super) fn row(request: &Request, ends: &Connection, clock: ClockOffset) -> Option<model::Request> {
    if request.outcome != Outcome::Answered {
        return None;
    }
    let at = |ns: u64| clock.from_monotonic(ns);
    Some(model::Request {
        arrival: at(request.arrival_ns),
        arrival_end: at(request.last_read_ns),
        response: Some(at(request.first_write_ns)),
        end: Some(at(request.last_ns)),
        head_of_line: Some(Nanos::ZERO),
        api_key: request.api_key,
        api: ApiKey(request.api_key).name(),
        api_version: request.api_version,
        correlation_id: request.correlation_id,
        request_bytes: request.request_bytes.saturating_sub(SIZE_BYTES),
        response_bytes: Some(request.answer_bytes.saturating_sub(SIZE_BYTES)),
        seen_by: Some(RequestSource::SocketCalls),
        ..model::Request::new(ends.remote, ends.local)
    })
}
