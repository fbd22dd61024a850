//! Decodes one direction of a connection incrementally.
//! Does not reassemble TCP, pair requests with responses or read clocks; the caller's stamp `T` represents time.
//!
//! Record payloads are skipped, not buffered: a request of 100 MB costs only as much as its partitions and batch
//! headers. If message ids are extracted, one batch at a time is buffered, within the limits in [`Options`]; all other
//! bodies that are decoded are buffered whole, up to 8 MiB. The chunking does not affect what is returned;
//! `stream/framing/resync.rs` describes how the stream gets back into step after a loss.

mod frame;
mod framing;
mod request;
mod response;
mod walk;

pub use frame::{
    FetchBody, FetchResponseBody, FrameError, Partition, ProduceBody, RequestBody, RequestFrame,
    RequestIdsBody, ResponseBody, ResponseFrame, TopicRef,
};
pub use request::RequestStream;
pub use response::ResponseStream;

/// Limits and options for one direction.
#[derive(Clone, Debug)]
pub struct Options {
    /// The record header whose values are the message ids; `None` avoids all decompression.
    pub message_id_header: Option<Box<[u8]>>,
    /// The maximum frame size; a larger frame is not Kafka's. 104857600 by default, like `socket.request.max.bytes`.
    pub max_frame_bytes: u32,
    /// The largest batch buffered to read message ids; those of larger batches are not read.
    pub max_batch_buffer_bytes: usize,
    /// The maximum decompressed size of one batch.
    pub max_decompressed_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            message_id_header: None,
            max_frame_bytes: 104_857_600,
            max_batch_buffer_bytes: 8 << 20,
            max_decompressed_bytes: 32 << 20,
        }
    }
}

/// Where in a connection a direction's first byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the connection's start (the SYN was captured): a frame starts here.
    Boundary,
    /// Anywhere: the first plausible frame must be searched for.
    Midstream,
}

/// The protocol of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Not enough bytes to tell.
    #[default]
    Unknown,
    /// Kafka's protocol.
    Kafka,
    /// TLS: nothing can be read.
    Tls,
    /// Something else, or damaged Kafka. No frame was found in a bounded number of bytes.
    Other,
}

/// Counts of a direction so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Frames returned.
    pub frames: u64,
    /// Frames that could not be decoded completely, whether or not they were returned.
    pub undecodable: u64,
    /// How often the next frame had to be searched for.
    pub resyncs: u64,
    /// Raw SASL tokens, which are not frames.
    pub sasl_tokens: u64,
    /// Bytes skipped during searches for a frame.
    pub skipped_bytes: u64,
    /// Bytes that the caller reported missing.
    pub lost_bytes: u64,
}

impl std::ops::AddAssign for StreamCounts {
    fn add_assign(&mut self, other: Self) {
        self.frames += other.frames;
        self.undecodable += other.undecodable;
        self.resyncs += other.resyncs;
        self.sasl_tokens += other.sasl_tokens;
        self.skipped_bytes += other.skipped_bytes;
        self.lost_bytes += other.lost_bytes;
    }
}
