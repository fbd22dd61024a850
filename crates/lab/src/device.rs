//! A block device with injected latency: a FUSE file system that serves one image file and holds back reads
//! or writes by offset range and time.
//!
//! [`serve`] is the server, its own process (`brokerscope-lab device`), because a file system must not
//! be served by the process that waits on it. [`Device`] starts one and steers it over its stdin:
//! an order a line, each answered by a line.

mod client;
mod delay;
mod order;
mod server;

pub use client::{Device, DeviceOptions};
pub use delay::{Delay, Direction, Pace};
pub use order::DeviceOperation;
pub use server::{ServeArguments, serve};
