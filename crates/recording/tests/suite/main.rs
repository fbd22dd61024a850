//! Writing and reading recordings from outside the crate: round trips, kills, damage.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test may panic")]

mod ahead;
mod chosen;
mod crash;
mod damage;
mod directory;
mod disk;
mod follow;
mod intake;
mod layout;
mod round_trip;
mod samples;
mod verdicts;
