//! A Kafka broker's own files: which brokers run here and how they are configured, what a file's name
//! says, the topic ids on disk, how many replicas partitions have, what is in a segment, and what its logs as text say.
//!
//! It knows nothing of the kernel's probes or of packets. Everything is read only, and read as hostile:
//! bounded, and never trusted to be what its name says.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod error;
pub mod metadata_log;
pub mod path;
mod processes;
pub mod properties;
pub mod request_log;
mod running;
pub mod segment;
pub mod server_log;
pub mod topic_ids;

pub use error::Error;
pub use processes::Processes;
pub use request_log::RequestLog;
pub use request_log::rows::LogRow;
pub use running::{Broker, Listener, find, pids};
pub use segment::Segment;
