//! A Produce request of version 7 with one record batch, and its answer's header.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::records::{Deltas, Head, UNCOMPRESSED, batch, record};

/// A record's value.
const VALUE: [u8; 100] = [0x5a; 100];
/// The correlation id's range in a frame: after its size, the API key and the version.
const CORRELATION_ID: std::ops::Range<usize> = 8..12;

/// The batch of every request: `count` records with the current time, because a broker deletes segments older than its
/// retention time.
fn batch_of(count: i32) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64;
    let mut records = Vec::new();
    for offset in 0..count.into() {
        record(&mut records, Deltas { offset, timestamp_ms: 0 }, &[1; 8], &VALUE, None);
    }
    let head = Head {
        base_offset: 0,
        base_timestamp_ms: now,
        max_timestamp_ms: now,
        attributes: UNCOMPRESSED,
        count,
    };
    batch(&head, &records)
}

/// The bytes of a request with this many records; only the correlation id changes.
pub(super) fn request(topic: &str, partition: i32, records: i32) -> Vec<u8> {
    let batch = batch_of(records);
    let mut bytes = vec![0; 4];
    bytes.extend(0i16.to_be_bytes());
    bytes.extend(7i16.to_be_bytes());
    bytes.extend(0i32.to_be_bytes());
    string(&mut bytes, "bench");
    // No transactional id, acks=1, 30 s, one topic.
    bytes.extend((-1i16).to_be_bytes());
    bytes.extend(1i16.to_be_bytes());
    bytes.extend(30_000i32.to_be_bytes());
    bytes.extend(1i32.to_be_bytes());
    string(&mut bytes, topic);
    bytes.extend(1i32.to_be_bytes());
    bytes.extend(partition.to_be_bytes());
    bytes.extend((batch.len() as i32).to_be_bytes());
    bytes.extend(batch);
    let size = bytes.len() as u32 - 4;
    if let Some(field) = bytes.first_chunk_mut::<4>() {
        *field = size.to_be_bytes();
    }
    bytes
}

/// Sets a request's correlation id.
pub(super) fn number(request: &mut [u8], correlation_id: i32) {
    if let Some(field) = request.get_mut(CORRELATION_ID) {
        field.copy_from_slice(&correlation_id.to_be_bytes());
    }
}

/// Parses a complete answer at the start of `bytes`: its length, and its error code (of the one partition).
pub(super) fn answer(bytes: &[u8], topic: &str) -> Option<(usize, i16)> {
    let length = u32::from_be_bytes(*bytes.first_chunk::<4>()?) as usize + 4;
    let frame = bytes.get(..length)?;
    // Size, correlation id, count of topics, the name with its length, count of partitions, the partition.
    let error = 4 + 4 + 4 + 2 + topic.len() + 4 + 4;
    // An answer too short for an error code is an error.
    let code = frame.get(error..error + 2).and_then(|code| code.first_chunk::<2>());
    Some((length, code.map_or(-1, |code| i16::from_be_bytes(*code))))
}

fn string(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u16).to_be_bytes());
    bytes.extend(text.bytes());
}

#[cfg(test)]
mod tests {
    use super::{answer, number, request};

    #[test]
    fn request_contains_its_size_and_correlation_id() {
        let mut bytes = request("t", 3, 2);
        number(&mut bytes, 0x0102_0304);
        assert_eq!(bytes.len() as u32 - 4, u32::from_be_bytes(*bytes.first_chunk().unwrap()));
        assert_eq!(bytes.get(8..12).unwrap(), [1, 2, 3, 4]);
    }

    #[test]
    fn parses_only_complete_answers_and_their_error_codes() {
        let mut bytes = vec![0, 0, 0, 43, 0, 0, 0, 9, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 3, 0, 7];
        bytes.resize(47, 0);
        assert_eq!(answer(&bytes, "t"), Some((47, 7)));
        assert_eq!(answer(bytes.get(..46).unwrap(), "t"), None);
        assert_eq!(answer(&[0, 0, 0, 4, 0, 0, 0, 9], "t"), Some((8, -1)));
    }
}
