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
    /// Bounds.
    pub limits: Limits,
}

/// Bounds on what an analysis keeps. What goes over them is dropped and counted.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections followed at once; beyond, the one quiet for longest is forgotten.
    pub connections: usize,
    /// Bytes that came early held for one direction of a connection.
    pub held_bytes_per_direction: usize,
    /// The same over all connections.
    pub held_bytes: usize,
    /// Requests of one connection waiting for their responses.
    pub pending_per_connection: usize,
    /// The same over all connections.
    pub pending: usize,
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

impl Default for Limits {
    fn default() -> Self {
        let wire = wire::stream::Options::default();
        Self {
            connections: 65_536,
            held_bytes_per_direction: 4 << 20,
            held_bytes: 64 << 20,
            pending_per_connection: 4_096,
            pending: 131_072,
            produced_partitions: 8_192,
            answer_within: Nanos::from_millis(600_000),
            max_frame_bytes: wire.max_frame_bytes,
            max_batch_buffer_bytes: wire.max_batch_buffer_bytes,
            max_decompressed_bytes: wire.max_decompressed_bytes,
        }
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
