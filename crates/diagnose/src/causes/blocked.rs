//! `kernel-wait` and `java-wait`: where a thread waited when nothing says why. They explain only the time that every
//! other cause leaves, so that they hide none, and use the thread's own stack.
//!
//! All waits in one function or method have one root, because nothing distinguishes two events of this kind.

use model::{Cause, Confidence, Evidence, EvidenceKind, LockHolder, LockWait, Nanos, OffCpu, Tid, Waker};

use crate::causes::candidate::{CauseCandidate, evidence, merge_into, op_evidence};
use crate::causes::lock_chain;
use crate::causes::spec::causes;
use crate::kernel_stack;
use crate::kernel_stack::Wait;
use crate::locks::JavaWait;
use crate::locks::names;
use crate::stages::Breakdown;
use crate::time::{Span, TimeBudget, TimeSpan};
use crate::waits::{OperationWaits, asleep, waking_thread};
use crate::window::Window;

causes! {
    KernelWait: Link in Threads {
        event: "wait{s} in the kernel",
        needs: "an off-CPU stack of the thread whose function stands for no cause, for the time that nothing else explains; exact inside an operation of the request; it says where the thread waited, not why",
        root_evidence: &[EvidenceKind::OffCpu],
        advice: &[
            "the evidence names the kernel function, its callers and who woke the thread: look at what that function waits for (the kernel's source) and at what the waker did",
        ],
        source: "kernel/sched/core.c: the stack at sched_switch and the waker at sched_waking are the thread's own",
    }

    JavaWait: Link in Threads {
        event: "wait{s} in Java",
        needs: "a lock wait of the request's handler that the JVM reports, with a Java stack in a produce request, for another lock than the log's; or a wait in a futex of a thread that the request needed, and who woke it (strong)",
        root_evidence: &[EvidenceKind::LockWait, EvidenceKind::OffCpu],
        advice: &[
            "the evidence names the Java method that waited, its callers and who held it up if that is known: `brokerscope stacks --for 10s` shows what that thread does",
        ],
        source: "jdk.JavaMonitorEnter, jdk.ThreadPark: the stack and the previous owner are the JVM's own. kernel/futex/waitwake.c: who releases a lock of Java wakes the thread that waits for it",
    }
}

/// Callers listed to show where a function was called from.
const MAX_CALLERS: usize = 6;

/// Whether a candidate says only where a thread waited.
pub(crate) fn is_blocked(candidate: &CauseCandidate) -> bool {
    matches!(candidate.cause, Cause::KernelWait | Cause::JavaWait)
}

/// Waits of an operation in a kernel function that stands for no cause.
pub(crate) fn of_waits(window: &Window, waits: &OperationWaits<'_>) -> Option<CauseCandidate> {
    let interval = waits.off_cpu().filter(|_| waits.kind != Wait::RunQueue)?;
    let function = function_of(interval)?;
    let seen = waits.evidence();
    let seen =
        Evidence { text: format!("{}{}", seen.text, circumstances(window, interval, function)), ..seen };
    let own = CauseCandidate::new(Cause::KernelWait, function, waits.best_confidence(), waits.time);
    Some(own.with([op_evidence(waits.op), seen]).of_partition_of(waits.op))
}

/// A thread's waits in the kernel while it was needed.
/// Counts only time that nothing else has taken. What it would have done for the request is inferred.
pub(crate) fn of_thread(
    window: &Window,
    tid: Tid,
    span: TimeSpan,
    free: &mut TimeBudget,
) -> Vec<CauseCandidate> {
    let mut found = Vec::new();
    for interval in window.off_cpu.of(&tid).overlapping(span) {
        let Some(function) = function_of(interval) else { continue };
        if let Some(time) = free.take_any(asleep(interval).within(span)) {
            merge_into(&mut found, of_interval(window, interval, function, time));
        }
    }
    found
}

fn of_interval(window: &Window, interval: &OffCpu, function: &str, time: Nanos) -> CauseCandidate {
    let span = asleep(interval);
    let thread = window.name(interval.tid, &interval.thread);
    let around = circumstances(window, interval, function);
    let text = format!("{thread} was off the CPU in {function} for {}{around}", span.length());
    let seen = evidence(EvidenceKind::OffCpu, &span, text).of_thread(interval.tid, &thread);
    CauseCandidate::new(Cause::KernelWait, function, Confidence::Strong, time).with([seen])
}

/// The function that a thread waited in.
/// `None` if it only waited for a CPU, if no stack was taken, if it waits there for work from another thread or a
/// client, as an idle thread does, or if it was stopped.
fn function_of(interval: &OffCpu) -> Option<&str> {
    let (wait, function) = kernel_stack::read(&interval.stack);
    let is_kernels = !function.is_empty() && !kernel_stack::is_of_user_space(&interval.stack);
    let is_kernels = is_kernels && wait != Wait::Stopped;
    (!interval.preempted && is_kernels).then_some(function)
}

/// The callers of the function and the thread that ended the wait, as far as known.
pub(crate) fn circumstances(window: &Window, interval: &OffCpu, function: &str) -> String {
    let frames: Vec<&str> = kernel_stack::frames(&interval.stack).collect();
    let outer = frames.iter().rposition(|frame| *frame == function).and_then(|at| frames.get(..at));
    let callers: Vec<&str> = outer.unwrap_or_default().iter().rev().take(MAX_CALLERS).copied().collect();
    let called =
        if callers.is_empty() { String::new() } else { format!(" (called by {})", callers.join(", ")) };
    called + &waking_thread(interval).map(|waker| woken_by(window, waker)).unwrap_or_default()
}

fn woken_by(window: &Window, waker: &Waker) -> String {
    format!(", woken by {} (thread {})", window.name(waker.tid, &waker.thread), waker.tid)
}

/// Waits in Java of a request's handler, other than for the log's lock.
/// As the JVM saw them, for the time that nothing else has taken, with what is known of the holder.
pub(crate) fn in_java(breakdown: &Breakdown<'_>, free: &mut TimeBudget) -> Vec<CauseCandidate> {
    let mut found = Vec::new();
    for JavaWait { wait, span, confidence } in &breakdown.java_waits {
        let mut methods = names::methods(&wait.stack);
        let Some(method) = methods.next() else { continue };
        let Some(time) = free.take_any(*span) else { continue };
        let own = of_java_wait(breakdown.window, wait, (&method, methods), *confidence, time);
        let holder = wait.holder.as_ref().and_then(|holder| holder.tid).filter(|tid| *tid != wait.tid);
        let deeper =
            holder.map(|tid| lock_chain::of_holder(breakdown.window, tid, *span, &mut vec![wait.tid, tid]));
        found.extend(behind_each(&own, deeper.unwrap_or_default()));
    }
    found
}

/// A wait in a method, with its callers, innermost first.
fn of_java_wait(
    window: &Window,
    wait: &LockWait,
    (method, callers): (&str, impl Iterator<Item = String>),
    confidence: Confidence,
    time: Nanos,
) -> CauseCandidate {
    let callers: Vec<String> = callers.take(MAX_CALLERS).collect();
    let called =
        if callers.is_empty() { String::new() } else { format!(" (called by {})", callers.join(", ")) };
    let thread = window.name(wait.tid, &wait.thread);
    let held = wait.holder.as_ref().map(|holder| held_by(window, holder)).unwrap_or_default();
    let text = format!("{thread} waited {} in {method}{called}{held}", wait.span().length());
    let seen = evidence(EvidenceKind::LockWait, wait, text).of_thread(wait.tid, &thread);
    CauseCandidate::new(Cause::JavaWait, method, confidence, time).with([seen])
}

fn held_by(window: &Window, LockHolder { tid, thread }: &LockHolder) -> String {
    match tid {
        Some(tid) => format!(", held by {} (thread {tid})", window.name(*tid, thread)),
        None => format!(", held by {thread}"),
    }
}

/// A wait behind each cause that delayed the awaited thread. The wait itself takes the rest of the time.
pub(crate) fn behind_each(own: &CauseCandidate, deeper: Vec<CauseCandidate>) -> Vec<CauseCandidate> {
    let deeper = lock_chain::limit_time(deeper, own.time);
    let known: Nanos = deeper.iter().map(|deeper| deeper.time).sum();
    let rest = CauseCandidate { time: own.time - known, ..own.clone() };
    let behind = deeper.into_iter().map(|deeper| {
        let time = deeper.time;
        CauseCandidate { time, ..own.clone().behind(deeper) }
    });
    behind.chain([rest]).filter(|candidate| candidate.time > Nanos::ZERO).collect()
}
