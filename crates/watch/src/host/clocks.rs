//! Detects times in which the machine was suspended and its clock stood still: nothing is slow by that clock, but clients waited.
//! A suspended machine counts them only in `CLOCK_BOOTTIME`. If a hypervisor stopped all of its clocks, only the hardware clock
//! is ahead, provided that it is the hypervisor's.

use rustix::time::{ClockId, Timespec, clock_gettime};

use model::{HostScope, Nanos};

use super::figures::Figures;
use super::text::{self, Kernel};

/// Interval of reading the hardware clock, in readings: it is rare because it costs a virtual machine many exits with interrupts
/// off.
const LOOK_EVERY: u64 = 60;
/// Smallest difference that is reported: the hardware clock counts whole seconds.
const MIN_AHEAD_S: f64 = 2.0;

/// The clocks at one moment, in seconds.
#[derive(Clone, Copy)]
struct Reading {
    boottime_s: f64,
    monotonic_s: f64,
}

/// The clocks at the last reading.
#[derive(Default)]
pub(super) struct Clocks {
    last: Option<Reading>,
    /// How far the hardware clock was ahead of `CLOCK_BOOTTIME` when last read.
    rtc_offset_s: Option<f64>,
    /// How much that had grown since the time before.
    ahead_s: Option<f64>,
    readings: u64,
}

impl Clocks {
    /// Adds the time that was missed since the last reading.
    pub(super) fn sample(&mut self, kernel: &Kernel, figures: &mut Figures, at: Nanos) {
        let reading = Reading {
            boottime_s: seconds(clock_gettime(ClockId::Boottime)),
            monotonic_s: seconds(clock_gettime(ClockId::Monotonic)),
        };
        let elapsed_s = self.last.map(|last| reading.monotonic_s - last.monotonic_s);
        let suspended_s = self.suspended_s(reading);
        if self.readings % LOOK_EVERY == 0 {
            let rtc_s = text::number(&kernel.sys.join("class/rtc/rtc0/since_epoch"));
            self.update_rtc(rtc_s.map(|rtc_s| rtc_s as f64 - reading.boottime_s));
        }
        self.readings += 1;
        let suspended = suspended_s.zip(elapsed_s).map(|(missed, elapsed)| missed / elapsed);
        let mut figure = figures.of(HostScope::Host, "");
        figure.add_at("suspended_ratio", at, suspended);
        figure.add_at("rtc_ahead_seconds", at, self.ahead_s);
    }

    /// Seconds for which the machine was suspended since the last reading.
    /// So much further `CLOCK_BOOTTIME` advanced than `CLOCK_MONOTONIC`.
    fn suspended_s(&mut self, now: Reading) -> Option<f64> {
        let before = self.last.replace(now)?;
        let missed = (now.boottime_s - before.boottime_s) - (now.monotonic_s - before.monotonic_s);
        // The clocks are read one after another, so tiny differences mean nothing.
        Some(if missed >= 1e-3 { missed } else { 0.0 })
    }

    /// Updates how far the hardware clock is ahead, if there is one.
    fn update_rtc(&mut self, offset_s: Option<f64>) {
        let before = std::mem::replace(&mut self.rtc_offset_s, offset_s);
        let grown = offset_s.zip(before).map(|(now, before)| now - before);
        self.ahead_s = offset_s.map(|_| grown.filter(|grown| *grown >= MIN_AHEAD_S).unwrap_or(0.0));
    }
}

fn seconds(time: Timespec) -> f64 {
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::{Clocks, Reading};

    fn at(boottime_s: f64, monotonic_s: f64) -> Reading {
        Reading { boottime_s, monotonic_s }
    }

    #[test]
    fn suspended_time_is_the_difference_of_two_clocks() {
        let mut clocks = Clocks::default();
        assert_eq!(clocks.suspended_s(at(100.0, 90.0)), None, "nothing to compare it with");
        assert_eq!(clocks.suspended_s(at(101.0, 90.999_9)), Some(0.0), "read one after the other");
        assert_eq!(clocks.suspended_s(at(3_702.0, 92.0)), Some(3_599.999_9));
        assert_eq!(clocks.suspended_s(at(3_703.0, 93.0)), Some(0.0), "once");
    }

    #[test]
    fn jump_of_the_hardware_clock_is_reported_once() {
        let mut clocks = Clocks::default();
        let mut ahead = |offset_s| {
            clocks.update_rtc(offset_s);
            clocks.ahead_s
        };
        assert_eq!([ahead(None), ahead(Some(50.0)), ahead(Some(51.0))], [None, Some(0.0), Some(0.0)]);
        assert_eq!([ahead(Some(63.5)), ahead(Some(63.0))], [Some(12.5), Some(0.0)], "once, then it drifts");
        assert_eq!([ahead(Some(10.0)), ahead(None), ahead(Some(99.0))], [Some(0.0), None, Some(0.0)]);
    }
}
