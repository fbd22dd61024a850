//! A Kafka broker's own files: which brokers run here and how they are configured, the kind of a file by its name,
//! topic ids and replica counts on disk, the contents of a segment, and the text logs.
//!
//! It knows nothing of the kernel's probes or of packets. Files are only read, and treated as hostile: reads are
//! bounded, and a file's name is never trusted to match its contents.

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
