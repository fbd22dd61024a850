//! The Java virtual machine that a broker runs in: who its threads are, who waits for which lock, and when
//! everything stopped. It asks the machine itself by its attach protocol, and reads what it and its tools write.
//!
//! It knows neither packets nor files of the broker, and does not say what a wait cost a request.

#![forbid(unsafe_code)]

pub mod dump;
pub mod gc_log;
pub mod jfr;
mod lines;

pub use lines::TextError;
