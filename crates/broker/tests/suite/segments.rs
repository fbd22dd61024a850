//! Segments whole, damaged, cut, preallocated and hostile.

use std::fs;
use std::path::PathBuf;

use broker::segment::{Batch, Damage, MAX_BATCH_BYTES, Reason, Segment};
use proptest::prelude::*;

fn varint(value: i64, to: &mut Vec<u8>) {
    let mut left = ((value << 1) ^ (value >> 63)) as u64;
    while left >= 0x80 {
        to.push(left as u8 | 0x80);
        left >>= 7;
    }
    to.push(left as u8);
}

/// A record of magic 2 with one header, `id`.
fn record(offset_delta: i64, id: &str) -> Vec<u8> {
    let mut body = vec![0, 0];
    varint(offset_delta, &mut body);
    for field in ["key", "value"] {
        varint(field.len() as i64, &mut body);
        body.extend(field.as_bytes());
    }
    varint(1, &mut body);
    for field in ["id", id] {
        varint(field.len() as i64, &mut body);
        body.extend(field.as_bytes());
    }
    let mut record = Vec::new();
    varint(body.len() as i64, &mut record);
    record.extend(body);
    record
}

/// A batch of magic 2, uncompressed, one record for each id.
fn batch(base_offset: i64, ids: &[&str]) -> Vec<u8> {
    let records: Vec<u8> = ids.iter().enumerate().flat_map(|(n, id)| record(n as i64, id)).collect();
    made_batch(base_offset, 0, 1_700_000_000_000, ids.len() as i32, &records)
}

/// A batch of magic 2 with this many records.
/// All have one timestamp, and come from a producer that is not idempotent.
pub(crate) fn made_batch(base_offset: i64, attributes: i16, ms: i64, count: i32, records: &[u8]) -> Vec<u8> {
    let mut tail = attributes.to_be_bytes().to_vec();
    tail.extend((count - 1).to_be_bytes());
    tail.extend(ms.to_be_bytes());
    tail.extend(ms.to_be_bytes());
    tail.extend((-1_i64).to_be_bytes());
    tail.extend((-1_i16).to_be_bytes());
    tail.extend((-1_i32).to_be_bytes());
    tail.extend(count.to_be_bytes());
    tail.extend(records);
    let mut batch = base_offset.to_be_bytes().to_vec();
    batch.extend((tail.len() as i32 + 9).to_be_bytes());
    batch.extend(0_i32.to_be_bytes());
    batch.push(2);
    batch.extend(crc32c::crc32c(&tail).to_be_bytes());
    batch.extend(tail);
    batch
}

fn three() -> [Vec<u8>; 3] {
    [batch(0, &["a", "b"]), batch(2, &["c"]), batch(3, &["d", "e", "f"])]
}

/// A file with these bytes.
struct File {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

fn file(bytes: &[u8]) -> File {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("00000000000000000000.log");
    fs::write(&path, bytes).unwrap();
    File { _dir: dir, path }
}

fn read(bytes: &[u8]) -> Vec<Result<Batch, Damage>> {
    Segment::open(&file(bytes).path).unwrap().batches().collect()
}

fn read_in(bytes: &[u8], position: u64, count: u64) -> Vec<Result<Batch, Damage>> {
    Segment::open(&file(bytes).path).unwrap().batches_in(position, count).collect()
}

/// Base offsets of the good batches, and the skipped bytes as (position, bytes).
fn shape(items: &[Result<Batch, Damage>]) -> (Vec<i64>, Vec<(u64, u64)>) {
    let offsets = items.iter().flatten().filter(|batch| batch.crc_ok).map(|batch| batch.header.base_offset);
    let damages = items.iter().filter_map(|item| item.as_ref().err()).map(|d| (d.position, d.bytes));
    (offsets.collect(), damages.collect())
}

#[test]
fn reads_batches_records_and_message_ids_of_a_segment() {
    let batches = three();
    let items = read(&batches.concat());
    let read: Vec<&Batch> = items.iter().map(|item| item.as_ref().unwrap()).collect();
    let mut position = 0;
    for (read, written) in read.iter().zip(&batches) {
        assert_eq!((read.position, &read.bytes, read.crc_ok), (position, written, true));
        position += written.len() as u64;
    }
    assert_eq!(read.len(), 3);
    assert_eq!((read[2].header.base_offset, read[2].last_offset()), (3, 5));
    let mut scratch = Vec::new();
    assert_eq!(read[2].message_ids(b"id", &mut scratch).unwrap(), ["d", "e", "f"]);
    assert_eq!(read[2].message_ids(b"other", &mut scratch).unwrap(), [""; 0]);
    let offsets: Vec<i64> =
        read[2].records(&mut scratch).unwrap().map(|record| record.unwrap().offset).collect();
    assert_eq!(offsets, [3, 4, 5]);
}

#[test]
fn range_yields_the_batches_that_start_in_it() {
    let batches = three();
    let whole = batches.concat();
    let (first, second) = (batches[0].len() as u64, batches[1].len() as u64);
    for (position, count, expected) in [
        (0, first, vec![0]),
        (first, second, vec![2]),
        (first, second + 1, vec![2, 3]),
        (first, u64::MAX, vec![2, 3]),
        (0, 1, vec![0]),
        (0, 0, vec![]),
        (whole.len() as u64, 10, vec![]),
        (u64::MAX, u64::MAX, vec![]),
    ] {
        assert_eq!(shape(&read_in(&whole, position, count)), (expected, vec![]), "{position} {count}");
    }
}

#[test]
fn range_from_within_a_batch_yields_damage_then_the_next_batch() {
    let batches = three();
    let whole = batches.concat();
    let (first, second) = (batches[0].len() as u64, batches[1].len() as u64);
    for position in 1..first {
        let items = read_in(&whole, position, whole.len() as u64);
        assert_eq!(shape(&items), (vec![2, 3], vec![(position, first - position)]), "{position}");
    }
    // No batch starts in the rest of the range, regardless of what follows it.
    assert_eq!(shape(&read_in(&whole, 5, 10)), (vec![], vec![(5, 10)]));
    let items = read_in(&whole, first + 1, second - 1);
    assert_eq!(shape(&items), (vec![], vec![(first + 1, second - 1)]));
    let message = items[0].as_ref().unwrap_err().to_string();
    assert!(message.starts_with(&format!("no valid record batch at byte {}", first + 1)), "{message}");
}

#[test]
fn wrong_crc_is_flagged_in_a_segment_and_damage_in_a_range() {
    let batches = three();
    let mut whole = batches.concat();
    let at = batches[0].len() + 70;
    whole[at] ^= 1;
    let items = read(&whole);
    assert_eq!(items.len(), 3);
    assert!(!items[1].as_ref().unwrap().crc_ok);
    assert_eq!(shape(&items), (vec![0, 3], vec![]));
    let items = read_in(&whole, batches[0].len() as u64, 1000);
    assert_eq!(items[0].as_ref().unwrap_err().reason, Reason::Crc);
    assert_eq!(shape(&items).0, [3]);
}

#[test]
fn skips_damage_up_to_the_next_batch() {
    let batches = three();
    let garbage =
        b"no batch at all, but quite long: longer than any head of a batch would be, and more".to_vec();
    let whole = [&batches[0][..], &garbage, &batches[1]].concat();
    let expected = (vec![0, 2], vec![(batches[0].len() as u64, garbage.len() as u64)]);
    assert_eq!(shape(&read(&whole)), expected);
    assert_eq!(shape(&read(&garbage)), (vec![], vec![(0, garbage.len() as u64)]));
    assert_eq!(shape(&read(b"")), (vec![], vec![]));
    // Found across the pieces in which a file is read.
    for pad in [65_500, 65_535, 65_536, 65_560, 262_100, 262_144, 300_000] {
        let whole = [vec![b'x'; pad], batches[1].clone()].concat();
        assert_eq!(shape(&read(&whole)), (vec![2], vec![(0, pad as u64)]), "{pad}");
    }
}

#[test]
fn truncated_segment_yields_the_batches_before_the_cut() {
    let batches = three();
    let whole = batches.concat();
    let mut ends = Vec::new();
    for batch in &batches {
        ends.push(ends.last().unwrap_or(&0) + batch.len());
    }
    for length in 0..=whole.len() {
        let items = read(&whole[..length]);
        let complete = ends.iter().filter(|end| **end <= length).count();
        assert_eq!(items.iter().flatten().count(), complete, "cut at {length}");
        let damaged = length != 0 && !ends.contains(&length);
        assert_eq!(
            items.len() - complete,
            usize::from(damaged && !all_zero(&whole, &ends, length)),
            "cut at {length}"
        );
    }
    let items = read(&whole[..whole.len() - 3]);
    assert_eq!(items[2].as_ref().unwrap_err().reason, Reason::Truncated { missing: 3 });
}

/// Whether the bytes after the last whole batch are zeros.
/// The first bytes of a base offset are zeros too.
fn all_zero(whole: &[u8], ends: &[usize], length: usize) -> bool {
    let start = ends.iter().copied().filter(|end| *end <= length).max().unwrap_or(0);
    whole[start..length].iter().all(|&byte| byte == 0)
}

#[test]
fn preallocated_segment_ends_at_its_first_zeros() {
    let whole = [three().concat(), vec![0; 700_000]].concat();
    assert_eq!(shape(&read(&whole)), (vec![0, 2, 3], vec![]));
}

#[test]
fn refuses_a_hostile_batch_length() {
    let mut whole = three().concat();
    whole[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
    let items = read(&whole);
    assert!(
        matches!(items[0].as_ref().unwrap_err().reason, Reason::TooLarge { bytes } if bytes > MAX_BATCH_BYTES)
    );
    assert_eq!(shape(&items).0, [2, 3]);
    for length in [-1, 0, 48, i32::MIN] {
        whole[8..12].copy_from_slice(&length.to_be_bytes());
        let items = read(&whole);
        assert!(matches!(items[0].as_ref().unwrap_err().reason, Reason::Head(_)), "{length}");
        assert_eq!(shape(&items).0, [2, 3]);
    }
}

#[test]
fn open_error_names_the_path() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().to_owned(), dir.path().join("absent.log")] {
        let Err(error) = Segment::open(&path) else { panic!("{path:?} was opened") };
        assert!(error.to_string().starts_with(&format!("cannot read {}", path.display())), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// With any bytes in the file, reading terminates.
    /// It also covers the file once, and finds only real batches.
    #[test]
    fn any_corruption_is_read_to_the_end_without_a_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
        from in any::<prop::sample::Index>(),
        count in 0_u64..600,
    ) {
        let mut whole = three().concat();
        for (at, byte) in changes {
            let at = at.index(whole.len());
            whole[at] = byte;
        }
        whole.truncate(cut.index(whole.len() + 1));
        let mut position = 0;
        for item in read(&whole) {
            let (start, bytes) = match item {
                Ok(batch) => {
                    let start = batch.position as usize;
                    prop_assert_eq!(&whole[start..start + batch.bytes.len()], &batch.bytes[..]);
                    (batch.position, batch.bytes.len() as u64)
                }
                Err(damage) => (damage.position, damage.bytes),
            };
            prop_assert_eq!(start, position);
            prop_assert!(bytes > 0);
            position += bytes;
        }
        prop_assert!(whole[position as usize..].iter().all(|&byte| byte == 0));
        read_in(&whole, from.index(whole.len() + 1) as u64, count);
    }
}
