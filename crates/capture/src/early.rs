//! Early segments of one connection, and connections captured on one side only. Early segments came before the bytes
//! they acknowledge. Does not decode.
//!
//! A receiver that acknowledges a byte has received it. So either the capture missed the byte's packet, or the two
//! packets changed places: network cards with several queues and per-CPU buffers reorder neighbours. Such a segment
//! waits a little for the other packet; after that, the byte counts as missed.

use std::collections::VecDeque;

use model::Nanos;

use crate::link::{Flags, Segment, Side};
use crate::reassembly::Pool;

/// How many further packets of the connection a segment waits for.
const MAX_WAIT_PACKETS: u64 = 32;
/// How long it waits, in packet time.
pub(crate) const MAX_WAIT: Nanos = Nanos::from_millis(50);
/// How far before the first segment captured a stream may start.
const MAX_DISTANCE_BYTES: i32 = 1 << 24;

/// At most [`MAX_WAIT_PACKETS`] segments, in order of arrival.
#[derive(Default)]
pub(crate) struct EarlySegments {
    segments: VecDeque<EarlySegment>,
    /// Packets of the connection so far.
    packets: u64,
}

/// A segment that waits.
pub(crate) struct EarlySegment {
    pub(crate) side: Side,
    pub(crate) at: Nanos,
    /// Everything except the payload.
    head: Segment<'static>,
    payload: Vec<u8>,
    /// The packet's index on its connection.
    number: u64,
}

impl EarlySegment {
    pub(crate) fn segment(&self) -> Segment<'_> {
        Segment { payload: &self.payload, ..self.head }
    }
}

impl EarlySegments {
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Memory of the list; [`Pool`] counts its contents.
    pub(crate) fn list_bytes(&self) -> usize {
        self.segments.capacity() * size_of::<EarlySegment>()
    }

    /// Counts a packet of the connection.
    pub(crate) fn count_packet(&mut self) {
        self.packets += 1;
    }

    /// Holds a segment back. Refuses if the limits on held bytes are reached.
    pub(crate) fn push(&mut self, side: Side, segment: &Segment<'_>, at: Nanos, pool: &mut Pool) -> bool {
        if !pool.reserve(segment.payload.len()) {
            return false;
        }
        let head = Segment { payload: &[], ..*segment };
        let payload = segment.payload.to_vec();
        self.segments.push_back(EarlySegment { side, at, head, payload, number: self.packets });
        true
    }

    /// The segment that has waited longest.
    pub(crate) fn first(&self) -> Option<&EarlySegment> {
        self.segments.front()
    }

    /// The index of the first segment that satisfies `predicate`.
    pub(crate) fn position(&self, predicate: impl Fn(Side, &Segment<'_>) -> bool) -> Option<usize> {
        self.segments.iter().position(|early| predicate(early.side, &early.segment()))
    }

    /// Removes the segment at an index.
    pub(crate) fn take(&mut self, place: usize, pool: &mut Pool) -> Option<EarlySegment> {
        let early = self.segments.remove(place)?;
        pool.refund(early.payload.len());
        Some(early)
    }

    /// Whether a segment has waited long enough; `now` is the time of the newest packet.
    pub(crate) fn is_over(&self, early: &EarlySegment, now: Nanos) -> bool {
        self.packets - early.number >= MAX_WAIT_PACKETS || now - early.at >= MAX_WAIT
    }

    /// The lowest sequence number that waits from `side`, by its order in the stream.
    pub(crate) fn first_seq(&self, side: Side) -> Option<u32> {
        let mut waiting = self.segments.iter().filter(|early| early.side == side);
        let first = waiting.next()?.head.seq;
        let earliest = waiting.map(|early| early.head.seq.wrapping_sub(first) as i32).min();
        // Anything far away belongs to another connection between the same ends.
        let earliest = earliest.filter(|ahead| (-MAX_DISTANCE_BYTES..0).contains(ahead));
        Some(first.wrapping_add_signed(earliest.unwrap_or(0)))
    }
}

/// Whose packets were captured, and what they show of the other side. Traffic that returns by another route is missing
/// from the capture.
#[derive(Default)]
pub(crate) enum CapturedSides {
    #[default]
    None,
    /// Packets of this side only; the first one acknowledged this.
    One {
        side: Side,
        first_ack: Option<u32>,
        is_answered: bool,
    },
    Both,
}

impl CapturedSides {
    /// Records a packet.
    pub(crate) fn add(&mut self, sender: Side, segment: &Segment<'_>) {
        let ack = segment.flags.has(Flags::ACK).then_some(segment.ack);
        match self {
            Self::None => *self = Self::One { side: sender, first_ack: ack, is_answered: false },
            Self::One { side, .. } if *side != sender => *self = Self::Both,
            Self::One { first_ack, is_answered, .. } => {
                *is_answered |= ack.is_some() && first_ack.is_some() && ack != *first_ack;
                *first_ack = first_ack.or(ack);
            }
            Self::Both => {}
        }
    }

    /// Whether the other side was active but never captured: this side acknowledged bytes that are not in the capture.
    pub(crate) fn is_one(&self) -> bool {
        matches!(self, Self::One { is_answered: true, .. })
    }
}
