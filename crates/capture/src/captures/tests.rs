//! Rings, captures side by side, and files that turn out damaged among others.

use std::path::PathBuf;

use tempfile::TempDir;

use super::{Captures, SIDE_BY_SIDE_LIMIT};
use crate::error::Error;
use crate::tests::pcap;

/// Milliseconds since 1970 and a packet's one byte.
type PacketCopy = (i64, u8);

struct Dir(TempDir);

impl Dir {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn capture(&self, name: &str, packets: &[PacketCopy]) -> PathBuf {
        self.write(name, &file(packets))
    }
}

fn file(packets: &[PacketCopy]) -> Vec<u8> {
    let packets: Vec<_> = packets.iter().map(|&(ms, byte)| (ms * 1_000_000, vec![byte])).collect();
    pcap(1, &packets)
}

fn read(captures: &mut Captures) -> Vec<PacketCopy> {
    let mut seen = Vec::new();
    while let Some(packet) = captures.next() {
        seen.push((packet.time_ns / 1_000_000, packet.bytes[0]));
    }
    seen
}

fn opened(paths: &[PathBuf]) -> Captures {
    Captures::open(paths).unwrap()
}

#[test]
fn reads_a_file_ring_in_time_order() {
    let dir = Dir::new();
    // As `tcpdump -C 1 -W 3 -w x.pcap` leaves it: x.pcap0 was rewritten, and has just been started over.
    let ring = [
        dir.capture("x.pcap0", &[(50, 5), (51, 6)]),
        dir.capture("x.pcap1", &[(10, 1), (20, 2)]),
        dir.capture("x.pcap2", &[(30, 3), (40, 4)]),
        dir.capture("x.pcap3", &[]),
    ];
    let mut captures = opened(&ring);
    assert_eq!(captures.open.len(), 0, "only files whose time has come are open");
    assert_eq!(captures.next().unwrap().bytes, [1]);
    assert_eq!(captures.open.len(), 1);
    assert_eq!(read(&mut captures), [(20, 2), (30, 3), (40, 4), (50, 5), (51, 6)]);
    assert_eq!((captures.notes().count(), captures.faults().len()), (0, 0));
}

#[test]
fn merges_overlapping_files_and_preserves_their_order() {
    let dir = Dir::new();
    let files = [
        // 32 comes before 31 in its file, as may happen with several queues of an interface.
        dir.capture("eth1", &[(15, 4), (32, 5), (31, 6), (60, 7)]),
        dir.write("eth0.gz", &gzip(&file(&[(10, 1), (20, 2), (31, 3)]))),
        dir.capture("eth2", &[(20, 8), (55, 9)]),
    ];
    let expected = [(10, 1), (15, 4), (20, 2), (20, 8), (31, 3), (32, 5), (31, 6), (55, 9), (60, 7)];
    assert_eq!(read(&mut opened(&files)), expected);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn unreadable_file_is_an_error_on_open() {
    let dir = Dir::new();
    let good = dir.capture("good", &[(1, 1)]);
    let mut begins_badly = file(&[(1, 1)]);
    begins_badly[32..36].fill(0xff);
    for (bad, expected) in [
        (dir.0.path().join("nothing"), "cannot read"),
        (dir.write("words", b"these are words, not packets at all"), "not a packet capture"),
        (dir.write("bad", &begins_badly), "damaged at byte 24"),
    ] {
        let error = Captures::open(&[good.clone(), bad.clone()]).err().unwrap().to_string();
        assert!(error.contains(expected) && error.starts_with(bad.to_str().unwrap()), "{error}");
    }
}

#[test]
fn damaged_file_ends_and_the_others_continue() {
    let dir = Dir::new();
    let mut bad = file(&[(10, 1), (20, 2)]);
    bad[24 + 17 + 8..24 + 17 + 12].fill(0xff);
    let mut cut = file(&[(40, 4), (50, 5)]);
    cut.truncate(cut.len() - 1);
    let files =
        [dir.write("bad", &bad), dir.capture("good", &[(15, 7), (25, 3), (60, 6)]), dir.write("cut", &cut)];
    let mut captures = opened(&files);
    assert_eq!(read(&mut captures), [(10, 1), (15, 7), (25, 3), (40, 4), (60, 6)]);
    assert!(matches!(captures.faults(), [Error::Damaged { at: 41, name, .. }] if name.ends_with("bad")));
    let notes: Vec<_> = captures.notes().collect();
    assert!(
        matches!(notes[..], [(name, notes)] if name.ends_with("cut") && notes.cut_records == 1),
        "{notes:?}"
    );
    assert!(captures.next().is_none());
    assert_eq!(captures.faults().len(), 1);
}

#[test]
fn notes_an_empty_file_of_a_ring() {
    let dir = Dir::new();
    let (empty, good) = (dir.write("new", b""), dir.capture("good", &[(1, 1)]));
    let mut captures = opened(&[empty.clone(), good]);
    assert_eq!(read(&mut captures), [(1, 1)]);
    let notes: Vec<_> = captures.notes().collect();
    assert!(matches!(notes[..], [(name, notes)] if name.ends_with("new") && notes.is_empty), "{notes:?}");
    for only in [&[empty.clone()][..], &[empty.clone(), empty.clone()]] {
        assert!(matches!(Captures::open(only), Err(Error::NotACapture { .. })));
    }
}

#[test]
fn removed_file_is_a_fault() {
    let dir = Dir::new();
    let files = [dir.capture("a", &[(1, 1)]), dir.capture("b", &[(2, 2)]), dir.capture("c", &[(3, 3)])];
    let mut captures = opened(&files);
    std::fs::remove_file(&files[1]).unwrap();
    assert_eq!(read(&mut captures), [(1, 1), (3, 3)]);
    assert!(matches!(captures.faults(), [Error::Read { name, .. }] if name.ends_with('b')));
}

#[test]
fn limits_concurrent_files_but_not_consecutive_ones() {
    let dir = Dir::new();
    let count = SIDE_BY_SIDE_LIMIT + 1;
    let one_by_one: Vec<PathBuf> =
        (0..count).map(|n| dir.capture(&format!("s{n}"), &[(n as i64, 1)])).collect();
    let mut captures = opened(&one_by_one);
    assert_eq!((read(&mut captures).len(), captures.faults().len()), (count, 0));

    let all_at_once: Vec<PathBuf> =
        (0..count).map(|n| dir.capture(&format!("p{n}"), &[(n as i64, 1), (1_000, 2)])).collect();
    let mut captures = opened(&all_at_once);
    assert_eq!(read(&mut captures).len(), 2 * SIDE_BY_SIDE_LIMIT);
    assert!(matches!(captures.faults(), [Error::TooManySideBySide { .. }]));
}
