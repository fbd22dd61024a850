//! What is seen of a broker, all the time, as metrics that Prometheus and whoever speaks `OpenMetrics` read.
//!
//! It takes events, has [`diagnose`] reach verdicts and stages, adds everything up in bounded memory, and answers
//! over HTTP. It does not know where events come from, and no files: what its own process takes is told to it ([`ProcessUsage`]).
//!
//! - [`Exporter`] takes events and writes what they add up to.
//! - [`catalog`] is the one list of metrics, with labels, units and meaning.
//! - one module a subject adds up: `requests`, `stages`, `slow`, `topics`, `batches`, `files`, `block_ios`, `journals`,
//!   `locks`, `threads`, `host`, `trouble`.
//! - `histogram` counts by buckets, classic ones and native ones at once; `peak` keeps the greatest of the last minute.
//! - `encoding` is what a format has to say; `text` writes Prometheus' and `OpenMetrics`' text, `protobuf` the one format that
//!   has native histograms; [`Format`] chooses among them.
//! - [`otlp`] sends slow requests as traces, where that is asked for.
//! - [`Server`] speaks HTTP with whoever asks, hostile or not; [`MetricsService`] is what it answers.

#![cfg_attr(test, allow(clippy::float_cmp, reason = "counts are whole numbers, and sums of few are exact"))]

mod batches;
mod block_ios;
mod bounds;
pub mod catalog;
mod encoding;
mod exemplar;
mod exporter;
mod files;
mod format;
mod histogram;
mod host;
mod http;
mod journals;
mod label;
mod locks;
mod metrics;
mod native;
pub mod otlp;
mod own;
mod peak;
mod protobuf;
mod requests;
mod server;
mod site;
mod slow;
mod stages;
#[cfg(test)]
mod tests;
mod text;
mod threads;
mod topics;
mod trouble;

pub use exporter::{BrokerInfo, Classifiers, Exporter, LogDir};
pub use format::Format;
pub use own::ProcessUsage;
pub use server::{Error, Server};
pub use site::{Health, MetricsService};
