//! What a thread waited for in an operation on a file. Also right after an append, while it still held the log.
//!
//! Kafka stores into the segment's mapped indexes after the write, before it releases the log (`LogSegment.append`,
//! `OffsetIndex.append`): an uninterruptible wait right after the write is attributed to that store.
//!
//! Time in which the thread could run and had no CPU counts as that; a reclaim counts from end to end; the rest of a
//! wait is what its stack shows. A pause that the kernel announced counts whether or not the thread left the CPU.

use std::sync::Arc;

use model::{Confidence, Evidence, EvidenceKind, FileOp, FileOpKind, Nanos, OffCpu, Reclaim, Waker};

use crate::causes::candidate::evidence;
use crate::kernel_stack;
use crate::kernel_stack::Wait;
use crate::time::{Span, TimeBudget, TimeSpan, is_most};
use crate::window::{CLOCK_SLACK, Window};

/// The index is stored into within microseconds.
/// A busy CPU gets this much time, but no more than the wait then takes: a wait shorter than the gap before it may be
/// for anything.
const RIGHT_AFTER: Nanos = Nanos::from_millis(3);

/// An append while it holds the log.
#[derive(Debug)]
pub(crate) struct LockHold<'w> {
    pub(crate) op: &'w FileOp,
    /// Off the CPU inside the write.
    pub(crate) inside: Vec<&'w OffCpu>,
    /// Off the CPU right after it.
    pub(crate) after: Vec<&'w OffCpu>,
}

impl<'w> LockHold<'w> {
    /// The hold of an append that was over at `until`.
    /// By then its response was seen or another thread wrote to the same log: a longer wait was for something else.
    pub(crate) fn of(window: &'w Window, op: &'w FileOp, until: Nanos) -> Self {
        let mut hold = Self::without_after(window, op);
        let (tid, end) = (op.tid, op.end);
        let waits = || window.off_cpu.of(&tid).ended_after(end).filter(move |wait| wait.start >= end);
        // Most have none: then the thread's next operation need not be known.
        if waits().next().is_none_or(|wait| !hold.goes_on_with(wait)) {
            return hold;
        }
        // A fault on a mapped file is what the thread may wait for right after the write.
        let later = window.file_ops.of(&tid).ended_after(end);
        let later = later.filter(|next| next.op != FileOpKind::MmapFault);
        let next_call = later.map(|next| next.start).find(|&start| start >= end);
        let over = next_call.unwrap_or(Nanos::MAX).min(until + CLOCK_SLACK);
        for wait in waits() {
            if !hold.goes_on_with(wait) || wait.end > over {
                break;
            }
            hold.after.push(wait);
        }
        hold
    }

    /// Whether a wait came right after the known part of the hold.
    fn goes_on_with(&self, wait: &OffCpu) -> bool {
        wait.start - self.end() <= RIGHT_AFTER.min(wait.end - wait.start)
    }

    /// An operation that holds no log longer than it lasts.
    pub(crate) fn without_after(window: &'w Window, op: &'w FileOp) -> Self {
        let inside = window.off_cpu.of(&op.tid).overlapping(op.span()).collect();
        Self { op, inside, after: Vec::new() }
    }

    /// When the log was released, as far as it was seen.
    pub(crate) fn end(&self) -> Nanos {
        self.after.last().map_or(self.op.end, |wait| wait.end)
    }

    /// The end of a part.
    fn end_of(&self, part: Part) -> Nanos {
        match part {
            Part::Write => self.op.end,
            Part::After => self.end(),
        }
    }
}

impl Span for LockHold<'_> {
    fn span(&self) -> TimeSpan {
        TimeSpan::new(self.op.start, self.end())
    }
}

/// Which part of an append a wait was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Inside the write.
    Write,
    /// After it, still holding the log: presumably a store into a mapped index.
    After,
}

/// Waits of one kind in one part of an append.
#[derive(Debug)]
pub(crate) struct OperationWaits<'w> {
    pub(crate) op: &'w FileOp,
    pub(crate) part: Part,
    pub(crate) kind: Wait,
    /// Their total time.
    pub(crate) time: Nanos,
    /// The longest of them.
    longest: WaitEvent<'w>,
}

/// A wait and how it was seen: neither off the CPU nor a reclaim if the kernel announced it as a pause.
#[derive(Clone, Copy, Debug)]
struct WaitEvent<'w> {
    span: TimeSpan,
    thread: &'w Arc<str>,
    off_cpu: Option<&'w OffCpu>,
    reclaim: Option<&'w Reclaim>,
}

impl<'w> WaitEvent<'w> {
    fn new(event: &impl Span, thread: &'w Arc<str>) -> Self {
        Self { span: event.span(), thread, off_cpu: None, reclaim: None }
    }

    fn of_off_cpu(interval: &'w OffCpu) -> Self {
        Self { off_cpu: Some(interval), ..Self::new(interval, &interval.thread) }
    }
}

/// What an operation's thread waited for, the longest first.
pub(crate) fn waits_of<'w>(window: &'w Window, hold: &LockHold<'w>) -> Vec<OperationWaits<'w>> {
    let (op, whole) = (hold.op, hold.span());
    let reclaims = || window.troubles.reclaims.of(&op.tid).overlapping(whole);
    let throttles = || window.throttles.of(&op.tid).overlapping(op.span());
    let is_quiet = hold.inside.is_empty() && hold.after.is_empty();
    if is_quiet && reclaims().next().is_none() && throttles().next().is_none() {
        return Vec::new();
    }
    let mut free = TimeBudget::new(whole);
    let mut sums = WaitSums { op, waits: Vec::new() };
    let inside = hold.inside.iter().map(|interval| (Part::Write, *interval));
    let after = hold.after.iter().map(|interval| (Part::After, *interval));
    let intervals: Vec<(Part, &OffCpu)> = inside.chain(after).collect();
    for &(part, interval) in &intervals {
        let time = free.take(runnable(interval).until(hold.end_of(part)));
        sums.add(part, Wait::RunQueue, time, WaitEvent::of_off_cpu(interval));
    }
    for reclaim in reclaims() {
        let part = if reclaim.start < op.end { Part::Write } else { Part::After };
        let event = WaitEvent { reclaim: Some(reclaim), ..WaitEvent::new(reclaim, &reclaim.thread) };
        sums.add(part, Wait::Reclaim, free.take(reclaim.span()), event);
    }
    for &(part, interval) in &intervals {
        let time = free.take(interval.span().until(hold.end_of(part)));
        sums.add(part, kernel_stack::classify(interval).of_verdict(), time, WaitEvent::of_off_cpu(interval));
    }
    for pause in throttles() {
        let time = free.take(pause.span().until(op.end));
        sums.add(Part::Write, Wait::DirtyPages, time, WaitEvent::new(pause, &op.thread));
    }
    sums.waits.sort_by_key(|waits| std::cmp::Reverse(waits.time));
    sums.waits
}

/// When the first of the simultaneous waits for the same thing began: a wait that blocks several threads at once is
/// one event.
pub(crate) fn since(window: &Window, wait: Wait, span: TimeSpan) -> Nanos {
    let meanwhile = window.off_cpu.all().flat_map(|intervals| intervals.overlapping(span));
    let same = meanwhile.filter(|interval| kernel_stack::classify(interval) == wait);
    same.map(|interval| interval.start).fold(span.start, Nanos::min)
}

/// Shorter reads are normal for a device.
const REMARKABLE: Nanos = Nanos::from_millis(1);

/// A read of a file that waited for the device.
pub(crate) struct DeviceRead<'w> {
    /// The longest wait for it; `None` if no waits were watched.
    pub(crate) longest: Option<OperationWaits<'w>>,
}

/// Whether a read of a file was slow because of the device.
pub(crate) fn device_read<'w>(window: &'w Window, op: &'w FileOp) -> Option<DeviceRead<'w>> {
    let lacked = op.disk_bytes.is_some_and(|bytes| bytes > 0);
    let mut waited = waits_of(window, &LockHold::without_after(window, op));
    if op.latency() < REMARKABLE || (waited.is_empty() && !lacked) {
        return None;
    }
    let was_watched = !waited.is_empty();
    waited.retain(|waits| is_of_device(waits.kind, lacked));
    let time: Nanos = waited.iter().map(|waits| waits.time).sum();
    (!was_watched || is_most(time, op.latency())).then(|| DeviceRead { longest: waited.into_iter().next() })
}

/// Whether a wait is for the device: one for the lock of a page or an inode only if pages were missing.
fn is_of_device(wait: Wait, lacked: bool) -> bool {
    match wait {
        Wait::Device | Wait::DeviceQueue => true,
        Wait::PageLock | Wait::XfsInodeLock => lacked,
        _ => false,
    }
}

/// When a thread waited only for a CPU.
pub(crate) fn runnable(interval: &OffCpu) -> TimeSpan {
    let since = match interval.woken {
        _ if interval.preempted => interval.start,
        Some(woken) => woken.clamp(interval.start, interval.end.max(interval.start)),
        None => interval.end,
    };
    TimeSpan::new(since, interval.end)
}

/// Until it was woken.
pub(crate) fn asleep(interval: &OffCpu) -> TimeSpan {
    interval.span().until(runnable(interval).start)
}

/// The thread that woke this one; `None` if unknown or for an interrupt.
pub(crate) fn waking_thread(interval: &OffCpu) -> Option<&Waker> {
    interval.waker.as_ref().filter(|waker| kernel_stack::is_at_work(waker))
}

struct WaitSums<'w> {
    op: &'w FileOp,
    waits: Vec<OperationWaits<'w>>,
}

impl<'w> WaitSums<'w> {
    fn add(&mut self, part: Part, kind: Wait, time: Nanos, seen: WaitEvent<'w>) {
        if time <= Nanos::ZERO {
            return;
        }
        match self.waits.iter_mut().find(|waits| (waits.part, waits.kind) == (part, kind)) {
            Some(waits) => {
                waits.time += time;
                if seen.span.length() > waits.longest.span.length() {
                    waits.longest = seen;
                }
            }
            None => self.waits.push(OperationWaits { op: self.op, part, kind, time, longest: seen }),
        }
    }
}

impl Span for OperationWaits<'_> {
    /// The longest wait, as far as it belongs to the append.
    fn span(&self) -> TimeSpan {
        match self.part {
            Part::Write => self.longest.span.within(self.op.span()),
            Part::After => self.longest.span,
        }
    }
}

impl<'w> OperationWaits<'w> {
    /// When the longest wait was over, even if the thread had no CPU yet.
    pub(crate) fn woken(&self) -> Nanos {
        self.longest.off_cpu.and_then(|interval| interval.woken).unwrap_or(self.longest.span.end)
    }

    /// The reclaim that the longest wait was, if it was seen as one.
    pub(crate) fn reclaim(&self) -> Option<&'w Reclaim> {
        self.longest.reclaim
    }

    /// Whether the longest wait is known only by the kernel's announcement.
    pub(crate) fn was_announced_only(&self) -> bool {
        self.longest.off_cpu.is_none() && self.longest.reclaim.is_none()
    }

    /// The kernel function that shows the wait best; empty if there is none.
    pub(crate) fn function(&self) -> &'w str {
        self.longest.off_cpu.map_or("", |interval| kernel_stack::naming_frame(&interval.stack))
    }

    /// The longest wait as the scheduler saw it, if it did.
    pub(crate) fn off_cpu(&self) -> Option<&'w OffCpu> {
        self.longest.off_cpu
    }

    /// The thread that ended the longest wait; `None` if unknown or for an interrupt.
    pub(crate) fn released_by(&self) -> Option<&'w Waker> {
        waking_thread(self.longest.off_cpu?)
    }

    /// The transaction that the wait's own handle joined: known for handles of the write only.
    pub(crate) fn journal_transaction(&self) -> Option<u32> {
        self.op.journal_transaction.filter(|_| self.part == Part::Write)
    }

    /// The best confidence of a join by this wait's thread: after the write, that the wait belongs to the append is
    /// inferred from the order of the thread's operations.
    pub(crate) fn best_confidence(&self) -> Confidence {
        match self.part {
            Part::Write => Confidence::Exact,
            Part::After => Confidence::Strong,
        }
    }

    /// The best confidence of a join that is never exact.
    pub(crate) fn strong(&self) -> Confidence {
        self.best_confidence().min(Confidence::Strong)
    }

    /// The evidence of these waits.
    pub(crate) fn evidence(&self) -> Evidence {
        let (time, what) = (self.time, self.what());
        let text = match self.part {
            Part::Write => format!("of which {time} {what}"),
            Part::After => format!("and right after it {time} {what}, still holding the log"),
        };
        self.off_cpu_evidence(text)
    }

    /// The evidence of waits that others outweigh.
    pub(crate) fn minor_evidence(&self) -> Evidence {
        self.off_cpu_evidence(format!("besides, {} {} ({})", self.time, self.what(), self.kind.as_str()))
    }

    fn what(&self) -> String {
        match self.function() {
            _ if self.kind == Wait::RunQueue => "runnable without a CPU".to_owned(),
            _ if self.longest.reclaim.is_some() => "in direct reclaim".to_owned(),
            _ if self.was_announced_only() => "paused by balance_dirty_pages".to_owned(),
            "" => "off the CPU, place not known".to_owned(),
            function => format!("off the CPU in {function}"),
        }
    }

    fn off_cpu_evidence(&self, text: String) -> Evidence {
        evidence(EvidenceKind::OffCpu, self, text).of_thread(self.op.tid, self.longest.thread)
    }
}
