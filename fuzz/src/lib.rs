//! Checks that must hold for hostile bytes, one module per target: each takes arbitrary bytes and panics if the product
//! breaks a promise.
//!
//! It does not generate inputs: libFuzzer does (`fuzz/run`, through the binaries), and the committed corpora run
//! through the same checks as a test (`tests/corpus.rs`). It does not know how the rest of the product uses the
//! results.

// A target reports a fault by panicking.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::missing_panics_doc)]

pub mod analyzer;
pub mod attach;
pub mod batch;
mod bodies;
mod chunks;
pub mod dump;
pub mod fetch;
mod files;
pub mod frame;
pub mod http;
pub mod jfr;
pub mod log;
mod packets;
pub mod pcap;
pub mod pcapng;
pub mod plaintext;
pub mod produce;
pub mod reassembly;
#[cfg(feature = "recordings")]
pub mod recording;
pub mod rows;
pub mod segment;
pub mod settings;
#[cfg(feature = "stores")]
pub mod store;
pub mod symbols;
pub mod tail;
mod target;

pub use target::{TARGETS, Target};
