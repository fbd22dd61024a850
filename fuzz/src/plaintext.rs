//! Records in the ring that an agent in a broker's JVM writes: who has taken over that JVM may write anything.
//!
//! Input: 8 bytes, the ring's nonce, and what is in it from its beginning on.

use crate::Target;

/// The target.
pub const TARGET: Target = Target { name: "plaintext", check, spare_bytes: 16 << 10 };

fn check(data: &[u8]) {
    if let Some((nonce, ring)) = data.split_first_chunk() {
        capture::plaintext::fuzz_ring(ring, u64::from_ne_bytes(*nonce));
    }
}
