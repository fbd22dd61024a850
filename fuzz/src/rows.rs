//! Rows from a process that parses untrusted data for a live watch. It may have been taken over.
//!
//! Input: requests, or events of a JVM, one after the other.

use crate::Target;

/// The target.
pub const TARGET: Target = Target { name: "rows", check, spare_bytes: 16 << 10 };

fn check(data: &[u8]) {
    // The same rows may have several encodings; decoding what was encoded must give the same rows.
    assert!(watch::fuzzing::requests(data), "a request is not what it is written as");
    assert!(watch::fuzzing::jfr_events(data), "an event of a JVM is not what it is written as");
}
