//! Experiments on a real Kafka broker: starts one on a prepared file system, drives load, injects faults and runs
//! `brokerscope` on it as a user would.
//!
//! Does not know the product's internals. Everything that it sets up belongs to a [`Site`] and is taken down in reverse
//! order on drop, after an error, after Ctrl-C, and by `brokerscope-lab clean` after a SIGKILL.

pub mod broker;
pub mod client;
mod command;
mod demo;
pub mod device;
mod error;
mod experiment;
mod faults;
mod file_systems;
mod files;
mod fleet;
pub mod host;
pub mod jvm;
pub mod kafka;
pub mod load;
pub mod net;
mod process;
pub mod program;
mod session;
mod site;
mod tuning;
pub mod volume;

pub use broker::{Broker, BrokerOptions};
pub use command::{Arguments, BrokerArguments, Command, run};
pub use error::{Error, Result};
pub use kafka::Kafka;
pub use site::{Site, sweep_in};
