//! Decodes one direction of a connection as its bytes come. Does not reassemble TCP, pair requests with
//! responses or read clocks; the caller's stamp `T` stands for time.
//!
//! Record payloads are passed over, not held: a request of 100 MB costs what its partitions and batch heads
//! do. Only if message ids are wanted is one batch at a time held, within [`Options`]' bounds; all
//! other bodies that are decoded are held whole, up to 8 MiB. How chunks are cut does not change what is returned;
//! how the stream falls into step after a loss is described in `stream/framing/resync.rs`.

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

/// Bounds and wishes for one direction.
#[derive(Clone, Debug)]
pub struct Options {
    /// The record header whose values are wanted as message ids; none spares all decompression.
    pub message_id_header: Option<Box<[u8]>>,
    /// A larger frame is not Kafka's. 104857600 by default, as `socket.request.max.bytes`.
    pub max_frame_bytes: u32,
    /// The largest batch held to read message ids; of larger ones they are not read.
    pub max_batch_buffer_bytes: usize,
    /// The most that one batch may decompress to.
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
    /// At the connection's start (the SYN was seen): a frame starts here.
    Boundary,
    /// Anywhere: the first plausible frame must be found.
    Midstream,
}

/// What the bytes turned out to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Too few bytes to say.
    #[default]
    Unknown,
    /// Kafka's protocol.
    Kafka,
    /// TLS: nothing can be read.
    Tls,
    /// Something else, or Kafka so damaged that no frame was found in a bounded number of bytes.
    Other,
}

/// What happened to a direction so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Frames returned.
    pub frames: u64,
    /// Frames that could not be wholly decoded, whether or not they were returned.
    pub undecodable: u64,
    /// How often the next frame had to be searched for.
    pub resyncs: u64,
    /// Raw SASL tokens, which are no frames.
    pub sasl_tokens: u64,
    /// Bytes passed over while looking for a frame.
    pub skipped_bytes: u64,
    /// Bytes the caller reported missing.
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
