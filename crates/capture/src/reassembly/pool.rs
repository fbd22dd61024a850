//! What all streams together may hold, and what they have met. Does not hold anything itself.

/// What keeping a piece costs beside its bytes: the map's entry and the allocation, roughly. Without
/// it one-byte segments would hold many times their size.
pub(super) const PIECE_OVERHEAD_BYTES: usize = 128;

/// The bounds on held bytes and the counts, shared by every stream of an analysis.
#[derive(Debug)]
pub struct Pool {
    /// Bytes one direction may hold.
    pub stream_limit: usize,
    /// Bytes all of them together may hold.
    pub total_limit: usize,
    /// Bytes held now.
    pub used: usize,
    /// What was met.
    pub tally: Tally,
}

impl Pool {
    /// A pool with these bounds, in bytes; bookkeeping counts towards them.
    pub fn new(stream_limit: usize, total_limit: usize) -> Self {
        Self { stream_limit, total_limit, used: 0, tally: Tally::default() }
    }

    /// Makes room for so many bytes kept outside the streams, if there is any.
    pub(crate) fn reserve(&mut self, bytes: usize) -> bool {
        let cost = bytes + PIECE_OVERHEAD_BYTES;
        let fits = self.used + cost <= self.total_limit;
        self.used += if fits { cost } else { 0 };
        fits
    }

    /// Gives back what [`Self::reserve`] made room for.
    pub(crate) fn refund(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes + PIECE_OVERHEAD_BYTES);
    }
}

/// What reassembly met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Holes given up.
    pub gaps: u64,
    /// Bytes in them.
    pub gap_bytes: u64,
    /// Payload bytes seen again: retransmissions, duplicates, overlaps.
    pub repeated_bytes: u64,
    /// Keep-alives: an empty segment or one byte, just before what is expected.
    pub keep_alives: u64,
    /// Segments that came early and were held.
    pub out_of_order: u64,
    /// Times a hole was given up because no more could be held.
    pub overflows: u64,
}

impl Tally {
    /// Counts bytes seen again; `whole` if there was nothing else in the segment.
    pub(super) fn count_repeated(&mut self, bytes: u64, whole: bool) {
        if whole && bytes == 1 {
            self.keep_alives += 1;
        } else {
            self.repeated_bytes += bytes;
        }
    }
}
