//! Nanoseconds, clock domains and the one conversion between them. Does not read clocks: sources pass pairs.
//!
//! Packets carry `CLOCK_REALTIME`, probes `CLOCK_MONOTONIC`. Everything stored is UTC nanoseconds that
//! are `CLOCK_MONOTONIC` plus one offset fixed when the recording starts, so that no duration jumps when
//! the wall clock is stepped.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};

use serde::{Deserialize, Serialize};

/// Nanoseconds. As an instant: since 1970-01-01 UTC on the recording's clock (see [`crate::clock`]);
/// as a length: the difference of two instants, negative only where two clocks disagree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub i64);

impl Nanos {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Later than any event.
    pub const MAX: Self = Self(i64::MAX);
    /// Earlier than any event.
    pub const MIN: Self = Self(i64::MIN);

    /// `n` milliseconds.
    pub const fn from_millis(n: i64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }

    /// `n` microseconds.
    pub const fn from_micros(n: i64) -> Self {
        Self(n.saturating_mul(1_000))
    }

    /// Whole milliseconds, rounded to the nearest as the case tables do.
    pub const fn as_millis_rounded(self) -> i64 {
        self.0.saturating_add(500_000).div_euclid(1_000_000)
    }

    /// This length, or nothing where it is negative.
    #[must_use]
    pub fn at_least_zero(self) -> Self {
        self.max(Self::ZERO)
    }

    /// Nanoseconds of this length, 0 where it is negative.
    pub const fn as_length_ns(self) -> u64 {
        if self.0 < 0 { 0 } else { self.0.unsigned_abs() }
    }
}

impl From<std::time::Duration> for Nanos {
    fn from(length: std::time::Duration) -> Self {
        Self(i64::try_from(length.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Nanos {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(lengths: I) -> Self {
        lengths.fold(Self::ZERO, Add::add)
    }
}

/// Prints a length for people: `812 ns`, `43.1 µs`, `126 ms`, `4.1 s`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, n) = if self.0 < 0 { ("-", self.0.unsigned_abs()) } else { ("", self.0.unsigned_abs()) };
        match n {
            0..1_000 => write!(f, "{sign}{n} ns"),
            1_000..1_000_000 => write!(f, "{sign}{:.1} µs", n as f64 / 1e3),
            1_000_000..10_000_000 => write!(f, "{sign}{:.1} ms", n as f64 / 1e6),
            10_000_000..1_000_000_000 => write!(f, "{sign}{:.0} ms", n as f64 / 1e6),
            _ => write!(f, "{sign}{:.1} s", n as f64 / 1e9),
        }
    }
}

/// One simultaneous reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockPair {
    /// `CLOCK_MONOTONIC`, nanoseconds since boot.
    pub monotonic_ns: u64,
    /// `CLOCK_REALTIME`, nanoseconds since 1970-01-01 UTC.
    pub realtime_ns: i64,
}

/// The offset from `CLOCK_MONOTONIC` to a recording's time, fixed at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

    /// A `CLOCK_REALTIME` reading on the recording's clock. Removes the steps of the wall clock since the start, given
    /// a pair sampled near that moment.
    pub fn from_realtime(self, realtime_ns: i64, near: ClockPair) -> Nanos {
        let stepped_ns = Self::at(near).0.saturating_sub(self.0);
        Nanos(realtime_ns.saturating_sub(stepped_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::Nanos;

    #[test]
    fn negative_length_has_zero_nanoseconds() {
        let ns = [Nanos(7), Nanos(0), Nanos(-1), Nanos::MAX, Nanos::MIN].map(Nanos::as_length_ns);
        assert_eq!(ns, [7, 0, 0, i64::MAX as u64, 0]);
    }

    #[test]
    fn prints_lengths_for_people() {
        for (n, text) in [
            (0, "0 ns"),
            (812, "812 ns"),
            (43_100, "43.1 µs"),
            (4_250_000, "4.2 ms"),
            (126_400_000, "126 ms"),
            (4_100_000_000, "4.1 s"),
            (-2_000, "-2.0 µs"),
        ] {
            assert_eq!(Nanos(n).to_string(), text);
        }
    }

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        assert_eq!(Nanos::MAX + Nanos(1), Nanos::MAX);
        assert_eq!(Nanos::MIN - Nanos(1), Nanos::MIN);
    }
}

#[cfg(test)]
mod clock_tests {
    use super::{ClockOffset, ClockPair};
    use crate::Nanos;

    #[test]
    fn wall_clock_step_moves_no_event() {
        let start = ClockPair { monotonic_ns: 1_000, realtime_ns: 50_000 };
        let offset = ClockOffset::at(start);
        assert_eq!(offset.from_monotonic(1_700), Nanos(50_700));
        let stepped = ClockPair { monotonic_ns: 2_000, realtime_ns: 91_000 };
        assert_eq!(offset.from_realtime(91_000, stepped), offset.from_monotonic(2_000));
    }
}
