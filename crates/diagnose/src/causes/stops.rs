//! `process-stopped`, and all else that stops every thread of a process at once.
//!
//! A process that a signal, a freezer or a tracer has stopped does nothing. The stop is the root of the lost time
//! before any other cause, also within a JVM pause, which takes longer by the same time.

use model::{Cause, Confidence, Evidence, EvidenceKind, Nanos, Pid, ProcessStop, StopKind};

use crate::causes::candidate::{CauseCandidate, evidence};
use crate::causes::host;
use crate::causes::jvm::{self, PauseGroup};
use crate::causes::spec::{causes, change};
use crate::time::{Span, TimeBudget, TimeSpan};
use crate::window::Window;
use crate::window::cpu_gaps::HostPause;

causes! {
    ProcessStopped: Root in Threads, changed in Os {
        event: "stop{s} of the broker's process",
        needs: "the process's threads left the CPU stopped, frozen or traced (sched_switch) and were woken in that state; by the process's id",
        root_evidence: &[EvidenceKind::Kernel],
        advice: &[
            "something stopped the broker's process: a signal (SIGSTOP), its cgroup's freezer (docker pause, a backup's hook, a node that hibernates) or a tracer (gdb -p, gcore, a serviceability agent as of jmap -F): the evidence names who did it; do it to a broker that leads no partitions",
        ],
        source: "signal(7), ptrace(2), Documentation/admin-guide/cgroup-v2.rst (cgroup.freeze): no thread of a stopped process runs",
        changes: &[change(
            "what stops the broker's process",
            "named by the evidence",
            "not on a broker that leads partitions; jcmd instead of a debugger",
        )],
        effect: "; all of it, if the process is not stopped",
        risk: "a backup or a dump of a running process may not be consistent",
    }
}

/// A time in which no thread of a process ran.
#[derive(Debug)]
pub(crate) enum Standstill<'w> {
    /// The whole machine was paused.
    Host(&'w HostPause),
    /// Something outside had stopped the process.
    Process(&'w ProcessStop),
    /// The JVM had stopped all threads.
    Jvm(PauseGroup<'w>),
}

impl Span for Standstill<'_> {
    fn span(&self) -> TimeSpan {
        match self {
            Self::Host(pause) => pause.span(),
            Self::Process(stop) => stop.span(),
            Self::Jvm(pause) => pause.span(),
        }
    }
}

impl Standstill<'_> {
    /// Describes the standstill.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Host(pause) => host::describe(pause),
            Self::Process(stop) => describe(stop),
            Self::Jvm(pause) => pause.describe(),
        }
    }

    /// The cause of this standstill, for `time` of a request.
    fn candidate(&self, window: &Window, time: Nanos) -> CauseCandidate {
        match self {
            Self::Host(pause) => host::candidate(window, pause, time),
            Self::Process(stop) => {
                let key = format!("{}:{}", stop.pid, stop.start.0);
                CauseCandidate::new(Cause::ProcessStopped, key, Confidence::Exact, time)
                    .with([stop_evidence(stop)])
            }
            Self::Jvm(pause) => pause.candidate(window, time),
        }
    }
}

/// The times within a stretch in which no thread of a process ran: first stops of the machine or process from
/// outside, then JVM pauses. `pid` 0 for any process. They may overlap.
pub(crate) fn standstills(window: &Window, pid: Pid, span: TimeSpan) -> Vec<Standstill<'_>> {
    let pauses = jvm::pauses(window, pid, span).into_iter().map(Standstill::Jvm);
    from_outside(window, pid, span).chain(pauses).collect()
}

/// What they explain of a stretch, for the time that nothing else has taken.
pub(crate) fn explain(
    window: &Window,
    pid: Pid,
    span: TimeSpan,
    free: &mut TimeBudget,
) -> Vec<CauseCandidate> {
    explain_by(window, standstills(window, pid, span).into_iter(), span, free)
}

/// Like `explain`, only for stops from outside. They take precedence over everything else.
pub(crate) fn explain_first(
    window: &Window,
    pid: Pid,
    span: TimeSpan,
    free: &mut TimeBudget,
) -> Vec<CauseCandidate> {
    explain_by(window, from_outside(window, pid, span), span, free)
}

/// Like `explain`, for the arrival of a request: the client may have been slow as well.
/// Nothing arrives at a paused machine. `too_large` says whether the request was too large to arrive while nothing was
/// read; then the time of JVM pauses is taken, but not explained.
pub(crate) fn explain_arrival(
    window: &Window,
    too_large: bool,
    span: TimeSpan,
    free: &mut TimeBudget,
) -> Vec<CauseCandidate> {
    let mut found = host::explain(window, span, free);
    if too_large {
        found.extend(explain_first(window, 0, span, free));
        free.take_all(jvm::pauses(window, 0, span).iter().map(Span::span));
    }
    for stop in &mut found {
        stop.confidence = stop.confidence.min(Confidence::Strong);
    }
    found
}

fn explain_by<'w>(
    window: &'w Window,
    stops: impl Iterator<Item = Standstill<'w>>,
    span: TimeSpan,
    free: &mut TimeBudget,
) -> Vec<CauseCandidate> {
    let found = stops.filter_map(|stop| {
        let time = free.take_any(stop.span().until(span.end))?;
        Some(stop.candidate(window, time))
    });
    found.collect()
}

fn from_outside(window: &Window, pid: Pid, span: TimeSpan) -> impl Iterator<Item = Standstill<'_>> {
    let stops = window.stops.overlapping(span);
    let stops = stops.filter(move |stop| pid == 0 || stop.pid == pid).map(Standstill::Process);
    host::pauses(window, span).map(Standstill::Host).chain(stops)
}

fn stop_evidence(stop: &ProcessStop) -> Evidence {
    let seen = evidence(EvidenceKind::Kernel, stop, describe(stop));
    match stop.by_tid {
        Some(tid) => seen.of_thread(tid, &stop.by),
        None => seen,
    }
}

fn describe(stop: &ProcessStop) -> String {
    let (time, pid) = (stop.length(), stop.pid);
    let by = stop.by_tid.map(|tid| format!("{} ({tid})", stop.by));
    match (stop.kind, by) {
        (StopKind::Signal, Some(by)) => {
            format!("the process {pid} was stopped for {time} by a signal from {by}")
        }
        (StopKind::Signal, None) => format!("the process {pid} was stopped for {time} by a signal"),
        (StopKind::Freezer, Some(by)) => {
            format!("the process {pid} was frozen with its cgroup for {time}, until {by} thawed it")
        }
        (StopKind::Freezer, None) => format!("the process {pid} was frozen with its cgroup for {time}"),
        (StopKind::Tracer, Some(by)) => format!("the process {pid} was halted for {time} by its tracer {by}"),
        (StopKind::Tracer, None) => format!("the process {pid} was halted for {time} by a tracer"),
    }
}
