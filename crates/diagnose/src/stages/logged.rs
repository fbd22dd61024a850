//! Stages of a request of Kafka's request log: `queue`, `remote`, `respond` and `network_out` are Kafka's own times.
//! Within Kafka's local time, `lock` and `append` are by the appends that were seen, and `handler` is the rest.

use model::api_key::PRODUCE;
use model::{Nanos, Request, Stage};

use crate::joins::AppendJoin;
use crate::locks;
use crate::logged::is_logged;
use crate::stages::Breakdown;

/// When each of Kafka's stages ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogTimes {
    /// A request handler took the request.
    pub(crate) taken: Nanos,
    /// The work on this broker was done.
    pub(crate) done: Nanos,
    /// The response was in its queue.
    pub(crate) ready: Nanos,
}

impl LogTimes {
    /// The times of a request from the log, which began to answer it then.
    pub(super) fn of(request: &Request, answered: Nanos) -> Option<Self> {
        let request = Some(request).filter(|request| is_logged(request))?;
        let taken = request.arrival + request.queue?;
        let done = taken + request.local?;
        let [taken, done, ready] = [taken, done, done + request.remote?].map(|at| at.min(answered));
        Some(Self { taken, done, ready })
    }
}

impl Breakdown<'_> {
    pub(super) fn by_log(&mut self, LogTimes { taken, done, ready }: LogTimes) {
        // Appends first: their times are known better than the rest.
        let written = self.write(taken).max(done).min(self.answered);
        self.take(Stage::Queue, self.request.arrival, taken);
        self.take(Stage::Handler, taken, done);
        // When it was in the queue is unknown: Kafka's queue time begins before a network thread puts it there, which
        // may take long.
        (self.dequeued_at, self.local_end) = (Some(taken), Some(written));
        self.take(Stage::Remote, done, ready);
        self.take(Stage::Respond, ready, self.answered);
        if self.request.api_key == PRODUCE || !self.appends.is_empty() {
            self.after_local(written);
        }
    }

    /// Adds its appends; returns until when its handler worked on them.
    fn write(&mut self, taken: Nanos) -> Nanos {
        let mut from = taken;
        for AppendJoin { op, .. } in self.appends {
            let (_, end) = self.append(op, from);
            from = from.max(end);
        }
        if let Some(last) = self.appends.last().filter(|last| self.is_answered_by_its_handler(&last.op)) {
            for wait in locks::java_waits_after(self.window, &last.op, self.answered) {
                from = from.max(self.java_wait(wait).end);
            }
            from = self.watermark(&last.op, from);
        }
        from
    }
}
