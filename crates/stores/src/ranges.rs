//! Which requests fetch ranges of an object: close ones as one, long ones in pieces. Fetches nothing.

use std::ops::Range;

/// What lies between two ranges is fetched with them up to here. Requests run side by side, so that one more takes hardly longer; it
/// costs something of its own.
const GAP_BYTES: u64 = 32 << 10;
/// A piece has to arrive within a request's time limit, also on a slow line.
const PIECE_BYTES: u64 = 8 << 20;

/// The same bytes in order, and with them those between ranges that are close together.
pub fn merged(ranges: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut().filter(|last| last.end.saturating_add(GAP_BYTES) >= range.start) {
            Some(last) => last.end = last.end.max(range.end),
            None => merged.push(range),
        }
    }
    merged
}

/// Each range as pieces, one a request.
pub(crate) fn pieces(ranges: &[Range<u64>]) -> impl Iterator<Item = Range<u64>> + '_ {
    ranges.iter().flat_map(|range| {
        let starts = std::iter::successors(Some(range.start), |start| start.checked_add(PIECE_BYTES));
        let within = starts.take_while(|start| *start < range.end);
        within.map(|start| start..range.end.min(start.saturating_add(PIECE_BYTES)))
    })
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use proptest::prelude::*;

    use super::{GAP_BYTES, PIECE_BYTES, merged, pieces};

    #[test]
    fn close_ranges_are_one_and_long_ones_are_several() {
        let far = 10 * GAP_BYTES;
        assert_eq!(
            merged([far..far + 5, 3..9, 0..4, 20..20, 9 + GAP_BYTES..10 + GAP_BYTES]),
            [0..10 + GAP_BYTES, far..far + 5]
        );
        let of = |range: Range<u64>| pieces(&[range]).collect::<Vec<_>>();
        assert_eq!(of(7..2 * PIECE_BYTES), [7..PIECE_BYTES + 7, PIECE_BYTES + 7..2 * PIECE_BYTES]);
        let last = u64::MAX - 1..u64::MAX;
        assert_eq!((of(3..3), of(last.clone())), (vec![], vec![last]));
    }

    proptest! {
        #[test]
        fn every_byte_is_fetched_once(
            ranges in prop::collection::vec((0_u64..40_000_000, 0_u64..20_000_000), 0..12)
        ) {
            let ranges: Vec<Range<u64>> = ranges.iter().map(|(start, length)| *start..start + length).collect();
            let requests: Vec<Range<u64>> = pieces(&merged(ranges.clone())).collect();
            for pair in requests.windows(2) {
                prop_assert!(pair[0].end <= pair[1].start);
            }
            prop_assert!(requests.iter().all(|piece| !piece.is_empty() && piece.end - piece.start <= PIECE_BYTES));
            let has = |at: u64| requests.iter().any(|piece| piece.contains(&at));
            for range in ranges.iter().filter(|range| !range.is_empty()) {
                prop_assert!(has(range.start) && has(range.end - 1) && has(range.start.midpoint(range.end - 1)));
            }
        }
    }
}
