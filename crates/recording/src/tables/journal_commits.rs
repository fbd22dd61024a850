//! `journal_commits/`: commits of journals, with the phases where they were seen.

use model::CommitPhases;
use model::{Event, JournalCommit, Nanos};

use super::device;
use crate::cells::BadRow;
use crate::columns::{Derived, I64, Maybe, Text, U32, columns};
use crate::table::{Decode, Encode};
use crate::text::TextPool;

columns! {
    JournalCommits, JournalCommitCells {
        start_ns: I64,
        end_ns: I64,
        latency_ns: Derived<I64>,
        device: Maybe<Text>,
        device_major: U32,
        device_minor: U32,
        transaction: U32,
        wait_ns: Maybe<I64>,
        running_ns: Maybe<I64>,
        locked_ns: Maybe<I64>,
        flushing_ns: Maybe<I64>,
        logging_ns: Maybe<I64>,
        handles: Maybe<U32>,
        blocks: Maybe<U32>,
        blocks_logged: Maybe<U32>,
    }
}

impl Encode for JournalCommits {
    type Row = JournalCommit;

    fn append(&mut self, commit: &JournalCommit) {
        self.start_ns.append_value(commit.start.0);
        self.end_ns.append_value(commit.end.0);
        self.latency_ns.append_value(commit.latency().0);
        device::append(&commit.device, &mut self.device, &mut self.device_major, &mut self.device_minor);
        self.transaction.append_value(commit.transaction);
        let phases = commit.phases.as_ref();
        self.wait_ns.append_option(phases.map(|p| p.wait.0));
        self.running_ns.append_option(phases.map(|p| p.running.0));
        self.locked_ns.append_option(phases.map(|p| p.locked.0));
        self.flushing_ns.append_option(phases.map(|p| p.flushing.0));
        self.logging_ns.append_option(phases.map(|p| p.logging.0));
        self.handles.append_option(phases.map(|p| p.handles));
        self.blocks.append_option(phases.map(|p| p.blocks));
        self.blocks_logged.append_option(phases.map(|p| p.blocks_logged));
    }

    fn weight(_: &JournalCommit) -> usize {
        128
    }
}

impl JournalCommitCells {
    /// The phases are all there or none of them are.
    fn phases(&self, i: usize) -> Result<Option<CommitPhases>, BadRow> {
        let Some(wait) = self.wait_ns.maybe(i) else { return Ok(None) };
        Ok(Some(CommitPhases {
            wait: Nanos(wait),
            running: Nanos(self.running_ns.at(i)?),
            locked: Nanos(self.locked_ns.at(i)?),
            flushing: Nanos(self.flushing_ns.at(i)?),
            logging: Nanos(self.logging_ns.at(i)?),
            handles: self.handles.at(i)?,
            blocks: self.blocks.at(i)?,
            blocks_logged: self.blocks_logged.at(i)?,
        }))
    }
}

impl Decode for JournalCommitCells {
    fn event(&self, i: usize, pool: &mut TextPool) -> Result<Event, BadRow> {
        Ok(Event::JournalCommit(Box::new(JournalCommit {
            start: Nanos(self.start_ns.at(i)?),
            end: Nanos(self.end_ns.at(i)?),
            device: device::read(i, &self.device, &self.device_major, &self.device_minor, pool)?,
            transaction: self.transaction.at(i)?,
            phases: self.phases(i)?,
        })))
    }
}
