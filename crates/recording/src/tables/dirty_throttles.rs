//! `dirty_throttles/`: pauses imposed on writers because too many pages were dirty.

use model::{DirtyThrottle, Event, Nanos};

use crate::cells::BadRow;
use crate::columns::{Derived, I64, U32, U64, columns};
use crate::table::{Decode, Encode};
use crate::text::TextPool;

columns! {
    DirtyThrottles, DirtyThrottleCells {
        start_ns: I64,
        end_ns: I64,
        latency_ns: Derived<I64>,
        tid: U32,
        dirty_pages: U64,
        limit_pages: U64,
    }
}

impl Encode for DirtyThrottles {
    type Row = DirtyThrottle;

    fn append(&mut self, pause: &DirtyThrottle) {
        self.start_ns.append_value(pause.start.0);
        self.end_ns.append_value(pause.end.0);
        self.latency_ns.append_value((pause.end - pause.start).0);
        self.tid.append_value(pause.tid);
        self.dirty_pages.append_value(pause.dirty_pages);
        self.limit_pages.append_value(pause.limit_pages);
    }

    fn weight(_: &DirtyThrottle) -> usize {
        48
    }
}

impl Decode for DirtyThrottleCells {
    fn event(&self, i: usize, _: &mut TextPool) -> Result<Event, BadRow> {
        Ok(Event::DirtyThrottle(DirtyThrottle {
            start: Nanos(self.start_ns.at(i)?),
            end: Nanos(self.end_ns.at(i)?),
            tid: self.tid.at(i)?,
            dirty_pages: self.dirty_pages.at(i)?,
            limit_pages: self.limit_pages.at(i)?,
        }))
    }
}
