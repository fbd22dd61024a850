//! Operations on each file, over time. Holds a bounded number of files.

use std::sync::Arc;

use model::{FileOp, FileOpKind};
use serde::Serialize;

use super::grid::{COARSE, Cells, Grid, Merge, Sums, highest, rows, total};
use report::bounded_map::BoundedMap;

/// Limits on the files counted separately, and on those shown.
const MAX: usize = 5_000;
const MAX_SHOWN: usize = 150;

/// The files.
pub(super) struct TopFiles {
    by_file: BoundedMap<Arc<str>, (), OfFile>,
}

#[derive(Clone, Debug, Default)]
struct OfFile {
    kind: &'static str,
    device: Option<String>,
    cells: Cells<Sums<5>>,
}

/// One file.
#[derive(Clone, Debug, Serialize)]
pub struct FileData {
    /// Its name; `None` for the sum of all other files.
    pub file: Option<String>,
    /// The kind of file.
    pub kind: &'static str,
    /// The device that holds it.
    pub device: Option<String>,
    /// By [`COARSE`] bucket: the bucket, operations, bytes written, bytes read, bytes of these that came from the device, and in
    /// microseconds the operations' total time and the longest.
    pub cells: Vec<Vec<i64>>,
}

impl TopFiles {
    pub(super) fn new() -> Self {
        Self { by_file: BoundedMap::new(MAX) }
    }

    pub(super) fn op(&mut self, grid: &Grid, op: &FileOp) {
        let of = self.by_file.of(Arc::clone(&op.file), ());
        of.kind = op.kind.as_str();
        if of.device.is_none() {
            of.device = Some(op.device.to_string());
        }
        let bytes = op.bytes.and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or(0);
        let reads = matches!(op.op, FileOpKind::Read | FileOpKind::Sendfile | FileOpKind::MmapFault);
        let time = op.latency().at_least_zero().0;
        of.cells.at(grid, op.start).merge(Sums {
            sums: [
                1,
                if op.op == FileOpKind::Write { bytes } else { 0 },
                if reads { bytes } else { 0 },
                op.disk_bytes.and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or(0),
                time,
            ],
            longest: time,
        });
    }

    /// The files, the one that took the most time first.
    pub(super) fn finish(self, grid: &Grid) -> Vec<FileData> {
        let files = self.by_file.into_groups().map(|(who, (), of)| {
            let cells = of.cells.finish(grid, COARSE);
            let file = who.map(|name| name.to_string());
            (total(&cells, 4), FileData { file, kind: of.kind, device: of.device, cells: rows(&cells, 4) })
        });
        highest(files, |data| data.file.clone(), MAX_SHOWN)
    }
}
