//! What broker and host did over time: threads, files, devices, figures, and what was lost. Knows no requests.

use model::{Event, Loss, Nanos};

use super::axis::Axis;
use super::devices::Beneath;
use super::files::TopFiles;
use super::stacks::Stacks;
use super::threads::Threads;

/// Losses told one by one.
const MAX_LOSSES: usize = 1_000;

/// Takes all events that are not of the network: neither requests nor what happened to sockets and connections.
pub struct Work {
    pub(super) axis: Axis,
    pub(super) threads: Threads,
    pub(super) beneath: Beneath,
    pub(super) stacks: Stacks,
    pub(super) files: TopFiles,
    pub(super) losses: Vec<Loss>,
}

impl Work {
    pub(super) fn new(origin: Option<Nanos>) -> Self {
        Self {
            axis: Axis::new(origin),
            threads: Threads::new(),
            beneath: Beneath::new(),
            stacks: Stacks::default(),
            files: TopFiles::new(),
            losses: Vec::new(),
        }
    }

    /// Takes an event.
    pub fn event(&mut self, event: &Event) {
        let grid = self.axis.reach(event.time());
        match event {
            Event::FileOp(op) => self.files.op(grid, op),
            Event::BlockIo(io) => self.beneath.block_io(grid, io),
            Event::JournalCommit(commit) => self.beneath.commit(commit),
            Event::HostSample(sample) => self.beneath.sample(grid, sample),
            Event::Loss(loss) if self.losses.len() < MAX_LOSSES => self.losses.push(loss.clone()),
            _ => {}
        }
        self.threads.event(grid, event);
        self.stacks.event(grid, event);
    }
}
