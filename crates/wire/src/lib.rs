//! Kafka's protocol: frames, the headers of every API, Produce, Fetch, Metadata, `ApiVersions` and share group bodies
//! of every version, the groups, transactions, throttle times and error codes of all others, and record batches of
//! every magic and codec.
//!
//! It does no I/O, reads no clocks, starts no threads and knows nothing of TCP: callers pass it bytes. All bytes are
//! treated as hostile: every read is bounded, and a length field alone never causes an allocation.
//!
//! There are two entry points. [`stream`] decodes one direction of a connection incrementally, without buffering record
//! payloads. [`ApiKey::read_request`], [`ApiKey::read_response`], [`batch`] and [`record`] read whole bodies. The
//! fields of each version are declared once, in `api/table.rs`. The requests that brokerscope itself sends to a broker
//! are in [`describe_configs`], and its authentication in [`sasl`].
//!
//! Fuzzed by: batch, fetch, frame, produce, settings.

pub mod api;
pub mod batch;
pub mod compression;
pub mod describe_configs;
pub mod error;
mod frame_writer;
pub mod header;
pub mod reader;
pub mod record;
pub mod sasl;
pub mod stream;

pub use api::ApiKey;
pub use batch::BatchHeader;
pub use error::{Error, ErrorKind};
