//! A disk that does one write after the other, each in a time of its own: a seek, as it were, and so many bytes a
//! second. What comes while it is busy waits its turn. Knows nothing of FUSE or of clocks.

/// How fast a device writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Pace {
    /// What every write takes, however small, in microseconds.
    pub write_us: u64,
    /// How many bytes a second come on top.
    pub bytes_per_second: u64,
}

impl Pace {
    fn service_us(self, length: u64) -> u64 {
        let moving = length.saturating_mul(1_000_000).checked_div(self.bytes_per_second).unwrap_or(0);
        self.write_us.saturating_add(moving)
    }
}

/// A pace in force, and until when what came before keeps the disk busy.
#[derive(Debug)]
pub(crate) struct Busy {
    pace: Pace,
    until_us: u64,
}

impl Busy {
    pub(crate) fn new(pace: Pace) -> Self {
        Self { pace, until_us: 0 }
    }

    /// How long a write that comes now takes, its turn included, in microseconds.
    pub(crate) fn hold_us(&mut self, length: u64, now_us: u64) -> u64 {
        self.until_us = self.until_us.max(now_us).saturating_add(self.pace.service_us(length));
        self.until_us - now_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_wait_for_those_before_them_and_for_no_others() {
        let mut busy = Busy::new(Pace { write_us: 2_000, bytes_per_second: 1_000_000 });
        assert_eq!(busy.hold_us(4_000, 100), 6_000);
        assert_eq!(busy.hold_us(1_000, 100), 9_000, "behind the first");
        assert_eq!(busy.hold_us(0, 8_100), 3_000, "behind what is left of it");
        assert_eq!(busy.hold_us(0, 50_000), 2_000, "nothing is left");
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut busy = Busy::new(Pace { write_us: u64::MAX, bytes_per_second: 0 });
        assert_eq!(busy.hold_us(u64::MAX, 5), u64::MAX - 5);
        assert_eq!(busy.hold_us(u64::MAX, u64::MAX), 0);
    }
}
