//! The slowest file operations, slowest first. Does not know how they are shown.

use std::io;
use std::sync::Arc;

use diagnose::Reason;
use model::FileOp;

use super::{FileOpReport, FileOpRow};
use crate::slowest::Slowest;

/// Hands on the slowest operations when the input has ended.
pub struct TopFileOps {
    to: Box<dyn FileOpReport>,
    slowest: Slowest<(FileOp, Vec<Reason>, Vec<Arc<str>>)>,
}

impl TopFileOps {
    /// The slowest `most` operations, to be handed to this output.
    pub fn new(most: usize, to: Box<dyn FileOpReport>) -> Self {
        Self { to, slowest: Slowest::new(most) }
    }
}

impl FileOpReport for TopFileOps {
    fn file_op(&mut self, row: &FileOpRow<'_>) -> io::Result<()> {
        let kept = || (row.op.clone(), row.reasons.to_vec(), row.message_ids.to_vec());
        self.slowest.offer(row.op.latency(), kept);
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        let slowest = std::mem::replace(&mut self.slowest, Slowest::new(0));
        for (op, reasons, message_ids) in slowest.into_sorted() {
            self.to.file_op(&FileOpRow { op: &op, reasons: &reasons, message_ids: &message_ids })?;
        }
        self.to.finish()
    }
}
