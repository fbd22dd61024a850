//! Threads without a CPU: `run-queue`, `cpu-throttled`.
//!
//! A thread has no CPU from its wake-up, or from where it was preempted, until it runs again. The cgroup's counters
//! (`nr_throttled`, `throttled_usec`) are read about once a second and say nothing of a single thread: alone they are
//! weak, and strong together with a thread that had no CPU. The kernel counts a standstill when it ends
//! (`unthrottle_cfs_rq`, kernel/sched/fair.c), so what the counters rose by may have begun before the first reading.

use model::{Cause, Confidence, Evidence, EvidenceKind, HostSample, Nanos, OffCpu, Tid};

use crate::causes::candidate::CauseCandidate;
use crate::causes::spec::{Area, CauseSpec, Layer, SPEC};
use crate::time_budget::TimeBudget;
use crate::waits::{OperationWaits, runnable_from};
use crate::window::{Span as _, Window};

/// Causes of this file.
pub(crate) const CAUSES: &[CauseSpec] = &[
    CauseSpec {
        cause: Cause::RunQueue,
        event: "stretch{es} without a free CPU",
        area: Area::Threads,
        needs: "the time from the thread's wake-up, or from where it was preempted, until it ran again",
        root_evidence: &[EvidenceKind::Host, EvidenceKind::OffCpu],
        proof: THREADS_WAITS,
        advice: &[
            "threads could run and had no CPU: more CPUs, fewer threads (num.io.threads a few above the number of CPUs), or nothing else on this host",
            "kernel.sched_migration_cost_ns (/sys/kernel/debug/sched/migration_cost_ns) lowered lets waiting threads move to an idle CPU earlier",
        ],
        source: "a public case (IBM zSystems, 2022): kernel.sched_migration_cost_ns 50000, a small gain; since Linux 5.13 it is \
                 /sys/kernel/debug/sched/migration_cost_ns (kernel/sched/debug.c)",
        layer: Some(Layer::Os),
        look_at: ", and run_queue_ratio of the threads in host_samples/",
        effect: "; the kernel's setting had a small share of it in the public case",
        risk: "threads that move between processors sooner find their caches cold more often",
        ..SPEC
    },
    CauseSpec {
        cause: Cause::CpuThrottled,
        event: "stretch{es} of CPU throttling",
        area: Area::Threads,
        needs: "nr_throttled and throttled_usec of the cgroup rose for most of the stretch; strong with a thread that had no CPU",
        root_evidence: &[EvidenceKind::Host, EvidenceKind::OffCpu],
        proof: THREADS_WAITS,
        advice: &[
            "the broker's cgroup ran out of its CPU quota and stood still until the next period: raise or drop the limit (cpu.max, Kubernetes' limits.cpu); shares (cpu.weight, requests.cpu) bound it without that",
        ],
        source: "Documentation/scheduler/sched-bwc.rst: nr_throttled and throttled_usec of cpu.stat",
        layer: Some(Layer::Os),
        condition: ", or the cgroup's quota ran out in at least one period of 10 s",
        look_at: ", and cpu_throttled_per_second in host_samples/",
        effect: "",
        risk: "the broker may take processors from its neighbours: shares (cpu.weight, requests.cpu) bound that without standing \
               still",
        ..SPEC
    },
];

/// What would tell which thread had no CPU.
const THREADS_WAITS: &str = "the waits of the thread that was needed (off-cpu, wakeups)";

/// A thread that was without a CPU for less held up nobody for long.
const MIN_WAIT_FOR_CPU: Nanos = Nanos::from_millis(5);

/// What an operation's thread waited for on its way.
pub(crate) fn run_queue(window: &Window, waits: &OperationWaits<'_>) -> CauseCandidate {
    let (start, end) = waits.span();
    let root = run_queue_root(window, start, end);
    let own = CauseCandidate::of_waits(Cause::RunQueue, root, waits.best_confidence(), waits);
    by_quota(window, own, start, end)
}

/// What a thread waited for in a stretch in which it was needed, as far as nothing else has taken it. Which request it
/// would have worked on is concluded from which it worked on then.
pub(crate) fn runnable_thread(
    window: &Window,
    tid: Tid,
    (start, end): (Nanos, Nanos),
    free: &mut TimeBudget,
) -> Option<CauseCandidate> {
    let mut time = Nanos::ZERO;
    let mut longest: Option<(&OffCpu, Nanos)> = None;
    for interval in window.thread(tid)?.off_cpu.overlapping(start, end) {
        let since = runnable_from(interval);
        let taken = free.take(since.max(start), interval.end.min(end));
        time += taken;
        if taken > longest.map_or(Nanos::ZERO, |(_, length)| length) {
            longest = Some((interval, taken));
        }
    }
    let (interval, _) = longest?;
    Some(starved_thread(window, interval, time))
}

/// A thread that had no CPU, longest in this interval, for so much of a request's time.
pub(crate) fn starved_thread(window: &Window, interval: &OffCpu, time: Nanos) -> CauseCandidate {
    let at_a_time = interval.end - runnable_from(interval);
    let text = format!("the thread could run and had no CPU for {time}, {at_a_time} of it at a time");
    of_interval(window, interval, Confidence::Strong, text, time)
}

fn of_interval(
    window: &Window,
    interval: &OffCpu,
    confidence: Confidence,
    text: String,
    time: Nanos,
) -> CauseCandidate {
    let (since, until) = (runnable_from(interval), interval.end);
    let own = CauseCandidate::new(
        Cause::RunQueue,
        run_queue_root(window, since, until),
        confidence,
        vec![
            Evidence::new(EvidenceKind::OffCpu, since, until, text)
                .of_thread(interval.tid, &window.name(interval.tid, &interval.thread)),
        ],
        time,
    );
    by_quota(window, own, since, until)
}

/// What is left of a stretch, where other threads of the broker that serve requests had no CPU for most of it: a lock
/// that one of them held, or a safepoint that one of them was late for, was seen by nobody. By the time only.
pub(crate) fn starved_others(
    window: &Window,
    start: Nanos,
    end: Nanos,
    free: &mut TimeBudget,
) -> Option<CauseCandidate> {
    let mut rest = free.within(start, end);
    let (left, mut longest): (Nanos, Option<&OffCpu>) = (rest.left(), None);
    if left == Nanos::ZERO {
        return None;
    }
    for interval in window.trouble.without_cpu.overlapping(start, end) {
        let since = runnable_from(interval);
        if interval.end - since < MIN_WAIT_FOR_CPU || !serves(&interval.thread) {
            continue;
        }
        rest.take(since, interval.end);
        let key = |interval: &OffCpu| (interval.end - runnable_from(interval), interval.start, interval.tid);
        if longest.is_none_or(|longest| key(interval) > key(longest)) {
            longest = Some(interval);
        }
    }
    let covered = left - rest.left();
    let longest = longest.filter(|_| covered.0.saturating_mul(2) > left.0)?;
    let text = format!(
        "for {covered} of {left} that nothing else explains, threads that serve requests could run and had no CPU: this \
         one for {}",
        longest.end - runnable_from(longest)
    );
    Some(of_interval(window, longest, Confidence::Weak, text, free.take(start, end)))
}

/// Whether requests need a thread: handlers and network threads (`data-plane-kafka-…`), and who stops the JVM.
pub(crate) fn serves(thread: &str) -> bool {
    thread.starts_with("data-plane-kafk") || thread == "VM Thread"
}

fn run_queue_root(window: &Window, start: Nanos, end: Nanos) -> String {
    format!("run-queue:{}", window.trouble.no_cpu.began(start, end).unwrap_or(start).0)
}

/// The same, where the quota was why: by the time.
fn by_quota(window: &Window, own: CauseCandidate, start: Nanos, end: Nanos) -> CauseCandidate {
    let Some(throttled) = without_cpu(window, start, end, own.time) else { return own };
    CauseCandidate {
        cause: throttled.cause,
        chain: throttled.chain,
        root: throttled.root,
        confidence: own.confidence.min(Confidence::Strong),
        evidence: [own.evidence, throttled.evidence].concat(),
        ..own
    }
}

/// A cgroup that stands still less than this share of the time holds up nobody for long: a tenth.
const MIN_THROTTLED_RATIO: f64 = 0.1;

/// What the quota says of a stretch of which so much time is to be explained.
pub(crate) fn around(window: &Window, start: Nanos, end: Nanos, time: Nanos) -> Option<CauseCandidate> {
    throttled_samples(window, (start, end), time, |_| Nanos::ZERO)
}

/// The same of a stretch in which a thread had no CPU.
pub(crate) fn without_cpu(window: &Window, start: Nanos, end: Nanos, time: Nanos) -> Option<CauseCandidate> {
    throttled_samples(window, (start, end), time, stood_still)
}

/// Where the counters' rises cover most of the stretch, each of them from so long before its readings on.
fn throttled_samples(
    window: &Window,
    (start, end): (Nanos, Nanos),
    time: Nanos,
    before: impl Fn(&HostSample) -> Nanos,
) -> Option<CauseCandidate> {
    let samples = || {
        window
            .trouble
            .out_of_quota
            .overlapping(start, end)
            .filter(|sample| sample.value >= MIN_THROTTLED_RATIO)
    };
    let most = samples().max_by(|a, b| a.overlap(start, end).cmp(&b.overlap(start, end)))?;
    let mut free = TimeBudget::new(start, end);
    for sample in samples().filter(|sample| sample.name == most.name) {
        free.take(sample.start - before(sample), sample.end);
    }
    // A stretch that the counters were not read in is not covered.
    let covered = end - start - free.left();
    (covered.0.saturating_mul(2) > (end - start).0).then(|| throttled_candidate(window, most, time))
}

/// How long its CPUs stood still, all in all, by a sample.
fn stood_still(sample: &HostSample) -> Nanos {
    Nanos((sample.value * (sample.end - sample.start).0 as f64) as i64)
}

fn throttled_candidate(window: &Window, sample: &HostSample, time: Nanos) -> CauseCandidate {
    let began = window.trouble.quota_episodes.began(sample.start, sample.end).unwrap_or(sample.start);
    CauseCandidate::new(
        Cause::CpuThrottled,
        format!("cpu-throttled:{}:{}", sample.name, began.0),
        Confidence::Weak,
        vec![Evidence::new(
            EvidenceKind::Host,
            sample.start,
            sample.end,
            format!(
                "cgroup {} was out of its CPU quota: its CPUs stood still for {:.0} ms of a second",
                sample.name,
                sample.value * 1_000.0
            ),
        )],
        time,
    )
}
