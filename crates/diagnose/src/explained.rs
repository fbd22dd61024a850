//! Asks the causes what they know of each stage of a request. Each instant is explained once: by what the request's own
//! thread did, then by stops of the JVM and want of a CPU, then by what is known of the threads and brokers that it waited for. Does not
//! choose among them.

use model::{Nanos, Pid, Request};

use crate::alone::{Awaited, Found};
use crate::cause::{
    self, Finding, course, disk_read, handlers_busy, network_threads_busy, quota, replication_wait, stop,
};
use crate::chain;
use crate::free::Free;
use crate::join::AppendJoin;
use crate::judge;
use crate::stages::{Course, waiting};
use crate::window::Window;

/// Shorter waits for a thread are not looked into.
const WORTH_A_LOOK: Nanos = Nanos::from_millis(1);
/// Who hands on a response right after something else was held up by that.
const RIGHT_AFTER: Nanos = Nanos::from_millis(1);

/// Everything that explains some of a request's time from the moment at which the broker could serve it, or from `since`
/// where that is later. What was found of those that it waited for is in `awaited`, or goes there.
pub(crate) fn served(
    window: &Window,
    request: &Request,
    course: &Course<'_>,
    appends: &[AppendJoin],
    since: Nanos,
    awaited: &Awaited,
) -> Vec<Finding> {
    let free = Free::new(course.served_from.max(since), course.end);
    let mut explained = Explained { window, request, course, awaited, free, findings: Vec::new() };
    explained.own_work();
    explained.stops(appends.first().map_or(0, |append| append.op.pid));
    explained.findings.extend(course::threads(window, request, course, appends, &mut explained.free));
    explained.findings.extend(course::coordinator(window, request, course, appends, &mut explained.free));
    explained.receive();
    explained.queue();
    explained.remote();
    explained.respond();
    explained.findings.extend(course::rest(window, request, course, appends, &mut explained.free));
    explained.findings
}

struct Explained<'w> {
    window: &'w Window,
    request: &'w Request,
    course: &'w Course<'w>,
    awaited: &'w Awaited,
    free: Free,
    findings: Vec<Finding>,
}

impl Explained<'_> {
    /// What held up the request's own handler.
    fn own_work(&mut self) {
        for blocked in &self.course.locks {
            let time = self.free.take(blocked.start, blocked.end.min(self.course.answered));
            if time > Nanos::ZERO {
                self.findings.extend(chain::of_wait(self.window, blocked, time));
            }
        }
        for hold in &self.course.operations {
            let time = self.free.take(hold.op.start, hold.end().min(self.course.answered));
            if time > Nanos::ZERO {
                let finding = cause::of_op(self.window, hold);
                self.findings.extend(finding.map(|finding| Finding { time, ..finding }));
            }
        }
    }

    /// No thread of the broker could work on it, whichever stage it was in.
    fn stops(&mut self, pid: Pid) {
        for stop in stop::stops(self.window, pid, self.course.served_from, self.course.answered) {
            let time = self.free.take(stop.start, stop.end.min(self.course.answered));
            self.findings.extend((time > Nanos::ZERO).then(|| stop.finding(self.window, time)));
        }
    }

    /// Until a network thread read it.
    fn receive(&mut self) {
        let from = self.course.served_from;
        let until = self.course.read.map_or(self.course.answered, |read| read.start);
        if let Some((start, end, finding)) = quota::find(self.window, self.request, from, until) {
            self.give(start, end, vec![finding]);
        }
        let Some(read) = self.course.read else { return };
        // What it went on with right after the read kept the request too.
        let until = self.course.handed_on.filter(|at| *at > read.end).unwrap_or(read.start);
        if until - from >= WORTH_A_LOOK {
            let (window, awaited) = (self.window, &self.awaited.receive);
            self.look(from, until, awaited, || network_threads_busy::find(window, read.tid, from, until));
        }
    }

    /// Until a request handler took it.
    fn queue(&mut self) {
        let Some(read) = self.course.read else { return };
        let begun = self.course.operations.iter().map(|hold| hold.op.start).min();
        let begun = begun.map_or(self.course.answered, |begun| begun.min(self.course.answered));
        if let Some((done, findings)) =
            network_threads_busy::before_hand_over(self.window, read.tid, read.end, begun)
        {
            self.give(read.end, done, findings);
        }
        let waited = match self.course.taken {
            Some(taken) => Some((self.course.handed_on.unwrap_or(read.end), taken)),
            None if self.course.answer.is_some() => {
                handlers_busy::all_occupied(self.window, read.end, self.course.answered)
            }
            None => None,
        };
        if let Some((start, end)) = waited.filter(|(start, end)| *end - *start >= WORTH_A_LOOK) {
            let taker = self.course.operations.first().map(|hold| hold.op.tid);
            let taker = taker.filter(|_| self.course.taken.is_some());
            let (window, awaited) = (self.window, &self.awaited.queue);
            self.look(start, end, awaited, || handlers_busy::find(window, taker, start, end));
        }
    }

    /// Until others had it.
    fn remote(&mut self) {
        let Some(remote) = &self.course.remote else { return };
        let (window, awaited) = (self.window, &self.awaited.remote);
        let cause_of = |request: &Request| judge::cause_of(window, request);
        self.look(remote.start, remote.end, awaited, || {
            replication_wait::find(window, remote, cause_of).into_iter().collect()
        });
    }

    /// Until a network thread had written the response, with what it read from files for that.
    fn respond(&mut self) {
        for op in &self.course.sent {
            let finding = disk_read::find(self.window, op);
            self.give(op.start, op.end, finding.into_iter().collect());
        }
        let Some(answer) = self.course.answer else { return };
        let own = waiting::readable(self.window, self.request).or(self.course.read.map(|read| read.end));
        let local = self.course.remote.as_ref().map(|remote| remote.end).or(self.course.local_end);
        let Some(from) = local.or(own).filter(|from| answer.start - *from >= WORTH_A_LOOK) else { return };
        // When the response was ready is not seen: only what its thread did until right before it counts.
        let until = answer.start - Nanos(1);
        let calls = self.window.sockets().of_thread(answer.tid, from, until).map(|call| call.end);
        let on_cpu =
            self.window.sockets().on_cpu(answer.tid, from, until).map(|(start, end)| end + (end - start));
        let last = calls.chain(on_cpu).max();
        let right_after = RIGHT_AFTER + Nanos((answer.start - from).0 / 10);
        if last.is_some_and(|last| answer.start - last <= right_after) {
            let (window, awaited) = (self.window, &self.awaited.respond);
            self.look(from, answer.start, awaited, || {
                network_threads_busy::find(window, answer.tid, from, answer.start)
            });
        }
    }

    /// What `find` says of a stretch in which it waited for others, where anything is left of that.
    fn look(&mut self, start: Nanos, end: Nanos, awaited: &Found, find: impl Fn() -> Vec<Finding>) {
        if self.free.pieces(start, end).next().is_some() {
            self.give(start, end, awaited.of((start, end), find));
        }
    }

    /// What explains a stretch, as far as nothing else does.
    fn give(&mut self, start: Nanos, end: Nanos, findings: Vec<Finding>) {
        if !findings.is_empty() {
            let time = self.free.take(start, end);
            self.findings.extend(chain::scaled(findings, time));
        }
    }
}
