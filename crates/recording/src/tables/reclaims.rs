//! `reclaims/`: threads of the broker that had to free memory.

use model::{Event, Nanos, Reclaim};

use crate::cells::BadRow;
use crate::columns::{Flag, I64, Text, U32, U64, columns};
use crate::table::{Decode, Encode};
use crate::text::TextPool;

columns! {
    Reclaims, ReclaimCells {
        start_ns: I64,
        end_ns: I64,
        pid: U32,
        tid: U32,
        thread: Text,
        memcg: Flag,
        pages: U64,
    }
}

impl Encode for Reclaims {
    type Row = Reclaim;

    fn append(&mut self, reclaim: &Reclaim) {
        self.start_ns.append_value(reclaim.start.0);
        self.end_ns.append_value(reclaim.end.0);
        self.pid.append_value(reclaim.pid);
        self.tid.append_value(reclaim.tid);
        self.thread.append_value(&reclaim.thread);
        self.memcg.append_value(reclaim.memcg);
        self.pages.append_value(reclaim.pages);
    }

    fn weight(reclaim: &Reclaim) -> usize {
        48 + reclaim.thread.len()
    }
}

impl Decode for ReclaimCells {
    fn event(&self, i: usize, pool: &mut TextPool) -> Result<Event, BadRow> {
        Ok(Event::Reclaim(Box::new(Reclaim {
            start: Nanos(self.start_ns.at(i)?),
            end: Nanos(self.end_ns.at(i)?),
            pid: self.pid.at(i)?,
            tid: self.tid.at(i)?,
            thread: self.thread.at(i, pool)?,
            memcg: self.memcg.at(i)?,
            pages: self.pages.at(i)?,
        })))
    }
}
