//! `lock_waits/`: threads of the JVM that waited for locks.

use std::sync::Arc;

use model::{Event, Lock, LockHolder, LockKind, LockSource, LockWait, Nanos};

use crate::cells::BadRow;
use crate::columns::{Derived, I64, Maybe, Name, Text, U32, U64, columns};
use crate::table::{Decode, Encode};
use crate::text::TextPool;

columns! {
    LockWaits, LockWaitCells {
        start_ns: I64,
        end_ns: I64,
        latency_ns: Derived<I64>,
        pid: U32,
        tid: U32,
        thread: Text,
        kind: Name<LockKind>,
        class: Text,
        address: U64,
        holder_tid: Maybe<U32>,
        holder: Maybe<Text>,
        stack: Text,
        seen_by: Name<LockSource>,
    }
}

impl Encode for LockWaits {
    type Row = LockWait;

    fn append(&mut self, wait: &LockWait) {
        self.start_ns.append_value(wait.start.0);
        self.end_ns.append_value(wait.end.0);
        self.latency_ns.append_value(wait.length().0);
        self.pid.append_value(wait.pid);
        self.tid.append_value(wait.tid);
        self.thread.append_value(&wait.thread);
        self.kind.append_value(wait.lock.kind.as_str());
        self.class.append_value(&wait.lock.class);
        self.address.append_value(wait.lock.address);
        let holder = wait.holder.as_ref();
        self.holder_tid.append_option(holder.and_then(|holder| holder.tid));
        self.holder.append_option(holder.map(|holder| &*holder.thread));
        self.stack.append_value(&wait.stack);
        self.seen_by.append_value(wait.source.as_str());
    }

    fn weight(wait: &LockWait) -> usize {
        let holder = wait.holder.as_ref().map_or(0, |holder| holder.thread.len());
        80 + wait.thread.len() + wait.lock.class.len() + wait.stack.len() + holder
    }
}

impl LockWaitCells {
    /// The name is there or the holder is not known.
    fn holder(&self, i: usize, pool: &mut TextPool) -> Option<LockHolder> {
        let thread: Arc<str> = self.holder.maybe(i, pool)?;
        Some(LockHolder { tid: self.holder_tid.maybe(i), thread })
    }
}

impl Decode for LockWaitCells {
    fn event(&self, i: usize, pool: &mut TextPool) -> Result<Event, BadRow> {
        Ok(Event::LockWait(Box::new(LockWait {
            start: Nanos(self.start_ns.at(i)?),
            end: Nanos(self.end_ns.at(i)?),
            pid: self.pid.at(i)?,
            tid: self.tid.at(i)?,
            thread: self.thread.at(i, pool)?,
            lock: Lock {
                kind: self.kind.at(i)?,
                class: self.class.at(i, pool)?,
                address: self.address.at(i)?,
            },
            holder: self.holder(i, pool),
            stack: self.stack.at(i, pool)?,
            source: self.seen_by.at(i)?,
        })))
    }
}
