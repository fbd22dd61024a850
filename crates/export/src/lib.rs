//! Exports metrics of a broker, for Prometheus and readers of `OpenMetrics`.
//!
//! It feeds events to [`diagnose`] for verdicts and stages, sums everything up in bounded memory, and answers over
//! HTTP. It does not know where events come from, and reads no files: callers pass the usage of its process
//! ([`ProcessUsage`]).
//!
//! - [`Exporter`] turns events into metrics.
//! - [`catalog`] is the one list of metrics, with labels, units, meaning, and the series that exist from the start.
//! - `metrics` updates metrics for each event; `topics` and `threads` hold the state for that; `registry` holds the
//!   values.
//! - [`Format`] selects Prometheus' text, `OpenMetrics`, or the protobuf format with native histograms.
//! - [`otlp`] sends slow requests as traces.
//! - [`Server`] handles HTTP requests, hostile or not; [`MetricsService`] provides the answers.
//!
//! Hand-written, although libraries exist: histograms and their encoding, because `prometheus-client` has no native
//! histograms, no 0.0.4 text format and no bound on its series; the protobuf messages, because `prost` would need as
//! many lines of declarations as `format` needs to write them, and a derive macro at build time; the post to a
//! collector, because `httparse`, which the server needs anyway, parses its answer, and `ureq` would add an HTTP stack
//! to save 90 lines.

#![cfg_attr(test, allow(clippy::float_cmp, reason = "counts are whole numbers, and sums of few are exact"))]

pub mod catalog;
mod exporter;
mod format;
#[doc(hidden)]
pub mod fuzzing;
mod histogram;
mod label;
mod metrics;
pub mod otlp;
mod recent;
mod registry;
mod server;
mod site;
#[cfg(test)]
mod tests;
mod threads;
mod topics;

pub use exporter::{Exporter, ProcessUsage, SourceHealth};
pub use format::Format;
pub use metrics::{BrokerInfo, Classifiers, LogDir};
pub use server::{Error, Server};
pub use site::{Health, MetricsService};
