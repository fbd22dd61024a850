//! Writes a segment like a broker's after a producer of small records: batches of some 16 KB, one after the other. The
//! same in every run.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use lz4_flex::frame::FrameEncoder;

use crate::records::{self, Deltas, Head, LZ4, UNCOMPRESSED, record};
use fastrand::Rng;

const RECORDS_PER_BATCH: u64 = 100;
const FIRST_TIMESTAMP_MS: i64 = 1_760_000_000_000;
const RECORDS_PER_MS: i64 = 50;
/// Text that values are cut from.
const TEXT_BYTES: usize = 1 << 20;

/// The contents of the segment.
pub(crate) struct Contents {
    pub(crate) bytes: u64,
    /// Bytes of the batches before compression.
    pub(crate) plain_bytes: u64,
    pub(crate) batches: u64,
    pub(crate) records: u64,
}

/// Writes batches until they have `plain_bytes` before compression.
pub(crate) fn write(path: &Path, plain_bytes: u64, is_compressed: bool) -> io::Result<Contents> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut rng = Rng::with_seed(7);
    let text = text(&mut rng);
    let mut contents = Contents { bytes: 0, plain_bytes: 0, batches: 0, records: 0 };
    let mut plain = Vec::new();
    while contents.plain_bytes < plain_bytes {
        let count = RECORDS_PER_BATCH - rng.u64(..20);
        let base = contents.records as i64;
        plain.clear();
        for number in 0..count as i64 {
            let timestamp_ms = (base + number) / RECORDS_PER_MS - base / RECORDS_PER_MS;
            let deltas = Deltas { offset: number, timestamp_ms };
            let value = cut(&text, 120 + rng.u64(..40) as usize, &mut rng);
            record(&mut plain, deltas, &(base + number).to_be_bytes(), value, None);
        }
        let head = head(base, count, is_compressed);
        let batch =
            if is_compressed { records::batch(&head, &lz4(&plain)?) } else { records::batch(&head, &plain) };
        out.write_all(&batch)?;
        contents.bytes += batch.len() as u64;
        contents.plain_bytes += plain.len() as u64 + 61;
        contents.batches += 1;
        contents.records += count;
    }
    out.flush()?;
    Ok(contents)
}

fn head(base_offset: i64, count: u64, is_compressed: bool) -> Head {
    let base_timestamp_ms = FIRST_TIMESTAMP_MS + base_offset / RECORDS_PER_MS;
    Head {
        base_offset,
        base_timestamp_ms,
        max_timestamp_ms: FIRST_TIMESTAMP_MS + (base_offset + count as i64 - 1) / RECORDS_PER_MS,
        attributes: if is_compressed { LZ4 } else { UNCOMPRESSED },
        count: count as i32,
    }
}

/// A frame of independent blocks. Kafka reads no other kind (Lz4BlockInputStream.java).
fn lz4(plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = FrameEncoder::new(Vec::with_capacity(plain.len()));
    encoder.write_all(plain)?;
    Ok(encoder.finish()?)
}

/// Words and numbers, as in events; they compress to some two thirds.
fn text(rng: &mut Rng) -> Vec<u8> {
    const WORDS: [&str; 8] = ["order", "customer", "eu-west", "amount", "paid", "item", "status", "trace"];
    let mut text = Vec::with_capacity(TEXT_BYTES + 64);
    while text.len() < TEXT_BYTES {
        let word = WORDS.get(rng.u64(..8) as usize).copied().unwrap_or("order");
        text.extend(format!("\"{word}\":{:08x},", rng.u64(..u64::from(u32::MAX))).into_bytes());
    }
    text
}

fn cut<'t>(text: &'t [u8], bytes: usize, rng: &mut Rng) -> &'t [u8] {
    let from = rng.u64(..(TEXT_BYTES - bytes) as u64) as usize;
    text.get(from..from + bytes).unwrap_or_default()
}
