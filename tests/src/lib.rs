//! Parts of the end-to-end tests: the expected answer (Kafka's own request log, and an obviously correct parse of the
//! captured bytes), the output of `brokerscope` run as by a user, and the comparison of the two; damage to captures;
//! real clients.
//!
//! Uses none of the product's crates except `lab`, which starts the broker: an oracle that shared code with what it
//! judges would share its mistakes.
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
pub mod losses;
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
