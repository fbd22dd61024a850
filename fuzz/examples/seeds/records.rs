//! Batches and compressed bytes of every codec and magic. Does not read them.

use std::io::Write;

use super::kafka;

/// Inputs of the target `batch`.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (number, codec) in kafka::CODECS.into_iter().enumerate() {
        let batch = kafka::batch(codec, &["a", "", "b"], 20);
        seeds.push([&[0], &batch[..]].concat());
        if number > 0 {
            // Behind the head are the records as the codec left them.
            seeds.push([&[number as u8], &batch[61..]].concat());
            seeds.push([&[number as u8 | 8], &batch[61..]].concat());
            seeds.push([&[0], &wrapper(number as i8, &batch[61..])[..]].concat());
        }
        let bomb = kafka::batch(codec, &["x"; 4], 50_000);
        if bomb.len() < 3_000 {
            seeds.push([&[0], &bomb[..]].concat());
            seeds.push([&[number as u8], &bomb[61..]].concat());
        }
    }
    let inner = [kafka::message(1, 0, 0, 5, b"one"), kafka::message(1, 1, 0, 6, b"two")].concat();
    seeds.push([&[0], &inner[..]].concat());
    seeds.push([&[0], &kafka::message(0, 7, 0, -1, b"old")[..]].concat());
    seeds.push([&[0], &wrapper(1, &gzip(&inner))[..]].concat());
    seeds.push([&[1], &gzip(&vec![0; 400_000])[..]].concat());
    seeds.push([&[2], &xerial(b"\x05\x10hello")[..]].concat());
    seeds.push([&[0], &wrapper(2, &xerial(&raw_snappy(&inner)))[..]].concat());
    seeds
}

/// A message of magic 1 whose value is a compressed message set.
fn wrapper(codec: i8, set: &[u8]) -> Vec<u8> {
    kafka::message(1, 1, codec, 5, set)
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).expect("memory can be written to");
    encoder.finish().expect("memory can be written to")
}

/// One literal of up to 256 bytes.
fn raw_snappy(bytes: &[u8]) -> Vec<u8> {
    assert!((61..128).contains(&bytes.len()), "a length of one byte, told in one byte");
    [&[bytes.len() as u8, 60 << 2, bytes.len() as u8 - 1], bytes].concat()
}

/// Snappy in the framing of the Java library that Kafka uses.
fn xerial(block: &[u8]) -> Vec<u8> {
    let head = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01";
    [&head[..], &(block.len() as u32).to_be_bytes(), block].concat()
}
