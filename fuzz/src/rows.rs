//! Requests from a process that parses packets for a live watch and may have been taken over.
//!
//! Input: requests, one after the other.

use crate::Target;

/// The target.
pub const TARGET: Target = Target { name: "rows", check, spare_bytes: 16 << 10 };

fn check(data: &[u8]) {
    // Bytes that mean the same may be written otherwise; what they mean comes back.
    assert!(watch::fuzzing::requests(data), "what was read is not what it is written as");
}
