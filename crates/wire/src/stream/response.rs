//! Responses, one after the other, out of a direction's bytes.

use super::{Nature, Options, ResponseFrame, Start, StreamCounts};
use crate::ApiKey;

/// Decodes the broker's side of a connection.
pub struct ResponseStream<T: Copy> {
    options: Options,
    start: Start,
    frame: Option<ResponseFrame<T>>,
    counts: StreamCounts,
}

impl<T: Copy> ResponseStream<T> {
    /// A decoder before its first byte.
    pub fn new(options: Options, start: Start) -> Self {
        Self { options, start, frame: None, counts: StreamCounts::default() }
    }

    /// As [`super::RequestStream::advance`]. `pending` says what was asked under a correlation id, without
    /// forgetting it: it may be asked about ids that were never used, and more than once.
    pub fn advance(
        &mut self,
        bytes: &[u8],
        at: T,
        pending: &mut impl FnMut(i32) -> Option<(ApiKey, i16)>,
    ) -> (usize, Option<&ResponseFrame<T>>) {
        let _ = (&self.options, self.start, at, pending(0));
        (bytes.len(), self.frame.as_ref())
    }

    /// As [`super::RequestStream::lost`].
    pub fn lost(&mut self, n: u64, at: T) -> Option<&ResponseFrame<T>> {
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
