//! Configuration of an analysis: ports, wishes and bounds. Does nothing itself.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Nanos, TopicId};

/// What to look at and how.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The broker's ports. None: every connection is looked at, and who is the broker follows from who
    /// opened the connection, or from who first sent what can only be a request.
    pub ports: Vec<u16>,
    /// The record header whose values become message ids.
    pub message_id_header: Option<Vec<u8>>,
    /// Topic ids known beforehand; Metadata responses add to them.
    pub topics: HashMap<TopicId, Arc<str>>,
    /// Packets of both directions are captured, as by a live watch. Then a request on a connection of which neither side
    /// acknowledged what the other sent has no row: the broker has never seen it, and anybody can send such packets.
    pub both_directions: bool,
    /// It is not packets that are taken in but what an agent in the JVM copied of TLS connections: the streams have no sequence
    /// numbers of TCP's.
    pub is_plaintext: bool,
    /// Bounds.
    pub limits: Limits,
}

/// Bounds on what an analysis keeps. What goes over them is dropped and counted.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections followed at once; beyond, the one quiet for longest is forgotten, but for what `idle_bytes` holds.
    pub connections: usize,
    /// Bytes of memory kept of them: requests that wait, frames that are read, buffers. Beyond, the same.
    pub connection_bytes: usize,
    /// Bytes for where the streams of idle ones go on, 24 each: beyond, the next request is found by a search.
    pub idle_bytes: usize,
    /// The same of connections of which neither side has acknowledged what the other sent: packets that anybody can send,
    /// and captures of one direction.
    pub unacknowledged_bytes: usize,
    /// Bytes that came early held for one direction of a connection.
    pub held_bytes_per_direction: usize,
    /// The same over all connections.
    pub held_bytes: usize,
    /// Requests of one connection waiting for their responses.
    pub pending_per_connection: usize,
    /// Bytes of topics' names, by which ids are found.
    pub topic_bytes: usize,
    /// Bytes of the rows that one packet completes; beyond, requests are dropped.
    pub row_bytes: usize,
    /// Partitions whose latest batches, 2 KiB each at most, and high watermarks are remembered, to tell when the data of a
    /// fetch had come.
    pub produced_partitions: usize,
    /// How long a request waits for its response before it gets its row without one. A consumer's
    /// `JoinGroup` rightly waits for minutes.
    pub answer_within: Nanos,
    /// See [`wire::stream::Options::max_frame_bytes`].
    pub max_frame_bytes: u32,
    /// See [`wire::stream::Options::max_batch_buffer_bytes`].
    pub max_batch_buffer_bytes: usize,
    /// See [`wire::stream::Options::max_decompressed_bytes`].
    pub max_decompressed_bytes: usize,
}

/// The least that is kept of a connection.
const MIN_CONNECTION_BYTES: usize = 1_024;
/// What is remembered of a partition: [`Limits::produced_partitions`].
const PRODUCED_PARTITION_BYTES: usize = 2_560;

impl Limits {
    /// Shares of so many bytes of memory.
    pub fn within(bytes: usize) -> Self {
        let wire = wire::stream::Options::default();
        let (connection_bytes, held_bytes) = (bytes / 8 * 3, bytes / 8);
        Self {
            connections: (connection_bytes / MIN_CONNECTION_BYTES).min(65_536),
            connection_bytes,
            idle_bytes: bytes / 8,
            unacknowledged_bytes: bytes / 8,
            held_bytes_per_direction: (held_bytes / 4).min(4 << 20),
            held_bytes,
            pending_per_connection: 4_096,
            topic_bytes: bytes / 16,
            row_bytes: bytes / 16,
            produced_partitions: (bytes / 8 / PRODUCED_PARTITION_BYTES).min(8_192),
            answer_within: Nanos::from_millis(600_000),
            max_frame_bytes: wire.max_frame_bytes,
            max_batch_buffer_bytes: wire.max_batch_buffer_bytes,
            max_decompressed_bytes: wire.max_decompressed_bytes,
        }
    }

    /// Bytes of one connection's requests that wait for their responses; one may always wait.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.unacknowledged_bytes / 4
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::within(512 << 20)
    }
}

impl Config {
    /// The same wishes in `wire`'s words.
    pub(crate) fn stream_options(&self) -> wire::stream::Options {
        wire::stream::Options {
            message_id_header: self.message_id_header.as_deref().map(Box::from),
            max_frame_bytes: self.limits.max_frame_bytes,
            max_batch_buffer_bytes: self.limits.max_batch_buffer_bytes,
            max_decompressed_bytes: self.limits.max_decompressed_bytes,
        }
    }
}
