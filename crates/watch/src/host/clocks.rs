//! Times in which the machine was away and its own clock stood still: nothing is slow by that clock then, but everybody else
//! waited. A suspended machine adds them to `CLOCK_BOOTTIME` alone; one whose hypervisor stopped its clocks too finds only its
//! hardware clock ahead, where that is the hypervisor's.

use rustix::time::{ClockId, Timespec, clock_gettime};

use model::{HostScope, Nanos};

use super::figures::Figures;
use super::text::{self, Kernel};

/// Reading the hardware clock takes a virtual machine many exits with interrupts off: seldom. In readings.
const LOOK_EVERY: u64 = 60;
/// It counts seconds: less is none.
const MIN_AHEAD_S: f64 = 2.0;

/// What the clocks show at one moment, in seconds.
#[derive(Clone, Copy)]
struct Reading {
    boottime_s: f64,
    monotonic_s: f64,
}

/// The clocks as they were at the last reading.
#[derive(Default)]
pub(super) struct Clocks {
    last: Option<Reading>,
    /// By how much the hardware clock was ahead of `CLOCK_BOOTTIME` at the last look.
    rtc_offset_s: Option<f64>,
    /// By how much that had grown.
    ahead_s: Option<f64>,
    readings: u64,
}

impl Clocks {
    /// Adds what was missed since the reading before.
    pub(super) fn sample(&mut self, kernel: &Kernel, figures: &mut Figures, at: Nanos) {
        let reading = Reading {
            boottime_s: seconds(clock_gettime(ClockId::Boottime)),
            monotonic_s: seconds(clock_gettime(ClockId::Monotonic)),
        };
        let elapsed_s = self.last.map(|last| reading.monotonic_s - last.monotonic_s);
        let suspended_s = self.suspended_s(reading);
        if self.readings % LOOK_EVERY == 0 {
            let rtc_s = text::number(&kernel.sys.join("class/rtc/rtc0/since_epoch"));
            self.look(rtc_s.map(|rtc_s| rtc_s as f64 - reading.boottime_s));
        }
        self.readings += 1;
        let suspended = suspended_s.zip(elapsed_s).map(|(missed, elapsed)| missed / elapsed);
        let mut figure = figures.of(HostScope::Host, "");
        figure.stands("suspended_ratio", at, suspended);
        figure.stands("rtc_ahead_seconds", at, self.ahead_s);
    }

    /// By how much more `CLOCK_BOOTTIME` went on than `CLOCK_MONOTONIC` since the reading before.
    fn suspended_s(&mut self, now: Reading) -> Option<f64> {
        let before = self.last.replace(now)?;
        let missed = (now.boottime_s - before.boottime_s) - (now.monotonic_s - before.monotonic_s);
        // The clocks are read one after the other.
        Some(if missed >= 1e-3 { missed } else { 0.0 })
    }

    /// Takes by how much the hardware clock is ahead now, where there is one.
    fn look(&mut self, offset_s: Option<f64>) {
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
    fn a_suspended_machine_missed_what_only_one_clock_counts() {
        let mut clocks = Clocks::default();
        assert_eq!(clocks.suspended_s(at(100.0, 90.0)), None, "nothing to compare it with");
        assert_eq!(clocks.suspended_s(at(101.0, 90.999_9)), Some(0.0), "read one after the other");
        assert_eq!(clocks.suspended_s(at(3_702.0, 92.0)), Some(3_599.999_9));
        assert_eq!(clocks.suspended_s(at(3_703.0, 93.0)), Some(0.0), "once");
    }

    #[test]
    fn a_stopped_machine_finds_its_hardware_clock_ahead() {
        let mut clocks = Clocks::default();
        let mut ahead = |offset_s| {
            clocks.look(offset_s);
            clocks.ahead_s
        };
        assert_eq!([ahead(None), ahead(Some(50.0)), ahead(Some(51.0))], [None, Some(0.0), Some(0.0)]);
        assert_eq!([ahead(Some(63.5)), ahead(Some(63.0))], [Some(12.5), Some(0.0)], "once, then it drifts");
        assert_eq!([ahead(Some(10.0)), ahead(None), ahead(Some(99.0))], [Some(0.0), None, Some(0.0)]);
    }
}
