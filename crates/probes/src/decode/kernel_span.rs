//! Records of calls of kernel functions. A btrfs commit's record has its end alone: it began, at the latest, when
//! its thread first waited inside.

use std::collections::HashMap;

use model::SpanSource;

use super::{Decoded, Decoder, Record, device, whole};
use crate::bpf::{source, types};
use crate::event::{BTRFS_COMMIT, Event, KernelSpan, function};

const _: () = assert!(size_of::<types::kernel_span_event>() == 48);

// SAFETY: generated from the C structure in events.h, which holds integers and arrays only.
unsafe impl Record for types::kernel_span_event {}

/// Threads in the middle of a commit: past this many their ends were missed.
const MOST_COMMITTING: usize = 1_024;

/// When threads first waited within the btrfs commit that they are inside of.
#[derive(Default)]
pub(super) struct Committing(HashMap<u32, u64>);

impl Committing {
    /// A thread waited since then, with this stack.
    pub(super) fn waited(&mut self, tid: u32, since_ns: u64, stack: &str) {
        if !stack.split(';').any(|name| name == BTRFS_COMMIT) {
            return;
        }
        if self.0.len() >= MOST_COMMITTING {
            self.0.clear();
        }
        self.0.entry(tid).or_insert(since_ns);
    }
}

impl Decoder {
    /// Says nothing of a commit whose beginning left no trace, nor of functions that this build does not know.
    pub(super) fn kernel_span(&mut self, bytes: &[u8]) -> Decoded {
        let Some(record) = whole(bytes) else { return Decoded::Unknown };
        self.call_of(&record).map_or(Decoded::Learnt, |span| Decoded::Event(Event::KernelSpan(span)))
    }

    fn call_of(&mut self, record: &types::kernel_span_event) -> Option<KernelSpan> {
        let (start_ns, seen_by) = match record.source {
            source::FUNCTION => (record.start_ns, SpanSource::Function),
            source::TRACEPOINTS => (record.start_ns, SpanSource::Tracepoints),
            _ => (self.committing.0.remove(&record.tid)?, SpanSource::OffCpu),
        };
        Some(KernelSpan {
            start_ns,
            end_ns: record.end_ns,
            function: self.texts.share(function(record.function)?.as_bytes()),
            device: (record.device != 0).then(|| device(record.device)),
            tid: record.tid,
            comm: self.text(&record.comm),
            seen_by,
        })
    }
}
