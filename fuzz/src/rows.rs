//! Requests from a process that parses packets for a live watch. It may have been taken over.
//!
//! Input: requests, one after the other.

use crate::Target;

/// The target.
pub const TARGET: Target = Target { name: "rows", check, spare_bytes: 16 << 10 };

fn check(data: &[u8]) {
    // The same requests may have several encodings; decoding what was encoded must give the same requests.
    assert!(watch::fuzzing::requests(data), "what was read is not what it is written as");
}
