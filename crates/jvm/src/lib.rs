//! The Java virtual machine that a broker runs in: its threads, their waits for locks, and its pauses. Queries the JVM
//! by its attach protocol, and reads what the JVM and its tools write.
//!
//! Does not know the broker's packets and files, and does not say what a wait cost a request.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod agent;
pub mod attach;
pub mod dump;
mod error;
pub mod flight;
#[doc(hidden)]
pub mod fuzzing;
pub mod gc_log;
pub mod jfr;
mod lines;
mod machine;
mod role;
pub mod threads;

pub use error::Error;
pub use lines::TextError;
pub use machine::{Kind, Machine, Owner, act_as, may_act_as};
pub use role::Role;
