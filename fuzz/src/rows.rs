//! Rows from a process that parses for a live watch and may have been taken over.
//!
//! Input: a byte that says of which parser, then its rows, one after the other.

use watch::fuzzing;

use crate::Target;

/// The target.
pub const TARGET: Target = Target { name: "rows", check, spare_bytes: 16 << 10 };

fn check(data: &[u8]) {
    let [parser, rows @ ..] = data else { return };
    // Bytes that mean the same may be written otherwise; what they mean comes back.
    let come_back = if parser & 1 == 0 { fuzzing::requests(rows) } else { fuzzing::flight_events(rows) };
    assert!(come_back, "what was read is not what it is written as");
}
