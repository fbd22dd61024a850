//! Puts one direction of a TCP connection back in order: what was sent, exactly once, and what was never captured.
//!
//! In-order payload is passed on as the slice it came in; only early payload is copied, within a limit per direction
//! and one over all ([`Pool`]). Where two segments contain the same bytes, the first copy counts. It does not know
//! connections, the other direction's payload, or Kafka.
//!
//! A hole is abandoned, and becomes a [`Content::Gap`], when the receiver has acknowledged it while later bytes are
//! held (so the capture missed what the receiver got), when the limits are reached, or at the end. An acknowledgement
//! that merely overtook the bytes in the capture is held back before it comes here (`early.rs`). Positions are 64-bit
//! offsets from the first byte captured; a sequence number means the offset nearest to the next one expected, so
//! wrapping needs no special case.

mod pieces;

use model::Nanos;

use pieces::{EarlyPieces, PIECE_OVERHEAD_BYTES, Piece};

/// Maximum distance of a segment from the expected position. One further away belongs to a part of the stream that the
/// capture missed. No TCP window exceeds 2^30 bytes (RFC 7323, section 2.2); buffers stay far below.
const PLAUSIBLE_BYTES: i64 = 1 << 28;

/// When a chunk's bytes were captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The time of the packet that carried them.
    pub seen: Nanos,
    /// When all bytes before them in the stream had been captured as well; later than `seen` for bytes that overtook
    /// others.
    pub complete: Nanos,
}

impl Stamp {
    /// Bytes that arrived in order.
    pub fn at(time: Nanos) -> Self {
        Self { seen: time, complete: time }
    }
}

/// The next part of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// The TCP sequence number of its first byte.
    pub sequence: u32,
    /// What is known of it.
    pub content: Content<'a>,
}

/// A part of a stream, as far as it was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    /// Its bytes.
    Data(&'a [u8], Stamp),
    /// This many bytes whose packet was captured, but which a snap length cut off.
    Cut(u64, Stamp),
    /// This many bytes that were never captured; known to be missing since this packet's time.
    Gap(u64, Nanos),
}

/// The receiver of a stream's parts, and the limits on held bytes.
pub trait Sink {
    /// The limits.
    fn pool(&mut self) -> &mut Pool;
    /// Receives the next part of the stream.
    fn take(&mut self, chunk: Chunk<'_>);
}

impl<F: FnMut(Chunk<'_>)> Sink for (&mut Pool, F) {
    fn pool(&mut self) -> &mut Pool {
        self.0
    }

    fn take(&mut self, chunk: Chunk<'_>) {
        self.1(chunk);
    }
}

/// One direction of a connection.
#[derive(Debug, Default)]
pub struct Reassembly {
    /// Whether the position of a first byte is known.
    pub(crate) is_synchronized: bool,
    /// Whether the stream is known from its first byte on.
    pub(crate) is_from_start: bool,
    next: u64,
    next_seq: u32,
    acked: u64,
    fin: Option<u64>,
    early: EarlyPieces,
}

impl Reassembly {
    /// A direction of which nothing is known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A direction whose first byte has this sequence number. Its SYN was captured or acknowledged.
    pub fn starting_at(first_seq: u32) -> Self {
        Self { is_synchronized: true, is_from_start: true, next_seq: first_seq, ..Self::default() }
    }

    /// Whether the first byte has this sequence number, as after a repeated SYN.
    pub fn starts_at(&self, first_seq: u32) -> bool {
        self.is_from_start && self.next_seq.wrapping_sub(self.next as u32) == first_seq
    }

    /// Offset of the next expected byte.
    pub fn next_offset(&self) -> u64 {
        self.next
    }

    /// Whether the first byte's position is known, and the byte has not come.
    pub(crate) fn is_at_start(&self) -> bool {
        self.is_from_start && self.next == 0
    }

    /// The sequence number of the next byte, if nothing beyond it is known.
    pub(crate) fn next_seq_if_idle(&self) -> Option<u32> {
        let is_idle = self.fin.is_none() && self.acked <= self.next && self.early.first_start().is_none();
        (self.is_synchronized && is_idle).then_some(self.next_seq)
    }

    /// Whether the other side has acknowledged all bytes so far.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.acked >= self.next
    }

    /// Whether everything up to the FIN was delivered.
    pub fn is_finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.next >= fin)
    }

    /// Whether a sequence number could belong to this stream now.
    pub fn is_plausible(&self, seq: u32) -> bool {
        !self.is_synchronized || self.distance(seq).abs() <= PLAUSIBLE_BYTES
    }

    /// Joins an unknown stream in its middle, at this sequence number.
    pub fn join(&mut self, seq: u32) {
        if !self.is_synchronized {
            self.is_synchronized = true;
            self.next_seq = seq;
        }
    }

    /// Whether `ack` acknowledges new bytes. They were neither delivered nor acknowledged before.
    pub fn is_news(&self, ack: u32) -> bool {
        let ahead = self.distance(ack);
        // A FIN takes up a sequence number but is not a byte.
        let fin = i64::from(self.fin == Some(self.next));
        let is_plausible = self.is_synchronized && ahead > fin && ahead <= PLAUSIBLE_BYTES;
        is_plausible && self.next.saturating_add_signed(ahead) > self.acked
    }

    /// Bytes that the receiver acknowledged but that were not captured. A single one is the FIN.
    pub fn acknowledged_unseen(&self) -> u64 {
        let end = self.fin.map_or(self.acked, |fin| self.acked.min(fin));
        let unseen = end.saturating_sub(self.next);
        if unseen > 1 { unseen } else { 0 }
    }

    /// Handles a segment: `payload` at `seq`, then `missing` bytes that a snap length cut off.
    pub fn segment(
        &mut self,
        (seq, fin): (u32, bool),
        (payload, missing): (&[u8], u32),
        at: Nanos,
        sink: &mut impl Sink,
    ) {
        self.join(seq);
        if self.distance(seq).abs() > PLAUSIBLE_BYTES {
            if payload.is_empty() {
                return;
            }
            self.jump(seq, at, sink);
        }
        let start = self.next as i64 + self.distance(seq);
        let piece = Piece { bytes: payload, missing: u64::from(missing), at };
        let end = start.saturating_add_unsigned(piece.span());
        if self.is_keep_alive(end, &piece) {
            sink.pool().counts.keep_alives += 1;
            return;
        }
        if fin && end >= 0 {
            self.fin = self.fin.or(Some(end as u64));
        }
        if piece.span() > 0 {
            self.place(start, piece, sink);
            self.give_up_acknowledged(at, sink);
        }
    }

    /// Whether a piece is a keep-alive. That is one byte that the receiver has acknowledged and the capture missed. The
    /// byte may be garbage (RFC 9293, 3.8.4), so it does not fill in the missing one.
    fn is_keep_alive(&self, end: i64, piece: &Piece<&[u8]>) -> bool {
        piece.span() == 1 && end > self.next as i64 && end == self.acked as i64
    }

    /// Handles an acknowledgement: the receiver expects `ack` next.
    pub fn acknowledge(&mut self, ack: u32, at: Nanos, sink: &mut impl Sink) {
        let ahead = self.distance(ack);
        if !self.is_synchronized || !(0..=PLAUSIBLE_BYTES).contains(&ahead) {
            return;
        }
        self.acked = self.acked.max(self.next.saturating_add_signed(ahead));
        if ahead > 0 {
            self.give_up_acknowledged(at, sink);
        }
    }

    /// Abandons bytes that were acknowledged but not captured. Does so even if nothing later is held. For a caller who
    /// knows that the receiver has acted on those bytes.
    pub fn give_up_unseen(&mut self, at: Nanos, sink: &mut impl Sink) {
        let unseen = self.acknowledged_unseen();
        if unseen > 0 {
            self.gap_until(self.next + unseen, at, sink);
            self.release(Stamp::at(at), sink);
        }
    }

    /// Ends the stream: delivers held bytes with the gaps between them.
    /// A final gap stands for bytes acknowledged beyond them.
    pub fn finish(&mut self, at: Nanos, sink: &mut impl Sink) {
        while let Some(start) = self.early.first_start() {
            self.gap_until(start, at, sink);
            self.release(Stamp::default(), sink);
        }
        self.give_up_unseen(at, sink);
    }

    /// Drops held bytes, for a stream that is no longer needed.
    pub fn discard(&mut self, pool: &mut Pool) {
        self.early.clear(pool);
    }

    /// Signed distance of a sequence number from the next expected one.
    fn distance(&self, seq: u32) -> i64 {
        i64::from(seq.wrapping_sub(self.next_seq) as i32)
    }

    /// Resumes the stream at an implausible sequence number: the bytes between were not captured.
    fn jump(&mut self, seq: u32, at: Nanos, sink: &mut impl Sink) {
        self.finish(at, sink);
        let distance = u64::from(seq.wrapping_sub(self.next_seq));
        self.gap_until(self.next + distance, at, sink);
        self.fin = None;
    }

    fn place(&mut self, mut start: i64, mut piece: Piece<&[u8]>, sink: &mut impl Sink) {
        loop {
            let old = (self.next as i64).saturating_sub(start).max(0) as u64;
            if old > 0 {
                sink.pool().counts.count_repeated(piece.captured_within(old), old >= piece.span());
                piece = piece.without_first(old);
                start = self.next as i64;
            }
            if piece.span() == 0 {
                return;
            }
            let offset = start as u64;
            if offset == self.next {
                self.deliver_around_held(&piece, sink);
                return;
            }
            self.give_up_acknowledged_before(offset, piece.at, sink);
            if offset > self.next {
                if self.early.insert(offset, &piece, sink.pool()) {
                    return;
                }
                sink.pool().counts.overflows += 1;
                let first = self.early.first_start().map_or(offset, |held| held.min(offset));
                self.gap_until(first, piece.at, sink);
                self.release(Stamp::at(piece.at), sink);
            }
        }
    }

    /// Delivers a piece that starts at the next byte.
    /// Bytes of it that are already held came first and take precedence.
    fn deliver_around_held(&mut self, piece: &Piece<&[u8]>, sink: &mut impl Sink) {
        let end = self.next + piece.span();
        let mut rest = *piece;
        while self.next < end {
            let until = self.early.first_start().map_or(end, |held| held.min(end));
            let fresh = rest.first(until - self.next);
            self.deliver(&fresh, Stamp::at(piece.at), sink);
            self.release(Stamp::at(piece.at), sink);
            let passed = end.saturating_sub(self.next).min(rest.span());
            let skipped = rest.span() - passed;
            let repeated = rest.captured_within(skipped).saturating_sub(fresh.bytes.len() as u64);
            sink.pool().counts.count_repeated(repeated, false);
            rest = rest.without_first(skipped);
        }
        self.release(Stamp::at(piece.at), sink);
    }

    fn deliver(&mut self, piece: &Piece<&[u8]>, stamp: Stamp, sink: &mut impl Sink) {
        if !piece.bytes.is_empty() {
            let sequence = self.next_seq;
            self.advance(piece.bytes.len() as u64);
            sink.take(Chunk { sequence, content: Content::Data(piece.bytes, stamp) });
        }
        if piece.missing > 0 {
            let sequence = self.next_seq;
            self.miss(piece.missing, sink.pool());
            sink.take(Chunk { sequence, content: Content::Cut(piece.missing, stamp) });
        }
    }

    /// Delivers held pieces as long as they are contiguous; `filled` is when the bytes they waited for came.
    fn release(&mut self, filled: Stamp, sink: &mut impl Sink) {
        while let Some(piece) = self.early.take_at(self.next, sink.pool()) {
            let stamp = Stamp { seen: piece.at, complete: piece.at.max(filled.complete) };
            self.deliver(&piece.borrowed(), stamp, sink);
        }
    }

    fn give_up_acknowledged(&mut self, at: Nanos, sink: &mut impl Sink) {
        while let Some(start) = self.early.first_start().filter(|&start| start <= self.acked) {
            self.gap_until(start, at, sink);
            // The lost bytes' time is unknown, so these keep their own time.
            self.release(Stamp::default(), sink);
        }
    }

    /// Like [`Self::give_up_acknowledged`], before later bytes are placed. These are about to be placed at `offset`.
    fn give_up_acknowledged_before(&mut self, offset: u64, at: Nanos, sink: &mut impl Sink) {
        self.give_up_acknowledged(at, sink);
        let held_earlier = self.early.first_start().is_some_and(|held| held <= offset);
        if offset <= self.acked && !held_earlier {
            self.gap_until(offset, at, sink);
        }
    }

    fn gap_until(&mut self, offset: u64, at: Nanos, sink: &mut impl Sink) {
        let bytes = offset.saturating_sub(self.next);
        if bytes > 0 {
            let sequence = self.next_seq;
            self.miss(bytes, sink.pool());
            sink.take(Chunk { sequence, content: Content::Gap(bytes, at) });
        }
    }

    fn miss(&mut self, bytes: u64, pool: &mut Pool) {
        pool.counts.gaps += 1;
        pool.counts.gap_bytes += bytes;
        self.advance(bytes);
    }

    fn advance(&mut self, bytes: u64) {
        self.next += bytes;
        self.next_seq = self.next_seq.wrapping_add(bytes as u32);
    }
}

/// The limits on held bytes and the counts, shared by all streams of an analysis.
#[derive(Debug)]
pub struct Pool {
    /// Bytes one direction may hold.
    pub stream_limit: usize,
    /// Bytes all directions together may hold.
    pub total_limit: usize,
    /// Whether one side of the current connection has acknowledged what the other sent.
    /// One without an acknowledgement can use only half of the pool; the other half is left for connections known to be
    /// real.
    pub(crate) is_acknowledged: bool,
    /// Bytes held now.
    pub used: usize,
    /// Counts so far.
    pub counts: ReassemblyCounts,
}

impl Pool {
    /// A pool with these limits, in bytes; bookkeeping counts towards them.
    pub fn new(stream_limit: usize, total_limit: usize) -> Self {
        let counts = ReassemblyCounts::default();
        Self { stream_limit, total_limit, is_acknowledged: true, used: 0, counts }
    }

    /// Whether there is room for this many more bytes.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let limit = if self.is_acknowledged { self.total_limit } else { self.total_limit / 2 };
        self.used + bytes <= limit
    }

    /// Reserves this many bytes for use outside the streams, if there is room.
    pub(crate) fn reserve(&mut self, bytes: usize) -> bool {
        let cost = bytes + PIECE_OVERHEAD_BYTES;
        let fits = self.has_room(cost);
        self.used += if fits { cost } else { 0 };
        fits
    }

    /// Releases what [`Self::reserve`] reserved.
    pub(crate) fn refund(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes + PIECE_OVERHEAD_BYTES);
    }
}

/// Counts of reassembly events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReassemblyCounts {
    /// Holes abandoned.
    pub gaps: u64,
    /// Bytes in them.
    pub gap_bytes: u64,
    /// Payload bytes captured again: retransmissions, duplicates, overlaps.
    pub repeated_bytes: u64,
    /// Keep-alives: an empty segment or one byte, just before the expected position.
    pub keep_alives: u64,
    /// Segments that came early and were held.
    pub out_of_order: u64,
    /// Times a hole was abandoned because no more bytes could be held.
    pub overflows: u64,
}

impl ReassemblyCounts {
    /// Counts bytes captured again; `whole` if the segment contained nothing else.
    fn count_repeated(&mut self, bytes: u64, whole: bool) {
        if whole && bytes == 1 {
            self.keep_alives += 1;
        } else {
            self.repeated_bytes += bytes;
        }
    }
}

#[cfg(test)]
mod tests;
