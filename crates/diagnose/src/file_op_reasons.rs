//! Splits the time of file operations into reasons that add up to it. Reads kernel stacks and the other events of the
//! operation's thread; whether a journal or a device caused a wait is for a verdict to find.
//!
//! Time in which a thread could have run but had no CPU is `run-queue`. A reclaim is `memory-reclaim` from end to
//! end. A wait has the name of what its stack waited for. The rest was spent on a CPU, or, if that is uncertain, is
//! `unobserved`.

pub(crate) mod claims;
pub(crate) mod past;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use model::{Event, FileOp, Loss, LossKind, Nanos, Waker};

use crate::file_op_reasons::claims::{Claim, DeviceTimes, Rank};
use crate::file_op_reasons::past::{Threads, overlapping};
use crate::time::{Span, TimeSpan};
use crate::waits::runnable;

/// The name of time in which a thread could have run but had no CPU.
pub(crate) const RUN_QUEUE: &str = "run-queue";
const CPU: &str = "cpu";
const UNOBSERVED: &str = "unobserved";
const RECLAIM: &str = "memory-reclaim";
const THROTTLING: &str = "dirty-throttling";
/// Losses kept: sources report them once a second, which bounds their number.
const MAX_LOSSES: usize = 1_024;

/// A part of an operation's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// What it was spent on (`journal-commit`, `run-queue`, `cpu`, `unobserved`).
    pub name: &'static str,
    /// How much of it.
    pub time: Nanos,
    /// The kernel function that gives the reason in its longest stretch. `None` if there was no stack.
    pub function: Option<Arc<str>>,
    /// The thread that ended its longest stretch; `None` if unknown, or for an interrupt or a device.
    pub woken_by: Option<Waker>,
}

/// Collects what bears on operations.
/// Feed it in the order of [`Event::time`], as recordings and watches deliver events.
#[derive(Debug)]
pub struct Reasons {
    /// Whether threads' time off the CPU was watched.
    watched: bool,
    threads: Threads,
    devices: DeviceTimes,
    /// When events were lost: the missing time was not necessarily spent on a CPU.
    losses: VecDeque<TimeSpan>,
}

impl Reasons {
    /// For a watch or a recording; `watched` tells whether it saw threads leave the CPU.
    pub fn new(watched: bool) -> Self {
        let (threads, devices, losses) = Default::default();
        Self { watched, threads, devices, losses }
    }

    /// Takes an event that may bear on an operation; ignores others.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::OffCpu(interval) => self.threads.off_cpu(interval),
            Event::Reclaim(reclaim) => self.threads.reclaim(reclaim),
            Event::DirtyThrottle(pause) => self.threads.throttle(pause),
            Event::BlockIo(io) => self.devices.block_io(io),
            Event::Loss(loss) => self.loss(loss),
            _ => {}
        }
    }

    /// What the operation's time was spent on, longest first.
    /// The lengths add up to the operation's latency. Drops what ended before the operation did, unless other
    /// operations continue around it.
    pub fn of(&mut self, op: &FileOp) -> Vec<Reason> {
        let rest = if self.watched && !self.lost_within(op) { CPU } else { UNOBSERVED };
        let reasons = claims::add_up(op.span(), self.claims(op), rest);
        self.threads.forget_op(op);
        reasons
    }

    fn claims(&self, op: &FileOp) -> Vec<Claim<'_>> {
        let mut claims = Vec::new();
        let Some(thread) = self.threads.of(op.tid) else { return claims };
        let span = op.span();
        let unseen = thread.known_from.filter(|_| self.watched);
        claims.extend(unseen.map(|until| Claim::new(span.until(until), Rank::Rest, UNOBSERVED)));
        for interval in overlapping(&thread.intervals, span) {
            claims.push(Claim::new(runnable(&interval.off_cpu), Rank::RunQueue, RUN_QUEUE));
            let claim = Claim::of_wait(interval);
            claims.push(claim);
            claims.extend(
                self.devices.handed_over(op, interval).map(|issued| Claim::before_device(claim, issued)),
            );
        }
        let reclaims = overlapping(&thread.reclaims, span);
        claims.extend(reclaims.map(|reclaim| Claim::new(*reclaim, Rank::Reclaim, RECLAIM)));
        let pauses = overlapping(&thread.throttles, span);
        claims.extend(pauses.map(|pause| Claim::new(*pause, Rank::Pause, THROTTLING)));
        claims
    }

    fn loss(&mut self, loss: &Loss) {
        if !matches!(
            loss.kind,
            LossKind::ProbeEventsDropped
                | LossKind::ProbeMapFull
                | LossKind::EventsDropped
                | LossKind::SourceShed
                | LossKind::SourceDown
        ) {
            return;
        }
        if self.losses.len() >= MAX_LOSSES {
            self.losses.pop_front();
        }
        self.losses.push_back(loss.span());
    }

    fn lost_within(&self, op: &FileOp) -> bool {
        self.losses.iter().any(|lost| lost.start < op.end && lost.end > op.start)
    }
}

impl Default for Reasons {
    fn default() -> Self {
        Self::new(true)
    }
}
