//! Experiments on a real Kafka broker: starts one on a prepared file system, drives load, injects faults and
//! runs `brokerscope` on it as a user would.
//!
//! It knows nothing of the product's insides. Everything it sets up hangs on a [`Site`] and is taken down
//! in reverse order when dropped, after an error, after Ctrl-C, and by `brokerscope-lab clean` after a SIGKILL.

mod background;
pub mod broker;
pub mod cgroup;
pub mod clean;
pub mod client;
mod cluster;
mod command;
mod cpu_hogs;
mod demo;
pub mod device;
mod error;
mod experiment;
mod faults;
mod file_systems;
mod files;
mod fleet;
pub mod jvm;
pub mod kafka;
pub mod load;
pub mod maven;
pub mod net;
mod observer;
mod process;
pub mod program;
mod session;
mod site;
mod sysctl;
mod tuning;
pub mod volume;

pub use broker::{Broker, BrokerOptions};
pub use command::{Arguments, BrokerArguments, Command, run};
pub use error::Error;
pub use kafka::Kafka;
pub use session::{Interrupt, Steps};
pub use site::Site;
