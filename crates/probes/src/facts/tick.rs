//! The kernel's HZ, the unit of jbd2's times: from its build configuration, else measured.
//!
//! Never assumed.

#![allow(clippy::disallowed_methods, reason = "/proc or /sys")]

use std::fs;
use std::thread;
use std::time::Duration;

/// The choices of `kernel/Kconfig.hz`.
const RATES: [u32; 4] = [100, 250, 300, 1000];
/// Long enough to tell 250 from 300 with an error of one tick at either end.
const MEASURE: Duration = Duration::from_millis(120);

/// Ticks per second of the running kernel.
pub(super) fn rate(kernel_release: &str) -> Option<u32> {
    let places = [format!("/boot/config-{kernel_release}"), format!("/lib/modules/{kernel_release}/config")];
    let configured = places.iter().find_map(|path| configured(&fs::read_to_string(path).ok()?));
    configured.or_else(measure)
}

fn configured(config: &str) -> Option<u32> {
    config.lines().find_map(|line| line.strip_prefix("CONFIG_HZ="))?.parse().ok()
}

/// Measures the rate from two readings of the time and the jiffies. Both are in `/proc/timer_list`
/// (`kernel/time/timer_list.c`).
fn measure() -> Option<u32> {
    let first = Reading::parse(&fs::read_to_string("/proc/timer_list").ok()?)?;
    thread::sleep(MEASURE);
    let second = Reading::parse(&fs::read_to_string("/proc/timer_list").ok()?)?;
    first.rate_until(second)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    ns: u64,
    jiffies: u64,
}

impl Reading {
    fn parse(text: &str) -> Option<Self> {
        let ns = text.lines().find_map(|line| line.strip_prefix("now at ")?.strip_suffix(" nsecs"))?;
        let jiffies = text.lines().find_map(|line| line.strip_prefix("jiffies: "))?;
        Some(Self { ns: ns.trim().parse().ok()?, jiffies: jiffies.trim().parse().ok()? })
    }

    /// The best matching rate; `None` if none matches within a fifteenth or the clock stood still.
    fn rate_until(self, later: Self) -> Option<u32> {
        let seconds = later.ns.checked_sub(self.ns)? as f64 / 1e9;
        let ticks = later.jiffies.checked_sub(self.jiffies)? as f64;
        let off = |rate: u32| (ticks / (f64::from(rate) * seconds) - 1.0).abs();
        let best = RATES.into_iter().min_by(|&a, &b| off(a).total_cmp(&off(b)))?;
        (off(best) < 1.0 / 15.0).then_some(best)
    }
}

#[cfg(test)]
mod tests {
    use super::{Reading, configured};

    #[test]
    fn reads_hz_from_the_kernel_configuration() {
        assert_eq!(configured("# CONFIG_HZ_100 is not set\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n"), Some(250));
        assert_eq!(configured("CONFIG_HZ_250=y\n"), None);
    }

    #[test]
    fn parses_time_and_jiffies_from_timer_list() {
        let text = "Timer List Version: v0.10\nnow at 1278441522910 nsecs\n\ncpu: 0\n  .idle_jiffies   : 7\n\
                    jiffies: 4295211843\njiffies: 4295211843\n";
        assert_eq!(Reading::parse(text), Some(Reading { ns: 1_278_441_522_910, jiffies: 4_295_211_843 }));
        assert_eq!(Reading::parse("now at x nsecs\njiffies: 1\n"), None);
    }

    #[test]
    fn measured_hz_is_the_nearest_known_rate_or_none() {
        let start = Reading { ns: 0, jiffies: 1000 };
        let after = |ticks: u64| Reading { ns: 120_000_000, jiffies: 1000 + ticks };
        for (ticks, hz) in [(12, 100), (29, 250), (30, 250), (31, 250), (36, 300), (37, 300), (121, 1000)] {
            assert_eq!(start.rate_until(after(ticks)), Some(hz), "{ticks} ticks");
        }
        assert_eq!(start.rate_until(after(0)), None);
        assert_eq!(start.rate_until(after(60)), None);
        assert_eq!(start.rate_until(start), None);
        assert_eq!(after(1).rate_until(start), None);
    }
}
