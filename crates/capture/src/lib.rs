//! From packets to requests: reads capture files and live interfaces, reassembles TCP, and pairs every request with its
//! response.
//!
//! ```text
//! files | live → Packet → link::segment → reassembly (per direction) → wire::stream → pairing → model::Request
//! ```
//! It does not know what made a request slow, and knows Kafka's protocol only through `wire`. [`Counters`] counts
//! everything that is lost on the way.
//!
//! Fuzzed by: analyzer, reassembly.
#![deny(unsafe_code)]

mod acknowledgement;
mod analyzer;
mod arrivals;
mod captures;
pub mod config;
mod connection;
mod connections;
mod context;
pub mod counters;
mod early;
pub mod error;
mod exchange;
pub mod file;
mod idle;
pub mod link;
#[cfg(feature = "live")]
pub mod live;
pub mod packet;
#[cfg(feature = "live")]
pub mod plaintext;
pub mod reassembly;
mod replicas;
mod streams;
mod table;
mod topics;
mod watermarks;

#[cfg(test)]
mod tests;

pub use analyzer::Analyzer;
pub use captures::Captures;
pub use config::{Config, Limits};
pub use counters::Counters;
pub use error::Error;
pub use file::PacketFile;
#[cfg(feature = "live")]
pub use live::{Live, LiveConfig};
pub use packet::{LinkType, Packet};
