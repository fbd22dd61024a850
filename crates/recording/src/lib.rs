//! Events ↔ a directory of Parquet and Arrow files: writing it without losing more than a second to a
//! kill, and reading it back, finished or not.
//!
//! It knows how events are stored, not what they mean. A recording is a `manifest.json` ([`Manifest`])
//! and one folder per table ([`Table`]) of parts, `part-00001.parquet` and so on, which `DuckDB`, Polars,
//! Spark or Trino read as they are. The part that is being written is an Arrow IPC stream,
//! `part-00002.arrows`; it becomes Parquet when it is full or when the recording is finished.
//! [`Writer`] writes, [`Recording`] reads.

mod address;
mod cells;
mod chosen;
mod columns;
mod columns_ahead;
mod convert;
mod error;
mod events;
mod fence;
mod follow;
mod gists;
mod growing_part;
mod intake;
mod join_keys;
mod manifest;
mod notes;
mod number_builder;
mod open_part;
mod outlines;
mod parquet_part;
mod part;
mod reader;
mod shown_builder;
mod stream_part;
mod table;
mod table_events;
mod tables;
mod text;
mod text_builder;
mod text_cells;
mod topic_id;
mod verdicts;
mod writer;

pub use error::Error;
pub use events::Events;
pub use follow::Tail;
pub use gists::Gists;
pub use gists::ranges::{folder_of, footer_range, gist_ranges, has_gists};
pub use intake::{Intake, IntakeGuard};
pub use join_keys::{ProduceKeys, WriteKeys};
pub use manifest::{Broker, BrokerProcess, Clock, ClockPair, FORMAT, Host, Jvm, Manifest, VERSION};
pub use reader::Recording;
pub use table::Table;
pub use verdicts::VerdictWriter;
pub use writer::{Writer, WriterOptions};
