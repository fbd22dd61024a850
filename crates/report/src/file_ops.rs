//! File operations of the broker. Does not find out why one was slow.

pub mod csv;
pub mod json;
pub(crate) mod reasons;
pub mod summary;
pub mod table;
mod top;

use std::io;
use std::sync::Arc;

use diagnose::Reason;
use model::FileOp;

pub use csv::FileOpCsv;
pub use json::FileOpJson;
pub use summary::{FileOpSummary, FileOpSummaryReport};
pub use table::FileOpTable;
pub use top::TopFileOps;

/// One operation and what is known about it from elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct FileOpRow<'a> {
    /// The operation.
    pub op: &'a FileOp,
    /// What its time was spent on, longest first.
    pub reasons: &'a [Reason],
    /// Message ids of the records it wrote, where they were looked for.
    pub message_ids: &'a [Arc<str>],
}

/// An output of file operations, one after the other.
pub trait FileOpReport {
    /// Writes one operation.
    fn file_op(&mut self, row: &FileOpRow<'_>) -> io::Result<()>;

    /// Ends the output.
    fn finish(&mut self) -> io::Result<()>;
}
