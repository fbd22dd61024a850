//! Objects in a store that speaks S3's protocol, by URL: which there are below a prefix, and ranges of them into files on this
//! disk. Does not know what is in them, and writes nothing to the store.
//!
//! The one place with an asynchronous runtime, of one thread, which runs only while a call of [`Store`]'s does. Every request
//! has a time limit and a bounded number of tries; nothing that a store sends is kept in memory but a page of its list and the
//! pieces on their way to the disk. Where the store is and who asks is read from the usual `AWS_…` variables of the environment.
//!
//! Fuzzed by: store.

mod connector;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod location;
mod store;

pub use error::Error;
pub use location::Location;
pub use store::{Object, ObjectRanges, Store, free_bytes, merged};
