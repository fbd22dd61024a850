//! The connections that are followed, bounded in number and in what is kept of them. Does not decode.
//!
//! Anybody can send what looks like a client's first packets. So connections of which neither side has acknowledged
//! what the other sent have a share for themselves: there they displace each other only. Captures of one direction live
//! in it too.

use crate::connection::Connection;
use crate::context::Context;
use crate::exchange::NoResponse;
use crate::streams::Ends;
use crate::table::Table;

/// Connections by their ends.
pub(crate) struct Connections {
    acknowledged: Share,
    unacknowledged: Share,
}

/// Some of them, and the bytes that are kept of these.
struct Share {
    table: Table<Ends, Connection>,
    bytes: usize,
    limit: usize,
}

impl Connections {
    /// Room for so many connections, and so many bytes of acknowledged and of other ones.
    pub(crate) fn new(connections: usize, bytes: usize, unacknowledged_bytes: usize) -> Self {
        let share = |limit| Share { table: Table::new(connections), bytes: 0, limit };
        Self { acknowledged: share(bytes), unacknowledged: share(unacknowledged_bytes) }
    }

    /// A connection, which thereby becomes the most recently used.
    pub(crate) fn touch(&mut self, ends: &Ends) -> Option<&mut Connection> {
        let Self { acknowledged, unacknowledged } = self;
        acknowledged.table.touch(ends).or_else(|| unacknowledged.table.touch(ends))
    }

    /// A connection, which thereby does not become more recently used.
    pub(crate) fn peek(&mut self, ends: &Ends) -> Option<&mut Connection> {
        let Self { acknowledged, unacknowledged } = self;
        acknowledged.table.peek(ends).or_else(|| unacknowledged.table.peek(ends))
    }

    /// Adds one that is not there.
    pub(crate) fn insert(&mut self, ends: Ends, connection: Connection, cx: &mut Context) {
        let Self { acknowledged, unacknowledged } = self;
        let share = if connection.is_acknowledged() { acknowledged } else { unacknowledged };
        share.insert(ends, connection, cx);
    }

    pub(crate) fn remove(&mut self, ends: &Ends) -> Option<Connection> {
        self.acknowledged.remove(ends).or_else(|| self.unacknowledged.remove(ends))
    }

    /// Counts what is kept of a connection after something was done with it, and forgets those for which there is no room.
    pub(crate) fn settle(&mut self, ends: &Ends, cx: &mut Context) {
        if self.acknowledged.settle(ends, cx) {
            return;
        }
        let is_acknowledged = self.unacknowledged.table.peek(ends).is_some_and(|one| one.is_acknowledged());
        let promoted = if is_acknowledged { self.unacknowledged.remove(ends) } else { None };
        match promoted {
            Some(connection) => {
                self.acknowledged.insert(*ends, connection, cx);
                self.acknowledged.settle(ends, cx)
            }
            None => self.unacknowledged.settle(ends, cx),
        };
    }

    /// Does something with each connection, and counts again what is kept of it.
    pub(crate) fn visit(&mut self, mut each: impl FnMut(&mut Connection)) {
        for share in [&mut self.acknowledged, &mut self.unacknowledged] {
            share.bytes = 0;
            for connection in share.table.values_mut() {
                each(connection);
                connection.recount();
                share.bytes += connection.counted_bytes();
            }
        }
    }

    /// What is kept of all of them.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.acknowledged.bytes + self.unacknowledged.bytes
    }
}

impl Share {
    fn insert(&mut self, ends: Ends, connection: Connection, cx: &mut Context) {
        self.bytes += connection.counted_bytes();
        if let Some(evicted) = self.table.insert(ends, connection) {
            self.forget(evicted, cx);
        }
    }

    fn remove(&mut self, ends: &Ends) -> Option<Connection> {
        let connection = self.table.remove(ends)?;
        self.bytes -= connection.counted_bytes();
        Some(connection)
    }

    /// Whether the connection is one of these.
    fn settle(&mut self, ends: &Ends, cx: &mut Context) -> bool {
        let Some(connection) = self.table.peek(ends) else { return false };
        let before = connection.counted_bytes();
        if self.bytes > self.limit / 2 {
            connection.release_buffers();
        }
        connection.recount();
        let bytes = connection.counted_bytes();
        self.bytes = self.bytes - before + bytes;
        // One alone does not displace all others.
        if bytes > self.limit / 2 {
            let Some(evicted) = self.table.remove(ends) else { return true };
            self.forget(evicted, cx);
        }
        while self.bytes > self.limit {
            let Some(evicted) = self.table.remove_oldest() else { break };
            self.forget(evicted, cx);
        }
        self.suspend_oldest(cx);
        true
    }

    /// Suspends the connection that was used least recently, if there are many: of thousands none is in the processor's caches, and
    /// to go on with an idle one touches less memory than to find it. One on which something is under way is asked again later.
    fn suspend_oldest(&mut self, cx: &mut Context) {
        if self.bytes <= self.limit / 4 {
            return;
        }
        let Some((ends, oldest)) = self.table.oldest() else { return };
        if oldest.is_closed() || (oldest.has_acknowledged_all() && oldest.suspend(cx)) {
            self.remove(&ends);
        } else {
            self.table.touch(&ends);
        }
    }

    fn forget(&mut self, mut evicted: Connection, cx: &mut Context) {
        self.bytes -= evicted.counted_bytes();
        if evicted.suspend(cx) {
            return;
        }
        cx.counters.evicted_connections += u64::from(!evicted.is_over_already());
        evicted.end(NoResponse::Forgotten, cx);
    }
}
