//! The classic capture format, of both byte orders and resolutions.
//!
//! Input: a byte for the cuts; then the file. The target `analyzer` handles compressed ones.

use crate::Target;
use crate::packets;

/// The target.
pub const TARGET: Target = Target { name: "pcap", check, spare_bytes: 2 << 20 };

/// Minimum overhead of a packet in the file.
const AROUND_PACKET_BYTES: usize = 16;

fn check(data: &[u8]) {
    let Some((&cuts, file)) = data.split_first() else { return };
    if !packets::is_packed(file) {
        packets::check(file, cuts, AROUND_PACKET_BYTES);
    }
}
