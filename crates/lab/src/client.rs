//! A Kafka client as small as it can be: what an experiment needs to say to a broker, byte by byte and at the
//! moment it wants. It speaks versions that need no flexible fields (KIP-482), checks errors and retries nothing.
//!
//! Kafka's own producer, a JVM a process, is in [`crate::load`].

mod connection;
mod request;
mod traffic;

pub use connection::Connection;
pub(crate) use connection::{connect_with_small_window, create_topic, sip, trickle, wait_for_close};
pub(crate) use request::words;
pub use request::{FetchResult, Request, Topic};
pub(crate) use traffic::now_ns;
pub use traffic::{Answer, Running, Traffic};
