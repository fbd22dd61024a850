//! JVM pauses: `gc-pause`, `safepoint`.
//!
//! Pauses that overlap are one: a collection lies within its safepoint. If most of a pause passed before all threads
//! had stopped, the last thread to stop is the cause: a thread in a fault on a mapped file stops only when its page
//! is there (the JVM polls between instructions, and threads inside system calls count as stopped).
//!
//! A stopped thread begins no call: if one did, the pause was over by then, even if the JVM was still busy.

use std::sync::Arc;

use model::{
    Cause, Confidence, EvidenceKind, FileOp, FileOpKind, JvmPause, JvmPauseKind, Nanos, OffCpu, Pid,
};

use crate::causes::candidate::{CauseCandidate, evidence};
use crate::causes::spec::{Current, Scope, causes, change, change_from};
use crate::causes::{cpu, operation};
use crate::time::{Span, TimeSpan};
use crate::waits::{LockHold, runnable};
use crate::window::{CLOCK_SLACK, Window};

causes! {
    GcPause: Root in Threads, changed in Jvm {
        event: "GC pause{s}",
        needs: "a collection that the JVM reports and that shares time with what its threads should have done",
        root_evidence: &[EvidenceKind::Gc],
        advice: &[
            "garbage collection stopped all threads: use G1 with a lower -XX:MaxGCPauseMillis, or ZGC; give the heap the right size (a broker's own data needs a few GiB, the rest is better left to the page cache)",
        ],
        source: "kafka-run-class.sh: -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35; Kafka's \
                 documentation, operations: Java version",
        look_at: "; `brokerscope locks` lists each pause",
        changes: &[
            change_from("-XX:MaxGCPauseMillis", Current::Jvm("-XX:MaxGCPauseMillis="), "20")
                .by_name(Scope::Jvm),
            change_from(
                "-XX:InitiatingHeapOccupancyPercent",
                Current::Jvm("-XX:InitiatingHeapOccupancyPercent="),
                "35",
            )
            .by_name(Scope::Jvm),
            change_from(
                "collector (JDK 21 and later, if that is not enough)",
                Current::Jvm("-XX:+Use"),
                "-XX:+UseZGC",
            )
            .alternative(),
        ],
        risk: "shorter pauses come more often and take more CPU time; ZGC wants a larger heap for the same work",
    }

    Safepoint: Root in Threads, changed in Jvm {
        event: "safepoint{s}",
        needs: "a pause other than GC that the JVM reports, or a pause that spent most of its time until all threads had stopped",
        root_evidence: &[EvidenceKind::Gc],
        advice: &[
            "all threads waited for the last one to stop. Usual reasons: a page of a mapped file that must be read from a slow disk (an index; -XX:+PerfDisableSharedMem keeps the JVM's own counters off the disk), or swapping; -Xlog:safepoint shows more",
        ],
        source: "a public talk on Kafka at LINE: threads that fault on a mapped file keep the JVM from a safepoint; Evan Jones (2015) \
                 on the JVM's hsperfdata file",
        look_at: "; -Xlog:safepoint shows which part took long",
        changes: &[
            change_from("-XX:+PerfDisableSharedMem", Current::JvmFlag("-XX:+PerfDisableSharedMem"), "set")
                .on(Scope::Jvm, "-XX:+PerfDisableSharedMem", ""),
            change("-Xlog:safepoint", "not known", "set, to see which part takes long"),
        ],
        effect: "; only if threads waited for a page of a mapped file or for swapped-out memory",
        risk: "jps, jstat and VisualVM do not see a JVM without its hsperfdata file; brokerscope does",
    }
}

/// How close a fault's end must be to the moment when all threads had stopped.
const STOPPED_AT: Nanos = Nanos::from_millis(2);
/// A call this long after all threads had stopped was made by a resumed thread: the JVM and the probes read two
/// clocks.
const WENT_ON: Nanos = Nanos::from_millis(3);
/// Share of a pause's length that puts its reported end in doubt: a tenth.
/// The report is in doubt if the pause was over by more than this before its reported end.
const DOUBT_SHARE: i64 = 10;
/// How often the search for overlapping pauses is widened.
const MAX_ROUNDS: usize = 8;

/// Pauses that overlap, as one.
#[derive(Debug)]
pub(crate) struct PauseGroup<'w> {
    span: TimeSpan,
    /// Its end as the JVM reports it, if a thread resumed long before that.
    reported_end: Option<Nanos>,
    /// The pause that gives the reason.
    why: &'w JvmPause,
    /// The process, if one of the pauses names it.
    pid: Pid,
    /// The collection's number, if one of the pauses has it; the first of several.
    gc_id: Option<u32>,
    /// How long it took until all threads had stopped, if a pause reports that.
    reach: Option<Nanos>,
}

impl Span for PauseGroup<'_> {
    fn span(&self) -> TimeSpan {
        self.span
    }
}

/// The pauses of a process that share time with a stretch, in order; `pid` 0 for any process.
pub(crate) fn pauses(window: &Window, pid: Pid, span: TimeSpan) -> Vec<PauseGroup<'_>> {
    let mut stops: Vec<PauseGroup<'_>> = Vec::new();
    for pause in pauses_around(window, pid, span) {
        match stops.last_mut().filter(|stop| pause.start < stop.span.end) {
            Some(stop) => stop.add(pause),
            None => stops.push(PauseGroup::of(pause)),
        }
    }
    for stop in &mut stops {
        stop.end_with_the_first_call(window);
    }
    stops.retain(|stop| stop.span.start < span.end && stop.span.end > span.start);
    stops
}

/// The pauses within a stretch, and those that overlap one of them. In the order of their starts.
fn pauses_around(window: &Window, pid: Pid, mut span: TimeSpan) -> Vec<&JvmPause> {
    let mut found: Vec<&JvmPause> = Vec::new();
    for _ in 0..MAX_ROUNDS {
        let of_process = |pause: &&JvmPause| pid == 0 || pause.pid == 0 || pause.pid == pid;
        let pauses: Vec<&JvmPause> = window.pauses.overlapping(span).filter(of_process).collect();
        let more = pauses.len() > found.len();
        found = pauses;
        if !more {
            break;
        }
        span.start = found.iter().map(|pause| pause.start).fold(span.start, Nanos::min);
        span.end = found.iter().map(|pause| pause.end).fold(span.end, Nanos::max);
    }
    found.sort_by_key(|pause| (pause.start, pause.end));
    found
}

impl<'w> PauseGroup<'w> {
    fn of(pause: &'w JvmPause) -> Self {
        let JvmPause { pid, gc_id, time_to_safepoint: reach, .. } = *pause;
        Self { span: pause.span(), reported_end: None, why: pause, pid, gc_id, reach }
    }

    /// Adds another source's report of it, or a part of it.
    fn add(&mut self, pause: &'w JvmPause) {
        self.span.end = self.span.end.max(pause.end);
        self.pid = self.pid.max(pause.pid);
        self.gc_id = self.gc_id.into_iter().chain(pause.gc_id).min();
        self.reach = self.reach.max(pause.time_to_safepoint);
        // A collection says more than the safepoint around it.
        let says_more = (pause.kind == JvmPauseKind::Gc, pause.length());
        if says_more > (self.why.kind == JvmPauseKind::Gc, self.why.length()) {
            self.why = pause;
        }
    }

    /// Ends the pause at the first call of a resumed thread.
    /// Does nothing if it is unknown when all threads had stopped.
    fn end_with_the_first_call(&mut self, window: &Window) {
        let Some(reach) = self.reach else { return };
        let TimeSpan { start, end } = self.span;
        if let Some(call) = window.sockets.first_begun(start + reach + WENT_ON, end - CLOCK_SLACK) {
            // The JVM may include some of its work afterwards.
            let is_much = (end - call).0.saturating_mul(DOUBT_SHARE) > (end - start).0;
            self.reported_end = is_much.then_some(end);
            self.span.end = call;
        }
    }

    /// The time until all threads had stopped, if that was most of the pause.
    fn long_reach(&self) -> Option<TimeSpan> {
        let reported = TimeSpan { end: self.reported_end.unwrap_or(self.span.end), ..self.span };
        let reach = self.reach.filter(|reach| reported.is_most(*reach))?;
        Some(TimeSpan::new(reported.start, reported.start + reach))
    }

    /// The cause of this pause, for `time` of a request.
    pub(crate) fn candidate(&self, window: &Window, time: Nanos) -> CauseCandidate {
        let is_gc = self.why.kind == JvmPauseKind::Gc && self.long_reach().is_none();
        let cause = if is_gc { Cause::GcPause } else { Cause::Safepoint };
        let number = self.gc_id.filter(|_| is_gc).map_or(self.span.start.0, i64::from);
        let key = format!("{}:{number}", self.pid);
        let own = CauseCandidate::new(cause, key, self.confidence(), time).with([evidence(
            EvidenceKind::Gc,
            self,
            self.describe(),
        )]);
        let deeper = self.long_reach().and_then(|reach| {
            let fault = self.late_thread(window, reach);
            let fault =
                fault.and_then(|fault| operation::of_op(window, &LockHold::of(window, fault, fault.end)));
            fault.or_else(|| starved_thread(window, reach, time))
        });
        own.behind_any(deeper)
    }

    /// By process and time: no key shows which thread the JVM waited for, or when resumed threads ran.
    fn confidence(&self) -> Confidence {
        let is_plain = self.long_reach().is_none() && self.reported_end.is_none();
        if is_plain { Confidence::Exact } else { Confidence::Strong }
    }

    /// The fault on a mapped file that kept the JVM from stopping: it took most of the time to reach the safepoint
    /// and ended when all threads had stopped. A fault inside a system call delays nobody.
    fn late_thread<'t>(&self, window: &'t Window, reach: TimeSpan) -> Option<&'t Arc<FileOp>> {
        let outside_calls = |fault: &&Arc<FileOp>| {
            let mut calls = window.file_ops.of(&fault.tid).overlapping(fault.span());
            !calls.any(|call| {
                call.op != FileOpKind::MmapFault && call.start <= fault.start && call.end >= fault.end
            })
        };
        let all = window.file_ops.all().flat_map(|ops| ops.overlapping(reach));
        all.filter(|op| op.op == FileOpKind::MmapFault && (op.pid == self.pid || self.pid == 0))
            .filter(|fault| is_end_of(reach, fault.end) && reach.is_most(fault.overlap(reach)))
            .filter(outside_calls)
            .max_by_key(|fault| (fault.overlap(reach), fault.tid))
    }

    /// Describes the pause.
    pub(crate) fn describe(&self) -> String {
        let length = self.span.length();
        let what = match (&*self.why.operation, &*self.why.cause) {
            ("", "") => String::new(),
            (operation, "") => format!(": {operation}"),
            ("", cause) => format!(": {cause}"),
            (operation, cause) => format!(": {operation} ({cause})"),
        };
        let reach = self.reach.filter(|reach| *reach > Nanos::ZERO);
        let reach = reach.map(|reach| format!(", {reach} of it until every thread had stopped"));
        let went_on = self.reported_end.map(|end| {
            format!(" (the JVM reports {}, but a thread ran again before that)", end - self.span.start)
        });
        let [reach, went_on] = [reach, went_on].map(Option::unwrap_or_default);
        format!("the JVM stopped all threads for {length}{what}{reach}{went_on}")
    }
}

/// Whether all threads had stopped at a moment.
fn is_end_of(reach: TimeSpan, at: Nanos) -> bool {
    Nanos((at - reach.end).0.abs()) <= STOPPED_AT
}

/// A thread that could not stop because it had no CPU.
/// It had none for most of the time until all had stopped, up to the end of that time.
fn starved_thread(window: &Window, reach: TimeSpan, time: Nanos) -> Option<CauseCandidate> {
    let without_cpu = |interval: &&OffCpu| {
        is_end_of(reach, interval.end) && reach.is_most(runnable(interval).overlap(reach))
    };
    let all = window.off_cpu.all().flat_map(|intervals| intervals.overlapping(reach));
    let late = all.filter(without_cpu).max_by_key(|interval| (interval.length(), interval.tid))?;
    Some(cpu::starved_thread(window, late, time))
}
