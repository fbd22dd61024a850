//! Exports what is seen of a broker as metrics, for Prometheus and readers of `OpenMetrics`.
//!
//! It takes events, has [`diagnose`] reach verdicts and stages, adds everything up in bounded memory, and answers
//! over HTTP. It does not know where events come from, and reads no files: callers pass what its own process takes
//! ([`ProcessUsage`]).
//!
//! - [`Exporter`] takes events and writes what they add up to.
//! - [`catalog`] is the one list of metrics, with labels, units, meaning, and the series that are there from the beginning.
//! - `metrics` says what each event adds to them; `topics` and `threads` keep what that takes; `registry` holds the values.
//! - [`Format`] chooses among Prometheus' and `OpenMetrics`' text, and the protobuf format that has native histograms.
//! - [`otlp`] sends slow requests as traces.
//! - [`Server`] answers HTTP requests, hostile or not; [`MetricsService`] is what it answers.
//!
//! Hand-written, though libraries exist: histograms and their encoding, because `prometheus-client` has no native histograms,
//! neither text of 0.0.4 nor a bound on its series; the protobuf messages, because `prost` would take as many lines of
//! declarations as `format` takes to write them, and a derive macro to build; the post to a collector, because
//! `httparse`, which the server needs anyway, reads its answer, and `ureq` would add an HTTP stack for 90 lines.

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
