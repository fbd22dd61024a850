//! File operations without what figures of many are not made of: a dozen columns instead of thirty.

use std::io;
use std::sync::Arc;

use arrow_array::RecordBatch;
use model::{Device, FileKind, FileOp, FileOpKind, Nanos};

use super::Gists;
use crate::cells::{BadRow, ColumnError, RowCells as _, cells};
use crate::columns::{I64, Maybe, Name, Text, U64};
use crate::columns_ahead;
use crate::notes::Notes;
use crate::part::Part;
use crate::table::Table;
use crate::text::TextPool;

cells! {
    FileOpCells {
        start_ns: I64,
        end_ns: I64,
        op: Name<FileOpKind>,
        bytes: Maybe<U64>,
        disk_bytes: Maybe<U64>,
        readahead_bytes: Maybe<U64>,
        file: Text,
        kind: Name<FileKind>,
        device: Maybe<Text>,
    }
}

impl Gists<FileOp> {
    /// Those of these parts, read ahead by a thread.
    ///
    /// # Errors
    /// The operating system's, where it gives no thread.
    pub(crate) fn of_file_ops(parts: Vec<Part>, notes: &Arc<Notes>) -> io::Result<Self> {
        let (mut pool, unread) = (TextPool::default(), Arc::from(""));
        let convert = move |batch: &RecordBatch| file_ops(batch, &mut pool, &unread);
        columns_ahead::read(Table::FileOps.folder(), parts, notes, is_read, convert).map(Self)
    }
}

pub(super) fn is_read(column: &str) -> bool {
    FileOpCells::NAMES.contains(&column)
}

/// A row that lacks one of them cannot be an event and is left out: who reads the events says so.
fn file_ops(batch: &RecordBatch, pool: &mut TextPool, unread: &Arc<str>) -> Result<Vec<FileOp>, ColumnError> {
    let cells = FileOpCells::of(batch)?;
    Ok((0..batch.num_rows()).filter_map(|i| cells.read(i, pool, unread).ok()).collect())
}

impl FileOpCells {
    fn read(&self, i: usize, pool: &mut TextPool, unread: &Arc<str>) -> Result<FileOp, BadRow> {
        let name = self.device.maybe(i, pool).unwrap_or_else(|| Arc::clone(unread));
        Ok(FileOp {
            start: Nanos(self.start_ns.at(i)?),
            end: Nanos(self.end_ns.at(i)?),
            op: self.op.at(i)?,
            bytes: self.bytes.maybe(i),
            disk_bytes: self.disk_bytes.maybe(i),
            readahead_bytes: self.readahead_bytes.maybe(i),
            file: self.file.at(i, pool)?,
            kind: self.kind.at(i)?,
            device: Device { major: 0, minor: 0, name },
            pid: 0,
            tid: 0,
            thread: Arc::clone(unread),
            errno: None,
            offset: 0,
            renamed_to: None,
            topic_partition: None,
            inode: 0,
            fs: Arc::clone(unread),
            batch: None,
            journal_transaction: None,
        })
    }
}
