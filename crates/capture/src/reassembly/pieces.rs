//! Pieces of a stream: as they arrive, and as they are held until earlier bytes have come.
//! Does not know which byte is next.

use std::collections::BTreeMap;

use model::Nanos;

use super::Pool;

/// Bytes of a stream, then `missing` bytes of which only the number is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<B> {
    pub(super) bytes: B,
    pub(super) missing: u64,
    pub(super) at: Nanos,
}

impl<'a> Piece<&'a [u8]> {
    pub(super) fn span(&self) -> u64 {
        self.bytes.len() as u64 + self.missing
    }

    /// How many of the first `n` bytes were captured.
    pub(super) fn captured_within(&self, n: u64) -> u64 {
        n.min(self.bytes.len() as u64)
    }

    pub(super) fn first(&self, n: u64) -> Self {
        let captured = self.captured_within(n);
        let bytes: &'a [u8] = self.bytes.get(..captured as usize).unwrap_or_default();
        Self { bytes, missing: (n - captured).min(self.missing), at: self.at }
    }

    pub(super) fn without_first(&self, n: u64) -> Self {
        let captured = self.captured_within(n);
        let bytes: &'a [u8] = self.bytes.get(captured as usize..).unwrap_or_default();
        Self { bytes, missing: self.missing.saturating_sub(n - captured), at: self.at }
    }
}

impl Piece<Vec<u8>> {
    pub(super) fn borrowed(&self) -> Piece<&[u8]> {
        Piece { bytes: &self.bytes, missing: self.missing, at: self.at }
    }
}

/// Early bytes of one direction: pieces that do not overlap, by offset.
#[derive(Debug, Default)]
pub(super) struct EarlyPieces {
    pieces: BTreeMap<u64, Piece<Vec<u8>>>,
    used: usize,
}

impl EarlyPieces {
    pub(super) fn first_start(&self) -> Option<u64> {
        self.pieces.first_key_value().map(|(&start, _)| start)
    }

    /// Removes the first piece if it starts at `offset`.
    pub(super) fn take_at(&mut self, offset: u64, pool: &mut Pool) -> Option<Piece<Vec<u8>>> {
        let first = self.pieces.first_entry().filter(|entry| *entry.key() == offset)?;
        let piece = first.remove();
        self.refund(piece.bytes.len(), pool);
        Some(piece)
    }

    /// Holds those bytes of a piece that are not held yet.
    /// Refuses, and holds nothing, if there might be no room.
    pub(super) fn insert(&mut self, offset: u64, piece: &Piece<&[u8]>, pool: &mut Pool) -> bool {
        let end = offset + piece.span();
        // Each held piece may split this one.
        let pieces = 1 + self.pieces.range(offset..end).count();
        let cost = piece.bytes.len() + pieces * PIECE_OVERHEAD_BYTES;
        if self.used + cost > pool.stream_limit || !pool.has_room(cost) {
            return false;
        }
        pool.counts.out_of_order += 1;
        let mut from = offset;
        while from < end {
            let covered = self.covered_until(from).min(end);
            if covered > from {
                let repeated = piece.captured_within(covered - offset) - piece.captured_within(from - offset);
                pool.counts.count_repeated(repeated, false);
                from = covered;
                continue;
            }
            let until = self.pieces.range(from..).next().map_or(end, |(&start, _)| start.min(end));
            self.keep(from, &piece.without_first(from - offset).first(until - from), pool);
            from = until;
        }
        true
    }

    pub(super) fn clear(&mut self, pool: &mut Pool) {
        self.pieces.clear();
        pool.used = pool.used.saturating_sub(self.used);
        self.used = 0;
    }

    /// The end of the piece that covers `offset`, or `offset` itself.
    fn covered_until(&self, offset: u64) -> u64 {
        let before = self.pieces.range(..=offset).next_back();
        before.map_or(offset, |(&start, piece)| (start + piece.borrowed().span()).max(offset))
    }

    fn keep(&mut self, offset: u64, piece: &Piece<&[u8]>, pool: &mut Pool) {
        let cost = piece.bytes.len() + PIECE_OVERHEAD_BYTES;
        self.used += cost;
        pool.used += cost;
        self.pieces
            .insert(offset, Piece { bytes: piece.bytes.to_vec(), missing: piece.missing, at: piece.at });
    }

    fn refund(&mut self, bytes: usize, pool: &mut Pool) {
        let cost = bytes + PIECE_OVERHEAD_BYTES;
        self.used = self.used.saturating_sub(cost);
        pool.used = pool.used.saturating_sub(cost);
    }
}

/// The approximate cost of a held piece besides its bytes: the map's entry and the allocation.
/// Without it, one-byte segments could hold many times their size.
pub(super) const PIECE_OVERHEAD_BYTES: usize = 128;
