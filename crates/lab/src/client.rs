//! A Kafka client as small as it can be: what an experiment needs to say to a broker, byte by byte and at the
//! moment it wants. It speaks versions that need no flexible fields (KIP-482), checks errors and retries nothing.
//!
//! Kafka's own producer, a JVM a process, is in [`crate::load`].

mod batch;
mod connection;
mod request;
mod response;
mod slow;
mod topics;
mod traffic;
mod words;

pub use batch::batch;
pub use connection::Connection;
pub use request::{Request, Topic};
pub use response::{Fetched, fetched, first_error};
pub(crate) use slow::{connect_with_small_window, sip, trickle, wait_for_close};
pub(crate) use topics::create_topic;
pub(crate) use traffic::now_ns;
pub use traffic::{Answer, Running, Traffic};
pub(crate) use words::text;
