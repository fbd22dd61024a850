//! Segments in packets written byte by byte.

use super::{Flags, NoSegment, Segment, segment};
use crate::packet::{LinkType, Packet};
use crate::tests::TestSegment;

fn packet(link: LinkType, bytes: &[u8]) -> Packet<'_> {
    Packet { time_ns: 0, link, original_len: bytes.len() as u32, bytes }
}

fn sample() -> TestSegment {
    TestSegment {
        seq: 7,
        ack: 9,
        payload: b"abc".to_vec(),
        ..TestSegment::new("10.0.0.7:41234", "10.0.0.1:9092")
    }
}

fn expected(sent: &TestSegment) -> Segment<'_> {
    Segment {
        src: sent.src,
        dst: sent.dst,
        seq: sent.seq,
        ack: sent.ack,
        flags: sent.flags,
        payload: &sent.payload,
        missing: 0,
    }
}

#[test]
fn parses_ipv4_and_tcp_header_fields() {
    let bytes = [
        0x45, 0, 0, 46, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 7, 10, 0, 0, 1, // IPv4, 46 bytes in all
        0xa1, 0x12, 0x23, 0x84, 0, 0, 0, 1, 0, 0, 0, 2, 0x60, 0x18, 1, 0, 0, 0, 0, 0, // TCP, 24 bytes
        1, 1, 1, 1, // options
        0xca, 0xfe, // payload
        0, 0, 0, 0, // link padding
    ];
    let segment = segment(&packet(LinkType::RawIp, &bytes)).unwrap();
    assert_eq!(segment.src, "10.0.0.7:41234".parse().unwrap());
    assert_eq!(segment.dst, "10.0.0.1:9092".parse().unwrap());
    assert_eq!((segment.seq, segment.ack), (1, 2));
    assert_eq!(segment.flags, Flags(0x18));
    assert_eq!((segment.payload, segment.missing), (&[0xca, 0xfe][..], 0));
}

#[test]
fn parses_the_same_segment_from_every_link_type() {
    let v4 = sample();
    let v6 = TestSegment {
        src: "[fd00::7]:41234".parse().unwrap(),
        dst: "[fd00::1]:9092".parse().unwrap(),
        ..sample()
    };
    for sent in [v4, v6] {
        let is_v4 = sent.src.is_ipv4();
        let ethertype: [u8; 2] = if is_v4 { [8, 0] } else { [0x86, 0xdd] };
        let ip = sent.ip();
        let with = |header: &[u8]| [header, &ethertype, &ip].concat();
        let family = |bytes: [u8; 4]| [&bytes[..], &ip].concat();
        let macs = [0; 12];
        let cases = [
            (LinkType::Ethernet, with(&macs)),
            (LinkType::Ethernet, with(&[&macs[..], &[0x81, 0, 0, 5]].concat())),
            (LinkType::Ethernet, with(&[&macs[..], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6]].concat())),
            (LinkType::LinuxSll, with(&[0, 0, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0])),
            (LinkType::LinuxSll2, [&ethertype[..], &[0; 18], &ip].concat()),
            (LinkType::RawIp, ip.clone()),
            (LinkType::Null, family([if is_v4 { 2 } else { 30 }, 0, 0, 0])),
            (LinkType::Null, family([0, 0, 0, if is_v4 { 2 } else { 10 }])),
            (LinkType::Loop, family([0, 0, 0, if is_v4 { 2 } else { 24 }])),
        ];
        for (link, bytes) in cases {
            assert_eq!(segment(&packet(link, &bytes)), Ok(expected(&sent)), "{link:?} {bytes:02x?}");
        }
    }
}

#[test]
fn skips_ipv6_extension_headers() {
    let sent = TestSegment {
        src: "[fd00::7]:41234".parse().unwrap(),
        dst: "[fd00::1]:9092".parse().unwrap(),
        ..sample()
    };
    let tcp = sent.tcp();
    // Hop-by-hop (8 bytes), destination options (16), an authentication header (12), an atomic fragment.
    let extensions = [
        &[60, 0, 1, 4, 0, 0, 0, 0][..],
        &[51, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[44, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[6, 0, 0, 0, 0, 0, 0, 9],
    ]
    .concat();
    let mut bytes = sent.ip()[..40].to_vec();
    bytes[6] = 0;
    bytes[4..6].copy_from_slice(&((extensions.len() + tcp.len()) as u16).to_be_bytes());
    bytes.extend(&extensions);
    bytes.extend(&tcp);
    assert_eq!(segment(&packet(LinkType::RawIp, &bytes)), Ok(expected(&sent)));
    let fragment_offset = 40 + 8 + 16 + 12 + 3;
    bytes[fragment_offset] = 1;
    assert_eq!(segment(&packet(LinkType::RawIp, &bytes)), Err(NoSegment::Fragment));
}

#[test]
fn detects_ipv4_fragments() {
    let whole = sample().ip();
    for (flags, expected) in [([0x20, 0], true), ([0, 1], true), ([0x40, 0], false), ([0, 0], false)] {
        let mut bytes = whole.clone();
        bytes[6..8].copy_from_slice(&flags);
        let is_fragment = segment(&packet(LinkType::RawIp, &bytes)) == Err(NoSegment::Fragment);
        assert_eq!(is_fragment, expected, "{flags:?}");
    }
}

#[test]
fn bytes_cut_by_a_snap_length_count_as_missing() {
    let sent = sample();
    let whole = sent.ethernet();
    for len in 0..whole.len() {
        let cut = Packet { original_len: whole.len() as u32, ..packet(LinkType::Ethernet, &whole[..len]) };
        match segment(&cut) {
            Err(why) => assert!(len < 14 + 20 + 14, "{len}: {why:?}"),
            Ok(segment) => {
                assert_eq!((segment.seq, segment.src), (sent.seq, sent.src), "{len}");
                assert_eq!(segment.payload.len() + segment.missing as usize, 3, "{len}");
                assert_eq!(segment.payload, &b"abc"[..len.saturating_sub(54)], "{len}");
            }
        }
    }
}

#[test]
fn total_length_of_zero_uses_the_link_length() {
    let mut v4 = sample().ip();
    v4[2..4].fill(0);
    assert_eq!(segment(&packet(LinkType::RawIp, &v4)).unwrap().payload, b"abc");
    let absurd = Packet { original_len: u32::MAX, ..packet(LinkType::RawIp, &v4) };
    assert_eq!(segment(&absurd), Err(NoSegment::Malformed));
}

#[test]
fn rejects_other_protocols() {
    let mut udp = sample().ip();
    udp[9] = 17;
    assert_eq!(segment(&packet(LinkType::RawIp, &udp)), Err(NoSegment::NotTcp));
    let arp = [&[0; 12][..], &[8, 6], &[0; 28]].concat();
    assert_eq!(segment(&packet(LinkType::Ethernet, &arp)), Err(NoSegment::NotTcp));
    assert_eq!(segment(&packet(LinkType::Other(105), &arp)), Err(NoSegment::NotTcp));
}
