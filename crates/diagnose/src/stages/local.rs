//! The work of a produce request's handler, around its appends. Does not say why it took long.

use std::sync::Arc;

use model::{FileOp, Nanos, Request, Stage};

use super::{Course, Parts, handed, queue};
use crate::hold::Hold;
use crate::join::AppendJoin;
use crate::lock;
use crate::lock::holders;
use crate::window::Window;

impl<'w> Course<'w> {
    /// Until it was in the queue, where it was worked on from `begun` on.
    pub(super) fn hand_on(&mut self, window: &Window, begun: Nanos, parts: &mut Parts) -> Option<Nanos> {
        let read = self.read?;
        let handed_on = handed::handed_on(window, read, begun);
        parts.take(Stage::Receive, read.end, handed_on);
        self.handed_on = Some(handed_on);
        self.handed_on
    }

    /// A request of which appends were found: from its read to its response.
    pub(super) fn with_appends(
        &mut self,
        window: &'w Window,
        request: &Request,
        appends: &'w [AppendJoin],
        parts: &mut Parts,
    ) {
        let read = self.read.map(|read| read.end.max(self.served_from));
        let mut from = read.unwrap_or(self.served_from);
        let mut begun = None;
        for AppendJoin { op, .. } in appends {
            let (start, end) = self.append(window, op, from, parts);
            begun = begun.or(Some((start, op)));
            from = from.max(end);
        }
        if let Some(last) =
            appends.last().filter(|last| is_answered_by_its_handler(window, request, &last.op))
        {
            from = self.watermark(window, &last.op, from, parts);
        }
        if let (Some(read), Some((begun, first))) = (read, begun) {
            let handed_on = self.hand_on(window, begun, parts).unwrap_or(read).max(read);
            let taken = queue::taken(window, first.tid, handed_on, begun);
            self.taken = Some(taken);
            parts.take(Stage::Queue, handed_on, taken);
            parts.take(Stage::Handler, taken, from);
        }
        self.local_end = Some(from);
        self.after_local(window, request, appends, parts);
    }

    /// An append of the request's thread, what came before it and what came after, in the order of time: when the
    /// thread is known to have been at work on it first, and last.
    fn append(
        &mut self,
        window: &'w Window,
        op: &'w Arc<FileOp>,
        from: Nanos,
        parts: &mut Parts,
    ) -> (Nanos, Nanos) {
        let mut begun = op.start;
        for blocked in lock::before(window, op, from) {
            begun = begun.min(blocked.start);
            parts.take(Stage::Lock, blocked.start, blocked.end.min(self.answered));
            self.locks.push(blocked);
        }
        for earlier in holders::before_append(window, op).filter(|earlier| earlier.start >= from) {
            begun = begun.min(earlier.start);
            self.operation(Stage::Handler, Hold::without_after(window, earlier), parts);
        }
        let hold = Hold::of(window, op, self.answered);
        let end = hold.end();
        let later: Vec<_> = holders::after_append(window, op, &hold, self.answered).collect();
        self.operation(Stage::Append, hold, parts);
        let last = later.last().map_or(end, |last| last.end.max(end));
        for later in later {
            self.operation(Stage::Handler, Hold::without_after(window, later), parts);
        }
        (begun, last.min(self.answered))
    }

    /// After an append its handler raises the high watermark, under the log's lock: until when.
    fn watermark(&mut self, window: &'w Window, op: &FileOp, from: Nanos, parts: &mut Parts) -> Nanos {
        let Some(blocked) = lock::after(window, op, from, self.answered) else { return from };
        let end = blocked.end;
        parts.take(Stage::Lock, blocked.start, end);
        self.locks.push(blocked);
        end
    }

    /// After the write the handler was still at work on this request: it had not answered yet.
    fn operation(&mut self, stage: Stage, hold: Hold<'w>, parts: &mut Parts) {
        parts.take(stage, hold.op.start, hold.op.end.min(self.answered));
        parts.take(Stage::Handler, hold.op.end, hold.end().min(self.answered));
        self.operations.push(hold);
    }
}

/// Whether its response comes from the handler that appended, and not from who served a follower's fetch.
fn is_answered_by_its_handler(window: &Window, request: &Request, append: &FileOp) -> bool {
    let followed = || append.topic_partition.as_ref().is_some_and(|name| window.followers().any(name));
    request.acks == Some(1) || (request.acks == Some(-1) && !followed())
}
