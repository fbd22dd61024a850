//! Batch headers, records and codecs: hand-made, and against other libraries.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

#[path = "fixtures/kafka.rs"]
mod kafka;

use std::io::Write;

use kafka_protocol::records::Compression;
use wire::batch::{HEAD_BYTES, TimestampType};
use wire::compression::{Codec, decompress};
use wire::record::{Records, message_ids};
use wire::{BatchHeader, ErrorKind};

const LIMIT: usize = 1 << 20;

fn ids(batch: &[u8]) -> Vec<String> {
    let mut ids = Vec::new();
    message_ids(batch, b"id", LIMIT, &mut Vec::new(), |id| ids.push(String::from_utf8(id.to_vec()).unwrap()))
        .unwrap();
    ids
}

/// Offset, timestamp and value of every record.
fn records(batch: &[u8]) -> Result<Vec<(i64, i64, Vec<u8>)>, wire::Error> {
    let mut scratch = Vec::new();
    Records::open(batch, LIMIT, &mut scratch)?
        .map(|r| r.map(|r| (r.offset, r.timestamp_ms, r.value.unwrap_or_default().to_vec())))
        .collect()
}

#[test]
fn reads_a_handwritten_batch_of_magic_2() {
    #[rustfmt::skip]
    let mut batch = vec![
        0, 0, 0, 0, 0, 0, 0, 100, // base offset
        0, 0, 0, 67,              // length
        0, 0, 0, 7,               // leader epoch
        2,                        // magic
        0, 0, 0, 0,               // crc
        0, 0x10,                  // transactional
        0, 0, 0, 1,               // last offset delta
        0, 0, 0, 0, 0, 0, 0x10, 0, // base timestamp
        0, 0, 0, 0, 0, 0, 0x10, 5, // max timestamp
        0, 0, 0, 0, 0, 0, 0, 9,   // producer id
        0, 1,                     // producer epoch
        0, 0, 0, 3,               // base sequence
        0, 0, 0, 2,               // records
        // length 7, attributes, timestamp +0, offset +0, null key, value "v", no headers
        14, 0, 0, 0, 1, 2, b'v', 0,
        // length 9, attributes, timestamp +5, offset +1, key "", null value, one header "i" = ""
        18, 0, 10, 2, 0, 1, 2, 2, b'i', 0,
    ];
    let crc = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    let header = BatchHeader::parse(&batch).unwrap();
    assert_eq!((header.base_offset, header.length_bytes as usize), (100, batch.len()));
    assert_eq!((header.partition_leader_epoch, header.magic, header.crc), (7, 2, crc));
    assert_eq!((header.base_timestamp_ms, header.max_timestamp_ms), (4096, 4101));
    assert_eq!((header.producer_id, header.producer_epoch, header.base_sequence), (9, 1, 3));
    assert_eq!((header.last_offset_delta, header.records()), (1, Some(2)));
    assert!(header.attributes & 0x10 != 0 && !header.is_control() && header.crc_ok(&batch));
    assert_eq!((header.codec(), header.timestamp_type()), (Ok(Codec::None), TimestampType::Create));
    assert_eq!(records(&batch).unwrap(), [(100, 4096, b"v".to_vec()), (101, 4101, Vec::new())]);
    let mut scratch = Vec::new();
    let all: Vec<_> = Records::open(&batch, LIMIT, &mut scratch).unwrap().map(Result::unwrap).collect();
    assert_eq!((all[0].key, all[1].key, all[1].value), (None, Some(&b""[..]), None));
    assert_eq!(all[1].header(b"i"), Ok(Some(&b""[..])));
    for end in 0..batch.len() {
        assert_eq!(BatchHeader::parse(&batch[..end]).is_ok(), end >= HEAD_BYTES, "{end} bytes");
        assert!(records(&batch[..end]).is_err(), "{end} bytes");
        assert!(!header.crc_ok(&batch[..end]));
    }
    batch[30] ^= 1;
    assert!(!header.crc_ok(&batch));
}

#[test]
fn reads_every_codec_of_magic_2() {
    for codec in kafka::CODECS {
        for value_bytes in [0, 1, 100, 70_000] {
            let batch = kafka::batch(codec, &["a", "b", "c"], value_bytes);
            let header = BatchHeader::parse(&batch).unwrap();
            assert!(header.crc_ok(&batch), "{codec:?}");
            assert_eq!(header.codec().unwrap().name(), format!("{codec:?}").to_lowercase());
            assert_eq!(ids(&batch), ["a", "b", "c"], "{codec:?} of {value_bytes}");
            let seen = records(&batch).unwrap();
            assert_eq!(seen.len(), 3);
            assert!(seen.iter().all(|(_, _, value)| value.len() == value_bytes));
            assert_eq!((seen[2].0, seen[2].1), (2, 1_700_000_000_002));
        }
        let batch = kafka::batch(codec, &["a"], 300);
        for end in 0..batch.len() {
            assert!(records(&batch[..end]).is_err(), "{codec:?}: {end} bytes");
            // With a matching length, the records themselves are truncated.
            let mut cut = batch[..end].to_vec();
            if end >= HEAD_BYTES {
                cut[8..12].copy_from_slice(&(end as u32 - 12).to_be_bytes());
                // The last bytes of some framings are checksums, which are not read.
                let trailer = if codec == Compression::Gzip { 0 } else { 8 };
                let failed = records(&cut).is_err();
                assert!(failed || batch.len() - end <= trailer, "{codec:?}: {end} of {}", batch.len());
            }
        }
    }
}

#[test]
fn wrong_counts_and_codecs_are_errors() {
    for (count, kind) in [
        (1u32, ErrorKind::TrailingBytes),
        (3, ErrorKind::UnexpectedEnd(1)),
        (i32::MAX as u32, ErrorKind::UnexpectedEnd(1)),
    ] {
        let mut batch = kafka::batch(Compression::None, &["a", "b"], 10);
        batch[57..61].copy_from_slice(&count.to_be_bytes());
        assert_eq!(records(&batch).unwrap_err().kind, kind);
    }
    let mut batch = kafka::batch(Compression::None, &["a"], 10);
    batch[57] = 0x80;
    assert_eq!(BatchHeader::parse(&batch).unwrap_err().at, 57);
    let mut batch = kafka::batch(Compression::None, &["a"], 10);
    batch[22] = 5;
    assert_eq!(records(&batch).unwrap_err().kind, ErrorKind::UnknownCodec(5));
}

#[test]
fn reads_messages_of_magic_0_and_1() {
    for (magic, head, timestamp) in [(0, 18, -1), (1, 26, 1234)] {
        let message = kafka::message(magic, 42, 0, 1234, b"value");
        let header = BatchHeader::parse(&message).unwrap();
        assert_eq!((header.base_offset, header.length_bytes as usize), (42, message.len()));
        assert_eq!((header.magic, header.head_bytes(), header.records()), (magic, head, Some(1)));
        assert_eq!((header.producer_id, header.base_sequence, header.base_timestamp_ms), (-1, -1, timestamp));
        assert!(header.crc_ok(&message));
        assert_eq!(records(&message).unwrap(), [(42, timestamp, b"value".to_vec())]);
        assert_eq!(ids(&message), [""; 0]);
        for end in 0..message.len() {
            assert!(records(&message[..end]).is_err(), "magic {magic}, {end} bytes");
            assert_eq!(BatchHeader::parse(&message[..end]).is_ok(), end >= head);
        }
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn reads_compressed_message_sets() {
    let values = [&b"one"[..], b"two", b"three"];
    for (magic, attributes, outer_offset, expected) in [
        // Magic 1 counts from 0 inside; the outer offset is that of the last message.
        (1, 1, 102, [(100, 5), (101, 6), (102, 7)]),
        (1, 1, 0, [(0, 5), (1, 6), (2, 7)]),
        // With LogAppendTime, the outer timestamp applies to all.
        (1, 1 | 8, 102, [(100, 999), (101, 999), (102, 999)]),
        // Magic 0 has absolute offsets inside.
        (0, 1, 102, [(0, -1), (1, -1), (2, -1)]),
    ] {
        let set: Vec<u8> =
            (0..3).flat_map(|i| kafka::message(magic, i, 0, 5 + i, values[i as usize])).collect();
        let outer = kafka::message(magic, outer_offset, attributes, 999, &gzip(&set));
        assert_eq!(BatchHeader::parse(&outer).unwrap().records(), None);
        let seen = records(&outer).unwrap();
        let bare: Vec<_> = seen.iter().map(|(offset, timestamp, _)| (*offset, *timestamp)).collect();
        assert_eq!(bare, expected, "magic {magic}, attributes {attributes}, outer offset {outer_offset}");
        assert!(seen.iter().zip(values).all(|((_, _, seen), value)| seen == value));
    }
    let inner = kafka::message(1, 0, 1, 5, &gzip(&kafka::message(1, 0, 0, 5, b"deep")));
    let nested = kafka::message(1, 0, 1, 5, &gzip(&inner));
    assert_eq!(records(&nested).unwrap_err().kind, ErrorKind::NestedCompression);
    let empty = kafka::message(1, 0, 1, 5, &gzip(b""));
    assert!(records(&empty).is_err());
    let zstd = kafka::message(1, 0, 4, 5, &zstd::encode_all(&inner[..], 1).unwrap());
    assert_eq!(records(&zstd).unwrap_err().kind, ErrorKind::UnknownCodec(4));
}

fn lz4(bytes: &[u8], info: lz4_flex::frame::FrameInfo) -> Vec<u8> {
    let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn xerial(bytes: &[u8], block_bytes: usize) -> Vec<u8> {
    let mut framed = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
    for block in bytes.chunks(block_bytes) {
        let block = snap::raw::Encoder::new().compress_vec(block).unwrap();
        framed.extend_from_slice(&(block.len() as u32).to_be_bytes());
        framed.extend_from_slice(&block);
    }
    framed
}

/// The same bytes in every framing.
fn framings(bytes: &[u8]) -> Vec<(Codec, &'static str, Vec<u8>)> {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameInfo};
    let plain = lz4(bytes, FrameInfo::new());
    let mut wrong_checksum = plain.clone();
    wrong_checksum[6] ^= 0x55;
    let linked = FrameInfo::new().block_mode(BlockMode::Linked).block_size(BlockSize::Max64KB);
    let checked = FrameInfo::new()
        .block_checksums(true)
        .content_checksum(true)
        .content_size(Some(bytes.len() as u64))
        .block_size(BlockSize::Max64KB);
    vec![
        (Codec::Gzip, "gzip", gzip(bytes)),
        (
            Codec::Gzip,
            "two gzip members",
            [gzip(&bytes[..bytes.len() / 2]), gzip(&bytes[bytes.len() / 2..])].concat(),
        ),
        (Codec::Snappy, "raw snappy", snap::raw::Encoder::new().compress_vec(bytes).unwrap()),
        (Codec::Snappy, "xerial snappy", xerial(bytes, 32 << 10)),
        (Codec::Snappy, "xerial streams", [xerial(&bytes[..10], 4), xerial(&bytes[10..], 99_999)].concat()),
        (Codec::Lz4, "lz4", plain),
        (Codec::Lz4, "lz4 of before KIP-57", wrong_checksum),
        (Codec::Lz4, "linked lz4 blocks", lz4(bytes, linked)),
        (Codec::Lz4, "lz4 with all checksums", lz4(bytes, checked)),
        (Codec::Zstd, "zstd", zstd::encode_all(bytes, 3).unwrap()),
    ]
}

#[test]
fn decompresses_every_framing_of_every_codec() {
    let mut text: Vec<u8> =
        (0..60_000u32).flat_map(|i| (i.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()).collect();
    text.extend(b"and something that repeats ".repeat(4000));
    let mut out = vec![1, 2, 3];
    for (codec, name, bytes) in framings(&text) {
        decompress(codec, 2, &bytes, &mut out, text.len()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(out == text, "{name}");
        let error = decompress(codec, 2, &bytes, &mut out, text.len() - 1).unwrap_err();
        assert_eq!(error.kind, ErrorKind::DecompressedTooLarge(text.len() - 1), "{name}");
    }
    for (codec, name, bytes) in framings(b"short enough to cut everywhere") {
        for end in 0..bytes.len() {
            let cut = decompress(codec, 2, &bytes[..end], &mut out, LIMIT);
            // A stream of frames may end between two frames; a checksum at the end is not read.
            assert!(
                cut.is_err() || out.len() < 30 || bytes.len() - end < 8,
                "{name}: {end} of {}",
                bytes.len()
            );
        }
    }
}

#[test]
fn refuses_decompression_bombs() {
    let zeros = vec![0; 64 << 20];
    let mut out = Vec::new();
    for (codec, name, bytes) in framings(&zeros) {
        let error = decompress(codec, 2, &bytes, &mut out, LIMIT).unwrap_err();
        assert_eq!(error.kind, ErrorKind::DecompressedTooLarge(LIMIT), "{name}");
        assert!(out.capacity() <= 4 * LIMIT, "{name}: {} bytes", out.capacity());
        out = Vec::new();
    }
    // A raw snappy block that claims 4 GiB, and one that claims more than its bytes can make.
    for (bytes, kind) in [
        (&[0xff, 0xff, 0xff, 0xff, 0x0f, 0][..], ErrorKind::DecompressedTooLarge(LIMIT)),
        (&[0x80, 0x80, 0x20, 0], ErrorKind::BadCompression),
    ] {
        assert_eq!(decompress(Codec::Snappy, 2, bytes, &mut out, LIMIT).unwrap_err().kind, kind);
    }
    assert!(out.capacity() < 1000);
}

#[test]
fn uses_only_the_last_header_of_a_name() {
    let mut batch = kafka::batch(Compression::None, &["a"], 0);
    batch.truncate(HEAD_BYTES);
    batch[57..61].copy_from_slice(&2u32.to_be_bytes());
    // Two headers "id", "1" and "2"; then one "id" that is null.
    let first = [0, 0, 0, 1, 1, 4, 4, b'i', b'd', 2, b'1', 4, b'i', b'd', 2, b'2'];
    let second = [0, 0, 2, 1, 1, 2, 4, b'i', b'd', 1];
    for record in [&first[..], &second] {
        batch.push(record.len() as u8 * 2);
        batch.extend_from_slice(record);
    }
    let length = batch.len() as u32 - 12;
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    assert_eq!(ids(&batch), ["2"]);
    // Control batches have no message ids.
    batch[22] |= 0x20;
    assert_eq!(ids(&batch), [""; 0]);
}
