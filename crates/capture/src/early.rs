//! Segments of one connection that came before what they acknowledge. Whoever acknowledges a byte has
//! received it, so in such a capture either the byte's packet was missed or the two packets changed
//! places: network cards with several queues and per-processor buffers do that to neighbours. Such a
//! segment waits a little for the other packet; then the byte counts as missed.
//!
//! It keeps segments. It does not know what they are waiting for, nor decode them.

use std::collections::VecDeque;

use model::Nanos;

use crate::connection::Side;
use crate::link::Segment;
use crate::reassembly::Pool;

/// How many further packets of the connection a segment waits for.
const PATIENCE_PACKETS: u64 = 32;

/// How long it waits, in the packets' time.
pub(crate) const PATIENCE: Nanos = Nanos::from_millis(50);

/// How far before the first one seen a stream may begin.
const NEIGHBOURHOOD_BYTES: i32 = 1 << 24;

/// At most [`PATIENCE_PACKETS`] segments, in the order they came.
#[derive(Default)]
pub(crate) struct Early {
    segments: VecDeque<Waiting>,
    /// Packets of the connection so far.
    packets: u64,
}

/// A segment that waits.
pub(crate) struct Waiting {
    pub(crate) side: Side,
    pub(crate) at: Nanos,
    /// All but the payload.
    head: Segment<'static>,
    payload: Vec<u8>,
    /// The packet's number on its connection.
    number: u64,
}

impl Waiting {
    pub(crate) fn segment(&self) -> Segment<'_> {
        Segment { payload: &self.payload, ..self.head }
    }
}

impl Early {
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Another packet of the connection came.
    pub(crate) fn count_packet(&mut self) {
        self.packets += 1;
    }

    /// Lets a segment wait. Refuses if the bounds on held bytes are reached.
    pub(crate) fn push(&mut self, side: Side, segment: &Segment<'_>, at: Nanos, pool: &mut Pool) -> bool {
        if !pool.reserve(segment.payload.len()) {
            return false;
        }
        let head = Segment { payload: &[], ..*segment };
        let payload = segment.payload.to_vec();
        self.segments.push_back(Waiting { side, at, head, payload, number: self.packets });
        true
    }

    /// The one that has waited longest.
    pub(crate) fn first(&self) -> Option<&Waiting> {
        self.segments.front()
    }

    /// The place of the first segment of which `is_wanted` holds.
    pub(crate) fn position(&self, is_wanted: impl Fn(Side, &Segment<'_>) -> bool) -> Option<usize> {
        self.segments.iter().position(|early| is_wanted(early.side, &early.segment()))
    }

    /// Takes the segment at a place.
    pub(crate) fn take(&mut self, place: usize, pool: &mut Pool) -> Option<Waiting> {
        let early = self.segments.remove(place)?;
        pool.refund(early.payload.len());
        Some(early)
    }

    /// Whether a segment has waited enough; `now` is the time of the newest packet.
    pub(crate) fn is_over(&self, early: &Waiting, now: Nanos) -> bool {
        self.packets - early.number >= PATIENCE_PACKETS || now - early.at >= PATIENCE
    }

    /// The sequence number nearest to the stream's beginning of what waits from `side`.
    pub(crate) fn first_seq(&self, side: Side) -> Option<u32> {
        let mut waiting = self.segments.iter().filter(|early| early.side == side);
        let first = waiting.next()?.head.seq;
        let earliest = waiting.map(|early| early.head.seq.wrapping_sub(first) as i32).min();
        // Anything far away is of another connection between the same ends.
        let earliest = earliest.filter(|ahead| (-NEIGHBOURHOOD_BYTES..0).contains(ahead));
        Some(first.wrapping_add_signed(earliest.unwrap_or(0)))
    }
}
