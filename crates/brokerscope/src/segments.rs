//! Message ids of records that a segment holds. Finding batches is `broker`'s business, decoding `wire`'s.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use broker::segment::Segment;
use model::{FileKind, FileOp};
use wire::record::message_ids;

/// A batch that unpacks to more than this is left alone.
pub(crate) const MOST_DECOMPRESSED_BYTES: usize = 64 << 20;
/// Ids shown of one write at most.
const MOST_IDS: usize = 10_000;

/// Looks message ids up in segments below some log dirs.
pub(crate) struct MessageIds {
    header: Vec<u8>,
    log_dirs: Vec<PathBuf>,
    scratch: Vec<u8>,
}

impl MessageIds {
    /// Looks for this record header below these log dirs.
    pub(crate) fn new(header: &str, log_dirs: Vec<PathBuf>) -> Self {
        Self { header: header.as_bytes().to_vec(), log_dirs, scratch: Vec::new() }
    }

    /// The message ids of the records that an operation wrote; none where the segment is gone or its bytes
    /// cannot be read any more.
    pub(crate) fn written_by(&mut self, op: &FileOp) -> Vec<Arc<str>> {
        let (FileKind::Log, Some(bytes)) = (op.kind, op.bytes) else { return Vec::new() };
        let Some(segment) = self.segment(&op.file) else { return Vec::new() };
        let mut ids = Vec::new();
        let Ok(batches) = segment.batches_in(op.offset, bytes) else { return Vec::new() };
        for batch in batches.map_while(Result::ok) {
            self.of_batch(&batch.bytes, &mut ids);
        }
        ids
    }

    /// Adds the message ids of one batch. A batch that cannot be read has none.
    pub(crate) fn of_batch(&mut self, batch: &[u8], ids: &mut Vec<Arc<str>>) {
        let mut add = |id: &[u8]| {
            if ids.len() < MOST_IDS {
                ids.push(String::from_utf8_lossy(id).into());
            }
        };
        // Ids found before the damage are still ids.
        let _ = message_ids(batch, &self.header, MOST_DECOMPRESSED_BYTES, &mut self.scratch, &mut add);
    }

    /// A recording may have been made by anyone: only files below a log dir are opened.
    fn segment(&self, file: &str) -> Option<Segment> {
        let below = Path::new(file);
        if !below.components().all(|component| matches!(component, Component::Normal(_))) {
            return None;
        }
        self.log_dirs.iter().find_map(|dir| Segment::open(&dir.join(below)).ok())
    }
}
