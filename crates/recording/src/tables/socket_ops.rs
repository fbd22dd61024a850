//! `socket_ops/`: operations of the broker on its connections.

use model::{Event, Nanos, SocketOp, SocketOpKind};

use crate::address::Address;
use crate::cells::BadRow;
use crate::columns::{Derived, I32, I64, Maybe, Name, Text, U32, U64, columns};
use crate::table::{Decode, Encode};
use crate::text::TextPool;

columns! {
    SocketOps, SocketOpCells {
        start_ns: I64,
        end_ns: I64,
        latency_ns: Derived<I64>,
        op: Name<SocketOpKind>,
        pid: U32,
        tid: U32,
        thread: Text,
        local: Address,
        remote: Address,
        bytes: Maybe<U64>,
        errno: Maybe<I32>,
        sequence: U32,
        sequence_end: U32,
        peer_window: Maybe<U32>,
    }
}

impl Encode for SocketOps {
    type Row = SocketOp;

    fn append(&mut self, op: &SocketOp) {
        self.start_ns.append_value(op.start.0);
        self.end_ns.append_value(op.end.0);
        self.latency_ns.append_value(op.latency().0);
        self.op.append_value(op.op.as_str());
        self.pid.append_value(op.pid);
        self.tid.append_value(op.tid);
        self.thread.append_value(&op.thread);
        self.local.append(op.local);
        self.remote.append(op.remote);
        self.bytes.append_option(op.bytes);
        self.errno.append_option(op.errno);
        self.sequence.append_value(op.sequence);
        self.sequence_end.append_value(op.sequence_end);
        self.peer_window.append_option(op.peer_window);
    }

    fn weight(op: &SocketOp) -> usize {
        160 + op.thread.len()
    }
}

impl Decode for SocketOpCells {
    fn event(&self, i: usize, pool: &mut TextPool) -> Result<Event, BadRow> {
        Ok(Event::SocketOp(Box::new(SocketOp {
            start: Nanos(self.start_ns.at(i)?),
            end: Nanos(self.end_ns.at(i)?),
            op: self.op.at(i)?,
            pid: self.pid.at(i)?,
            tid: self.tid.at(i)?,
            thread: self.thread.at(i, pool)?,
            local: self.local.at(i)?,
            remote: self.remote.at(i)?,
            bytes: self.bytes.maybe(i),
            errno: self.errno.maybe(i),
            sequence: self.sequence.at(i)?,
            sequence_end: self.sequence_end.at(i)?,
            peer_window: self.peer_window.maybe(i),
        })))
    }
}
