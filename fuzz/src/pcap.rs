//! The classic capture format, of either byte order and resolution.
//!
//! Input: a byte for the cuts; then the file. Compressed ones are the target `analyzer`'s.

use crate::Target;
use crate::packets;

/// The target.
pub const TARGET: Target = Target { name: "pcap", check, spare_bytes: 2 << 20 };

/// The fewest bytes of the file around a packet's.
const AROUND_PACKET_BYTES: usize = 16;

fn check(data: &[u8]) {
    let Some((&cuts, file)) = data.split_first() else { return };
    if !packets::is_packed(file) {
        packets::check(file, cuts, AROUND_PACKET_BYTES);
    }
}
