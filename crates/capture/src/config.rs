//! Configuration of an analysis: ports, options and limits. Contains no logic.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Nanos, TopicId};

/// What to analyze, and how.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The broker's ports.
    /// If empty, every connection is analyzed, and the broker's side follows from who opened the connection or who
    /// first sent what can only be a request.
    pub ports: Vec<u16>,
    /// The record header whose values become message ids.
    pub message_id_header: Option<Vec<u8>>,
    /// Topic ids known in advance; Metadata responses add to them.
    pub topics: HashMap<TopicId, Arc<str>>,
    /// Packets of both directions are captured, as by a live watch.
    /// If so, a request gets no row if neither side of its connection acknowledged what the other sent: the broker has
    /// never received it, and anybody can send such packets.
    pub both_directions: bool,
    /// The input is plaintext of TLS connections instead of packets. An agent in the JVM copies it. The streams have no
    /// TCP sequence numbers.
    pub is_plaintext: bool,
    /// The limits.
    pub limits: Limits,
}

/// Limits on the memory of an analysis. Anything beyond them is dropped and counted.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections followed at once; beyond, the least recently active one is evicted, except for what `idle_bytes`
    /// holds.
    pub connections: usize,
    /// Bytes for their pending requests, partial frames and buffers; beyond, the same happens.
    pub connection_bytes: usize,
    /// Bytes for the stream positions of idle connections, 13 each; beyond, the next request is found by a search.
    pub idle_bytes: usize,
    /// Like `connection_bytes`, for connections without acknowledged data. Neither side has acknowledged what the other
    /// sent: these are packets that anybody can send, and captures of one direction.
    pub unacknowledged_bytes: usize,
    /// Bytes of early segments held for one direction of a connection.
    pub held_bytes_per_direction: usize,
    /// Bytes of early segments held for all connections.
    pub held_bytes: usize,
    /// Pending requests of one connection.
    pub pending_per_connection: usize,
    /// Bytes of topic names and their ids.
    pub topic_bytes: usize,
    /// Bytes of the rows that one packet completes; beyond, requests are dropped.
    pub row_bytes: usize,
    /// Partitions of which the latest batches and high watermarks are remembered. They tell when the
    /// data of a fetch arrived. Batches take at most 2 KiB per partition.
    pub produced_partitions: usize,
    /// How long a request waits for its response before it gets its row without one.
    /// A consumer's `JoinGroup` may legitimately wait for minutes.
    pub answer_within: Nanos,
    /// See [`wire::stream::Options::max_frame_bytes`].
    pub max_frame_bytes: u32,
    /// See [`wire::stream::Options::max_batch_buffer_bytes`].
    pub max_batch_buffer_bytes: usize,
    /// See [`wire::stream::Options::max_decompressed_bytes`].
    pub max_decompressed_bytes: usize,
}

/// The minimum memory of a connection.
const MIN_CONNECTION_BYTES: usize = 1_024;
/// Memory per remembered partition: [`Limits::produced_partitions`].
const PRODUCED_PARTITION_BYTES: usize = 2_560;

impl Limits {
    /// Divides this many bytes of memory among the limits.
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

    /// Bytes of the pending requests of one connection; a single one is always allowed.
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
    /// The same options, as `wire` takes them.
    pub(crate) fn stream_options(&self) -> wire::stream::Options {
        wire::stream::Options {
            message_id_header: self.message_id_header.as_deref().map(Box::from),
            max_frame_bytes: self.limits.max_frame_bytes,
            max_batch_buffer_bytes: self.limits.max_batch_buffer_bytes,
            max_decompressed_bytes: self.limits.max_decompressed_bytes,
        }
    }
}
