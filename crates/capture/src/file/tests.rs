//! Capture files written byte by byte, cut at every position, and damaged.

use std::io::{Cursor, Write};

use super::{Notes, PacketFile};
use crate::error::Error;
use crate::packet::LinkType;
use crate::tests::{block, pcap, pcap_of};

mod blocks;
mod packed;

type PacketCopy = (i64, LinkType, u32, Vec<u8>);

fn read(file: &mut PacketFile) -> Vec<PacketCopy> {
    let mut seen = Vec::new();
    while let Some(packet) = file.next().unwrap() {
        seen.push((packet.time_ns, packet.link, packet.original_len, packet.bytes.to_vec()));
    }
    seen
}

fn piped(bytes: &[u8]) -> Result<PacketFile, Error> {
    PacketFile::from_reader(Box::new(Cursor::new(bytes.to_vec())))
}

fn opened(bytes: &[u8]) -> Result<PacketFile, Error> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    PacketFile::open(file.path())
}

const TIME: i64 = 1_700_000_000_123_456_789;

fn packets() -> Vec<(i64, Vec<u8>)> {
    vec![(TIME, vec![1, 2, 3]), (TIME + 5_000, vec![]), (TIME + 1_000_000_000, vec![9; 300])]
}

#[test]
fn reads_both_resolutions_and_byte_orders_alike() {
    for order in [u32::to_le_bytes, u32::to_be_bytes] {
        for (magic, unit_ns) in [(0xa1b2_c3d4, 1_000), (0xa1b2_3c4d, 1)] {
            let bytes = pcap_of(magic, unit_ns, order, 1, &packets());
            let expected: Vec<PacketCopy> = packets()
                .into_iter()
                .map(|(time, data)| (time / unit_ns * unit_ns, LinkType::Ethernet, data.len() as u32, data))
                .collect();
            assert_eq!(read(&mut piped(&bytes).unwrap()), expected);
            assert_eq!(read(&mut opened(&bytes).unwrap()), expected);
        }
    }
}

#[test]
fn truncated_pcap_yields_whole_packets_and_a_note() {
    let bytes = pcap(101, &packets());
    let ends: Vec<usize> = [24, 16 + 3, 16, 16 + 300]
        .into_iter()
        .scan(0, |at, len| {
            *at += len;
            Some(*at)
        })
        .collect();
    for len in 0..bytes.len() {
        match piped(&bytes[..len]) {
            Err(Error::NotACapture { .. }) => assert!(len < 24, "{len}"),
            Err(error) => panic!("{error}"),
            Ok(mut file) => {
                let whole = ends.iter().filter(|&&end| end <= len).count() - 1;
                assert_eq!(read(&mut file).len(), whole, "{len}");
                assert_eq!(file.notes().cut_records, u64::from(!ends.contains(&len)), "{len}");
                assert_eq!(read(&mut opened(&bytes[..len]).unwrap()).len(), whole, "{len}");
            }
        }
    }
}

/// As tcpdump does with the oldest file of a ring (`-W`); bytes appended later are not read.
#[test]
fn file_truncated_during_reading_ends_with_an_error() {
    let packets: Vec<_> = (0..200).map(|n| (TIME + n, vec![7; 60_000])).collect();
    let bytes = pcap(101, &packets);
    for len in [0, 24, bytes.len() as u64 / 2, bytes.len() as u64 + 100] {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        let mut capture = PacketFile::open(file.path()).unwrap();
        assert!(capture.next().unwrap().is_some());
        file.as_file().set_len(len).unwrap();
        if len > bytes.len() as u64 {
            assert_eq!((read(&mut capture).len(), capture.notes()), (packets.len() - 1, Notes::default()));
            continue;
        }
        let error = loop {
            if let Err(error) = capture.next().map(drop) {
                break error.to_string();
            }
        };
        assert!(error.contains("it was truncated while being read"), "{error}");
        assert!(capture.next().unwrap().is_none(), "said once");
    }
}

fn section(order: fn(u32) -> [u8; 4]) -> Vec<u8> {
    let body: Vec<u8> = [0x1a2b_3c4d, 1, u32::MAX, u32::MAX].into_iter().flat_map(order).collect();
    block(order, 0x0a0d_0d0a, &body)
}

fn interface(order: fn(u32) -> [u8; 4], link: u16, options: &[u8]) -> Vec<u8> {
    let big = order(1) == [0, 0, 0, 1];
    let link = if big { link.to_be_bytes() } else { link.to_le_bytes() };
    block(order, 1, &[&link[..], &[0, 0], &order(65_535), options].concat())
}

fn enhanced(order: fn(u32) -> [u8; 4], interface: u32, ticks: u64, data: &[u8], original: u32) -> Vec<u8> {
    let numbers = [interface, (ticks >> 32) as u32, ticks as u32, data.len() as u32, original];
    let mut body: Vec<u8> = numbers.into_iter().flat_map(order).collect();
    body.extend(data);
    block(order, 6, &body)
}

fn pcapng() -> Vec<u8> {
    let le = u32::to_le_bytes;
    let be = u32::to_be_bytes;
    [
        section(le),
        interface(le, 1, &[]),
        // Nanoseconds (9) and an offset of 1 s (14).
        interface(le, 276, &[9, 0, 1, 0, 9, 0, 0, 0, 14, 0, 8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        enhanced(le, 0, TIME as u64 / 1_000, &[1, 2, 3], 60),
        // A name resolution block is skipped.
        block(le, 4, &[0; 8]),
        enhanced(le, 1, TIME as u64, &[4; 5], 5),
        block(le, 3, &[&le(2)[..], &[7, 7]].concat()),
        // A second section, in the other byte order, starts without interfaces.
        section(be),
        interface(be, 101, &[]),
        enhanced(be, 0, 17, &[8], 1),
        enhanced(be, 1, 17, &[8], 1),
        enhanced(be, 0, 18, &[9], 1),
    ]
    .concat()
}

#[test]
fn reads_pcapng_sections_interfaces_and_resolutions() {
    let expected = vec![
        (TIME / 1_000 * 1_000, LinkType::Ethernet, 60, vec![1, 2, 3]),
        (TIME + 1_000_000_000, LinkType::LinuxSll2, 5, vec![4; 5]),
        (TIME + 1_000_000_000, LinkType::Ethernet, 2, vec![7, 7]),
        (17_000, LinkType::RawIp, 1, vec![8]),
        (18_000, LinkType::RawIp, 1, vec![9]),
    ];
    let mut file = piped(&pcapng()).unwrap();
    assert_eq!(read(&mut file), expected);
    assert_eq!(
        file.notes(),
        Notes { damaged_records: 1, ..Notes::default() },
        "interface 1 was never described"
    );
    assert_eq!(read(&mut opened(&pcapng()).unwrap()), expected);
}

#[test]
fn truncated_pcapng_ends_without_error() {
    let bytes = pcapng();
    let whole = read(&mut piped(&bytes).unwrap());
    for len in 0..bytes.len() {
        match piped(&bytes[..len]) {
            Err(Error::NotACapture { .. }) => assert!(len < 28, "{len}"),
            Err(error) => panic!("{error}"),
            Ok(mut file) => {
                let seen = read(&mut file);
                assert_eq!(seen, whole[..seen.len()], "{len}");
                assert!(file.next().unwrap().is_none(), "{len}: it stays ended");
            }
        }
    }
}

#[test]
fn refuses_a_non_capture_in_one_line() {
    for bytes in [
        &b""[..],
        b"\xd4",
        b"PK\x03\x04 a zip file, surely",
        b"BZh91AY&SY and so on, and so forth",
        b"not gzip, and as long as a header is",
        b"\xd4\xc3\xb2\xa1",
        b"\x0a\x0d\x0d\x0a12345678",
    ] {
        for error in [piped(bytes).err().unwrap(), opened(bytes).err().unwrap()] {
            assert!(matches!(error, Error::NotACapture { .. }), "{error}");
            assert!(!error.to_string().contains('\n'));
        }
    }
    assert!(matches!(PacketFile::open("/nowhere/at.all".as_ref()).err(), Some(Error::Read { .. })));
}

#[test]
fn absurd_record_length_ends_the_capture_with_an_error() {
    let mut bytes = pcap(1, &packets());
    bytes[24 + 8..24 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    for mut file in [piped(&bytes).unwrap(), opened(&bytes).unwrap()] {
        let error = file.next().err().unwrap();
        assert!(matches!(error, Error::Damaged { at: 24, packed: false, .. }), "{error}");
        assert!(file.next().unwrap().is_none(), "it is said once");
    }
}

#[test]
fn reads_packets_before_damage_and_reports_its_offset() {
    let mut bytes = pcap(1, &packets());
    let third = 24 + 16 + 3 + 16;
    bytes[third + 8..third + 12].copy_from_slice(&0x7fff_ffffu32.to_le_bytes());
    for mut file in [piped(&bytes).unwrap(), opened(&bytes).unwrap()] {
        for (time, data) in &packets()[..2] {
            assert_eq!(file.next_time().unwrap(), Some(time / 1_000 * 1_000));
            assert_eq!(file.next().unwrap().unwrap().bytes, data);
        }
        let error = file.next_time().err().unwrap().to_string();
        assert!(error.contains(&format!("damaged at byte {third}: ")), "{error}");
    }
    let mut blocks = pcapng();
    let end = blocks.len();
    blocks.extend([6, 0, 0, 0, 13, 0, 0, 0, 0, 0, 0, 0]);
    let mut file = opened(&blocks).unwrap();
    let error = std::iter::repeat_with(|| file.next().err()).flatten().next().unwrap();
    assert!(matches!(error, Error::Damaged { at, .. } if at == end as u64), "{error}");
}

/// A pipe that delivers one byte at a time, like a slow writer.
struct Trickle(Cursor<Vec<u8>>);

impl std::io::Read for Trickle {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let len = into.len().min(1);
        self.0.read(&mut into[..len])
    }
}

#[test]
fn slow_pipe_reads_like_a_file() {
    let bytes = pcap(1, &packets());
    let mut file = PacketFile::from_reader(Box::new(Trickle(Cursor::new(bytes.clone())))).unwrap();
    assert_eq!(read(&mut file), read(&mut opened(&bytes).unwrap()));
}

#[test]
fn reads_a_file_larger_than_the_read_buffer() {
    let big = vec![5; 9_000_000];
    let packets: Vec<(i64, Vec<u8>)> = (0..8).map(|i| (i * 1_000, big.clone())).collect();
    let mut file = opened(&pcap(1, &packets)).unwrap();
    let seen = read(&mut file);
    assert_eq!(seen.len(), 8);
    assert!(seen.iter().all(|(_, _, _, data)| *data == big));
}
