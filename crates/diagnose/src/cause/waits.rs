//! What an operation's thread waited for, each instant once: the waits of one kind together. Does not say why they
//! were long.
//!
//! Time in which the thread could run and had no CPU is that, whatever it did; freeing memory is that from end to end,
//! on the CPU too; the rest of a wait is what its stack says. A pause that the kernel announced is one whether or not the
//! thread was seen to leave the CPU for it.

use std::sync::Arc;

use model::{Confidence, DirtyThrottle, Evidence, EvidenceKind, FileOp, Nanos, OffCpu, Reclaim, Waker};

use super::stack::{self, Wait};
use crate::free::Free;
use crate::hold::Hold;
use crate::window::Window;

/// Which part of an append a wait was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Inside the write.
    Write,
    /// After it, still holding the log: a store into a mapped index, for all that is known.
    After,
}

/// What a thread waited for in one part of an append: the waits of one kind together.
#[derive(Debug)]
pub(crate) struct Waits<'w> {
    pub(crate) op: &'w FileOp,
    pub(crate) part: Part,
    pub(crate) kind: Wait,
    /// How long, all in all.
    pub(crate) time: Nanos,
    /// The longest of them.
    longest: Seen<'w>,
}

/// How a wait was seen.
#[derive(Clone, Copy, Debug)]
enum Seen<'w> {
    OffCpu(&'w OffCpu),
    Reclaim(&'w Reclaim),
    /// The kernel announced it.
    Pause(&'w DirtyThrottle),
}

/// What an operation's thread waited for, the longest first.
pub(crate) fn of<'w>(window: &'w Window, hold: &Hold<'w>) -> Vec<Waits<'w>> {
    let (tid, start, end, over) = (hold.op.tid, hold.op.start, hold.op.end, hold.end());
    let reclaims = || window.trouble.reclaims(tid, start, over);
    let throttles =
        || window.thread(tid).into_iter().flat_map(move |past| past.throttles.overlapping(start, end));
    let is_quiet = hold.inside.is_empty() && hold.after.is_empty();
    if is_quiet && reclaims().next().is_none() && throttles().next().is_none() {
        return Vec::new();
    }
    let mut free = Free::new(hold.op.start, hold.end());
    let mut sums = Sums { op: hold.op, waits: Vec::new() };
    let inside = hold.inside.iter().map(|interval| (Part::Write, *interval));
    let after = hold.after.iter().map(|interval| (Part::After, *interval));
    let intervals: Vec<(Part, &OffCpu)> = inside.chain(after).collect();
    for &(part, interval) in &intervals {
        let time = free.take(runnable_from(interval), interval.end.min(hold.end_of(part)));
        sums.add(part, Wait::RunQueue, time, Seen::OffCpu(interval));
    }
    for reclaim in reclaims() {
        let part = if reclaim.start < hold.op.end { Part::Write } else { Part::After };
        let time = free.take(reclaim.start, reclaim.end);
        sums.add(part, Wait::Reclaim, time, Seen::Reclaim(reclaim));
    }
    for &(part, interval) in &intervals {
        let time = free.take(interval.start, interval.end.min(hold.end_of(part)));
        sums.add(part, stack::classify(interval).of_verdict(), time, Seen::OffCpu(interval));
    }
    for pause in throttles() {
        let time = free.take(pause.start, pause.end.min(hold.op.end));
        sums.add(Part::Write, Wait::DirtyPages, time, Seen::Pause(pause));
    }
    sums.waits.sort_by_key(|waits| std::cmp::Reverse(waits.time));
    sums.waits
}

/// From when on a thread waited for nothing but a CPU.
pub(crate) fn runnable_from(interval: &OffCpu) -> Nanos {
    match interval.woken {
        _ if interval.preempted => interval.start,
        Some(woken) => woken.clamp(interval.start, interval.end.max(interval.start)),
        None => interval.end,
    }
}

struct Sums<'w> {
    op: &'w FileOp,
    waits: Vec<Waits<'w>>,
}

impl<'w> Sums<'w> {
    fn add(&mut self, part: Part, kind: Wait, time: Nanos, seen: Seen<'w>) {
        if time <= Nanos::ZERO {
            return;
        }
        match self.waits.iter_mut().find(|waits| (waits.part, waits.kind) == (part, kind)) {
            Some(waits) => {
                waits.time += time;
                if seen.length() > waits.longest.length() {
                    waits.longest = seen;
                }
            }
            None => self.waits.push(Waits { op: self.op, part, kind, time, longest: seen }),
        }
    }
}

impl Seen<'_> {
    fn span(&self) -> (Nanos, Nanos) {
        match self {
            Self::OffCpu(interval) => (interval.start, interval.end),
            Self::Reclaim(reclaim) => (reclaim.start, reclaim.end),
            Self::Pause(pause) => (pause.start, pause.end),
        }
    }

    fn length(&self) -> Nanos {
        let (start, end) = self.span();
        end - start
    }
}

impl<'w> Waits<'w> {
    /// The longest wait, as far as it belongs to the append.
    pub(crate) fn span(&self) -> (Nanos, Nanos) {
        let (start, end) = self.longest.span();
        match self.part {
            Part::Write => (start.max(self.op.start), end.min(self.op.end)),
            Part::After => (start, end),
        }
    }

    /// When the longest wait was over, though the thread may not have had a CPU yet.
    pub(crate) fn woken(&self) -> Nanos {
        match self.longest {
            Seen::OffCpu(interval) => interval.woken.unwrap_or(interval.end),
            Seen::Reclaim(reclaim) => reclaim.end,
            Seen::Pause(pause) => pause.end,
        }
    }

    /// The reclaim that the longest wait was, where it was seen as one.
    pub(crate) fn reclaim(&self) -> Option<&'w Reclaim> {
        match self.longest {
            Seen::Reclaim(reclaim) => Some(reclaim),
            Seen::OffCpu(_) | Seen::Pause(_) => None,
        }
    }

    /// Whether the longest wait is known by the kernel's announcement alone.
    pub(crate) fn was_announced_only(&self) -> bool {
        matches!(self.longest, Seen::Pause(_))
    }

    /// The kernel's function that says so best; empty where none does.
    pub(crate) fn function(&self) -> &'w str {
        match self.longest {
            Seen::OffCpu(interval) => stack::telling_frame(&interval.stack),
            Seen::Reclaim(_) | Seen::Pause(_) => "",
        }
    }

    /// Who ended the longest wait, where a thread did and not an interrupt.
    pub(crate) fn released_by(&self) -> Option<&'w Waker> {
        match self.longest {
            Seen::OffCpu(interval) => interval.waker.as_ref().filter(|waker| stack::is_at_work(waker)),
            Seen::Reclaim(_) | Seen::Pause(_) => None,
        }
    }

    /// The transaction that the wait's own handle joined: known for handles of the write only.
    pub(crate) fn journal_transaction(&self) -> Option<u32> {
        self.op.journal_transaction.filter(|_| self.part == Part::Write)
    }

    /// What a join by this wait's thread is worth: after the write, that the wait belongs to the append is
    /// concluded from the order of what the thread did.
    pub(crate) fn best_confidence(&self) -> Confidence {
        match self.part {
            Part::Write => Confidence::Exact,
            Part::After => Confidence::Strong,
        }
    }

    /// What was seen of it, in words.
    pub(crate) fn evidence(&self) -> Evidence {
        let (time, what) = (self.time, self.what());
        let text = match self.part {
            Part::Write => format!("of which {time} {what}"),
            Part::After => format!("and right after it {time} {what}, still holding the log"),
        };
        self.told(text)
    }

    /// The same of one that others outweigh.
    pub(crate) fn beside(&self) -> Evidence {
        self.told(format!("besides, {} {} ({})", self.time, self.what(), self.kind.name()))
    }

    fn what(&self) -> String {
        match (self.kind, self.longest) {
            (Wait::RunQueue, _) => "runnable without a CPU".to_owned(),
            (_, Seen::Reclaim(_)) => "freeing memory".to_owned(),
            (_, Seen::Pause(_)) => "paused by the kernel".to_owned(),
            (_, Seen::OffCpu(_)) => match self.function() {
                "" => "off the CPU in an unknown place".to_owned(),
                function => format!("off the CPU in {function}"),
            },
        }
    }

    fn told(&self, text: String) -> Evidence {
        let (tid, thread) = match self.longest {
            Seen::OffCpu(interval) => (interval.tid, &interval.thread),
            Seen::Reclaim(reclaim) => (reclaim.tid, &reclaim.thread),
            Seen::Pause(pause) => (pause.tid, &self.op.thread),
        };
        let (start, end) = self.span();
        Evidence {
            kind: EvidenceKind::OffCpu,
            start,
            end,
            tid: Some(tid),
            thread: Some(Arc::clone(thread)),
            waiter: None,
            text,
        }
    }
}
