//! Sources of a broker's events, and their analysis.
//!
//! - [`source`]: recordings (finished, growing, in a bucket), captures and live watches behind one trait, [`EventSource`].
//! - [`Analysis`]: runs the engine over a source, with doubts and the cross-check with Kafka's request log.
//! - [`gaps`]: what a source could not see, and what it lost.
//! - [`background`]: totals of all events, read in parallel with the selection that verdicts need (`selective_read`).
//! - [`comparison`], [`advice`]: figures of compared runs, and inputs of advice rules.
//! - [`recorder`]: manifest entries that the recorder writes, and notes that readers make of them.
//!
//! Does not know arguments, terminals or output formats. Reports progress and warnings through `tracing`.

pub mod advice;
mod analysis;
pub mod background;
#[cfg(feature = "object-stores")]
pub mod bucket;
#[cfg(not(feature = "object-stores"))]
#[path = "bucket/absent.rs"]
pub mod bucket;
pub mod comparison;
mod cross_check;
mod error;
pub mod filter;
mod flight_recordings;
pub mod gaps;
pub mod input;
pub mod recorder;
mod selective_read;
pub mod source;
pub mod stop;

pub use analysis::{Analysis, Output};
pub use cross_check::{Agreement, CrossCheck};
pub use error::{Error, Usage, file_error, open_file};
pub use flight_recordings::read_flight_recording;
pub use gaps::Gaps;
pub use source::{EventSource, Step};
pub use stop::Stop;
