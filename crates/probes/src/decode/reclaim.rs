//! Records of direct reclaim.

use super::{Decoder, Record};
use crate::bpf::types;
use crate::event::Reclaim;

const _: () = assert!(size_of::<types::reclaim_event>() == 56);

// SAFETY: generated from the C structure in events.h, which holds integers and arrays only.
unsafe impl Record for types::reclaim_event {}

impl Decoder {
    pub(super) fn reclaim(&mut self, record: &types::reclaim_event) -> Reclaim {
        Reclaim {
            start_ns: record.start_ns,
            end_ns: record.end_ns,
            pid: self.pid,
            tid: record.tid,
            comm: self.text(&record.comm),
            memcg: record.memcg != 0,
            pages: record.pages,
        }
    }
}
