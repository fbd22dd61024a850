//! Reads the machine's clocks. `model::clock` converts between them.

use model::clock::ClockPair;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Reads both clocks, as simultaneously as user space can: reads the wall clock between two readings of the other, three times,
/// and takes the closest.
pub fn now() -> ClockPair {
    let tries = [read(), read(), read()];
    tries.into_iter().min_by_key(|(width, _)| *width).map_or_else(|| read().1, |(_, pair)| pair)
}

/// Reads `CLOCK_MONOTONIC` once; cheap enough for every event, while [`now`] reads clocks nine times.
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
