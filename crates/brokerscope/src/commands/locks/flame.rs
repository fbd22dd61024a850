//! The flame graph of the stacks at which threads waited for locks.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use anyhow::Context as _;
use diagnose::LockRow;
use model::CpuState;
use page::flame_graph::{self, FoldedStacks, Header};
use report::locks::stack_time;

/// Adds waits up until the input has ended.
pub(super) struct Flame<'a> {
    file: &'a Path,
    fold: FoldedStacks,
    inferred: u64,
}

impl<'a> Flame<'a> {
    /// To be written to this file.
    pub(super) fn new(file: &'a Path) -> Self {
        Self { file, fold: FoldedStacks::default(), inferred: 0 }
    }

    pub(super) fn add(&mut self, row: &LockRow) {
        self.inferred += u64::from(row.stack.is_empty());
        self.fold.add(&stack_time(row));
    }

    pub(super) fn write(&self, notes: &[String]) -> anyhow::Result<()> {
        let total = self.fold.total(CpuState::Off);
        let mut missing = notes.to_vec();
        if self.inferred > 0 {
            missing.push(format!("of {} waits no stack was taken", self.inferred));
        }
        let about = Header {
            title: "Where threads waited for locks".to_owned(),
            notes: vec![format!("{} in {} waits; the lock is on top", total.time, total.count)],
            missing,
        };
        let written = File::create(self.file).map(BufWriter::new).and_then(|mut out| {
            flame_graph::write_svg(&mut out, &self.fold, &[CpuState::Off], &about)?;
            out.flush()
        });
        written.with_context(|| format!("{}: cannot write", self.file.display()))
    }
}
