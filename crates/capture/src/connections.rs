//! The connections that are followed, bounded in number and memory. Does not decode.
//!
//! Anybody can send what looks like a client's first packets. So connections of which neither side has acknowledged
//! what the other sent have a separate share, in which they evict only each other. Captures of one direction are in
//! this share too.

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

/// Memory of the acknowledged connections above which idle ones are suspended. A second-level cache holds that much:
/// resuming a connection touches less memory than using one that lies in no cache.
const ACTIVE_BYTES: usize = 256 << 10;

/// Some of the connections, and their memory.
struct Share {
    table: Table<Ends, Box<Connection>>,
    bytes: usize,
    limit: usize,
}

impl Connections {
    /// Sets limits for the number of connections and for their memory. Acknowledged and unacknowledged ones have
    /// separate memory limits.
    pub(crate) fn new(connections: usize, bytes: usize, unacknowledged_bytes: usize) -> Self {
        let share = |limit| Share { table: Table::new(connections), bytes: 0, limit };
        Self { acknowledged: share(bytes), unacknowledged: share(unacknowledged_bytes) }
    }

    /// Looks up a connection and makes it the most recently used.
    pub(crate) fn touch(&mut self, ends: &Ends) -> Option<&mut Connection> {
        let Self { acknowledged, unacknowledged } = self;
        acknowledged.table.touch(ends).or_else(|| unacknowledged.table.touch(ends)).map(Box::as_mut)
    }

    /// Looks up a connection without making it more recently used.
    pub(crate) fn peek(&mut self, ends: &Ends) -> Option<&mut Connection> {
        let Self { acknowledged, unacknowledged } = self;
        acknowledged.table.peek(ends).or_else(|| unacknowledged.table.peek(ends)).map(Box::as_mut)
    }

    /// Adds a connection that is not in the table.
    pub(crate) fn insert(&mut self, ends: Ends, connection: Box<Connection>, cx: &mut Context) {
        if !connection.is_acknowledged() {
            self.unacknowledged.insert(ends, connection, cx);
            return;
        }
        // Two, so that they become fewer after many were busy.
        self.acknowledged.suspend_oldest(cx);
        self.acknowledged.suspend_oldest(cx);
        self.acknowledged.insert(ends, connection, cx);
    }

    pub(crate) fn remove(&mut self, ends: &Ends) -> Option<Box<Connection>> {
        self.acknowledged.remove(ends).or_else(|| self.unacknowledged.remove(ends))
    }

    /// Recounts a connection's memory after a change. Evicts connections that no longer fit.
    pub(crate) fn settle(&mut self, ends: &Ends, cx: &mut Context) {
        if self.acknowledged.settle(ends, cx) {
            return;
        }
        let is_acknowledged = self.unacknowledged.table.peek(ends).is_some_and(|one| one.is_acknowledged());
        let promoted = if is_acknowledged { self.unacknowledged.remove(ends) } else { None };
        match promoted {
            Some(connection) => {
                self.insert(*ends, connection, cx);
                self.acknowledged.settle(ends, cx)
            }
            None => self.unacknowledged.settle(ends, cx),
        };
    }

    /// Calls `each` for every connection, and recounts its memory.
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

    /// Memory of all connections.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.acknowledged.bytes + self.unacknowledged.bytes
    }
}

impl Share {
    fn insert(&mut self, ends: Ends, connection: Box<Connection>, cx: &mut Context) {
        self.bytes += connection.counted_bytes();
        if let Some(evicted) = self.table.insert(ends, connection) {
            self.forget(evicted, cx);
        }
    }

    fn remove(&mut self, ends: &Ends) -> Option<Box<Connection>> {
        let connection = self.table.remove(ends)?;
        self.bytes -= connection.counted_bytes();
        Some(connection)
    }

    /// Recounts the connection and evicts others; returns whether it is one of this share.
    fn settle(&mut self, ends: &Ends, cx: &mut Context) -> bool {
        let Some(connection) = self.table.peek(ends) else { return false };
        let before = connection.counted_bytes();
        if self.bytes > self.limit / 2 {
            connection.release_buffers();
        }
        connection.recount();
        let bytes = connection.counted_bytes();
        self.bytes = self.bytes - before + bytes;
        // A single connection does not displace all others.
        if bytes > self.limit / 2 {
            let Some(evicted) = self.table.remove(ends) else { return true };
            self.forget(evicted, cx);
        }
        while self.bytes > self.limit {
            let Some(evicted) = self.table.remove_oldest() else { break };
            self.forget(evicted, cx);
        }
        true
    }

    /// Suspends the least recently used connection, if there are many. A busy one is tried again later.
    fn suspend_oldest(&mut self, cx: &mut Context) {
        if self.bytes <= ACTIVE_BYTES.min(self.limit / 4) {
            return;
        }
        let Some((ends, oldest)) = self.table.oldest() else { return };
        if oldest.is_closed() || (oldest.has_acknowledged_all() && oldest.suspend(cx)) {
            cx.spare_connection = self.remove(&ends).filter(|one| one.is_spare());
        } else {
            self.table.touch(&ends);
        }
    }

    fn forget(&mut self, mut evicted: Box<Connection>, cx: &mut Context) {
        self.bytes -= evicted.counted_bytes();
        if evicted.suspend(cx) {
            return;
        }
        cx.counters.evicted_connections += u64::from(!evicted.is_over_already());
        evicted.end(NoResponse::Forgotten, cx);
    }
}
