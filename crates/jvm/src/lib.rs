//! The Java virtual machine that a broker runs in: who its threads are, who waits for which lock, and when
//! everything stopped. It asks the machine itself by its attach protocol, and reads what it and its tools write.
//!
//! It knows neither packets nor files of the broker, and does not say what a wait cost a request.

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
