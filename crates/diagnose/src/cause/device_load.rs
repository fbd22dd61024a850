//! Who kept a device busy while an operation waited for it: how much of what was read and written then was whose.
//! Does not say that it was too much.

use std::sync::Arc;

use model::{Cause, Confidence, Device, Evidence, FileOp, FileOpKind, Nanos};

use super::{Finding, op_evidence};
use crate::window::Window;

/// Less is no load for any device.
const WORTH_NAMING_BYTES: u64 = 1 << 20;
/// What keeps a device busy while somebody waits for it may have been handed to it before.
pub(super) const BEFORE: Nanos = Nanos::from_millis(1_000);

/// What an operation read from its device.
pub(super) fn read_bytes(op: &FileOp) -> u64 {
    op.disk_bytes.unwrap_or_default()
}

/// What an operation read from its device or wrote.
pub(super) fn moved_bytes(op: &FileOp) -> u64 {
    match op.op {
        FileOpKind::Write => op.bytes.unwrap_or_default(),
        _ => read_bytes(op),
    }
}

/// What moved between the broker and a device in a stretch, in bytes.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// Of the operations that were asked for.
    pub(super) bytes: u64,
    /// Of all operations of the broker.
    pub(super) all: u64,
    /// The largest of those asked for.
    largest: Option<Arc<FileOp>>,
}

impl Load {
    /// Of operations on the device that were under way in the stretch: reads as far as they came from the device, and
    /// writes.
    pub(super) fn of(
        window: &Window,
        device: &Device,
        (start, end): (Nanos, Nanos),
        bytes: impl Fn(&FileOp) -> u64,
        is_wanted: impl Fn(&FileOp) -> bool,
    ) -> Self {
        let mut load = Self::default();
        let ops = window.threads().flat_map(|past| past.file_ops.overlapping(start, end));
        for op in ops.filter(|op| op.device.is(device)) {
            let moved = bytes(op);
            load.all = load.all.saturating_add(moved);
            if moved > 0 && is_wanted(op) {
                load.bytes = load.bytes.saturating_add(moved);
                let key = |op: &FileOp| (bytes(op), op.start, op.tid);
                if load.largest.as_ref().is_none_or(|largest| key(op) > key(largest)) {
                    load.largest = Some(Arc::clone(op));
                }
            }
        }
        load
    }

    /// Blames the operations asked for, where they are most of the load and that is worth a word, for a wait for the
    /// device, whose episode began at `began`; `whose` says it and the largest of them follows. That these were what the
    /// wait was behind is by the time only.
    pub(super) fn blamed(
        &self,
        cause: Cause,
        device: &Device,
        began: Nanos,
        time: Nanos,
        whose: impl FnOnce(&Self) -> String,
    ) -> Option<Finding> {
        let is_most = self.bytes >= WORTH_NAMING_BYTES && self.bytes.saturating_mul(2) > self.all;
        let largest = op_evidence(self.largest.as_ref().filter(|_| is_most)?);
        let text = format!("{}; {}", whose(self), largest.text);
        Some(Finding {
            cause,
            chain: vec![cause],
            root: Arc::from(format!("{cause}:{device}:{}", began.0)),
            confidence: Confidence::Weak,
            evidence: vec![Evidence { text, ..largest }],
            time,
            partition: None,
        })
    }
}
