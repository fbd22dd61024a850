//! pcapng block by block, written out byte for byte after draft-ietf-opsawg-pcapng.

use super::{opened, piped, read};
use crate::file::Notes;
use crate::packet::LinkType;

/// A section of unknown length, in little-endian byte order.
const LITTLE: &[u8] =
    b"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x1c\0\0\0";
/// A section of unknown length, in network byte order.
const BIG: &[u8] =
    b"\x0a\x0d\x0d\x0a\0\0\0\x1c\x1a\x2b\x3c\x4d\0\x01\0\0\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\x1c";
/// Ethernet, no limit on lengths, no options: microseconds.
const ETHERNET: &[u8] = b"\x01\0\0\0\x14\0\0\0\x01\0\0\0\0\0\0\0\x14\0\0\0";
const ETHERNET_BIG: &[u8] = b"\0\0\0\x01\0\0\0\x14\0\x01\0\0\0\0\0\0\0\0\0\x14";
/// Raw IP, at most 4 bytes of a packet; a comment, a name, the resolution 2^-4 s, and an end of options that
/// hides another resolution behind it.
const SIXTEENTHS: &[u8] = b"\x01\0\0\0\x38\0\0\0\x65\0\0\0\x04\0\0\0\
    \x01\0\x02\0hi\0\0\x02\0\x03\0eth\0\x09\0\x01\0\x84\0\0\0\0\0\0\0\x09\0\x01\0\x00\0\0\0\x38\0\0\0";
/// Ethernet; nanoseconds, with an offset of minus one hour.
const AN_HOUR_BEFORE: &[u8] = b"\0\0\0\x01\0\0\0\x2c\0\x01\0\0\0\0\0\0\
    \0\x0e\0\x08\xff\xff\xff\xff\xff\xff\xf1\xf0\0\x09\0\x01\x09\0\0\0\0\0\0\0\0\0\0\x2c";

/// Interface 0, 2^32 + 5 ticks, one byte of 60, a comment and flags behind it.
const ENHANCED: &[u8] = b"\x06\0\0\0\x38\0\0\0\0\0\0\0\x01\0\0\0\x05\0\0\0\x01\0\0\0\x3c\0\0\0\
    \xaa\0\0\0\x01\0\x03\0abc\0\x02\0\x04\0\x01\0\0\0\0\0\0\0\x38\0\0\0";
const ENHANCED_BIG: &[u8] =
    b"\0\0\0\x06\0\0\0\x24\0\0\0\0\0\0\0\x01\0\0\0\x05\0\0\0\x04\0\0\0\x04\xaa\xbb\xcc\xdd\0\0\0\x24";
/// The packet block that tools wrote before the enhanced one: interface 1, 7 drops, 35 ticks.
const OBSOLETE: &[u8] =
    b"\x02\0\0\0\x24\0\0\0\x01\0\x07\0\0\0\0\0\x23\0\0\0\x02\0\0\0\x09\0\0\0\xbb\xcc\0\0\x24\0\0\0";
const OBSOLETE_BIG: &[u8] =
    b"\0\0\0\x02\0\0\0\x24\0\0\xff\xff\0\0\0\0\0\0\0\x07\0\0\0\x01\0\0\0\x01\xee\0\0\0\0\0\0\x24";
/// A packet of 6 bytes without a time or an interface: the first interface applies.
const SIMPLE: &[u8] = b"\x03\0\0\0\x18\0\0\0\x06\0\0\0\x01\x02\x03\x04\x05\x06\0\0\x18\0\0\0";
/// The same packet if the first interface keeps 4 bytes.
const SIMPLE_CUT: &[u8] = b"\x03\0\0\0\x14\0\0\0\x06\0\0\0\x01\x02\x03\x04\x14\0\0\0";
/// Statistics (5), secrets (10), a custom block (0xbad) and the smallest block.
const OTHERS: &[u8] = b"\x05\0\0\0\x18\0\0\0\0\0\0\0\x01\0\0\0\x05\0\0\0\x18\0\0\0\
    \x0a\0\0\0\x14\0\0\0KSLT\0\0\0\0\x14\0\0\0\xad\x0b\0\0\x10\0\0\0\x01\0\0\0\x10\0\0\0\xff\0\0\0\x0c\0\0\0\x0c\0\0\0";

/// A packet's time, link, original length and bytes.
type ExpectedRecords<'a> = (i64, LinkType, u32, &'a [u8]);

const TWO_TO_THE_32_AND_5_US: i64 = 4_294_967_301_000;

#[test]
fn reads_every_packet_block_type() {
    let enhanced: ExpectedRecords = (TWO_TO_THE_32_AND_5_US, LinkType::Ethernet, 60, &[0xaa]);
    let cases: [(&[&[u8]], &[ExpectedRecords]); 9] = [
        (&[LITTLE, ETHERNET, ENHANCED], &[enhanced]),
        (&[LITTLE, ETHERNET, OTHERS, ENHANCED, OTHERS], &[enhanced]),
        (
            &[BIG, ETHERNET_BIG, ENHANCED_BIG],
            &[(TWO_TO_THE_32_AND_5_US, LinkType::Ethernet, 4, &[0xaa, 0xbb, 0xcc, 0xdd])],
        ),
        (
            &[LITTLE, ETHERNET, SIXTEENTHS, OBSOLETE, ENHANCED],
            &[(2_187_500_000, LinkType::RawIp, 9, &[0xbb, 0xcc]), enhanced],
        ),
        (&[BIG, AN_HOUR_BEFORE, OBSOLETE_BIG], &[(-3_599_999_999_993, LinkType::Ethernet, 1, &[0xee])]),
        // A packet without a time gets that of the previous one.
        (&[LITTLE, ETHERNET, SIMPLE], &[(0, LinkType::Ethernet, 6, &[1, 2, 3, 4, 5, 6])]),
        (
            &[LITTLE, ETHERNET, ENHANCED, SIMPLE],
            &[enhanced, (TWO_TO_THE_32_AND_5_US, LinkType::Ethernet, 6, &[1, 2, 3, 4, 5, 6])],
        ),
        (&[LITTLE, SIXTEENTHS, SIMPLE_CUT], &[(0, LinkType::RawIp, 6, &[1, 2, 3, 4])]),
        // A section starts without the previous section's interfaces, in its own byte order.
        (
            &[LITTLE, ETHERNET, ENHANCED, BIG, AN_HOUR_BEFORE, OBSOLETE_BIG, LITTLE, ETHERNET, ENHANCED],
            &[enhanced, (-3_599_999_999_993, LinkType::Ethernet, 1, &[0xee]), enhanced],
        ),
    ];
    for (number, (blocks, expected)) in cases.into_iter().enumerate() {
        let bytes = blocks.concat();
        let expected: Vec<_> =
            expected.iter().map(|&(time, link, length, data)| (time, link, length, data.to_vec())).collect();
        for mut file in [piped(&bytes).unwrap(), opened(&bytes).unwrap()] {
            assert_eq!(read(&mut file), expected, "case {number}");
            assert_eq!(file.notes(), Notes::default(), "case {number}");
        }
    }
}

#[test]
fn skips_and_counts_inconsistent_blocks() {
    // More bytes captured than the block has; and interfaces never described.
    let mut too_long = ENHANCED_BIG.to_vec();
    too_long[23] = 5;
    for (blocks, packets, damaged) in [
        (&[BIG, ETHERNET_BIG, &too_long, ENHANCED_BIG][..], 1, 1),
        (&[LITTLE, ENHANCED, OBSOLETE, SIMPLE], 0, 3),
        (&[LITTLE, ETHERNET, OBSOLETE, ENHANCED], 1, 1),
        (&[LITTLE, ETHERNET, ENHANCED, LITTLE, ENHANCED], 1, 1),
    ] {
        let mut file = opened(&blocks.concat()).unwrap();
        assert_eq!(read(&mut file).len(), packets, "{blocks:?}");
        assert_eq!(file.notes(), Notes { damaged_records: damaged, ..Notes::default() }, "{blocks:?}");
    }
}
