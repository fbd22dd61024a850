//! Message ids of the records that file operations wrote, read back from segments. `broker` reads the
//! segments.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use broker::Segment;
use model::{FileKind, FileOp};

/// Maximum number of ids shown for one write.
const MAX_IDS: usize = 10_000;

/// Looks up message ids in segments below log dirs.
pub(super) struct MessageIds {
    header: Vec<u8>,
    log_dirs: Vec<PathBuf>,
    scratch: Vec<u8>,
}

impl MessageIds {
    /// Creates a lookup of this record header below these log dirs.
    pub(super) fn new(header: &str, log_dirs: Vec<PathBuf>) -> Self {
        Self { header: header.as_bytes().to_vec(), log_dirs, scratch: Vec::new() }
    }

    /// The message ids of the records that an operation wrote; none if the segment was deleted or its bytes can no longer
    /// be read.
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

    /// Opens a segment, only if it is below a log dir: anyone may have made the recording.
    fn segment(&self, file: &str) -> Option<Segment> {
        let below = Path::new(file);
        if !below.components().all(|component| matches!(component, Component::Normal(_))) {
            return None;
        }
        self.log_dirs.iter().find_map(|dir| Segment::open(&dir.join(below)).ok())
    }
}
