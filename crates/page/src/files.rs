//! What was done with each file, over time. Holds a bounded number of files.

use std::sync::Arc;

use model::{FileOp, FileOpKind};
use serde::Serialize;

use super::grid::{COARSE, Cells, Grid, Merge};
use report::bounded_map::BoundedMap;

/// Files told apart, and those told.
const MOST: usize = 5_000;
const TOLD: usize = 150;

/// The files.
pub(super) struct TopFiles {
    by_file: BoundedMap<Arc<str>, (), OfFile>,
}

#[derive(Clone, Debug, Default)]
struct OfFile {
    kind: &'static str,
    device: Option<String>,
    cells: Cells<Bucket>,
}

#[derive(Clone, Debug, Default)]
struct Bucket {
    ops: i64,
    written: i64,
    read: i64,
    from_disk: i64,
    time: i64,
    slowest: i64,
}

impl Merge for Bucket {
    fn merge(&mut self, other: Self) {
        self.ops.merge(other.ops);
        self.written.merge(other.written);
        self.read.merge(other.read);
        self.from_disk.merge(other.from_disk);
        self.time.merge(other.time);
        self.slowest = self.slowest.max(other.slowest);
    }
}

/// One file.
#[derive(Clone, Debug, Serialize)]
pub struct FileData {
    /// Its name; none for all files that are not told apart.
    pub file: Option<String>,
    /// What it is to the broker.
    pub kind: &'static str,
    /// The device that holds it.
    pub device: Option<String>,
    /// By [`COARSE`] bucket: the bucket, operations, bytes written, bytes read and those of them that came from the device, and the
    /// operations' time in microseconds together and the longest.
    pub cells: Vec<[i64; 7]>,
}

impl TopFiles {
    pub(super) fn new() -> Self {
        Self { by_file: BoundedMap::new(MOST) }
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
        of.cells.at(grid, op.start).merge(Bucket {
            ops: 1,
            written: if op.op == FileOpKind::Write { bytes } else { 0 },
            read: if reads { bytes } else { 0 },
            from_disk: op.disk_bytes.and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or(0),
            time,
            slowest: time,
        });
    }

    /// Those that took the most time first.
    pub(super) fn finish(self, grid: &Grid) -> Vec<FileData> {
        let told = self.by_file.into_groups().map(|(who, (), of)| {
            let OfFile { kind, device, cells } = of;
            let cells = cells.finish(grid, COARSE);
            let time: i64 = cells.values().map(|bucket| bucket.time).sum();
            let file = who.map(|name| name.to_string());
            (time, FileData { file, kind, device, cells: cells.iter().map(numbers).collect() })
        });
        let mut told = told.collect::<Vec<_>>();
        told.sort_by(|(a, of_a), (b, of_b)| b.cmp(a).then_with(|| of_a.file.cmp(&of_b.file)));
        told.into_iter().take(TOLD).map(|(_, data)| data).collect()
    }
}

fn numbers((&at, bucket): (&u32, &Bucket)) -> [i64; 7] {
    let Bucket { ops, written, read, from_disk, time, slowest } = *bucket;
    [at.into(), ops, written, read, from_disk, time / 1_000, slowest / 1_000]
}
