//! Finding the next batch in bytes of which nothing is known. Does not return batches: only where one is.

use wire::BatchHeader;

use crate::segment::{MAX_BATCH_BYTES, head_at};
use crate::window::Window;

/// A place is only a batch if its CRC is right. Where bytes are made to look like heads of large batches
/// everywhere, that check would read the file over and over: beyond this much, the search is given up.
const MAX_CHECKED_BYTES: u64 = 512 << 20;
const STEP_BYTES: usize = 64 << 10;
/// Bytes of a head that tell whether it is worth reading on: up to the magic of every format.
const PREFIX_BYTES: usize = 17;

/// Where the first whole batch with a right CRC starts, after `position` and before `end`.
pub(crate) fn next_batch(window: &mut Window, position: u64, end: u64) -> Option<u64> {
    let mut checked = 0;
    let mut candidate = next_candidate(window, position.checked_add(1)?, end)?;
    loop {
        if let Ok(header) = head_at(window, candidate) {
            checked += u64::from(header.length_bytes);
            if is_plausible(&header) && crc_ok(window, candidate, &header) {
                return Some(candidate);
            }
        }
        if checked > MAX_CHECKED_BYTES {
            return None;
        }
        candidate = next_candidate(window, candidate.checked_add(1)?, end)?;
    }
}

/// The next position from `from` on whose bytes could begin a head: offset and length not negative, the
/// length not absurd, the magic known.
fn next_candidate(window: &mut Window, from: u64, end: u64) -> Option<u64> {
    let mut from = from;
    while from < end {
        let bytes = window.at(from, STEP_BYTES + PREFIX_BYTES - 1).ok()?;
        let mut starts = bytes.windows(PREFIX_BYTES);
        let count = starts.len() as u64;
        if count == 0 {
            return None;
        }
        if let Some(i) = starts.position(may_begin) {
            return Some(from + i as u64).filter(|at| *at < end);
        }
        from += count;
    }
    None
}

fn may_begin(prefix: &[u8]) -> bool {
    let (Some(offset), Some(length), Some(magic)) = (prefix.first(), prefix.get(8..12), prefix.get(16))
    else {
        return false;
    };
    let length = length.iter().fold(0_u32, |length, &byte| (length << 8) | u32::from(byte));
    *offset < 0x80 && *magic <= 2 && (14..=MAX_BATCH_BYTES).contains(&length)
}

/// Whether a head says nothing that no producer and no broker writes.
fn is_plausible(header: &BatchHeader) -> bool {
    let counts =
        header.magic < 2 || header.records_count > 0 && header.last_offset_delta >= 0 || header.is_control();
    counts && header.base_offset >= 0 && header.codec().is_ok()
}

fn crc_ok(window: &mut Window, position: u64, header: &BatchHeader) -> bool {
    window.at(position, header.length_bytes as usize).is_ok_and(|bytes| header.crc_ok(bytes))
}

/// Whether the file holds nothing but zeros from here to its end.
pub(crate) fn is_blank(window: &mut Window, position: u64) -> bool {
    let mut position = position;
    loop {
        match window.at(position, STEP_BYTES) {
            Ok([]) => return true,
            Ok(bytes) if bytes.iter().all(|&byte| byte == 0) => position += bytes.len() as u64,
            _ => return false,
        }
    }
}
