//! A block device with planted latency: a FUSE file system that serves one image file and holds back reads
//! or writes by offset range and time.
//!
//! [`serve`] is the server, a process of its own (`brokerscope-lab device`), because a file system must not
//! be served by the process that waits on it. [`Device`] starts one and steers it over its stdin:
//! `delay`, `pace`, `clear`, `trace`, each answered by data lines and `ok`, or `error …`.

pub mod delay;
mod delay_line;
mod image;
pub mod order;
pub mod pace;
mod remote;
mod serve;

pub use delay::{Delay, Direction};
pub use order::Served;
pub use pace::Pace;
pub use remote::{Device, DeviceOptions};
pub use serve::{ServeArguments, serve};
