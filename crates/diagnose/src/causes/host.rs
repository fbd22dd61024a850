//! `host-paused` and `cpu-steal`: a machine that was paused, and CPUs that its hypervisor gave to others.
//!
//! A clock on each CPU interrupts it every 10 ms. If the interrupt comes late and the CPU has not run meanwhile,
//! something outside the machine had taken the CPU. If all CPUs were taken at once, nothing in the machine ran: that
//! explains every wait at that time. If the kernel counted the time as steal, others used the CPUs (`cpu-steal`); if
//! not, the machine was paused. A single CPU explains the time of the thread that was on it, which the interrupt
//! names.

use model::{Cause, Confidence, CpuGap, EvidenceKind, Nanos, Tid};

use crate::causes::candidate::{CauseCandidate, evidence};
use crate::causes::cpu;
use crate::causes::spec::{causes, change};
use crate::stages::Breakdown;
use crate::time::{Span, TimeBudget, TimeSpan};
use crate::window::Window;
use crate::window::cpu_gaps::HostPause;
use crate::window::trouble::Trouble;

causes! {
    HostPaused: Root in Threads, changed in Os {
        event: "pause{s} of the whole machine",
        needs: "no CPU took a timer interrupt for at least 30 ms, all at the same time, and none ran meanwhile (a sampling clock \
                on each CPU, kernel_cpustat); strong on a machine with one CPU, where interrupts that were off look the same",
        root_evidence: &[EvidenceKind::Kernel],
        advice: &[
            "nothing of this machine ran, and nobody was counted as having its CPUs: the hypervisor had paused it (live migration, a snapshot with its memory, suspend, a debugger) or its own host stood still: ask who runs that; without a hypervisor look at the firmware (system management interrupts)",
        ],
        source: "kernel/events/core.c, perf_swevent_hrtimer: the clock's interrupt comes as soon as the CPU runs again; \
                 Documentation/virt/kvm/x86/msr.rst: steal time does not contain the time in which a virtual CPU is stopped",
        changes: &[change(
            "live migration and snapshots with memory of this machine",
            "decided by the hypervisor",
            "off, or while the broker leads no partitions",
        )],
        effect: "; all of it, if the machine is not paused",
        risk: "a machine that may not be migrated goes down with its host",
    }

    CpuSteal: Root in Threads, changed in Os {
        event: "stretch{es} of stolen CPU time",
        needs: "no timer interrupt on a CPU for at least 30 ms, most of it counted as steal time: on all CPUs, or with the thread \
                that was on the CPU (exact); weak where it only fits a thread's wait for a CPU",
        root_evidence: &[EvidenceKind::Kernel, EvidenceKind::OffCpu],
        proof: "the CPU that each waiting thread was queued on",
        advice: &[
            "the hypervisor gave this machine's CPUs to others: use dedicated or pinned CPUs, a less crowded host, or an instance type without CPU credits; in a limited virtual machine raise the limit of its process on the host",
        ],
        source: "Documentation/virt/kvm/x86/msr.rst (MSR_KVM_STEAL_TIME), proc_stat(5): time in which a virtual CPU wanted to run and \
                 did not",
        look_at: ", and steal_cpu_ratio in host_samples/",
        changes: &[change(
            "CPUs of this virtual machine (of the hypervisor)",
            "shared with others",
            "dedicated or pinned",
        )],
        effect: "",
        risk: "dedicated CPUs cost more",
    }
}

/// The times within a stretch in which the machine had no CPU.
pub(crate) fn pauses(window: &Window, span: TimeSpan) -> impl Iterator<Item = &HostPause> {
    window.cpu_gaps.pauses.overlapping(span)
}

/// What the pauses explain of a stretch, for the time that nothing else has taken.
pub(crate) fn explain(window: &Window, span: TimeSpan, free: &mut TimeBudget) -> Vec<CauseCandidate> {
    let found = pauses(window, span).filter_map(|pause| {
        let time = free.take_any(pause.span().within(span))?;
        Some(candidate(window, pause, time))
    });
    found.collect()
}

/// The cause of a pause, for `time` of a request.
pub(crate) fn candidate(window: &Window, pause: &HostPause, time: Nanos) -> CauseCandidate {
    let seen = evidence(EvidenceKind::Kernel, pause, describe(pause));
    let is_sure = pause.cpus > 1 || is_stolen(pause);
    let confidence = if is_sure { Confidence::Exact } else { Confidence::Strong };
    let (cause, key) = if is_stolen(pause) {
        (Cause::CpuSteal, episode(window, pause.span()))
    } else {
        (Cause::HostPaused, pause.span().start.0)
    };
    CauseCandidate::new(cause, key, confidence, time).with([seen])
}

/// Describes a pause.
pub(crate) fn describe(pause: &HostPause) -> String {
    let (time, cpus) = (pause.span().length(), pause.cpus);
    let cpus = if cpus == 1 { "its only CPU".to_owned() } else { format!("any of its {cpus} CPUs") };
    if is_stolen(pause) {
        return format!(
            "the machine did not run for {time}: no timer interrupt came on {cpus}, and most of the time was counted as steal"
        );
    }
    let stolen = match pause.stolen_cpus {
        0 => "no steal time was counted".to_owned(),
        some => format!("steal time was counted for {some} of them only"),
    };
    format!("the machine was paused: no timer interrupt came on {cpus} for {time}, and {stolen}")
}

/// Half of the CPUs are enough: an idle CPU may not have been wanted.
fn is_stolen(pause: &HostPause) -> bool {
    pause.stolen_cpus.saturating_mul(2) >= pause.cpus
}

/// CPU time stolen from a request's own operations: their thread was on the CPU that was taken.
pub(crate) fn stolen_from_operations(
    breakdown: &Breakdown<'_>,
    free: &mut TimeBudget,
) -> Vec<CauseCandidate> {
    let stolen = breakdown.operations.iter().filter_map(|hold| {
        let span = hold.op.span().until(breakdown.answered);
        of_thread(breakdown.window, hold.op.tid, span, Confidence::Exact, free)
    });
    stolen.collect()
}

/// CPU time stolen from a thread that was needed in a stretch.
/// Which request it would have worked on is inferred from what it worked on then.
pub(crate) fn stolen_from_thread(
    window: &Window,
    tid: Tid,
    span: TimeSpan,
    free: &mut TimeBudget,
) -> Option<CauseCandidate> {
    of_thread(window, tid, span, Confidence::Strong, free)
}

fn of_thread(
    window: &Window,
    tid: Tid,
    span: TimeSpan,
    confidence: Confidence,
    free: &mut TimeBudget,
) -> Option<CauseCandidate> {
    let gaps = window.cpu_gaps.of_thread(tid, span);
    let (gap, time) = free.take_parts(gaps.map(|gap| (gap, gap.span().within(span))))?;
    Some(steal(window, gap, confidence, time))
}

/// A CPU that was stolen for most of a stretch in which a thread had no CPU: by time.
pub(crate) fn stolen_meanwhile(window: &Window, span: TimeSpan, time: Nanos) -> Option<CauseCandidate> {
    let (gap, _) = window.cpu_gaps.most_stolen(span)?;
    Some(steal(window, gap, Confidence::Weak, time))
}

/// CPU time stolen from other threads, for the remaining time of a stretch.
/// Returned if threads of the broker that serve requests were on stolen CPUs for most of that time: by time only.
pub(crate) fn stolen_from_others(
    window: &Window,
    span: TimeSpan,
    free: &mut TimeBudget,
) -> Option<CauseCandidate> {
    let gaps = window.cpu_gaps.of_threads(span).filter(|(gap, _)| cpu::serves(&gap.thread));
    let parts = gaps.map(|(gap, tid)| (gap, gap.span(), tid));
    let longest = cpu::others(parts, span, free)?.longest;
    Some(steal(window, longest, Confidence::Weak, free.take(span)))
}

fn steal(window: &Window, gap: &CpuGap, confidence: Confidence, time: Nanos) -> CauseCandidate {
    let (cpu, length, stolen) = (gap.cpu, gap.length(), gap.stolen);
    let text = format!("CPU {cpu} ran nothing for {length}, of which {stolen} was counted as steal time");
    let seen = evidence(EvidenceKind::Kernel, gap, text);
    let seen = match gap.tid {
        Some(tid) => seen.of_thread(tid, &window.name(tid, &gap.thread)),
        None => seen,
    };
    CauseCandidate::new(Cause::CpuSteal, episode(window, gap.span()), confidence, time).with([seen])
}

/// When the episode of steal began that includes a stretch.
fn episode(window: &Window, span: TimeSpan) -> i64 {
    window.troubles.began(Trouble::Steal, span).unwrap_or(span.start).0
}
