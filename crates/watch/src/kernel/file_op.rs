//! The probes' file operations in the shared vocabulary.

use std::sync::Arc;

use model::{BatchHead, ClockOffset, FileKind, FileOp, FileOpKind};
use probes::event::PathArguments;

use super::Names;
use crate::files::{Files, GivenFile, NamedFile};

/// What an operation was on.
struct Subject {
    named: NamedFile,
    renamed_to: Option<Arc<str>>,
    device: (u32, u32),
    inode: u64,
    fs: Arc<str>,
}

impl Names {
    pub(super) fn file_op(&mut self, op: probes::FileOp, offset: ClockOffset) -> FileOp {
        let subject = self.subject(&op);
        let named = subject.named;
        let is_append = op.op == FileOpKind::Write && named.kind == FileKind::Log;
        let batch = if is_append { batch_head(op.head()) } else { None };
        let read = |bytes: Option<u64>| bytes.filter(|_| op.result > 0);
        FileOp {
            start: offset.from_monotonic(op.start_ns),
            end: offset.from_monotonic(op.end_ns),
            op: op.op,
            pid: op.pid,
            tid: op.tid,
            thread: self.threads.full(op.tid, op.comm),
            bytes: u64::try_from(op.result).ok().map(|result| if moves_bytes(op.op) { result } else { 0 }),
            errno: op.result.checked_neg().and_then(|code| i32::try_from(code).ok()).filter(|code| *code > 0),
            disk_bytes: read(op.disk_bytes).map(|bytes| bytes.min(op.result.unsigned_abs())),
            readahead_bytes: read(op.readahead_bytes),
            offset: op.offset,
            file: named.file,
            renamed_to: subject.renamed_to,
            topic_partition: named.topic_partition,
            kind: named.kind,
            device: self.devices.device(subject.device),
            inode: subject.inode,
            fs: subject.fs,
            batch,
            journal_transaction: op.journal_transaction,
        }
    }

    fn subject(&mut self, op: &probes::FileOp) -> Subject {
        if let Some(given) = &op.given {
            return self.given(op, given);
        }
        let named = match &op.path {
            Some(path) => self.files.name(op.device, path, op.inode),
            None if op.op == FileOpKind::MmapFault => self.files.mapped(op.device, op.inode),
            None => Files::nameless(op.inode),
        };
        Subject { named, renamed_to: None, device: op.device, inode: op.inode, fs: Arc::clone(&op.fs) }
    }

    fn given(&mut self, op: &probes::FileOp, given: &PathArguments) -> Subject {
        let GivenFile { named, device, inode, fs } = self.files.given(&given.from);
        let renamed_to = given.to.as_ref().map(|to| self.files.given(to).named.file);
        match (&given.to, op.op) {
            _ if op.result != 0 => {}
            (Some(to), FileOpKind::Rename) if given.exchange => self.files.exchanged(&given.from, to),
            (to, FileOpKind::Rename | FileOpKind::Unlink) => self.files.moved(&given.from, to.as_ref()),
            _ => {}
        }
        Subject { named, renamed_to, device, inode, fs }
    }
}

fn moves_bytes(op: FileOpKind) -> bool {
    use FileOpKind::{Copy, MmapFault, Read, Sendfile, Splice, Write};
    matches!(op, Write | Read | Sendfile | Splice | Copy | MmapFault)
}

/// The batch that a write to a segment began with.
fn batch_head(head: &[u8]) -> Option<BatchHead> {
    let batch = wire::batch::BatchHeader::parse(head).ok()?;
    Some(BatchHead {
        base_offset: batch.base_offset,
        bytes: batch.length_bytes,
        magic: batch.magic,
        crc: batch.crc,
        producer_id: batch.producer_id,
        base_sequence: batch.base_sequence,
        records: u32::try_from(batch.records_count).unwrap_or(0),
    })
}
