//! Record batches of every magic and codec: headers, records, message ids, and the bound on decompressed bytes.
//!
//! Input: a selector byte; then a batch, or bytes to decompress (1–4: the codec; bit 3: magic 1).

use wire::ErrorKind;
use wire::batch::BatchHeader;
use wire::compression::{Codec, decompress};
use wire::record::{Records, message_ids};

use crate::Target;

/// The target.
pub const TARGET: Target = Target { name: "batch", check, spare_bytes: 4 * LIMIT };

/// Maximum decompressed size of a batch.
const LIMIT: usize = 128 << 10;

fn check(data: &[u8]) {
    let Some((&choice, bytes)) = data.split_first() else { return };
    match Codec::from_number(choice & 7) {
        Some(codec) if codec != Codec::None => {
            check_codec(codec, if choice & 8 == 0 { 2 } else { 1 }, bytes);
        }
        _ => check_batch(bytes),
    }
}

fn check_codec(codec: Codec, magic: i8, bytes: &[u8]) {
    let mut out = Vec::new();
    let result = decompress(codec, magic, bytes, &mut out, LIMIT);
    assert!(out.len() <= LIMIT + 1, "{} bytes came out", out.len());
    if result.is_err() {
        return;
    }
    let mut again = b"what was there before".to_vec();
    assert_eq!(decompress(codec, magic, bytes, &mut again, out.len()), Ok(()), "the limit is just met");
    assert_eq!(out, again);
    if let Some(less) = out.len().checked_sub(1) {
        let error = decompress(codec, magic, bytes, &mut again, less).expect_err("over the limit");
        assert_eq!(error.kind, ErrorKind::DecompressedTooLarge(less));
    }
}

fn check_batch(bytes: &[u8]) {
    let Ok(header) = BatchHeader::parse(bytes) else {
        assert!(Records::open(bytes, LIMIT, &mut Vec::new()).is_err());
        return;
    };
    assert!(header.head_bytes() <= bytes.len().max(header.length_bytes as usize));
    let crc_ok = header.crc_ok(bytes);
    assert!(!crc_ok || header.length_bytes as usize <= bytes.len());
    for end in [0, 11, 16, 17, header.head_bytes() - 1] {
        assert!(end >= header.head_bytes() || BatchHeader::parse(&bytes[..end]).is_err() || header.magic < 2);
    }
    let ids = check_records(&header, bytes);
    let mut found = Vec::new();
    let result = message_ids(bytes, b"id", LIMIT, &mut Vec::new(), |id| found.push(id.to_vec()));
    if header.magic == 2 && !header.is_control() {
        assert_eq!((found, result.is_ok()), ids, "message ids and the records' headers");
    } else {
        assert!(found.is_empty());
    }
}

/// The values of the records' header `id`, and whether all could be read.
fn check_records(header: &BatchHeader, bytes: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let mut scratch = Vec::new();
    let Ok(records) = Records::open(bytes, LIMIT, &mut scratch) else { return (Vec::new(), false) };
    let (mut ids, mut sound, mut count) = (Vec::new(), true, 0u32);
    for record in records {
        assert!(sound, "there is nothing after an error");
        let Ok(record) = record else {
            sound = false;
            continue;
        };
        count += 1;
        match record.header(b"id") {
            Ok(Some(id)) => ids.push(id.to_vec()),
            Ok(None) => {}
            Err(_) => return (ids, false),
        }
        assert!(record.headers().filter(Result::is_err).count() == 0);
    }
    assert!(count as usize <= bytes.len() + LIMIT);
    if let (true, 2, Some(records)) = (sound, header.magic, header.records()) {
        assert_eq!(count, records, "the head says how many records there are");
    }
    (ids, sound)
}
