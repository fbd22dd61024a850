//! How long an append held its partition's log: its write, and what its thread still waited for right after.
//! Does not say why.
//!
//! Kafka stores into the segment's mapped offset and time indexes after the write, before it lets go of the
//! log (`LogSegment.append`, `OffsetIndex.append`). The probes report a thread's long uninterruptible waits
//! between two of its writes; one that begins right after the write is taken for that store.

use model::{FileOp, FileOpKind, Nanos, OffCpu};

use crate::cause::waits::Part;
use crate::window::{CLOCK_SLACK, Window};

/// The index is stored into within microseconds; a busy CPU is granted this much, but no more than the wait then takes: what is
/// shorter than the way to it may be for anything.
const RIGHT_AFTER: Nanos = Nanos::from_millis(3);

/// An append while it holds the log.
#[derive(Debug)]
pub(crate) struct Hold<'w> {
    pub(crate) op: &'w FileOp,
    /// Off the CPU inside the write.
    pub(crate) inside: Vec<&'w OffCpu>,
    /// Off the CPU right after it.
    pub(crate) after: Vec<&'w OffCpu>,
}

impl<'w> Hold<'w> {
    /// The hold of an append that was over at `until`, when its response was seen or another thread wrote to
    /// the same log: a wait that lasted longer was for something else.
    pub(crate) fn of(window: &'w Window, op: &'w FileOp, until: Nanos) -> Self {
        let mut hold = Self::without_after(window, op);
        let Some(past) = window.thread(op.tid) else { return hold };
        let end = op.end;
        let waits = move || past.off_cpu.ended_after(end).filter(move |wait| wait.start >= end);
        // Most have none: then there is no need to know what the thread did next.
        if waits().next().is_none_or(|wait| !hold.goes_on_with(wait)) {
            return hold;
        }
        // A fault on a mapped file is what the thread may wait for right after the write.
        let later = past.file_ops.ended_after(op.end).filter(|next| next.op != FileOpKind::MmapFault);
        let next_call = later.map(|next| next.start).find(|&start| start >= op.end);
        let over = next_call.unwrap_or(Nanos::MAX).min(until + CLOCK_SLACK);
        for wait in waits() {
            if !hold.goes_on_with(wait) || wait.end > over {
                break;
            }
            hold.after.push(wait);
        }
        hold
    }

    /// Whether a wait came right after what is known of it.
    fn goes_on_with(&self, wait: &OffCpu) -> bool {
        wait.start - self.end() <= RIGHT_AFTER.min(wait.end - wait.start)
    }

    /// An operation that holds no log longer than it lasts.
    pub(crate) fn without_after(window: &'w Window, op: &'w FileOp) -> Self {
        let past = window.thread(op.tid).into_iter();
        let inside = past.flat_map(|past| past.off_cpu.overlapping(op.start, op.end)).collect();
        Self { op, inside, after: Vec::new() }
    }

    /// When the log was free again, as far as it was seen.
    pub(crate) fn end(&self) -> Nanos {
        self.after.last().map_or(self.op.end, |wait| wait.end)
    }

    pub(crate) fn length(&self) -> Nanos {
        self.end() - self.op.start
    }

    /// Until when waits are of that part.
    pub(crate) fn end_of(&self, part: Part) -> Nanos {
        match part {
            Part::Write => self.op.end,
            Part::After => self.end(),
        }
    }
}
