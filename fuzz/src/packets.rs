//! A capture read packet by packet, from a pipe that delivers it in pieces. Does not interpret packets.

use capture::{Error, LinkType, PacketFile};

use crate::chunks::{Cuts, Trickle};

/// A packet: time, link, length on the link, bytes.
pub(crate) type PacketCopy = (i64, LinkType, u32, Vec<u8>);

/// Maximum bytes read of a capture: a compressed one may contain any amount.
const MAX_BYTES: usize = 256 << 10;
/// Overhead of storing a packet.
const AROUND_KEPT_BYTES: usize = 64;

/// The contents of a capture.
#[derive(Debug, PartialEq)]
pub(crate) struct Packets {
    pub(crate) all: Vec<PacketCopy>,
    /// How it ended.
    end: End,
    damaged_records: u64,
}

#[derive(Debug, PartialEq)]
enum End {
    Whole,
    Cut,
    Damaged(String),
    /// It has more than is read here.
    Endless,
}

/// Reads a capture to its end; `None` if it is not one. With `peeking`, peeks at each packet's time first.
pub(crate) fn read(bytes: &[u8], cuts: Cuts, peeking: bool) -> Option<Packets> {
    let mut file = PacketFile::from_reader(Box::new(Trickle::new(bytes, cuts))).ok()?;
    let (mut all, mut kept) = (Vec::new(), 0);
    let end = loop {
        let announced = if peeking { file.next_time() } else { Ok(None) };
        match announced.and_then(|time| Ok((time, file.next()?))) {
            Ok((time, Some(packet))) => {
                assert!(!peeking || time == Some(packet.time_ns), "the time announced");
                kept += packet.bytes.len() + AROUND_KEPT_BYTES;
                all.push((packet.time_ns, packet.link, packet.original_len, packet.bytes.to_vec()));
            }
            Ok((time, None)) => {
                assert_eq!(time, None, "a packet was announced");
                break if file.notes().cut_records > 0 { End::Cut } else { End::Whole };
            }
            Err(Error::Damaged { why, .. }) => break End::Damaged(why),
            Err(error) => panic!("a pipe in memory can be read: {error}"),
        }
        if kept > MAX_BYTES {
            break End::Endless;
        }
    };
    if end != End::Endless {
        assert!(file.next().is_ok_and(|packet| packet.is_none()), "the end is the end");
    }
    Some(Packets { all, end, damaged_records: file.notes().damaged_records })
}

/// Checks a capture, whole and in pieces; `least_record` is the minimum size of a packet's record.
pub(crate) fn check(bytes: &[u8], cuts: u8, least_record: usize) {
    let whole = read(bytes, Cuts::new(0), false);
    assert_eq!(whole, read(bytes, Cuts::new(cuts), true), "the cuts made a difference");
    let Some(whole) = whole else { return };
    let taken: usize = whole.all.iter().map(|(.., bytes)| least_record + bytes.len()).sum();
    assert!(taken <= bytes.len(), "{taken} bytes of packets in {} of a capture", bytes.len());
    // Cutting off the end does not affect what comes before.
    let shorter = read(&bytes[..bytes.len() - 1], Cuts::new(0), false);
    let before = shorter.map_or(Vec::new(), |shorter| shorter.all);
    assert!(whole.all.starts_with(&before), "a shorter capture has other packets");
    assert!(whole.all.len() <= before.len() + 1, "one byte less costs several packets");
}

/// Whether a file with these first bytes is decompressed before it is read: then its length is no bound.
pub(crate) fn is_packed(bytes: &[u8]) -> bool {
    let gzip = bytes.starts_with(&[0x1f, 0x8b]);
    let zstd_or_lz4 =
        bytes.get(1..4).is_some_and(|rest| rest == [0xb5, 0x2f, 0xfd] || rest[1..] == [0x4d, 0x18]);
    gzip || zstd_or_lz4
}
