//! Stages of a produce request around its appends: `receive`, `queue`, `handler`, `lock`, `append`. And of a request
//! to a coordinator: if a thread of the coordinator appends, `queue` lasts until that thread and its partition were
//! free.
//!
//! Only Flight Recorder sees when a handler took a request, if the handler's calls are reported and took long:
//! `handler_calls`. Otherwise it is inferred. A handler serves one request at a time (`KafkaRequestHandler.run`), so
//! it took this one after it had ended its previous work: `queue` is never longer than it was, and `handler` may
//! include the rest of it. A network thread reads from all ready connections, and only then puts what it read into the
//! queue (`Selector.poll`, `Processor.run`).

use std::sync::Arc;

use model::{FileOp, Nanos, Stage, Tid};

use crate::coordinators;
use crate::handler_calls;
use crate::joins::AppendJoin;
use crate::locks;
use crate::locks::JavaWait;
use crate::locks::holders;
use crate::locks::holders::{is_append, is_handed_over};
use crate::stages::Breakdown;
use crate::time::{Span, TimeSpan};
use crate::waits::LockHold;
use crate::window::Window;
use crate::window::replicas::FollowerState;
use crate::window::sockets::{MIN_SAMPLES, SocketCall};

impl<'w> Breakdown<'w> {
    /// Assigns the time until it was queued to `receive`, and returns that moment. Work on it began at `begun`.
    pub(super) fn enqueue(&mut self, begun: Nanos) -> Option<Nanos> {
        let read = self.read?;
        let enqueued_at = enqueue_time(self.window, read, begun);
        self.take(Stage::Receive, read.end, enqueued_at);
        self.enqueued_at = Some(enqueued_at);
        self.enqueued_at
    }

    /// A request with appends: from its read to its response.
    pub(super) fn with_appends(&mut self) {
        let read = self.read.map(|read| read.end.max(self.served_from));
        let mut from = read.unwrap_or(self.served_from);
        let call = handler_calls::of_appends(self.window, self.appends, from);
        from = call.map_or(from, |call| call.start.max(from));
        let mut begun = None;
        for AppendJoin { op, .. } in self.appends {
            let (start, end) = self.append(op, from);
            begun = begun.or(Some((start, op)));
            from = from.max(end);
        }
        if let Some(last) = self.appends.last().filter(|last| self.is_answered_by_its_handler(&last.op)) {
            for wait in locks::java_waits_after(self.window, &last.op, self.answered) {
                from = from.max(self.java_wait(wait).end);
            }
            from = self.watermark(&last.op, from);
            // A call that ends right before the response leaves was for the response.
            let ended = call.map_or(from, |call| call.end).max(from);
            if ended <= self.answered && is_handed_over(self.answered - ended, ended - from) {
                from = ended;
            }
        }
        if let (Some(read), Some((begun, first))) = (read, begun) {
            let begun = call.map_or(begun, |call| call.start.clamp(read, begun.max(read)));
            let enqueued_at = self.enqueue(begun).unwrap_or(read).max(read);
            if self.request.intended_wait().is_some() {
                self.take(Stage::Remote, enqueued_at, begun);
            }
            let taken = match (call, self.coordinators_append()) {
                (Some(_), _) => begun.max(enqueued_at),
                (None, Some(append)) => coordinators::free_for(self.window, append, enqueued_at),
                (None, None) => taken(self.window, first.tid, enqueued_at, begun),
            };
            self.dequeued_at = Some(taken);
            self.take(Stage::Queue, enqueued_at, taken);
            self.take(Stage::Handler, taken, from);
        }
        self.local_end = Some(from);
        self.after_local(from);
    }

    /// An append of the request's thread, with what came before and after it.
    /// Returns the first and last moment at which the thread is known to have worked on it.
    pub(super) fn append(&mut self, op: &'w Arc<FileOp>, from: Nanos) -> (Nanos, Nanos) {
        let window = self.window;
        let mut begun = op.start;
        let waits = locks::waits_before(window, op, from).into_iter();
        // A coordinator's partition is handled by one thread at a time: consecutive appends are no wait for the log.
        let is_coordinators = self.coordinators_append().is_some();
        for blocked in waits.filter(|blocked| !is_coordinators || blocked.jvm_wait.is_some()) {
            begun = begun.min(blocked.span.start);
            self.take(Stage::Lock, blocked.span.start, blocked.span.end.min(self.answered));
            self.locks.push(blocked);
        }
        for wait in locks::java_waits_before(window, op, from) {
            begun = begun.min(self.java_wait(wait).start);
        }
        for earlier in holders::before_append(window, op).filter(|earlier| earlier.start >= from) {
            begun = begun.min(earlier.start);
            self.operation(Stage::Handler, LockHold::without_after(window, earlier));
        }
        let hold = LockHold::of(window, op, self.answered);
        let end = hold.end();
        let later: Vec<_> = holders::after_append(window, op, &hold, self.answered).collect();
        self.operation(Stage::Append, hold);
        let last = later.last().map_or(end, |last| last.end.max(end));
        for later in later {
            self.operation(Stage::Handler, LockHold::without_after(window, later));
        }
        (begun, last.min(self.answered))
    }

    /// A wait of its handler; returns its span.
    pub(super) fn java_wait(&mut self, wait: JavaWait<'w>) -> TimeSpan {
        let span = wait.span.until(self.answered);
        self.take(Stage::Handler, span.start, span.end);
        self.java_waits.push(wait);
        span
    }

    /// After an append its handler raises the high watermark, under the log's lock; returns until when.
    pub(super) fn watermark(&mut self, op: &FileOp, from: Nanos) -> Nanos {
        let span = TimeSpan::new(from, self.answered);
        let Some(blocked) = locks::wait_after_append(self.window, op, span) else { return from };
        let TimeSpan { start, end } = blocked.span;
        self.take(Stage::Lock, start, end);
        self.locks.push(blocked);
        end
    }

    /// Adds an operation. Until the end of its hold the handler was still at work on this request: it had not answered.
    fn operation(&mut self, stage: Stage, hold: LockHold<'w>) {
        self.take(stage, hold.op.start, hold.op.end.min(self.answered));
        self.take(Stage::Handler, hold.op.end, hold.end().min(self.answered));
        self.operations.push(hold);
    }

    /// Whether the handler that appended sends the response. If not, one that served a follower's fetch sends it.
    pub(crate) fn is_answered_by_its_handler(&self, append: &FileOp) -> bool {
        let partition = append.topic_partition.as_ref();
        let is_alone =
            || partition.is_some_and(|name| self.window.follower_state(name) == FollowerState::Alone);
        self.request.acks == Some(1) || (self.request.acks == Some(-1) && is_alone())
    }
}

/// When a thread can have taken a request that it began to work on at `begun`.
/// The work is on files or locks. The request had been read at `read`.
fn taken(window: &Window, tid: Tid, read: Nanos, begun: Nanos) -> Nanos {
    let operation = window.file_ops.of(&tid).ended_by(begun).next();
    let operation = operation.map(|op| occupied_until(window, op, begun));
    let wait = window.lock_waits.of(&tid).ended_by(begun).next().map(|wait| wait.end);
    let call = handler_calls::occupied_until(window, tid, read, begun);
    let free = operation.max(wait).max(call).unwrap_or(read);
    free.max(read).min(begun.max(read))
}

/// Until when an operation of a handler keeps it busy, at most `begun`.
pub(crate) fn occupied_until(window: &Window, op: &FileOp, begun: Nanos) -> Nanos {
    if is_append(op) { LockHold::of(window, op, begun).end() } else { op.end }
}

/// A call that follows sooner belongs to the same round.
const AT_ONCE: Nanos = Nanos::from_millis(1);
/// Shorter calls are the usual parts of a round.
const MIN_LONG_CALL: Nanos = Nanos::from_millis(1);

/// The earliest moment at which a request can have been in the queue.
/// Work on it began at `begun`. The moment is the end of the read, or of the long calls or computation with which the
/// thread continued at once.
fn enqueue_time(window: &Window, read: SocketCall, begun: Nanos) -> Nanos {
    let mut handed = read.end;
    let mut cursor = read.end;
    for call in window.sockets.of_thread(read.tid, TimeSpan::new(read.end, begun)) {
        if call.start - cursor > AT_ONCE {
            break;
        }
        cursor = cursor.max(call.end);
        if call.span().length() >= MIN_LONG_CALL {
            handed = handed.max(call.end);
        }
    }
    handed.max(computed_until(window, read.tid, cursor, begun)).min(begun).max(read.end)
}

/// Until when a thread is known to have computed without a call. The computation begins right after its last call.
fn computed_until(window: &Window, tid: Tid, from: Nanos, begun: Nanos) -> Nanos {
    let mut calls = window.sockets.of_thread(tid, TimeSpan::new(from, begun)).map(|call| call.start);
    let until = calls.find(|start| *start > from).unwrap_or(begun).min(begun);
    let span = TimeSpan::new(from, until);
    let samples: Vec<TimeSpan> = window.sockets.on_cpu(tid, span).map(|sample| sample.within(span)).collect();
    let seen: Nanos = samples.iter().map(|sample| sample.length()).sum();
    let last = samples.last().map_or(from, |sample| sample.end);
    let at_work = samples.len() >= MIN_SAMPLES && seen.0.saturating_mul(4) > (last - from).0;
    if at_work { last } else { from }
}
