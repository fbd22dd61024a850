//! Compressed captures: of several members, cut at every position, and damaged.

use std::io::{Cursor, Read, Write};

use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};

use super::{TIME, Trickle, opened, packets, pcap, pcapng, piped, read};
use crate::error::Error;
use crate::file::PacketFile;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

/// Without a checksum and with linked blocks, as kernels and old tools write.
fn lz4_linked(bytes: &[u8]) -> Vec<u8> {
    lz4_of(FrameInfo::new().block_mode(BlockMode::Linked).block_size(BlockSize::Max64KB), bytes)
}

/// With every checksum there is.
fn lz4_checked(bytes: &[u8]) -> Vec<u8> {
    let info = FrameInfo::new().block_checksums(true).content_checksum(true);
    lz4_of(info.block_size(BlockSize::Max256KB), bytes)
}

fn lz4_of(info: FrameInfo, bytes: &[u8]) -> Vec<u8> {
    let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

type Pack = fn(&[u8]) -> Vec<u8>;
const PACKINGS: [(&str, Pack); 4] =
    [("gzip", gzip), ("zstd", zstd), ("lz4 linked", lz4_linked), ("lz4 checked", lz4_checked)];

/// Bytes that no codec can compress.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn reads_a_compressed_capture_like_a_plain_one() {
    for (name, pack) in PACKINGS {
        for plain in [pcap(1, &packets()), pcapng()] {
            let expected = read(&mut piped(&plain).unwrap());
            let packed = pack(&plain);
            assert_eq!(read(&mut piped(&packed).unwrap()), expected, "{name}");
            assert_eq!(read(&mut opened(&packed).unwrap()), expected, "{name}");
            let trickle = Box::new(Trickle(Cursor::new(packed)));
            let mut file = PacketFile::from_reader(trickle).unwrap();
            assert_eq!(read(&mut file), expected, "{name}, byte by byte");
            assert_eq!(file.notes(), read_notes(&plain), "{name}");
        }
    }
}

fn read_notes(plain: &[u8]) -> crate::file::Notes {
    let mut file = piped(plain).unwrap();
    read(&mut file);
    file.notes()
}

#[test]
fn consecutive_members_and_frames_form_one_capture() {
    let plain = pcap(1, &packets());
    let expected = read(&mut piped(&plain).unwrap());
    for (name, pack) in PACKINGS {
        for at in [1, 4, 24, 30, plain.len()] {
            let packed = [pack(&plain[..at]), pack(&[]), pack(&plain[at..])].concat();
            let mut file = opened(&packed).unwrap();
            assert_eq!((read(&mut file), file.notes().cut_records), (expected.clone(), 0), "{name} at {at}");
        }
    }
    // Frames of one file may have different block sizes.
    let mixed = [lz4_checked(&plain[..30]), lz4_linked(&plain[30..])].concat();
    assert_eq!(read(&mut opened(&mixed).unwrap()), expected);
    // pzstd writes a skippable frame before each frame.
    let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4][..], &zstd(&plain)].concat();
    assert_eq!(read(&mut opened(&skippable).unwrap()), expected);
}

#[test]
fn truncated_compressed_capture_yields_whole_packets_and_a_note() {
    let long: Vec<(i64, Vec<u8>)> = (0..40).map(|n| (TIME + n, noise(9_000))).collect();
    let plain = pcap(1, &long);
    let whole = read(&mut piped(&plain).unwrap());
    for (name, pack) in PACKINGS {
        let packed = pack(&plain);
        let mut most = 0;
        for len in (5..packed.len()).step_by(997).chain(packed.len() - 9..packed.len()) {
            let mut file = match piped(&packed[..len]) {
                // A block is decompressed as a whole or not at all.
                Err(Error::NotACapture { .. }) if most == 0 => continue,
                file => file.unwrap_or_else(|error| panic!("{name} at {len}: {error}")),
            };
            let seen = read(&mut file);
            assert!(seen == whole[..seen.len()], "{name} at {len}: the packets are others");
            assert!(seen.len() >= most, "{name} at {len}: {} packets after {most}", seen.len());
            most = seen.len();
            assert_eq!(file.notes().cut_records, 1, "{name} at {len}");
            assert!(file.next().unwrap().is_none(), "{name} at {len}: it stays ended");
        }
        assert!(most >= 28, "{name}: only {most}");
    }
}

#[test]
fn reports_garbage_in_one_line_after_the_packets_before_it() {
    let long: Vec<(i64, Vec<u8>)> = (0..300).map(|n| (TIME + n, noise(9_000))).collect();
    let plain = pcap(1, &long);
    for (name, pack) in PACKINGS {
        let mut packed = [pack(&plain), pack(&plain)].concat();
        let second = packed.len() / 2;
        packed.truncate(second);
        packed.extend(noise(5_000));
        let mut file = opened(&packed).unwrap();
        let mut seen = 0;
        let error = loop {
            match file.next() {
                Ok(Some(_)) => seen += 1,
                Ok(None) => panic!("{name}: the garbage was not noticed"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Damaged { packed: true, at, .. } if at > 0), "{name}: {error}");
        assert!(
            !error.to_string().contains('\n') && error.to_string().contains("decompressed data"),
            "{error}"
        );
        assert!(seen >= 250, "{name}: only {seen} packets before it");
        assert!(file.next().unwrap().is_none());
    }
}

#[test]
fn flipped_bytes_end_in_packets_or_an_error() {
    let plain = pcapng();
    for (name, pack) in PACKINGS {
        let packed = pack(&plain);
        for at in 4..packed.len() {
            let mut bytes = packed.clone();
            bytes[at] ^= 0x55;
            let Ok(mut file) = piped(&bytes) else { continue };
            for n in 0.. {
                assert!(n < 1_000, "{name} at {at}: it does not end");
                match file.next() {
                    Ok(Some(_)) => {}
                    Ok(None) | Err(Error::Damaged { .. }) => break,
                    Err(error) => panic!("{name} at {at}: {error}"),
                }
            }
        }
    }
}

#[test]
fn refuses_an_oversized_zstd_window_with_advice() {
    let window = |log: u32| {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(log).unwrap();
        encoder.write_all(&pcap(1, &packets())).unwrap();
        encoder.finish().unwrap()
    };
    assert_eq!(read(&mut piped(&window(27)).unwrap()).len(), 3);
    let error = piped(&window(28)).err().unwrap().to_string();
    assert!(error.contains("window is over 128 MiB") && error.contains("--long=31"), "{error}");
    assert!(!error.contains('\n'));
}

#[test]
fn unsupported_compression_error_names_a_command() {
    for (bytes, named) in [
        (&b"\xfd7zXZ\x00 and so on, as long as a header is"[..], "xz -dc"),
        (b"BZh91AY&SY and so on, as long as a header is", "bzip2 -dc"),
        (b"\x02\x21\x4c\x18 and so on, as long as a header is", "lz4 -dc"),
        (b"PK\x03\x04 and so on, as long as a header is", "unzip -p"),
    ] {
        let error = opened(bytes).err().unwrap().to_string();
        assert!(error.contains(named), "{error}");
    }
    // Only one layer is decompressed: a file compressed twice is not a capture.
    let twice = gzip(&gzip(&pcap(1, &packets())));
    assert!(matches!(opened(&twice).err(), Some(Error::NotACapture { .. })));
}

/// Returns the bytes that a compressor has flushed so far. Fails if more are requested.
struct Live(Cursor<Vec<u8>>);

impl Read for Live {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(into)? {
            0 => Err(std::io::Error::from_raw_os_error(5)),
            read => Ok(read),
        }
    }
}

#[test]
fn returns_packets_as_soon_as_the_compressor_flushes() {
    let plain = pcap(1, &packets());
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let mut zstd = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    let mut lz4 = FrameEncoder::new(Vec::new());
    let flushed = [
        (gzip.write_all(&plain), gzip.flush(), gzip.get_ref().clone()),
        (zstd.write_all(&plain), zstd.flush(), zstd.get_ref().clone()),
        (lz4.write_all(&plain), lz4.flush(), lz4.get_ref().clone()),
    ];
    for (written, let_go, packed) in flushed {
        written.and(let_go).unwrap();
        let mut file = PacketFile::from_reader(Box::new(Live(Cursor::new(packed)))).unwrap();
        for _ in packets() {
            assert!(file.next().unwrap().is_some(), "no packet waits for what comes after it");
        }
        assert!(
            matches!(file.next().err(), Some(Error::Read { .. })),
            "the system's own errors stay what they are"
        );
    }
}
