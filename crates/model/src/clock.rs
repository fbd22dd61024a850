//! Clock domains and the one conversion between them. Does not read clocks: sources hand in pairs.
//!
//! Packets carry `CLOCK_REALTIME`, probes `CLOCK_MONOTONIC`. Everything stored is UTC nanoseconds that
//! are `CLOCK_MONOTONIC` plus one offset fixed when the recording starts, so that no duration jumps when
//! the wall clock is stepped.

use crate::Nanos;

/// One simultaneous reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockPair {
    /// `CLOCK_MONOTONIC`, nanoseconds since boot.
    pub monotonic_ns: u64,
    /// `CLOCK_REALTIME`, nanoseconds since 1970-01-01 UTC.
    pub realtime_ns: i64,
}

/// What to add to `CLOCK_MONOTONIC` to get a recording's time: fixed at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockOffset(i64);

impl ClockOffset {
    /// The offset that makes the recording's time equal the wall clock at this moment.
    pub fn at(pair: ClockPair) -> Self {
        Self(pair.realtime_ns.saturating_sub(pair.monotonic_ns as i64))
    }

    /// An offset read back from a recording.
    pub fn from_ns(offset_ns: i64) -> Self {
        Self(offset_ns)
    }

    /// The offset in nanoseconds, to store.
    pub fn as_ns(self) -> i64 {
        self.0
    }

    /// A `CLOCK_MONOTONIC` reading on the recording's clock.
    pub fn from_monotonic(self, monotonic_ns: u64) -> Nanos {
        Nanos((monotonic_ns as i64).saturating_add(self.0))
    }

    /// A `CLOCK_REALTIME` reading on the recording's clock, given a pair sampled near that moment: what
    /// the wall clock has been stepped by since the start is taken out again.
    pub fn from_realtime(self, realtime_ns: i64, near: ClockPair) -> Nanos {
        let stepped_ns = Self::at(near).0.saturating_sub(self.0);
        Nanos(realtime_ns.saturating_sub(stepped_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::{ClockOffset, ClockPair};
    use crate::Nanos;

    #[test]
    fn a_stepped_wall_clock_moves_no_event() {
        let start = ClockPair { monotonic_ns: 1_000, realtime_ns: 50_000 };
        let offset = ClockOffset::at(start);
        assert_eq!(offset.from_monotonic(1_700), Nanos(50_700));
        let stepped = ClockPair { monotonic_ns: 2_000, realtime_ns: 91_000 };
        assert_eq!(offset.from_realtime(91_000, stepped), offset.from_monotonic(2_000));
    }
}
