//! What the end-to-end tests are made of: the expected answer (Kafka's own request log, and an obviously
//! correct reading of the captured bytes), the answer of `brokerscope` run as a user runs it, and the
//! comparison of the two; damage to captures; real clients.
//!
//! It knows nothing of the product's crates but `lab`, which starts the broker: an oracle that shared
//! code with what it judges would share its mistakes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "support of tests: what cannot go on panics, and the test fails with it"
)]

pub mod agreement;
pub mod bench;
pub mod brokerscope;
pub mod capture_file;
pub mod clients;
pub mod comparison;
pub mod container;
pub mod damage;
pub mod dashboard;
pub mod export;
pub mod first;
pub mod frames;
pub mod gate;
pub mod ground;
pub mod intact;
pub mod jdk;
pub mod kafka_log;
pub mod operations;
pub mod prometheus;
pub mod recorder;
pub mod recording;
pub mod row;
pub mod spoken;
pub mod table;
pub mod tcpdump;
pub mod traffic;
pub mod views;
pub mod workload;
