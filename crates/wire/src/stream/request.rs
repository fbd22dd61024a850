//! Requests, one after the other, out of a direction's bytes.

use super::{Nature, Options, RequestFrame, Start, StreamCounts};

/// Decodes the client's side of a connection.
pub struct RequestStream<T: Copy> {
    options: Options,
    start: Start,
    frame: Option<RequestFrame<T>>,
    counts: StreamCounts,
}

impl<T: Copy> RequestStream<T> {
    /// A decoder before its first byte.
    pub fn new(options: Options, start: Start) -> Self {
        Self { options, start, frame: None, counts: StreamCounts::default() }
    }

    /// Takes in the next bytes of the stream, as far as the end of a frame, and returns how many it took and
    /// the frame if one ended. Call again with the rest. At least one byte is taken unless a frame is returned.
    pub fn advance(&mut self, bytes: &[u8], at: T) -> (usize, Option<&RequestFrame<T>>) {
        let _ = (&self.options, self.start, at);
        (bytes.len(), self.frame.as_ref())
    }

    /// Says that `n` bytes of the stream are missing here. Returns a frame if one ended among them, or had to
    /// be given up.
    pub fn lost(&mut self, n: u64, at: T) -> Option<&RequestFrame<T>> {
        let _ = at;
        self.counts.lost_bytes += n;
        None
    }

    /// What happened so far.
    pub fn counts(&self) -> StreamCounts {
        self.counts
    }

    /// What the bytes turned out to be.
    pub fn nature(&self) -> Nature {
        Nature::Unknown
    }
}
