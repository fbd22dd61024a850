//! Flight recordings: real ones of two JDKs compared with the output of the JDK's own reader, and damaged ones.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test may panic")]

#[path = "jfr/calls.rs"]
mod calls;
#[path = "jfr/damage.rs"]
mod damage;
#[path = "jfr/oracle.rs"]
mod oracle;
#[path = "jfr/samples.rs"]
mod samples;
#[path = "jfr/tail.rs"]
mod tail;
#[path = "jfr/writer.rs"]
mod writer;
