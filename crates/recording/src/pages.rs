//! Limits what the pages of a Parquet file unpack to.
//! Checks their headers before anything is unpacked. A few kilobytes can stand for gigabytes, and Parquet's decoder
//! allocates what the header claims. Does not unpack anything.
//!
//! Fuzzed by: recording.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};

use crate::convert::ROW_GROUP_BYTES;
use crate::thrift::read_struct;

/// Limit for all pages of a row group together. A writer ends a group with the batch that brings it to
/// [`ROW_GROUP_BYTES`].
const MAX_GROUP_BYTES: u64 = 4 * ROW_GROUP_BYTES as u64;
/// No header is longer: the texts in it are cut to 64 bytes.
pub(crate) const MAX_HEADER_BYTES: usize = 16 << 10;

/// How many bytes the pages of each row group may still unpack to.
pub(crate) struct PageBudget(Vec<(Range<u64>, AtomicU64)>);

impl PageBudget {
    /// Panics where Parquet's own code does: on a column with a negative offset.
    pub(crate) fn of(groups: &[RowGroupMetaData]) -> Self {
        let of_group = |group: &RowGroupMetaData| {
            let columns = group.columns().iter().map(ColumnChunkMetaData::byte_range);
            let ends = columns.map(|(start, bytes)| (start, start.saturating_add(bytes)));
            let (start, end) = ends.fold((u64::MAX, 0), |all, one| (all.0.min(one.0), all.1.max(one.1)));
            (start..end, AtomicU64::new(MAX_GROUP_BYTES))
        };
        Self(groups.iter().map(of_group).collect())
    }

    /// Takes the unpacked size of the page at a position from its row group's budget.
    /// The size is that of the page's header.
    pub(crate) fn take(&self, position: u64, unpacked_bytes: Option<u64>) -> Result<(), String> {
        let refused = |why: &str| format!("the page at {position} {why}");
        let bytes = unpacked_bytes.ok_or_else(|| refused("has a header that no recorder writes"))?;
        let group = self.0.iter().find(|(range, _)| range.contains(&position));
        let (_, left) = group.ok_or_else(|| refused("lies in no row group"))?;
        let taken = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        taken.map(drop).map_err(|_| refused("unpacks to more than any recorder writes"))
    }
}

/// How many bytes a page unpacks to; `None` if that is unclear, for example if the header is incomplete.
pub(crate) fn unpacked_bytes(header: &[u8]) -> Option<u64> {
    let mut unpacked = None;
    read_struct(header, |field, number| {
        if field == 2 {
            unpacked = u64::try_from(number).ok();
        }
    })?;
    unpacked
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::{MAX_GROUP_BYTES, PageBudget, unpacked_bytes};

    #[test]
    fn reads_unpacked_size_from_a_page_header() {
        let sizes =
            [&[0x15, 0, 0x15, 0xd8, 4, 0][..], &[0x15, 0, 0], &[0x25, 1, 0], &[0x25, 1]].map(unpacked_bytes);
        assert_eq!(sizes, [Some(300), None, None, None]);
    }

    #[test]
    fn pages_of_a_row_group_share_one_budget() {
        let budget =
            PageBudget(vec![(4..90, AtomicU64::new(500)), (90..95, AtomicU64::new(MAX_GROUP_BYTES))]);
        let of = |position| budget.take(position, Some(300));
        assert_eq!((of(4), of(90), of(94)), (Ok(()), Ok(()), Ok(())));
        assert!(of(50).unwrap_err().contains("the page at 50 unpacks to more"));
        assert!(of(95).unwrap_err().contains("in no row group"));
        assert!(budget.take(90, None).unwrap_err().contains("no recorder writes"));
    }
}
