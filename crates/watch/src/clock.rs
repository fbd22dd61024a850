//! Reads the machine's clocks. The conversion between them is `model::clock`'s.

use model::clock::ClockPair;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// One reading of both clocks, as simultaneous as user space gets: the wall clock is read between two
/// readings of the other, and the closest of three tries is taken.
pub fn now() -> ClockPair {
    let tries = [read(), read(), read()];
    tries.into_iter().min_by_key(|(width, _)| *width).map_or_else(|| read().1, |(_, pair)| pair)
}

/// One reading of `CLOCK_MONOTONIC`: for each event, where [`now`] reads clocks nine times.
pub(crate) fn monotonic_ns() -> u64 {
    nanos(clock_gettime(ClockId::Monotonic)).unsigned_abs()
}

fn read() -> (i64, ClockPair) {
    let before = nanos(clock_gettime(ClockId::Monotonic));
    let realtime_ns = nanos(clock_gettime(ClockId::Realtime));
    let after = nanos(clock_gettime(ClockId::Monotonic));
    let middle = before + (after - before) / 2;
    (after - before, ClockPair { monotonic_ns: middle.unsigned_abs(), realtime_ns })
}

fn nanos(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::now;

    #[test]
    fn both_clocks_move_forward_together() {
        let (first, second) = (now(), now());
        assert!(second.monotonic_ns >= first.monotonic_ns);
        assert!(first.realtime_ns > 1_600_000_000_000_000_000);
    }
}
