//! The crate from outside: brokers in a made-up `/proc`, segments in every state.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test may panic")]

mod brokers;
mod metadata_log;
mod segments;
