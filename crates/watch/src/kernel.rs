//! The kernel's side of a watch: polls the probes in a thread of its own and puts what they saw into the
//! shared vocabulary. Which hooks run is `probes`' business.

mod block_io;
mod file_op;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use model::{ClockOffset, Event, Loss, LossKind, Nanos, Pid};
use probes::Probes;

use crate::devices::Devices;
use crate::files::Files;
use crate::mounts::Mounts;
use crate::queue::{Batch, Sender};
use crate::thread_names::NameReader;

/// The longest an event waits in the ring buffer; the kernel wakes the reader earlier when it fills. Whoever wakes
/// seldom finds more to do at once, and each time takes less of it.
const POLL: Duration = Duration::from_millis(200);
/// How often losses are looked at.
const LOSS_CHECK: Duration = Duration::from_secs(1);

/// What the kernel's thread needs.
pub(crate) struct KernelSource {
    pub(crate) probes: Probes,
    pub(crate) offset: ClockOffset,
    pub(crate) names: Names,
    pub(crate) sender: Sender,
    pub(crate) stop: Arc<AtomicBool>,
}

/// Names and numbers that probes do not know.
pub(crate) struct Names {
    files: Files,
    devices: Devices,
    threads: NameReader,
}

impl KernelSource {
    /// Polls until told to stop, then once more for what is left. Returns the probes to be asked for totals.
    pub(crate) fn run(mut self) -> Result<Probes, probes::Error> {
        let mut losses = Losses::default();
        let mut checked = Instant::now();
        loop {
            let stopping = self.stop.load(Ordering::Relaxed);
            let (names, offset) = (&mut self.names, self.offset);
            let timeout = if stopping { Duration::ZERO } else { POLL };
            let mut batch = Batch::of(&self.sender);
            let polled = self.probes.poll(timeout, &mut |event| batch.push(names.event(event, offset)));
            batch.send();
            polled?;
            if stopping || checked.elapsed() >= LOSS_CHECK {
                losses.check(&self.probes, offset, &self.sender);
                checked = Instant::now();
            }
            if stopping {
                return Ok(self.probes);
            }
        }
    }
}

/// What the probes had lost when last asked.
#[derive(Default)]
struct Losses {
    at: Option<Nanos>,
    seen: probes::Losses,
}

impl Losses {
    fn check(&mut self, probes: &Probes, offset: ClockOffset, sender: &Sender) {
        let now = offset.from_monotonic(crate::now().monotonic_ns);
        let start = self.at.replace(now).unwrap_or(now - Nanos::from_millis(1_000));
        let losses = probes.losses();
        let seen = std::mem::replace(&mut self.seen, losses);
        for (kind, before, after, detail) in [
            (
                LossKind::ProbeEventsDropped,
                seen.ring_full,
                losses.ring_full,
                "the probes' ring buffer was full",
            ),
            (LossKind::ProbeEventsDropped, seen.skipped, losses.skipped, "the kernel skipped a probe"),
            (LossKind::ProbeEventsDropped, seen.undecodable, losses.undecodable, "records could not be read"),
            (
                LossKind::ProbeEventsDropped,
                seen.mappings_unseen,
                losses.mappings_unseen,
                "the file of an msync could not be seen",
            ),
            (LossKind::ProbeMapFull, seen.map_full, losses.map_full, "a probe's map was full"),
        ] {
            let count = after.saturating_sub(before);
            if count > 0 {
                sender.send(Event::Loss(Loss { start, end: now, kind, count, detail: detail.into() }));
            }
        }
    }
}

impl Names {
    /// Names as that process means them.
    pub(crate) fn new(pid: Pid, log_dirs: &[PathBuf], threads: NameReader) -> Self {
        let mounts = Mounts::of(pid);
        Self { files: Files::new(mounts.clone(), log_dirs), devices: Devices::new(mounts), threads }
    }

    fn event(&mut self, event: probes::Event, offset: ClockOffset) -> Event {
        match event {
            probes::Event::FileOp(op) => Event::FileOp(Box::new(self.file_op(op, offset))),
            probes::Event::BlockIo(io) => Event::BlockIo(Box::new(self.block_io(io, offset))),
            probes::Event::Row(mut event) => {
                self.complete(&mut event);
                event
            }
        }
    }

    /// Adds full names of threads, and names of devices.
    fn complete(&mut self, event: &mut Event) {
        match event {
            Event::OffCpu(interval) => {
                self.threads.complete(interval.tid, &mut interval.thread);
                if let Some(waker) = &mut interval.waker {
                    self.threads.complete(waker.tid, &mut waker.thread);
                }
            }
            Event::Reclaim(reclaim) => self.threads.complete(reclaim.tid, &mut reclaim.thread),
            Event::SocketOp(op) => self.threads.complete(op.tid, &mut op.thread),
            Event::KernelSpan(span) => {
                self.threads.complete(span.tid, &mut span.thread);
                if let Some(device) = &mut span.device {
                    *device = self.devices.device((device.major, device.minor));
                }
            }
            Event::JournalCommit(commit) => {
                commit.device = self.devices.device((commit.device.major, commit.device.minor));
            }
            _ => {}
        }
    }
}
