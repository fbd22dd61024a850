//! Objects in a store that speaks S3's protocol, by URL: lists those below a prefix, and fetches ranges of them into
//! local files. Does not know their contents, and writes nothing to the store.
//!
//! The only place with an asynchronous runtime: one thread, which runs only during a call to [`Store`]. Every request
//! has a time limit and a bounded number of attempts. Memory holds only a page of the listing and the pieces on their
//! way to the disk. Endpoint and credentials come from the usual `AWS_…` environment variables.
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
pub use store::{Object, ObjectRanges, Store, free_bytes, merge_ranges};
