//! Writes events to a directory of Parquet and Arrow files, and reads them back.
//! A kill loses at most a second. Recordings are read whether they are finished or not.
//!
//! It knows how events are stored, not what they mean. A recording is a `manifest.json` ([`Manifest`])
//! and one folder per table ([`Table`]) of parts, `part-00001.parquet` and so on, which `DuckDB`, Polars,
//! Spark or Trino read as they are. The part that is being written is an Arrow IPC stream,
//! `part-00002.arrows`; it becomes Parquet when it is full or when the recording is finished.
//! [`Writer`] writes, [`Recording`] reads.
//!
//! Parquet and Arrow are decoded by their own crates, whose panics become errors. Fuzzed by: recording.

mod builders;
mod cells;
mod closed;
mod columns;
mod convert;
mod directory;
mod error;
mod events;
mod intake;
mod join_keys;
mod manifest;
mod notes;
mod pages;
mod parquet_part;
mod part;
mod reader;
mod rows;
mod selection;
mod space;
mod stream;
mod summaries;
mod table;
mod tail;
mod text;
mod thrift;
mod verdicts;
mod writer;

pub use directory::Directory;
pub use error::Error;
pub use events::Events;
pub use intake::{Intake, IntakeGuard};
pub use join_keys::{ProduceKeys, WriteKeys};
pub use manifest::{
    Broker, BrokerProcess, Clock, FORMAT, Host, Jvm, MANIFEST, Manifest, SourceHealth, VERSION,
};
pub use model::Table;
pub use reader::Recording;
pub use space::DiskLimit;
pub use summaries::{Summaries, folder_of, footer_range, has_summaries, summary_ranges};
pub use tail::Tail;
pub use verdicts::VerdictWriter;
pub use writer::{Writer, WriterOptions};
