//! Tells a connection of which the capture has one side only, as where traffic takes another way back. Does not
//! look at payload.

use crate::connection::Side;
use crate::link::{Flags, Segment};

/// Whose packets were seen, and what they say of the other side's.
#[derive(Default)]
pub(crate) enum LoneSide {
    #[default]
    Silent,
    /// Packets of this side only, the first of which acknowledged this.
    One {
        side: Side,
        first_ack: Option<u32>,
        is_answered: bool,
    },
    Both,
}

impl LoneSide {
    /// A packet was seen.
    pub(crate) fn see(&mut self, sender: Side, segment: &Segment<'_>) {
        let ack = segment.flags.has(Flags::ACK).then_some(segment.ack);
        match self {
            Self::Silent => *self = Self::One { side: sender, first_ack: ack, is_answered: false },
            Self::One { side, .. } if *side != sender => *self = Self::Both,
            Self::One { first_ack, is_answered, .. } => {
                *is_answered |= ack.is_some() && first_ack.is_some() && ack != *first_ack;
                *first_ack = first_ack.or(ack);
            }
            Self::Both => {}
        }
    }

    /// Whether the other side was there all the while: what it sent was acknowledged and never seen.
    pub(crate) fn is_proven(&self) -> bool {
        matches!(self, Self::One { is_answered: true, .. })
    }
}
