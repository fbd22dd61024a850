//! Damage to a capture: missing, cut or foreign packets. Every kind depends only on a seed.

use crate::capture_file::{CaptureFile, Packet};
use fastrand::Rng;

/// Maximum distance that [`shuffled`] moves packets.
const APART: u64 = 5;
/// Minimum gap that [`shuffled`] regards as a pause.
const PAUSE_NS: i64 = 5_000_000;

/// The capture without its first `share` of packets: every connection starts mid-stream.
pub fn begun_late(capture: &CaptureFile, share: f64) -> CaptureFile {
    let skipped = (capture.packets.len() as f64 * share) as usize;
    capture.with(capture.packets[skipped..].to_vec())
}

/// Which of `packets` packets are left after `per_mille` of them are dropped.
pub fn thinned(packets: usize, per_mille: u64, rng: &mut Rng) -> Vec<bool> {
    (0..packets).map(|_| rng.u64(..1000) >= per_mille).collect()
}

/// The capture as on a network with a smaller MTU: at most `most` bytes of data per packet.
pub fn segmented(capture: &CaptureFile, most: usize) -> CaptureFile {
    capture.with(capture.packets.iter().flat_map(|packet| packet.in_pieces(most)).collect())
}

/// Every packet cut after `snaplen` bytes.
pub fn cut(capture: &CaptureFile, snaplen: usize) -> CaptureFile {
    let cut = |packet: &Packet| {
        let mut packet = packet.clone();
        packet.bytes.truncate(snaplen);
        packet
    };
    capture.with(capture.packets.iter().map(cut).collect())
}

/// The capture with packets moved by up to `APART` places, and some repeated. Packets of both directions and all
/// connections are moved, as networks and captures on several CPUs write them. None crosses a pause, because no CPU
/// holds a packet that long.
pub fn shuffled(capture: &CaptureFile, rng: &mut Rng) -> CaptureFile {
    let mut runs = 0;
    let mut last = 0;
    let places = capture.packets.iter().enumerate().map(|(at, packet)| {
        let time = packet.time_ns();
        runs += usize::from(time - last > PAUSE_NS);
        last = time;
        (runs, at as u64 + rng.u64(..APART), at)
    });
    let mut order: Vec<_> = places.collect();
    order.sort_unstable();
    // The times stay in order.
    let packets = capture.packets.iter().zip(order).map(|(before, (_, _, at))| {
        let packet = capture.packets[at].clone();
        Packet { time: before.time, ..packet }
    });
    let repeated = packets.flat_map(|packet| {
        let times = if rng.u64(..50) == 0 { 2 } else { 1 };
        std::iter::repeat_n(packet, times)
    });
    capture.with(repeated.collect())
}

/// The capture, preceded by connections to its broker's port. They carry these bytes, one each.
pub fn with_strangers(capture: &CaptureFile, port: u16, strangers: &[Vec<u8>]) -> CaptureFile {
    let time = capture.packets.first().map_or([0; 8], |packet| packet.time);
    let mut packets = Vec::new();
    for (i, bytes) in strangers.iter().enumerate() {
        // Ports below the range that Linux gives clients: no connection of the capture has them.
        let ends = [(9, 20_000 + i as u16), (1, port)];
        packets.push(Packet::on_loopback(time, ends, 1_000, 2, &[]));
        let mut sequence = 1_001;
        for piece in bytes.chunks(1_400) {
            packets.push(Packet::on_loopback(time, ends, sequence, 0x18, piece));
            sequence += piece.len() as u32;
        }
    }
    packets.extend(capture.packets.iter().cloned());
    capture.with(packets)
}

/// A TLS 1.3 client's first record: `ClientHello` (RFC 8446, 4.1.2) with a made-up rng.
pub fn client_hello(rng: &mut Rng) -> Vec<u8> {
    let mut hello = vec![3, 3];
    hello.extend(bytes(32, rng));
    hello.push(32);
    hello.extend(bytes(32, rng));
    // Cipher suites, null compression, extensions: supported_versions and server_name "kafka".
    hello.extend([0, 4, 0x13, 0x01, 0x13, 0x02, 1, 0]);
    let extensions =
        [&[0, 43, 0, 3, 2, 3, 4][..], &[0, 0, 0, 10, 0, 8, 0, 0, 5, b'k', b'a', b'f', b'k', b'a'][..]]
            .concat();
    hello.extend((extensions.len() as u16).to_be_bytes());
    hello.extend(extensions);
    let mut record = vec![0x16, 3, 1];
    record.extend((hello.len() as u16 + 4).to_be_bytes());
    record.extend([1, 0]);
    record.extend((hello.len() as u16).to_be_bytes());
    record.extend(hello);
    record
}

/// Draws `count` bytes.
pub fn bytes(count: usize, rng: &mut Rng) -> Vec<u8> {
    std::iter::repeat_with(|| rng.u8(..)).take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::{client_hello, cut, segmented, shuffled, thinned, with_strangers};
    use crate::capture_file::{CaptureFile, Packet};
    use crate::frames::sizes;
    use fastrand::Rng;
    use std::collections::HashSet;
    use std::path::Path;

    fn sample() -> CaptureFile {
        CaptureFile::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("data/sample.pcap"))
    }

    fn contents(capture: &CaptureFile) -> HashSet<&[u8]> {
        capture.packets.iter().map(|packet| packet.bytes.as_slice()).collect()
    }

    #[test]
    fn shuffling_loses_nothing_and_changes_the_order() {
        let (sample, shuffled) = (sample(), shuffled(&sample(), &mut Rng::with_seed(1)));
        assert_eq!(contents(&sample), contents(&shuffled));
        assert!(shuffled.packets.len() > sample.packets.len());
        let firsts = sample.packets.iter().zip(&shuffled.packets);
        assert!(firsts.take_while(|(a, b)| a.bytes == b.bytes).count() < sample.packets.len());
        assert!(shuffled.packets.is_sorted_by_key(Packet::time_ns));
    }

    #[test]
    fn thinning_removes_packets_and_cutting_truncates_them() {
        let left = thinned(100, 200, &mut Rng::with_seed(1)).iter().filter(|left| **left).count();
        assert!((60..95).contains(&left), "{left}");
        let cut = cut(&sample(), 60);
        assert!(cut.packets.iter().all(|packet| packet.bytes.len() <= 60));
        assert!(cut.packets.iter().any(|packet| packet.original_len > 60));
    }

    #[test]
    fn smaller_packets_carry_the_same_requests() {
        let segmented = segmented(&sample(), 100);
        assert!(segmented.packets.len() > 150, "{}", segmented.packets.len());
        assert!(segmented.packets.iter().all(|packet| packet.bytes.len() <= 200));
        assert_eq!(sizes(&segmented, "127.0.0.1:29092"), sizes(&sample(), "127.0.0.1:29092"));
    }

    #[test]
    fn foreign_connections_precede_the_capture() {
        let hello = client_hello(&mut Rng::with_seed(1));
        let length = u16::from_be_bytes([hello[3], hello[4]]);
        assert_eq!(usize::from(length), hello.len() - 5, "the record's length");
        let damaged = with_strangers(&sample(), 29092, &[hello.clone(), vec![7; 3_000]]);
        let added = damaged.packets.len() - sample().packets.len();
        assert_eq!(added, 2 + 1 + 3);
        let tcp = damaged.packets[1].tcp().unwrap();
        assert_eq!(&damaged.packets[1].bytes[tcp.data], hello);
    }
}
