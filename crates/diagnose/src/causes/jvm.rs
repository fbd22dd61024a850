//! JVM pauses: `gc-pause`, `safepoint`.
//!
//! Pauses that overlap are one: a collection lies within its safepoint. Where it took most of a pause until all threads
//! had stopped, the thread that came last is to blame: one in a fault on a mapped file stops only when its page is there
//! (the JVM polls between instructions, and threads inside system calls count as stopped).
//!
//! A stopped thread begins no call: where one did, the pause was over by then, even if the JVM was still busy.

use std::sync::Arc;

use model::{
    Cause, Confidence, Evidence, EvidenceKind, FileOp, FileOpKind, JvmPause, JvmPauseKind, Nanos, OffCpu, Pid,
};

use crate::causes::candidate::CauseCandidate;
use crate::causes::cpu;
use crate::causes::spec::{Area, CauseSpec, Current, Layer, SPEC, Scope, change, change_from};
use crate::waits::{LockHold, runnable_from};
use crate::window::{CLOCK_SLACK, Span as _, Window};

/// Causes of this file.
pub(crate) const CAUSES: &[CauseSpec] = &[
    CauseSpec {
        cause: Cause::GcPause,
        event: "GC pause{s}",
        area: Area::Threads,
        needs: "a collection that the JVM reports and that shares time with what its threads should have done",
        root_evidence: &[EvidenceKind::Gc],
        advice: &[
            "the heap's collection stopped every thread: G1 with a lower -XX:MaxGCPauseMillis, or ZGC; a heap of the right size (the brokers' own data needs a few GiB, the rest is better left to the page cache)",
        ],
        source: "kafka-run-class.sh: -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35; Kafka's \
                 documentation, operations: Java version",
        layer: Some(Layer::Jvm),
        look_at: "; `brokerscope locks` tells each pause",
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
            ),
        ],
        risk: "shorter pauses come more often and take more of the processor; ZGC wants a larger heap for the same work",
        ..SPEC
    },
    CauseSpec {
        cause: Cause::Safepoint,
        event: "safepoint{s}",
        area: Area::Threads,
        needs: "another pause that the JVM reports, or one that took most of its time until all threads had stopped",
        root_evidence: &[EvidenceKind::Gc],
        advice: &[
            "every thread waited for the slowest to stop: a page of a mapped file that has to be read from a slow disk (indexes; -XX:+PerfDisableSharedMem keeps the JVM's own counters off the disk) or a machine that swaps are usual; -Xlog:safepoint says more",
        ],
        source: "a public talk on Kafka at LINE: threads that fault on a mapped file keep the JVM from a safepoint; Evan Jones (2015) \
                 on the file of the performance counters",
        layer: Some(Layer::Jvm),
        look_at: "; -Xlog:safepoint says which part was waited for",
        changes: &[
            change_from("-XX:+PerfDisableSharedMem", Current::JvmFlag("-XX:+PerfDisableSharedMem"), "set")
                .on(Scope::Jvm, "-XX:+PerfDisableSharedMem", ""),
            change("-Xlog:safepoint", "not known", "set, to see what is waited for"),
        ],
        effect: "; only where a page of a mapped file, or of what was swapped out, was waited for",
        risk: "jps, jstat and VisualVM do not see a JVM without its file of counters; brokerscope does",
        ..SPEC
    },
];

/// How exactly the end of a fault must be the moment at which all threads had stopped.
const STOPPED_AT: Nanos = Nanos::from_millis(2);
/// A call this much after all had stopped was made by one that went on: the JVM and the probes read two clocks.
const WENT_ON: Nanos = Nanos::from_millis(3);
/// Where a stop was over that much before its end, the JVM's word on it is in doubt: a tenth.
const DOUBT_SHARE: i64 = 10;
/// Pauses are looked for so often around those that overlap.
const MAX_ROUNDS: usize = 8;

/// Pauses that overlap, as one.
#[derive(Debug)]
pub(crate) struct PauseGroup<'w> {
    pub(crate) start: Nanos,
    pub(crate) end: Nanos,
    /// When it was over by what the JVM says, where a thread went on long before.
    said_end: Option<Nanos>,
    /// The one that says why.
    why: &'w JvmPause,
    /// The process, where one of them says it.
    pid: Pid,
    /// The collection's number, where one of them says it: the first of several.
    gc_id: Option<u32>,
    /// How long it took until all threads had stopped, where a pause says so.
    reach: Option<Nanos>,
}

/// The stops of a process that share time with a stretch, in order; 0 for any process.
pub(crate) fn pauses(window: &Window, pid: Pid, start: Nanos, end: Nanos) -> Vec<PauseGroup<'_>> {
    let mut stops: Vec<PauseGroup<'_>> = Vec::new();
    for pause in pauses_around(window, pid, start, end) {
        match stops.last_mut().filter(|stop| pause.start < stop.end) {
            Some(stop) => stop.add(pause),
            None => stops.push(PauseGroup::of(pause)),
        }
    }
    for stop in &mut stops {
        stop.end_with_the_first_call(window);
    }
    stops.retain(|stop| stop.start < end && stop.end > start);
    stops
}

/// The pauses within a stretch, and those that overlap one of them, in the order of their starts.
fn pauses_around(window: &Window, pid: Pid, mut start: Nanos, mut end: Nanos) -> Vec<&JvmPause> {
    let mut found: Vec<&JvmPause> = Vec::new();
    for _ in 0..MAX_ROUNDS {
        let of_process = |pause: &&JvmPause| pid == 0 || pause.pid == 0 || pause.pid == pid;
        let pauses: Vec<&JvmPause> = window.pauses(start, end).filter(of_process).collect();
        let more = pauses.len() > found.len();
        found = pauses;
        if !more {
            break;
        }
        start = found.iter().map(|pause| pause.start).fold(start, Nanos::min);
        end = found.iter().map(|pause| pause.end).fold(end, Nanos::max);
    }
    found.sort_by_key(|pause| (pause.start, pause.end));
    found
}

impl<'w> PauseGroup<'w> {
    fn of(pause: &'w JvmPause) -> Self {
        let JvmPause { start, end, pid, gc_id, time_to_safepoint: reach, .. } = *pause;
        Self { start, end, said_end: None, why: pause, pid, gc_id, reach }
    }

    /// Another source's word on it, or a part of it.
    fn add(&mut self, pause: &'w JvmPause) {
        self.end = self.end.max(pause.end);
        self.pid = self.pid.max(pause.pid);
        self.gc_id = self.gc_id.into_iter().chain(pause.gc_id).min();
        self.reach = self.reach.max(pause.time_to_safepoint);
        // A collection says more than the safepoint around it.
        let says_more = (pause.kind == JvmPauseKind::Gc, pause.length());
        if says_more > (self.why.kind == JvmPauseKind::Gc, self.why.length()) {
            self.why = pause;
        }
    }

    /// Where it is known when all had stopped.
    fn end_with_the_first_call(&mut self, window: &Window) {
        let Some(reach) = self.reach else { return };
        let after = self.start + reach + WENT_ON;
        if let Some(call) = window.sockets.first_begun(after, self.end - CLOCK_SLACK) {
            // The JVM may count some of what it did afterwards too.
            let is_much = (self.end - call).0.saturating_mul(DOUBT_SHARE) > (self.end - self.start).0;
            self.said_end = is_much.then_some(self.end);
            self.end = call;
        }
    }

    /// Whether most of it passed until all threads had stopped.
    fn was_long_to_reach(&self) -> bool {
        let length = self.said_end.unwrap_or(self.end) - self.start;
        self.reach.is_some_and(|reach| reach.0.saturating_mul(2) > length.0)
    }

    /// What it says of so much of a request's time.
    pub(crate) fn finding(&self, window: &Window, time: Nanos) -> CauseCandidate {
        let is_gc = self.why.kind == JvmPauseKind::Gc && !self.was_long_to_reach();
        let cause = if is_gc { Cause::GcPause } else { Cause::Safepoint };
        let number = self.gc_id.filter(|_| is_gc).map_or(self.start.0, i64::from);
        let own = CauseCandidate::new(
            cause,
            format!("{cause}:{}:{number}", self.pid),
            self.confidence(),
            vec![Evidence::new(EvidenceKind::Gc, self.start, self.end, self.described())],
            time,
        );
        let fault = self.late_thread(window);
        let deeper = fault.and_then(|fault| {
            crate::causes::operation::of_op(window, &LockHold::of(window, fault, fault.end))
        });
        match deeper.or_else(|| self.starved_thread(window, time)) {
            Some(deeper) => CauseCandidate {
                chain: [own.chain, deeper.chain].concat(),
                evidence: [own.evidence, deeper.evidence].concat(),
                // By process and time: no key says which thread the JVM waited for.
                confidence: deeper.confidence.min(Confidence::Strong),
                time,
                partition: None,
                ..deeper
            },
            None => own,
        }
    }

    /// Which thread was late is another matter, and when those that went on did.
    fn confidence(&self) -> Confidence {
        let is_plain = !self.was_long_to_reach() && self.said_end.is_none();
        if is_plain { Confidence::Exact } else { Confidence::Strong }
    }

    /// The fault on a mapped file that kept the JVM from stopping: it took most of the time to reach the safepoint and
    /// ended when all threads had stopped. One inside a system call holds up nobody.
    fn late_thread(&self, window: &'w Window) -> Option<&'w Arc<FileOp>> {
        let reached = self.start + self.reach.filter(|_| self.was_long_to_reach())?;
        window
            .threads()
            .flat_map(|past| {
                let faults = past.file_ops.overlapping(self.start, reached);
                faults.filter(|op| {
                    let inside = |call: &&Arc<FileOp>| call.start <= op.start && call.end >= op.end;
                    let calls = past.file_ops.overlapping(op.start, op.end);
                    op.op == FileOpKind::MmapFault
                        && !calls.filter(|call| call.op != FileOpKind::MmapFault).any(|call| inside(&call))
                })
            })
            .filter(|fault| fault.pid == self.pid || self.pid == 0)
            .filter(|fault| Nanos((fault.end - reached).0.abs()) <= STOPPED_AT)
            .filter(|fault| fault.overlap(self.start, reached).0.saturating_mul(2) > (reached - self.start).0)
            .max_by_key(|fault| (fault.overlap(self.start, reached), fault.tid))
    }

    /// A thread that could not stop because it had no CPU: for most of the time until all had stopped, to its end.
    fn starved_thread(&self, window: &'w Window, time: Nanos) -> Option<CauseCandidate> {
        let reached = self.start + self.reach.filter(|_| self.was_long_to_reach())?;
        let without_cpu = |interval: &&OffCpu| {
            let since = runnable_from(interval);
            let shared = (interval.end.min(reached) - since.max(self.start)).at_least_zero();
            Nanos((interval.end - reached).0.abs()) <= STOPPED_AT
                && shared.0.saturating_mul(2) > (reached - self.start).0
        };
        let all = window.threads().flat_map(|past| past.off_cpu.overlapping(self.start, reached));
        let late = all.filter(without_cpu).max_by_key(|interval| (interval.length(), interval.tid))?;
        Some(cpu::starved_thread(window, late, time))
    }

    /// The time it shares with a stretch.
    pub(crate) fn overlap(&self, start: Nanos, end: Nanos) -> Nanos {
        (self.end.min(end) - self.start.max(start)).at_least_zero()
    }

    /// What it was, in words.
    pub(crate) fn described(&self) -> String {
        let length = self.end - self.start;
        let what = match (&*self.why.operation, &*self.why.cause) {
            ("", "") => String::new(),
            (operation, "") => format!(": {operation}"),
            ("", cause) => format!(": {cause}"),
            (operation, cause) => format!(": {operation} ({cause})"),
        };
        let reach = self.reach.filter(|reach| *reach > Nanos::ZERO);
        let reach =
            reach.map(|reach| format!(", {reach} of it until every thread had stopped")).unwrap_or_default();
        let went_on = self
            .said_end
            .map(|end| format!(" (it says {}, but a thread had gone on by then)", end - self.start));
        format!("the JVM stopped all threads for {length}{what}{reach}{}", went_on.unwrap_or_default())
    }
}
