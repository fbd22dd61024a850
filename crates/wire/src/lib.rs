//! Kafka's bytes: frames, the headers of every API, Produce, Fetch, Metadata, `ApiVersions` and share group bodies of
//! every version, the groups, transactions, throttle times and error codes of all others, record batches of every
//! magic and codec.
//!
//! It does no I/O, reads no clocks, starts no threads and knows nothing of TCP: callers hand it bytes. All
//! bytes are taken as hostile: every read is bounded, nothing is allocated on the word of a length field.
//!
//! Two ways in: [`stream`] decodes one direction of a connection as its bytes come, without holding record
//! payloads; [`ApiKey::read_request`], [`ApiKey::read_response`], [`batch`] and [`record`] look at whole bodies. Which fields
//! each version has is declared once, in `api/table.rs`. What brokerscope itself asks a broker is in [`describe_configs`],
//! and how it authenticates itself in [`sasl`].
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
