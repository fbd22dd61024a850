//! Thread dumps: who was blocked on which lock at one moment, held by whom.

mod header;

pub use header::{ThreadHeader, thread_headers};
