//! Message ids of the records that file operations wrote, read back from segments. Reading segments is
//! `broker`'s business.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use broker::Segment;
use model::{FileKind, FileOp};

/// Ids shown of one write at most.
const MAX_IDS: usize = 10_000;

/// Looks message ids up in segments below some log dirs.
pub(super) struct MessageIds {
    header: Vec<u8>,
    log_dirs: Vec<PathBuf>,
    scratch: Vec<u8>,
}

impl MessageIds {
    /// Looks for this record header below these log dirs.
    pub(super) fn new(header: &str, log_dirs: Vec<PathBuf>) -> Self {
        Self { header: header.as_bytes().to_vec(), log_dirs, scratch: Vec::new() }
    }

    /// The message ids of the records that an operation wrote; none where the segment is gone or its bytes
    /// cannot be read any more.
    pub(super) fn written_by(&mut self, op: &FileOp) -> Vec<Arc<str>> {
        let (FileKind::Log, Some(bytes)) = (op.kind, op.bytes) else { return Vec::new() };
        let Some(mut segment) = self.segment(&op.file) else { return Vec::new() };
        let mut ids = Vec::new();
        for batch in segment.batches_in(op.offset, bytes).map_while(Result::ok) {
            // A batch that cannot be read has no ids.
            let found = batch.message_ids(&self.header, &mut self.scratch).unwrap_or_default();
            ids.extend(found.into_iter().map(Arc::from).take(MAX_IDS.saturating_sub(ids.len())));
        }
        ids
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
