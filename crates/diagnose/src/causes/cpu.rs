//! Threads without a CPU: `run-queue`, `cpu-throttled`.
//!
//! A thread has no CPU from its wake-up, or from where it was preempted, until it runs again. The cgroup's counters
//! (`nr_throttled`, `throttled_usec`) are read about once a second and are not per thread: alone they are weak
//! evidence, and strong together with a thread that had no CPU. The kernel counts throttled time when the throttling
//! ends (`unthrottle_cfs_rq`, kernel/sched/fair.c), so a rise may have begun before the first reading.

use model::{Cause, Confidence, EvidenceKind, HostSample, Nanos, OffCpu, Tid};

use crate::causes::candidate::{CauseCandidate, evidence};
use crate::causes::host;
use crate::causes::spec::causes;
use crate::time::{Span, TimeBudget, TimeSpan, is_most};
use crate::waits::{OperationWaits, runnable};
use crate::window::Window;
use crate::window::trouble::{MIN_WAIT_FOR_CPU, Trouble};

causes! {
    RunQueue: Root in Threads, changed in Os {
        event: "stretch{es} without a free CPU",
        needs: "the time from the thread's wake-up, or from where it was preempted, until it ran again",
        root_evidence: &[EvidenceKind::Host, EvidenceKind::OffCpu],
        proof: THREADS_WAITS,
        advice: &[
            "threads were runnable but had no CPU: more CPUs, fewer threads (num.io.threads a few above the number of CPUs), or nothing else on this host",
            "lower kernel.sched_migration_cost_ns (/sys/kernel/debug/sched/migration_cost_ns): waiting threads then move to an idle CPU earlier",
        ],
        source: "a public case (IBM zSystems, 2022): kernel.sched_migration_cost_ns 50000, a small gain; since Linux 5.13 it is \
                 /sys/kernel/debug/sched/migration_cost_ns (kernel/sched/debug.c)",
        look_at: ", and run_queue_ratio of the threads in host_samples/",
        effect: "; the kernel setting gained little in the public case",
        risk: "threads that move between CPUs sooner find cold caches more often",
    }

    CpuThrottled: Root in Threads, changed in Os {
        event: "stretch{es} of CPU throttling",
        needs: "nr_throttled and throttled_usec of the cgroup rose for most of the stretch; strong with a thread that had no CPU",
        root_evidence: &[EvidenceKind::Host, EvidenceKind::OffCpu],
        proof: THREADS_WAITS,
        advice: &[
            "the broker's cgroup used up its CPU quota and was throttled until the next period: raise or remove the limit (cpu.max, Kubernetes' limits.cpu); weights (cpu.weight, requests.cpu) bound it without throttling",
        ],
        source: "Documentation/scheduler/sched-bwc.rst: nr_throttled and throttled_usec of cpu.stat",
        condition: ", or the cgroup's quota ran out in at least one period of 10 s",
        look_at: ", and cpu_throttled_per_second in host_samples/",
        effect: "",
        risk: "the broker may take CPU time from its neighbours: weights (cpu.weight, requests.cpu) bound that without \
               throttling",
    }
}

/// The source that would show which thread had no CPU.
const THREADS_WAITS: &str = "the waits of the thread that was needed (off-cpu, wakeups)";

/// An operation's thread waited for a CPU.
pub(crate) fn run_queue(window: &Window, waits: &OperationWaits<'_>) -> CauseCandidate {
    let key = episode(window, waits.span());
    let own = CauseCandidate::of_waits(Cause::RunQueue, key, waits.best_confidence(), waits);
    with_reason(window, own, waits.span())
}

/// Lack of a CPU of a thread that was needed in a stretch.
/// Counts only time that nothing else has taken. Which request it would have worked on is inferred from what it worked
/// on then.
pub(crate) fn runnable_thread(
    window: &Window,
    tid: Tid,
    span: TimeSpan,
    free: &mut TimeBudget,
) -> Option<CauseCandidate> {
    let intervals = window.off_cpu.of(&tid).overlapping(span);
    let parts = intervals.map(|interval| (interval, runnable(interval).within(span)));
    let (interval, time) = free.take_parts(parts)?;
    Some(starved_thread(window, interval, time))
}

/// A thread that had no CPU, longest in this interval, for `time` of a request.
pub(crate) fn starved_thread(window: &Window, interval: &OffCpu, time: Nanos) -> CauseCandidate {
    let at_a_time = runnable(interval).length();
    let text = format!("the thread was runnable but had no CPU for {time}, at most {at_a_time} at a time");
    of_interval(window, interval, (Confidence::Strong, time), text)
}

fn of_interval(
    window: &Window,
    interval: &OffCpu,
    (confidence, time): (Confidence, Nanos),
    text: String,
) -> CauseCandidate {
    let span = runnable(interval);
    let thread = window.name(interval.tid, &interval.thread);
    let seen = evidence(EvidenceKind::OffCpu, &span, text).of_thread(interval.tid, &thread);
    let own = CauseCandidate::new(Cause::RunQueue, episode(window, span), confidence, time).with([seen]);
    with_reason(window, own, span)
}

/// Lack of a CPU of other threads, for the remaining time of a stretch.
/// Returned if threads of the broker that serve requests had no CPU for most of that time: a lock that one of them
/// held, or a safepoint that one of them delayed, would not have been seen. By time only.
pub(crate) fn starved_others(
    window: &Window,
    span: TimeSpan,
    free: &mut TimeBudget,
) -> Option<CauseCandidate> {
    let intervals = window.troubles.without_cpu.overlapping(span);
    let long = intervals
        .filter(|interval| runnable(interval).length() >= MIN_WAIT_FOR_CPU && serves(&interval.thread));
    let parts = long.map(|interval| (interval, runnable(interval), interval.tid));
    let Others { longest, covered, left } = others(parts, span, free)?;
    let text = format!(
        "for {covered} of {left} that nothing else explains, threads that serve requests were runnable but had no CPU: this \
         one for {}",
        runnable(longest).length()
    );
    Some(of_interval(window, longest, (Confidence::Weak, free.take(span)), text))
}

/// What happened to threads that serve requests in a stretch. Covers most of the stretch's remaining time.
pub(crate) struct Others<'w, T> {
    /// The event with the longest part.
    pub(crate) longest: &'w T,
    pub(crate) covered: Nanos,
    pub(crate) left: Nanos,
}

/// Examines events, each with the part of it that counts and its thread.
pub(crate) fn others<'w, T: Span>(
    parts: impl Iterator<Item = (&'w T, TimeSpan, Tid)>,
    span: TimeSpan,
    free: &TimeBudget,
) -> Option<Others<'w, T>> {
    let mut rest = free.within(span);
    let left = rest.left();
    if left == Nanos::ZERO {
        return None;
    }
    let parts: Vec<_> = parts.collect();
    rest.take_all(parts.iter().map(|(_, part, _)| *part));
    let key = |(event, part, tid): &(&T, TimeSpan, Tid)| (part.length(), event.span().start, *tid);
    let (longest, ..) = parts.into_iter().max_by_key(key)?;
    let covered = left - rest.left();
    is_most(covered, left).then_some(Others { longest, covered, left })
}

/// Whether requests need a thread: handlers, network threads (`data-plane-kafka-…`), and the thread that stops the
/// JVM.
pub(crate) fn serves(thread: &str) -> bool {
    thread.starts_with("data-plane-kafk") || thread == "VM Thread"
}

/// When the episode without CPUs began that includes a stretch.
fn episode(window: &Window, span: TimeSpan) -> i64 {
    window.troubles.began(Trouble::NoCpu, span).unwrap_or(span.start).0
}

/// Adds the reason for the lack of a CPU, if known: the hypervisor had it, or the quota had run out. By time.
fn with_reason(window: &Window, own: CauseCandidate, span: TimeSpan) -> CauseCandidate {
    let stolen = host::stolen_meanwhile(window, span, own.time);
    let throttled = || {
        let throttled = throttled_samples(window, span, own.time, throttled_time)?;
        Some(CauseCandidate { confidence: Confidence::Strong, ..throttled })
    };
    let Some(why) = stolen.or_else(throttled) else { return own };
    CauseCandidate {
        cause: why.cause,
        chain: why.chain,
        root: why.root,
        confidence: own.confidence.min(why.confidence),
        evidence: [own.evidence, why.evidence].concat(),
        ..own
    }
}

/// A cgroup throttled for less than this share of the time delays nobody for long: a tenth.
const MIN_THROTTLED_RATIO: f64 = 0.1;

/// What a CPU quota may explain of the remaining time of a stretch: which thread was throttled was not seen.
pub(crate) fn out_of_quota(window: &Window, span: TimeSpan, free: &mut TimeBudget) -> Option<CauseCandidate> {
    let known = throttled_samples(window, span, Nanos::ZERO, |_| Nanos::ZERO)?;
    free.take_any(span).map(|time| CauseCandidate { time, ..known })
}

/// A quota as the cause, if samples with throttling cover most of the stretch; each begins `before` its first reading.
fn throttled_samples(
    window: &Window,
    span: TimeSpan,
    time: Nanos,
    before: impl Fn(&HostSample) -> Nanos,
) -> Option<CauseCandidate> {
    let samples = || {
        let samples = window.troubles.out_of_quota.overlapping(span);
        samples.filter(|sample| sample.value >= MIN_THROTTLED_RATIO)
    };
    let most = samples().max_by_key(|sample| sample.overlap(span))?;
    let of_it = samples().filter(|sample| sample.name == most.name);
    let mut free = TimeBudget::new(span);
    free.take_all(of_it.map(|sample| TimeSpan::new(sample.start - before(sample), sample.end)));
    // Time between readings of the counters is not covered.
    span.is_most(span.length() - free.left()).then(|| throttled_candidate(window, most, time))
}

/// The total throttled time of its CPUs, by a sample.
fn throttled_time(sample: &HostSample) -> Nanos {
    Nanos((sample.value * sample.span().length().0 as f64) as i64)
}

fn throttled_candidate(window: &Window, sample: &HostSample, time: Nanos) -> CauseCandidate {
    let began = window.troubles.began(Trouble::OutOfQuota, sample.span()).unwrap_or(sample.start);
    let text = format!(
        "cgroup {} used up its CPU quota: its CPUs were throttled for {:.0} ms of each second",
        sample.name,
        sample.value * 1_000.0
    );
    let key = format!("{}:{}", sample.name, began.0);
    CauseCandidate::new(Cause::CpuThrottled, key, Confidence::Weak, time).with([evidence(
        EvidenceKind::Host,
        sample,
        text,
    )])
}
